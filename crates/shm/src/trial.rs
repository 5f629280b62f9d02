//! Which way long messages of a peer take less time: through the pipe, or read in the sender's memory.
//!
//! That depends on processor and kernel, on whether the two cores share a cache, and on what the sender does meanwhile: where one way takes half the
//! time on one machine it takes thrice on the next, and virtual machines are moved within seconds. So the receiver measures. In a
//! *round* some messages of a length come one way and some the other; the way of the fastest serves until the next round.
//!
//! Invariant: rounds end, whatever comes and whatever is measured. Who calls it: `direct`.

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

    fn note(&mut self, way: Way, cost: Option<u64>) {
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
        let enough = self.measured.iter().all(|&n| n >= SAMPLES);
        if enough || self.seen >= LONGEST {
            let [pipe, direct] = self.least;
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
pub(crate) struct Trials([Trial; CLASSES]);

impl Trials {
    /// Nothing was measured.
    pub fn new() -> Trials {
        Trials([Trial::NEW; CLASSES])
    }

    /// A message of a class has come this way, at this cost per byte in any unit, if it could be measured. The classes of which messages should be
    /// read in the sender's memory now: a bit for each.
    pub fn note(&mut self, class: usize, way: Way, cost: Option<u64>) -> u32 {
        if let Some(trial) = self.0.get_mut(class) {
            trial.note(way, cost);
        }
        let bits = self.0.iter().enumerate();
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
        let mut trials = Trials::new();
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
        let mut trials = Trials::new();
        assert_eq!(run(&mut trials, 10_000, None, None), 0);
        // A sender that does not do what is wished.
        for _ in 0..10_000 {
            trials.note(0, Way::Pipe, Some(5));
        }
        assert!(!trials.0[0].direct);
        assert_eq!(trials.note(CLASSES, Way::Pipe, None) & 1 << 7, 0);
    }
}
