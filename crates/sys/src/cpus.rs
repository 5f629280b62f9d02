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

/// The processor that the calling thread runs on, at this moment. The C library reads it from memory that it
/// shares with the kernel, in a nanosecond or two.
#[inline]
pub fn current() -> usize {
    // SAFETY: the function takes nothing and has no precondition.
    let cpu = unsafe { libc::sched_getcpu() };
    // It fails only on kernels without the call, which are older than what Rust itself needs.
    usize::try_from(cpu).unwrap_or(0)
}

/// Makes the calling thread go to one of its processors that `avoid` does not name, if there is one: `true`. Its
/// affinity mask is as before afterwards, so the scheduler stays free to move it again.
pub fn leave(avoid: impl Fn(usize) -> bool) -> bool {
    let Ok(all) = sched_getaffinity(None) else {
        return false;
    };
    let mut others = CpuSet::new();
    (0..CpuSet::MAX_CPU)
        .filter(|&c| all.is_set(c) && !avoid(c))
        .for_each(|c| others.set(c));
    if others.count() == 0 || sched_setaffinity(None, &others).is_err() {
        return false;
    }
    // This fails only if all of them were taken from this control group meanwhile, which replaces the mask anyway.
    let _ = sched_setaffinity(None, &all);
    true
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
            assert_eq!(current(), all[0]);
            assert!(!leave(|c| c == all[0]));
            bind(&all).unwrap();
            if let [_, .., last] = all[..] {
                assert!(leave(|c| c != last));
                assert_eq!(affinity(), all);
            }
        })
        .join()
        .unwrap();
    }
}
