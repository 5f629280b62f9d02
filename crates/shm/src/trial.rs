//! Which way long messages of a peer take less time: through the pipe, or read in the sender's memory.
//!
//! That depends on processor and kernel, on whether the two cores share a cache, and on what the sender does meanwhile: where one way takes half the
//! time on one machine it takes thrice on the next, and virtual machines are moved within seconds. So the receiver measures. In a
//! *round* some messages of a length come one way and some the other; the way of the fastest serves until the next round. Where the pipe takes less
//! than the other way does on any machine, that isn't tried.
//!
//! Where messages of a length go both ways, the first of the two ranks measures, and the other does as that does (`direct`).
//!
//! Invariant: rounds end, whatever comes of what counts here and whatever is measured. Who calls it: `direct`.

/// Messages of each way that are measured in a round. Of these the fastest counts: most of what disturbs makes it slower.
pub(crate) const SAMPLES: u32 = 4;
/// Messages between two rounds: where one way takes three times as long as the other, rounds cost less than a hundredth.
pub(crate) const SETTLED: u32 = 1000;
/// Messages after which a round ends in which too few could be measured.
const LONGEST: u32 = 64;
/// Classes of lengths: each holds twice the lengths of the one before, and the last all that are longer.
pub(crate) const CLASSES: usize = 9;

/// A way from sender to receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Pipe,
    Direct,
}

/// What a message has cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cost {
    /// Per byte, in any unit.
    pub took: u64,
    /// Whether it came while its receiver gave its sender one as well: then neither side copies while the other has nothing else to do, so what goes through
    /// the pipe, which both copy, costs more than it takes one of them.
    pub exchanged: bool,
}

/// What is known of one class of lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trial {
    /// Messages until the next round; none: this is one.
    left: u32,
    /// Messages in this round,
    seen: u32,
    /// those that were measured, by way,
    measured: [u32; 2],
    /// and what the least took among them, but for exchanged ones that came through the pipe:
    least: [u64; 2],
    /// these are so many,
    exchanged: u32,
    /// and this is what the least of them took.
    least_exchanged: u64,
    /// What came of the last round,
    direct: bool,
    /// and whether any was enough to decide by.
    decided: bool,
}

impl Trial {
    const NEW: Trial = Trial {
        left: 0,
        seen: 0,
        measured: [0; 2],
        least: [u64::MAX; 2],
        exchanged: 0,
        least_exchanged: u64::MAX,
        direct: false,
        decided: false,
    };

    /// Which way the next message should come.
    fn wants_direct(&self) -> bool {
        match self.left {
            0 => self.measured[Way::Pipe as usize] >= SAMPLES,
            _ => self.direct,
        }
    }

    /// What the pipe costs, as most of its messages came. Of both kinds the fastest would be one that wasn't exchanged, in a program that exchanges. Exchanged
    /// ones count half as much again: where they counted twice, two of 16 KiB at a time were read directly, which takes 8 us in place of 5.5.
    fn pipe(&self) -> u64 {
        match 2 * self.exchanged > self.measured[Way::Pipe as usize] {
            true => self.least_exchanged.saturating_mul(3) / 2,
            false => self.least[Way::Pipe as usize],
        }
    }

    fn note(&mut self, way: Way, cost: Option<Cost>, tried_from: u64) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.seen += 1;
        if let Some(Cost { took, exchanged }) = cost {
            self.measured[way as usize] += 1;
            if exchanged && way == Way::Pipe {
                self.exchanged += 1;
                self.least_exchanged = self.least_exchanged.min(took);
            } else {
                self.least[way as usize] = self.least[way as usize].min(took);
            }
        }
        let (pipe, direct) = (self.pipe(), self.least[Way::Direct as usize]);
        let [by_pipe, both] =
            [&self.measured[..1], &self.measured].map(|ways| ways.iter().all(|&n| n >= SAMPLES));
        let enough = both || by_pipe && pipe < tried_from;
        if enough || self.seen >= LONGEST {
            *self = Trial {
                left: SETTLED,
                direct: if enough { direct < pipe } else { self.direct },
                decided: enough || self.decided,
                ..Trial::NEW
            };
        }
    }
}

/// All classes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trials {
    classes: [Trial; CLASSES],
    /// The pipe's least cost at which the other way is tried.
    tried_from: [u64; CLASSES],
}

impl Trials {
    /// Nothing was measured. Reading in the sender's memory is tried for the classes of which messages through the pipe cost so much or more.
    pub fn new(tried_from: [u64; CLASSES]) -> Trials {
        Trials {
            classes: [Trial::NEW; CLASSES],
            tried_from,
        }
    }

    /// Whether messages of a class are measured now.
    pub fn is_round(&self, class: usize) -> bool {
        self.classes.get(class).is_some_and(|t| t.left == 0)
    }

    /// A message of a class has come this way, at this cost, if it could be measured.
    pub fn note(&mut self, class: usize, way: Way, cost: Option<Cost>) {
        if let (Some(trial), Some(&from)) =
            (self.classes.get_mut(class), self.tried_from.get(class))
        {
            trial.note(way, cost, from);
        }
    }

    /// What was measured of a class in a round that goes on is forgotten.
    pub fn begin_again(&mut self, class: usize) {
        if let Some(trial) = self.classes.get_mut(class).filter(|t| t.left == 0) {
            *trial = Trial {
                direct: trial.direct,
                decided: trial.decided,
                ..Trial::NEW
            };
        }
    }

