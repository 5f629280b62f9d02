//! In which order series run, and which rounds count. Knows nothing of kernels: what it runs is a [`Bench`], which
//! `kernels` is, and in tests something simpler. Called by `command`.
//!
//! A round runs every series once, one after the other, so that what the machine does meanwhile meets all of them;
//! figures are compared within a round. The machine is calibrated before, between and after the runs; where that
//! differs, the machine changed, the round counts for nothing and another one is run in its place, a bounded
//! number of times; if as many as were wanted have run and none counts, the machine is too restless to go on. Where
//! each regime is to have its rounds, none is run in one that has them all: the machine is looked at from time to
//! time, until it is in the other, or that has taken too long. A series that fails once is left out from then on.

use crate::Result;
use crate::calibrate::{Calibration, regime};
use crate::statistics::Regime;
use serde::Serialize;

/// What runs.
pub trait Bench {
    /// Finds out what the machine can do now.
    ///
    /// # Errors
    /// When it does not work; nothing can then be measured.
    fn calibrate(&mut self) -> Result<Calibration>;

    /// Runs a series once; gives its figures, one for each value of the axis.
    ///
    /// # Errors
    /// When the series does not work here.
    fn run(&mut self, series: usize) -> Result<Vec<f64>>;

    /// Whether to end now, with what there is.
    fn is_interrupted(&self) -> bool;

    /// Hears of each round that is over, and whether it counts.
    fn round_over(&mut self, counts: bool);

    /// Lets the machine be for a moment, so that it may come into the other regime; false when there has been enough of
    /// that.
    fn wait(&mut self) -> bool;
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of series.
    pub series: usize,
    /// Rounds wanted.
    pub rounds: u32,
    /// Whether so many are wanted near, and as many far.
    pub each_regime: bool,
    /// So many are run at most for each one wanted.
    pub tries: u32,
    /// Whether a round during which the machine changed counts for nothing.
    pub calibrated: bool,
}

impl Plan {
    /// Rounds that count, if the machine shows itself in each regime that is asked for.
    pub fn wanted(&self) -> u32 {
        self.rounds.saturating_mul(1 + u32::from(self.waits()))
    }

    /// Whether regimes are waited for.
    fn waits(&self) -> bool {
        self.each_regime && self.calibrated
    }
}

/// A round: each series once.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Before the first run, between the runs and after the last.
    pub calibrations: Vec<Calibration>,
    /// To what its figures belong.
    pub regime: Regime,
    /// The figures of each series, one for each value of the axis; none of a series that failed. What is not a number
    /// was not to be had.
    pub figures: Vec<Option<Vec<f64>>>,
}

impl Round {
    /// Whether the machine stayed the same meanwhile, or that is no matter.
    pub fn counts(&self) -> bool {
        self.regime != Regime::Unsteady
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// The rounds in the order they ran, also those that do not count.
    pub rounds: Vec<Round>,
    /// For each series, why it failed, if it did.
    pub failures: Vec<Option<String>>,
    /// Regimes of which rounds were asked for in vain, and how many each had.
    pub lacking: Vec<(Regime, u32)>,
}

impl Measured {
    /// Whether any round counts.
    fn counts(&self) -> bool {
        self.rounds.iter().any(Round::counts)
    }

    /// Whether all rounds that are wanted have run.
    fn is_done(&self, plan: &Plan) -> bool {
        if plan.waits() {
            return self.lacking(plan).is_empty();
        }
        let counted = self.rounds.iter().filter(|round| round.counts());
        counted.count() >= plan.rounds as usize
    }

    /// Regimes that lack rounds, where each is to have them, and how many they have.
    fn lacking(&self, plan: &Plan) -> Vec<(Regime, u32)> {
        let rounds = |regime| {
            let of_regime = self.rounds.iter().filter(|round| round.regime == regime);
            (regime, of_regime.count() as u32)
        };
        let both = plan.waits().then_some([Regime::Near, Regime::Far]);
        let both = both.into_iter().flatten().map(rounds);
        both.filter(|(_, found)| *found < plan.rounds).collect()
    }

