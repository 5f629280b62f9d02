//! Time: seconds for `MPI_Wtime`, deadlines for everything that waits, cycles for spinning.
//!
//! Deadlines are [`std::time::Instant`]s, which read the same monotonic clock; `None` is "never".

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// Seconds since some moment in the past, the same for all processes of the machine.
#[inline]
pub fn now() -> f64 {
    seconds(clock_gettime(ClockId::Monotonic))
}

/// Seconds between two ticks of [`now`].
pub fn tick() -> f64 {
    seconds(clock_getres(ClockId::Monotonic))
}

#[inline]
fn seconds(t: Timespec) -> f64 {
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// The deadline `timeout` from now; none where that lies beyond what the clock can say.
pub fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Time left until `deadline`: `None` when there is no deadline, zero when it has passed.
#[inline]
pub fn remaining(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|d| d.saturating_duration_since(Instant::now()))
}

/// Whether `deadline` has passed.
#[inline]
pub fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|d| Instant::now() >= d)
}

/// Time left until `deadline` in the form that system calls take.
pub fn timespec_left(deadline: Option<Instant>) -> Option<Timespec> {
    remaining(deadline).map(|d| Timespec {
        tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(d.subsec_nanos()),
    })
}

/// A counter of cycles or ticks that costs a few nanoseconds to read, to bound how long a loop
/// spins; neither its rate nor its start is promised.
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86_64 processor has the instruction; where the operating system forbids
        // it (PR_SET_TSC) the C library's own clock does not work either.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let t = clock_gettime(ClockId::Monotonic);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_forward() {
        let (a, c) = (now(), cycles());
        std::thread::sleep(Duration::from_millis(2));
        assert!(now() - a >= 0.002);
        assert!(cycles() > c);
        assert!(tick() > 0.0 && tick() < 0.1);
    }

    #[test]
    fn deadlines() {
        assert_eq!(remaining(None), None);
        assert!(!passed(None));
        let past = Some(Instant::now());
        assert!(passed(past));
        assert_eq!(remaining(past), Some(Duration::ZERO));
        assert!(!passed(after(Duration::from_secs(60))));
        assert!(after(Duration::MAX).is_none());
    }
}
