//! The course of a job's end: what is done when, after a failure and after the last rank has ended.
//! Pure: the event loop tells the time and what it sees, and carries the orders out.
//!
//! A failure is followed by [`GRACE`], in which the root cause may still arrive (a rank that noticed
//! its neighbour's death can be quicker than the news of the death itself), or by [`GRACE_FOR_CAUSE`] if it is
//! sure that the cause is not known yet, then by SIGTERM, then by SIGKILL one second after the failure. A job that was asked to end by SIGTERM or SIGHUP has
//! [`PATIENCE`] for it, as programs write checkpoints then. When all ranks have ended, what they left behind (processes
//! in the background, output still in pipes) has [`LEFTOVER_TIME`], then it is killed.

use std::time::{Duration, Instant};

/// Between the first failure that is no answer to another and SIGTERM.
const GRACE: Duration = Duration::from_millis(20);
/// The same while all that is known are answers of ranks to another's end, which then is not known yet.
const GRACE_FOR_CAUSE: Duration = Duration::from_millis(300);
/// Between the first failure and SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(1);
/// Between a signal that asks the job to end and SIGKILL. Batch systems kill by themselves after 30 s
/// and more, and what they kill then is mpiexec.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Between the last rank's end and SIGKILL for what it left behind.
const LEFTOVER_TIME: Duration = Duration::from_secs(1);
/// Between one SIGKILL and the next, for processes born meanwhile.
const KILL_AGAIN: Duration = Duration::from_millis(50);

/// What the event loop sees.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// Some rank's own process lives.
    pub ranks_live: bool,
    /// Some descendant lives.
    pub family_lives: bool,
    /// Some output of the ranks may still come.
    pub pipes_open: bool,
}

/// What the event loop is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing now.
    Wait,
    /// SIGTERM to everything.
    Terminate,
    /// SIGKILL to everything.
    Kill,
    /// The same, as the ranks did not end when a signal asked them to.
    LosePatience,
    /// The job is over.
    Conclude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    Asked { kill_at: Instant },
    Grace { failed: Instant, until: Instant },
    Terminating { failed: Instant },
    Leftover { kill_at: Instant },
    Killing { again_at: Instant },
}

/// Where the job is on its course.
#[derive(Debug)]
pub struct Course {
    stage: Stage,
}

impl Default for Course {
    fn default() -> Course {
        Course {
            stage: Stage::Running,
        }
    }
}

impl Course {
    /// A rank failed: the job is to end. `is_cause`: not as an answer to another's end.
    pub fn failed(&mut self, now: Instant, is_cause: bool) {
        let grace = if is_cause { GRACE } else { GRACE_FOR_CAUSE };
        match self.stage {
            Stage::Running | Stage::Asked { .. } => {
                self.stage = Stage::Grace {
                    failed: now,
                    until: now + grace,
                }
            }
            Stage::Grace { failed, until } => {
                self.stage = Stage::Grace {
                    failed,
                    until: until.min(now + grace),
                }
            }
            _ => {}
        }
    }

    /// The ranks were asked to end, and may do it in their own way.
    pub fn asked(&mut self, now: Instant) {
        if self.stage == Stage::Running {
            self.stage = Stage::Asked {
                kill_at: now + PATIENCE,
            };
        }
    }

    /// Everything is to be killed at once.
    pub fn kill(&mut self, now: Instant) {
        if !matches!(self.stage, Stage::Killing { .. }) {
            self.stage = Stage::Killing { again_at: now };
        }
    }

    /// Whether ranks are being ended, so that their further ends are no failures of their own.
    pub fn is_ending(&self) -> bool {
        matches!(
            self.stage,
            Stage::Terminating { .. } | Stage::Killing { .. }
        )
    }

    /// Whether the job is on its way to its end for whatever reason but that it was asked to.
    pub fn has_failed(&self) -> bool {
        !matches!(self.stage, Stage::Running | Stage::Asked { .. })
    }

    /// When [`step`](Course::step) is to be called again although nothing happened.
    pub fn deadline(&self, sight: &Sight) -> Option<Instant> {
        match self.stage {
            Stage::Running => None,
            Stage::Asked { kill_at } => Some(kill_at),
            Stage::Grace { until, .. } => Some(until),
            Stage::Terminating { failed } => Some(failed + KILL_AFTER),
            Stage::Leftover { kill_at } if sight.family_lives => Some(kill_at),
            Stage::Killing { again_at } if sight.family_lives => Some(again_at),
            // Whoever reads the pipes sees to their end.
            Stage::Leftover { .. } | Stage::Killing { .. } => None,
        }
    }

