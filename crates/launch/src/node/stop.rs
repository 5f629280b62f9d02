//! How long the keeper has been stopped. It is stopped when somebody stops it: `ps` shows it with the
//! command line of the process that it was forked from, `yamabiko daemon` or mpiexec's own.
//!
//! The kernel tells its parent, so nothing has to be asked of the keeper, and one that only waits long for
//! a processor is never taken for stopped. But a stopped keeper tells of no rank's end and passes no
//! signal on, so after as long a time as a silent host has, the ranks are lost.

use crate::channel::{HEARTBEAT, SILENCE};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::time::{Duration, Instant};

/// A stop that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    looked: Instant,
    lasted: Duration,
}

impl Stop {
    /// One that begins at `now`.
    pub fn new(now: Instant) -> Stop {
        Stop {
            looked: now,
            lasted: Duration::ZERO,
        }
    }

    /// To be called on every pass, and at the latest at [`deadline`](Stop::deadline). Whether the stop has
    /// lasted too long.
    pub fn is_too_long(&mut self, now: Instant) -> bool {
        // Time in which this process did not run does not count: it was stopped as well, as all processes of
        // a job are by a batch system, and may be the first to go on.
        let pause = now.saturating_duration_since(self.looked);
        self.lasted += pause.min(2 * HEARTBEAT);
        self.looked = now;
        self.lasted >= SILENCE
    }

    /// When to look next.
    pub fn deadline(&self) -> Instant {
        self.looked + HEARTBEAT
    }

    /// How long the keeper has been stopped while this process ran, in whole seconds.
    pub fn seconds(&self) -> u32 {
        u32::try_from(self.lasted.as_secs()).unwrap_or(u32::MAX)
    }
}

/// Whether this child has been stopped or has gone on since the last call; the last that was.
pub fn news_of(child: i32) -> Option<bool> {
    let child = Pid::from_raw(child)?;
    let options = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
    let mut last = None;
    while let Ok(Some(status)) = waitid(WaitId::Pid(child), options) {
        last = Some(status.stopped());
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_in_which_somebody_looks_counts() {
        let mut now = Instant::now();
        let mut stop = Stop::new(now);
        now += 100 * SILENCE;
        assert!(!stop.is_too_long(now));
        assert_eq!(stop.seconds(), 2);
        while stop.seconds() < 11 {
            now = stop.deadline();
            assert!(!stop.is_too_long(now));
        }
        assert!(stop.is_too_long(stop.deadline()));
        assert_eq!(stop.seconds(), 12);
    }

    /// A process that ends with the test, also with one that fails.
    struct Sleeps(std::process::Child);

    impl Sleeps {
        fn end(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Drop for Sleeps {
        fn drop(&mut self) {
            self.end();
        }
    }

    #[test]
    fn a_child_that_is_stopped_and_goes_on() {
        let sleep = std::process::Command::new("sleep").arg("30").spawn();
        let mut child = Sleeps(sleep.unwrap());
        let pid = child.0.id().cast_signed();
        let next = || {
            let found = (0..1000).find_map(|_| {
                std::thread::sleep(Duration::from_millis(5));
                news_of(pid)
            });
            found.unwrap()
        };
        assert_eq!(news_of(pid), None);
        crate::os::kill(pid, libc::SIGSTOP);
        assert!(next());
        assert_eq!(news_of(pid), None);
        crate::os::kill(pid, libc::SIGCONT);
        assert!(!next());
        child.end();
        assert_eq!(news_of(pid), None);
    }
}