    /// The classes of which messages should be read in the sender's memory now: a bit for each; and `CLASSES` bits further up those of which a round
    /// has told.
    pub fn wishes(&self) -> u32 {
        let bits = self.classes.iter().enumerate();
        bits.fold(0, |all, (i, t)| {
            all | u32::from(t.wants_direct()) << i | u32::from(t.decided) << (i + CLASSES)
        })
    }
}

#[cfg(all(test, not(loom)))]
impl Trials {
    /// How many messages of a class were exchanged ones through the pipe, in this round.
    pub fn exchanged(&self, class: usize) -> u32 {
        self.classes[class].exchanged
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn plain(took: u64) -> Option<Cost> {
        Some(Cost {
            took,
            exchanged: false,
        })
    }

    fn exchanged(took: u64) -> Option<Cost> {
        Some(Cost {
            took,
            exchanged: true,
        })
    }

    /// Messages that come as they are wished, with these costs: how many of `number` came directly.
    fn run(trials: &mut Trials, number: u32, pipe: Option<u64>, direct: Option<u64>) -> u32 {
        let (pipe, direct) = (pipe.and_then(plain), direct.and_then(plain));
        run_of(trials, number, |way, _| match way {
            Way::Pipe => pipe,
            Way::Direct => direct,
        })
    }

    /// The same with costs by way and number.
    fn run_of(trials: &mut Trials, number: u32, cost: impl Fn(Way, u32) -> Option<Cost>) -> u32 {
        let (mut wishes, mut came) = (0, 0);
        for i in 0..number {
            let way = match wishes & 1 << 3 {
                0 => Way::Pipe,
                _ => Way::Direct,
            };
            came += u32::from(way == Way::Direct);
            trials.note(3, way, cost(way, i));
            wishes = trials.wishes();
            assert_eq!(wishes & !(1 << 3 | 1 << (3 + CLASSES)), 0);
        }
        came
    }

    #[test]
    fn the_faster_way_serves() {
        let mut trials = Trials::new([0; CLASSES]);
        let slower = run(&mut trials, 10_000, Some(10), Some(30));
        assert!((SAMPLES..200).contains(&slower), "{slower}");
        // The machine changes, and it is found out in the next round.
        let faster = run(&mut trials, 10_000, Some(10), Some(9));
        assert!(faster > 8000, "{faster}");
        let slower = run(&mut trials, 10_000, Some(10), Some(11));
        assert!(slower < 2000, "{slower}");
    }

    #[test]
    fn rounds_end_where_nothing_can_be_measured() {
        let mut trials = Trials::new([0; CLASSES]);
        assert_eq!(run(&mut trials, 10_000, None, None), 0);
        // A sender that does not do what is wished.
        for _ in 0..10_000 {
            trials.note(0, Way::Pipe, plain(5));
        }
        assert!(!trials.classes[0].direct);
        trials.note(CLASSES, Way::Pipe, None);
        assert_eq!(trials.wishes(), 0);
        assert!(!trials.is_round(CLASSES));
    }

    #[test]
    fn only_rounds_that_tell_decide() {
        let mut trials = Trials::new([0; CLASSES]);
        let decided = |trials: &Trials| trials.wishes() >> CLASSES;
        run(&mut trials, LONGEST + SETTLED, None, None);
        assert_eq!(decided(&trials), 0);
        run(&mut trials, 2 * SAMPLES - 1, Some(10), Some(9));
        assert_eq!(decided(&trials), 0);
        // A round that begins again knows nothing of before.
        trials.begin_again(3);
        run(&mut trials, 2 * SAMPLES - 1, Some(10), Some(30));
        assert_eq!(decided(&trials), 0);
        trials.note(3, Way::Direct, plain(30));
        assert_eq!(trials.wishes(), 1 << (3 + CLASSES));
        // One that tells nothing leaves it at that; and between rounds nothing begins.
        trials.begin_again(3);
        assert!(!trials.is_round(3));
        run(&mut trials, SETTLED + LONGEST, None, None);
        assert_eq!(trials.wishes(), 1 << (3 + CLASSES));
    }

    #[test]
    fn where_the_pipe_is_fast_nothing_else_is_tried() {
        let mut from = [u64::MAX; CLASSES];
        from[3] = 20;
        let mut trials = Trials::new(from);
        assert!(trials.is_round(3));
        assert_eq!(run(&mut trials, SAMPLES, Some(19), Some(1)), 0);
        assert!(!trials.is_round(3));
        assert_eq!(run(&mut trials, 10_000, Some(19), Some(1)), 0);
        // Lines become slow to come, and fast again.
        let faster = run(&mut trials, 10_000, Some(20), Some(1));
        assert!(faster > 8000, "{faster}");
        let slower = run(&mut trials, 10_000, Some(19), Some(1));
        assert!(slower < 2000, "{slower}");
    }

    #[test]
    fn where_messages_are_exchanged_what_both_copy_counts() {
        let both = |pipe, direct| {
            move |way, i: u32| match way {
                // A few come while their receiver waits.
                Way::Pipe if i % 4 == 3 => plain(pipe),
                Way::Pipe => exchanged(pipe),
                Way::Direct => exchanged(direct),
            }
        };
        let mut trials = Trials::new([0; CLASSES]);
        let direct = run_of(&mut trials, 10_000, both(10, 14));
        assert!(direct > 9000, "{direct}");
        let direct = run_of(&mut trials, 10_000, both(10, 16));
        assert!(direct < 2000, "{direct}");
        // Few are, which are as good as none.
        let mut trials = Trials::new([0; CLASSES]);
        let direct = run_of(&mut trials, 10_000, |way, i| match way {
            Way::Pipe if i % 4 == 3 => exchanged(10),
            Way::Pipe => plain(15),
            Way::Direct => plain(16),
        });
        assert!(direct < 200, "{direct}");
    }
}