    /// Moves on and says what to do.
    pub fn step(&mut self, now: Instant, sight: &Sight) -> Step {
        if !sight.ranks_live {
            match self.stage {
                Stage::Running | Stage::Asked { .. } => {
                    self.stage = Stage::Leftover {
                        kill_at: now + LEFTOVER_TIME,
                    }
                }
                Stage::Grace { failed, .. } | Stage::Terminating { failed } => {
                    self.stage = Stage::Leftover {
                        kill_at: failed + KILL_AFTER,
                    };
                }
                Stage::Leftover { .. } | Stage::Killing { .. } => {}
            }
            if !sight.family_lives && !sight.pipes_open {
                return Step::Conclude;
            }
        }
        match self.stage {
            Stage::Asked { kill_at } if now >= kill_at => {
                self.killing(now);
                Step::LosePatience
            }
            Stage::Grace { failed, until } if now >= until => {
                self.stage = Stage::Terminating { failed };
                Step::Terminate
            }
            Stage::Terminating { failed } if now >= failed + KILL_AFTER => self.killing(now),
            Stage::Leftover { kill_at } if sight.family_lives && now >= kill_at => {
                self.killing(now)
            }
            Stage::Killing { again_at } if sight.family_lives && now >= again_at => {
                self.killing(now)
            }
            _ => Step::Wait,
        }
    }

    fn killing(&mut self, now: Instant) -> Step {
        self.stage = Stage::Killing {
            again_at: now + KILL_AGAIN,
        };
        Step::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(ranks_live: bool, family_lives: bool, pipes_open: bool) -> Sight {
        Sight {
            ranks_live,
            family_lives,
            pipes_open,
        }
    }

    #[test]
    fn a_clean_end() {
        let (mut c, t) = (Course::default(), Instant::now());
        assert_eq!(c.step(t, &sight(true, true, true)), Step::Wait);
        assert_eq!(c.deadline(&sight(true, true, true)), None);
        assert_eq!(
            c.step(t, &sight(false, false, true)),
            Step::Wait,
            "output may still come"
        );
        assert_eq!(c.step(t, &sight(false, false, false)), Step::Conclude);
    }

    #[test]
    fn a_failure_ends_within_the_bound() {
        let (mut c, t) = (Course::default(), Instant::now());
        let s = sight(true, true, true);
        c.failed(t, true);
        assert_eq!(c.step(t, &s), Step::Wait);
        assert!(!c.is_ending());
        assert_eq!(c.step(t + GRACE, &s), Step::Terminate);
        assert!(c.is_ending());
        assert_eq!(c.step(t + GRACE, &s), Step::Wait);
        assert_eq!(c.step(t + KILL_AFTER, &s), Step::Kill);
        assert_eq!(c.step(t + KILL_AFTER, &s), Step::Wait);
        assert_eq!(c.step(t + KILL_AFTER + KILL_AGAIN, &s), Step::Kill);
    }

    #[test]
    fn an_answer_waits_for_the_cause() {
        let (mut c, t) = (Course::default(), Instant::now());
        let s = sight(true, true, true);
        c.failed(t, false);
        assert_eq!(c.step(t + 2 * GRACE, &s), Step::Wait);
        c.failed(t + 3 * GRACE, true);
        assert_eq!(c.deadline(&s), Some(t + 4 * GRACE));
        assert_eq!(c.step(t + 4 * GRACE, &s), Step::Terminate);
        let mut alone = Course::default();
        alone.failed(t, false);
        assert_eq!(alone.step(t + GRACE_FOR_CAUSE, &s), Step::Terminate);
    }

    #[test]
    fn what_is_left_behind_is_killed() {
        let (mut c, t) = (Course::default(), Instant::now());
        let s = sight(false, true, false);
        assert_eq!(c.step(t, &s), Step::Wait);
        assert_eq!(c.deadline(&s), Some(t + LEFTOVER_TIME));
        assert_eq!(c.step(t + LEFTOVER_TIME, &s), Step::Kill);
        assert_eq!(
            c.step(t + LEFTOVER_TIME, &sight(false, false, false)),
            Step::Conclude
        );
    }

    #[test]
    fn a_job_that_is_asked_to_end_has_its_time() {
        let (mut c, t) = (Course::default(), Instant::now());
        let s = sight(true, true, true);
        c.asked(t);
        c.asked(t + PATIENCE / 2);
        assert!(!c.has_failed() && !c.is_ending());
        assert_eq!(c.step(t + PATIENCE / 2, &s), Step::Wait);
        assert_eq!(c.deadline(&s), Some(t + PATIENCE));
        assert_eq!(c.step(t + PATIENCE, &s), Step::LosePatience);
        assert!(c.is_ending());
        assert_eq!(c.step(t + PATIENCE + KILL_AGAIN, &s), Step::Kill);
        let mut heeding = Course::default();
        heeding.asked(t);
        assert_eq!(heeding.step(t, &sight(false, false, false)), Step::Conclude);
        let mut failing = Course::default();
        failing.asked(t);
        failing.failed(t, true);
        assert_eq!(failing.step(t + GRACE, &s), Step::Terminate);
    }

    #[test]
    fn a_kill_does_not_wait() {
        let (mut c, t) = (Course::default(), Instant::now());
        c.failed(t, true);
        c.kill(t);
        assert_eq!(c.step(t, &sight(true, true, true)), Step::Kill);
    }
}
