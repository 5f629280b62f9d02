//! How many processors this process may use, and which.
//!
//! The number decides how long to spin before sleeping; the list is for the launcher, which binds
//! ranks.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Processors that this process can keep busy, at least one: the smaller of its affinity mask and
/// the CPU quotas of its control group (v2 or v1) and of every group above it, rounded down.
///
/// The standard library reads both; it costs a few file reads, so callers keep the answer.
pub fn allowed() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Numbers of the processors in this thread's affinity mask, ascending; empty where the mask
/// cannot be read (a machine with more than 1024 processors).
pub fn affinity() -> Vec<usize> {
    sched_getaffinity(None)
        .map(|set| (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect())
        .unwrap_or_default()
}

/// Binds the calling thread, and what it starts later, to the processors `cpus`.
///
/// # Errors
/// When none of them may be used, or one is above 1023.
pub fn bind(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_shows() {
        std::thread::spawn(|| {
            let all = affinity();
            assert!(!all.is_empty());
            assert!(allowed() >= 1 && allowed() <= all.len());
            bind(&all[..1]).unwrap();
            assert_eq!(affinity(), all[..1]);
            assert_eq!(allowed(), 1);
            assert!(bind(&[100_000]).is_err());
            assert!(bind(&[]).is_err());
        })
        .join()
        .unwrap();
    }
}
