//! The limit on descriptors. Streams and tokens are many, and a program that never comes near its soft limit itself would find
//! that its collectives do; so where few are left that limit is raised, as far as the hard one goes and no further than
//! is needed. A program that has not come near keeps it as it is: it may rely on it (`select` has no numbers above 1023).
//!
//! Called whenever a descriptor was made or has come from another process.

use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that shall be left: more than one issue or one packet needs.
const LEFT: u64 = 128;

/// The soft limit that shall hold when the descriptor of this number is in use; `None` if that is so.
fn wanted(number: u64, soft: u64, hard: u64) -> Option<u64> {
    let near = number.saturating_add(LEFT) >= soft;
    let more = soft.saturating_add(2 * LEFT).min(hard);
    (near && more > soft).then_some(more)
}

/// Sees to it that there are descriptors left beside this one: the system gives out the lowest number that is free.
pub(crate) fn keep(fd: impl AsFd) {
    let limit = getrlimit(Resource::Nofile);
    let Some(soft) = limit.current else { return };
    let number = u64::try_from(fd.as_fd().as_raw_fd()).unwrap_or(0);
    if let Some(more) = wanted(number, soft, limit.maximum.unwrap_or(u64::MAX)) {
        // Where it is refused, whoever lacks a descriptor waits for one or says so.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(more),
                maximum: limit.maximum,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_where_it_is_near_and_not_above_the_hard_one() {
        assert_eq!(wanted(10, 1024, 4096), None);
        assert_eq!(wanted(895, 1024, 4096), None);
        assert_eq!(wanted(896, 1024, 4096), Some(1280));
        assert_eq!(wanted(1000, 1024, 1100), Some(1100));
        assert_eq!(wanted(1023, 1024, 1024), None);
        assert_eq!(wanted(0, 0, u64::MAX), Some(256));
    }
}