    /// Whether a regime has all rounds that it is to have.
    fn is_complete(&self, regime: Regime, plan: &Plan) -> bool {
        self.lacking(plan).iter().all(|(one, _)| *one != regime)
    }
}

/// Runs the plan.
///
/// # Errors
/// When the calibration fails.
pub fn measure(plan: &Plan, bench: &mut dyn Bench) -> Result<Measured> {
    let mut measured = Measured {
        failures: vec![None; plan.series],
        ..Measured::default()
    };
    let mut last = match bench.calibrate() {
        Err(_) if bench.is_interrupted() => return Ok(measured),
        first => first?,
    };
    for run in 0..plan.wanted().saturating_mul(plan.tries) {
        let restless = run >= plan.rounds && !measured.counts();
        if measured.is_done(plan) || restless || measured.failures.iter().all(Option::is_some) {
            break;
        }
        let Some(now) = awaited(last, plan, &measured, bench)? else {
            break;
        };
        let Some(mut round) = one_round(now, &mut measured.failures, bench)? else {
            break;
        };
        if !plan.calibrated {
            round.regime = Regime::Any;
        }
        // Nothing happens between two rounds: the end of one is the beginning of the next.
        last = round.calibrations.last().copied().unwrap_or(last);
        bench.round_over(round.counts());
        measured.rounds.push(round);
    }
    measured.lacking = measured.lacking(plan);
    Ok(measured)
}

/// The machine in a regime that lacks rounds; none when that was waited for in vain.
fn awaited(
    mut now: Calibration,
    plan: &Plan,
    measured: &Measured,
    bench: &mut dyn Bench,
) -> Result<Option<Calibration>> {
    while plan.waits() && measured.is_complete(Regime::of(now.flag), plan) {
        if !bench.wait() || bench.is_interrupted() {
            return Ok(None);
        }
        now = match bench.calibrate() {
            Err(_) if bench.is_interrupted() => return Ok(None),
            found => found?,
        };
    }
    Ok(Some(now))
}

/// Every series that has not failed once; none if it was interrupted.
fn one_round(
    before: Calibration,
    failures: &mut [Option<String>],
    bench: &mut dyn Bench,
) -> Result<Option<Round>> {
    let mut calibrations = vec![before];
    let mut figures = Vec::new();
    for (series, failure) in failures.iter_mut().enumerate() {
        let mut found = None;
        if failure.is_none() {
            match bench.run(series) {
                Ok(values) => found = Some(values),
                Err(_) if bench.is_interrupted() => return Ok(None),
                Err(why) => *failure = Some(why),
            }
            let after = match bench.calibrate() {
                Err(_) if bench.is_interrupted() => return Ok(None),
                after => after?,
            };
            calibrations.push(after);
        }
        figures.push(found);
    }
    Ok(Some(Round {
        regime: regime(&calibrations),
        calibrations,
        figures,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose flag follows a script (then stays as it was last), with series that return their number and
    /// the number of their run, or fail from some run on.
    #[derive(Default)]
    struct Fake {
        flags: Vec<f64>,
        calibrated: usize,
        ran: Vec<usize>,
        fails: Option<(usize, usize)>,
        interrupted_after: Option<usize>,
        heard: Vec<bool>,
        waited: u32,
        patience: u32,
    }

    impl Bench for Fake {
        fn calibrate(&mut self) -> Result<Calibration> {
            let last = self.flags.last().copied().unwrap_or(50.0);
            let flag = self.flags.get(self.calibrated).copied().unwrap_or(last);
            self.calibrated += 1;
            match flag > 0.0 {
                true => Ok(Calibration { flag, memcpy: 10.0 }),
                false => Err("no flag".into()),
            }
        }

        fn run(&mut self, series: usize) -> Result<Vec<f64>> {
            if self.is_interrupted() {
                return Err("interrupted".into());
            }
            let before = self.ran.iter().filter(|s| **s == series).count();
            self.ran.push(series);
            match self.fails {
                Some((who, from)) if who == series && before >= from => Err("broken".into()),
                _ => Ok(vec![series as f64, before as f64]),
            }
        }

        fn is_interrupted(&self) -> bool {
            self.interrupted_after
                .is_some_and(|runs| self.ran.len() >= runs)
        }

        fn round_over(&mut self, counts: bool) {
            self.heard.push(counts);
        }

        fn wait(&mut self) -> bool {
            self.waited += 1;
            self.waited <= self.patience
        }
    }

    const PLAN: Plan = Plan {
        series: 3,
        rounds: 2,
        each_regime: false,
        tries: 3,
        calibrated: true,
    };

    fn regimes(measured: &Measured) -> Vec<Regime> {
        measured.rounds.iter().map(|round| round.regime).collect()
    }

    #[test]
    fn series_take_turns() {
        let mut fake = Fake::default();
        let measured = measure(&PLAN, &mut fake).unwrap();
        assert_eq!(fake.ran, [0, 1, 2, 0, 1, 2]);
        // Before each run and after the last.
        assert_eq!(fake.calibrated, 7);
        assert_eq!(regimes(&measured), [Regime::Near; 2]);
        assert!(
            measured
                .rounds
                .iter()
                .all(|round| round.calibrations.len() == 4)
        );
        assert_eq!(measured.rounds[1].figures[2], Some(vec![2.0, 1.0]));
        assert_eq!(fake.heard, [true, true]);
    }

    #[test]
    fn a_round_in_which_the_machine_changed_is_repeated() {
        // Moves away within the second round, and comes back within the fourth.
        let mut flags = vec![50.0; 5];
        flags.extend([250.0; 7]);
        flags.push(50.0);
        let mut fake = Fake {
            flags,
            ..Fake::default()
        };
        let plan = Plan { rounds: 4, ..PLAN };
        let measured = measure(&plan, &mut fake).unwrap();
        use Regime::{Far, Near, Unsteady};
        assert_eq!(
            regimes(&measured),
            [Near, Unsteady, Far, Unsteady, Near, Near]
        );
        assert_eq!(fake.heard, [true, false, true, false, true, true]);
        // What was dropped is still there for who wants to see it.
        assert!(measured.rounds[1].figures.iter().all(Option::is_some));
    }

    #[test]
    fn a_change_between_two_runs_is_seen() {
        // The same before and after the round, but not within.
        let flags = vec![50.0, 50.0, 250.0, 50.0, 50.0];
        let mut fake = Fake {
            flags,
            ..Fake::default()
        };
        let measured = measure(&PLAN, &mut fake).unwrap();
        assert_eq!(regimes(&measured)[0], Regime::Unsteady);
    }

    #[test]
    fn a_machine_that_never_rests_is_given_up() {
        let mut flags: Vec<_> = (0..1000)
            .map(|i| if i % 2 == 0 { 50.0 } else { 250.0 })
            .collect();
        let mut fake = Fake {
            flags: flags.clone(),
            ..Fake::default()
        };
        let measured = measure(&PLAN, &mut fake).unwrap();
        assert_eq!(regimes(&measured), [Regime::Unsteady; 2]);
        // One that did rest, for a round, gets all its chances.
        flags[..4].fill(250.0);
        let mut fake = Fake {
            flags,
            ..Fake::default()
        };
        let regimes = regimes(&measure(&PLAN, &mut fake).unwrap());
        assert_eq!((regimes.len(), regimes[0]), (6, Regime::Far));
        assert!(
            regimes[1..]
                .iter()
                .all(|regime| *regime == Regime::Unsteady)
        );
    }

    #[test]
    fn each_regime_gets_its_rounds() {
        use Regime::{Far, Near, Unsteady};
        let plan = Plan {
            each_regime: true,
            ..PLAN
        };
        // Near for two rounds and two looks more, then far, with a change within the second far round.
        let mut flags = vec![50.0; 9];
        flags.extend([250.0, 250.0, 250.0, 250.0, 250.0, 50.0]);
        flags.extend([250.0; 8]);
        let mut fake = Fake {
            flags,
            patience: 10,
            ..Fake::default()
        };
        let measured = measure(&plan, &mut fake).unwrap();
        assert_eq!(regimes(&measured), [Near, Near, Far, Unsteady, Far]);
        assert_eq!(measured.lacking, []);
        assert_eq!(fake.waited, 3);
        assert_eq!(plan.wanted(), 4);
    }

    #[test]
    fn a_regime_that_does_not_come_is_not_awaited_for_ever() {
        let plan = Plan {
            each_regime: true,
            ..PLAN
        };
        let mut fake = Fake {
            patience: 5,
            ..Fake::default()
        };
        let measured = measure(&plan, &mut fake).unwrap();
        assert_eq!(regimes(&measured), [Regime::Near; 2]);
        assert_eq!(measured.lacking, [(Regime::Far, 0)]);
        assert_eq!((fake.waited, fake.ran.len()), (6, 6));
        // What needs no regime waits for none.
        let plan = Plan {
            calibrated: false,
            ..plan
        };
        let mut fake = Fake::default();
        assert_eq!(
            regimes(&measure(&plan, &mut fake).unwrap()),
            [Regime::Any; 2]
        );
        assert_eq!(fake.waited, 0);
    }

    #[test]
    fn where_calibration_is_no_matter_every_round_counts() {
        let flags = (0..1000)
            .map(|i| if i % 2 == 0 { 50.0 } else { 250.0 })
            .collect();
        let mut fake = Fake {
            flags,
            ..Fake::default()
        };
        let plan = Plan {
            calibrated: false,
            ..PLAN
        };
        assert_eq!(
            regimes(&measure(&plan, &mut fake).unwrap()),
            [Regime::Any; 2]
        );
    }

    #[test]
    fn what_fails_is_left_out_and_the_others_go_on() {
        let mut fake = Fake {
            fails: Some((1, 1)),
            ..Fake::default()
        };
        let plan = Plan { rounds: 3, ..PLAN };
        let measured = measure(&plan, &mut fake).unwrap();
        assert_eq!(fake.ran, [0, 1, 2, 0, 1, 2, 0, 2]);
        assert_eq!(measured.failures, [None, Some("broken".into()), None]);
        let of_one: Vec<_> = measured
            .rounds
            .iter()
            .map(|r| r.figures[1].is_some())
            .collect();
        assert_eq!(of_one, [true, false, false]);
        assert!(measured.rounds.iter().all(Round::counts));
    }

    #[test]
    fn when_all_have_failed_it_is_over() {
        let mut fake = Fake {
            fails: Some((0, 0)),
            ..Fake::default()
        };
        let plan = Plan { series: 1, ..PLAN };
        let measured = measure(&plan, &mut fake).unwrap();
        assert_eq!((fake.ran.len(), measured.rounds.len()), (1, 1));
        assert!(measured.failures[0].is_some());
    }

    #[test]
    fn an_interrupt_leaves_the_rounds_before() {
        let mut fake = Fake {
            interrupted_after: Some(4),
            ..Fake::default()
        };
        let measured = measure(&Plan { rounds: 9, ..PLAN }, &mut fake).unwrap();
        assert_eq!(measured.rounds.len(), 1);
        assert_eq!(measured.failures, [None, None, None]);
    }

    #[test]
    fn without_calibration_there_is_no_measurement() {
        let mut fake = Fake {
            flags: vec![50.0, -1.0],
            ..Fake::default()
        };
        assert_eq!(measure(&PLAN, &mut fake).unwrap_err(), "no flag");
    }
}
