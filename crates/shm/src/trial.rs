//! Which way long messages of a peer take less time: through the pipe, or read in the sender's memory.
//!
//! That depends on processor and kernel, on whether the two cores share a cache, and on what the sender does meanwhile: where one way takes half the
//! time on one machine it takes thrice on the next, and virtual machines are moved within seconds. So the receiver measures. In a
//! *round* some messages of a length come one way and some the other; the way of the fastest serves until the next round. Where the pipe takes less
//! than the other way does on any machine, that isn't tried.
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

/// What is known of one class of lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trial {
    /// Messages until the next round; none: this is one.
    left: u32,
    /// Messages in this round,
    seen: u32,
    /// those that were measured, by way,
    measured: [u32; 2],
    /// and the least cost among them.
    least: [u64; 2],
    /// What came of the last round.
    direct: bool,
}

impl Trial {
    const NEW: Trial = Trial {
        left: 0,
        seen: 0,
        measured: [0; 2],
        least: [u64::MAX; 2],
        direct: false,
    };

    /// Which way the next message should come.
    fn wants_direct(&self) -> bool {
        match self.left {
            0 => self.measured[Way::Pipe as usize] >= SAMPLES,
            _ => self.direct,
        }
    }

    fn note(&mut self, way: Way, cost: Option<u64>, tried_from: u64) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        self.seen += 1;
        if let Some(cost) = cost {
            let way = way as usize;
            self.measured[way] += 1;
            self.least[way] = self.least[way].min(cost);
        }
        let [pipe, direct] = self.least;
        let [by_pipe, both] =
            [&self.measured[..1], &self.measured].map(|ways| ways.iter().all(|&n| n >= SAMPLES));
        let enough = both || by_pipe && pipe < tried_from;
        if enough || self.seen >= LONGEST {
            *self = Trial {
                left: SETTLED,
                direct: if enough { direct < pipe } else { self.direct },
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

    /// A message of a class has come this way, at this cost per byte in any unit, if it could be measured. The classes of which messages should be
    /// read in the sender's memory now: a bit for each.
    pub fn note(&mut self, class: usize, way: Way, cost: Option<u64>) -> u32 {
        if let (Some(trial), Some(&from)) =
            (self.classes.get_mut(class), self.tried_from.get(class))
        {
            trial.note(way, cost, from);
        }
        let bits = self.classes.iter().enumerate();
        bits.fold(0, |all, (i, t)| all | u32::from(t.wants_direct()) << i)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Messages that come as they are wished, with these costs: how many of `number` came directly.
    fn run(trials: &mut Trials, number: u32, pipe: Option<u64>, direct: Option<u64>) -> u32 {
        let (mut wishes, mut came) = (0, 0);
        for _ in 0..number {
            let (way, cost) = match wishes & 1 << 3 {
                0 => (Way::Pipe, pipe),
                _ => (Way::Direct, direct),
            };
            came += u32::from(way == Way::Direct);
            wishes = trials.note(3, way, cost);
            assert_eq!(wishes & !(1 << 3), 0);
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
            trials.note(0, Way::Pipe, Some(5));
        }
        assert!(!trials.classes[0].direct);
        assert_eq!(trials.note(CLASSES, Way::Pipe, None) & 1 << 7, 0);
        assert!(!trials.is_round(CLASSES));
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
}
