//! How busy others keep the processors that a measurement will use: the kernel's count of ticks in
//! /proc/stat, for the processors this process may run on. Called by `command` between experiments, when
//! nothing of its own runs. The load average tells less: it lags a minute behind, and counts what was
//! measured itself.

use std::collections::BTreeSet;
use std::time::Duration;

/// A tick of /proc/stat is 10 ms, so this tells the share of a processor to a few hundredths.
const SAMPLE: Duration = Duration::from_millis(300);

/// With less than this left free, somebody else runs where one of the two ranks wants to.
const FREE_MIN: f64 = 1.8;

/// Ticks of the processors asked for, since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    busy: u64,
    all: u64,
    processors: usize,
}

/// How many of the processors that this process may use others keep busy now, as a sum of shares; takes
/// 0.3 s. None where the kernel does not tell.
pub fn sample() -> Option<f64> {
    let cpus = sys::cpus::affinity().into_iter().collect();
    let read = || ticks(&std::fs::read_to_string("/proc/stat").ok()?, &cpus);
    let before = read()?;
    std::thread::sleep(SAMPLE);
    between(before, read()?)
}

/// A sentence for the person who reads the figures, if `busy` of `processors` leave too little room for
/// two ranks.
pub fn warning(busy: &[f64], processors: usize) -> Option<String> {
    if processors < 2 {
        return Some("warning: two ranks share one processor; this measures the scheduler".into());
    }
    let most = busy.iter().copied().fold(0.0, f64::max);
    let free = processors as f64 - most;
    (free < FREE_MIN).then(|| {
        format!(
            "warning: others keep up to {most:.1} of {processors} processors busy; \
             figures are only as good as the machine is idle"
        )
    })
}

/// The sum over the processors `cpus` of what /proc/stat says; none if it has none of them.
fn ticks(stat: &str, cpus: &BTreeSet<usize>) -> Option<Ticks> {
    let mut sum = Ticks::default();
    for line in stat.lines() {
        let Some((number, rest)) = line
            .strip_prefix("cpu")
            .and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        // The line without a number is that of the whole machine.
        if !number.parse().is_ok_and(|number| cpus.contains(&number)) {
            continue;
        }
        // user nice system idle iowait irq softirq steal; guests are counted in user already.
        let fields: Vec<u64> = rest
            .split_whitespace()
            .take(8)
            .map_while(|field| field.parse().ok())
            .collect();
        let idle: u64 = fields.iter().skip(3).take(2).sum();
        let all: u64 = fields.iter().sum();
        sum.busy += all.saturating_sub(idle);
        sum.all += all;
        sum.processors += 1;
    }
    (sum.processors > 0).then_some(sum)
}

/// Processors kept busy between two readings; none if the clock did not move.
fn between(before: Ticks, after: Ticks) -> Option<f64> {
    let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
    let busy = after.busy.saturating_sub(before.busy).min(all);
    Some(busy as f64 / all as f64 * after.processors as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "\
cpu  100 0 0 900 0 0 0 0 0 0
cpu0 60 10 10 400 20 0 0 0 0 0
cpu1 10 0 0 480 0 5 5 0 0 0
cpu2 500 0 0 0 0 0 0 0 0 0
intr 5
";

    #[test]
    fn only_the_processors_asked_for_count() {
        let cpus = [0, 1].into();
        let before = ticks(STAT, &cpus).unwrap();
        let expected = Ticks {
            busy: 100,
            all: 1000,
            processors: 2,
        };
        assert_eq!(before, expected);
        // cpu0 busy for 20 of 30 ticks, cpu1 idle for 30.
        let later = STAT
            .replace("cpu0 60 10 10 400", "cpu0 80 10 10 410")
            .replace("0 480 0", "0 510 0")
            .replace("cpu2 500", "cpu2 530");
        let busy = between(before, ticks(&later, &cpus).unwrap()).unwrap();
        assert!((busy - 20.0 / 60.0 * 2.0).abs() < 1e-9);
        assert_eq!(between(before, before), None);
        assert_eq!(ticks(STAT, &[7].into()), None);
        assert_eq!(
            ticks("cpu0 nonsense\n", &[0].into()).map(|t| t.all),
            Some(0)
        );
    }

    #[test]
    fn a_busy_machine_is_told() {
        assert_eq!(warning(&[0.0, 0.1], 2), None);
        assert_eq!(warning(&[], 2), None);
        assert_eq!(warning(&[5.5], 8), None);
        assert!(warning(&[0.1, 0.9], 2).unwrap().contains("0.9 of 2"));
        assert!(warning(&[0.0], 1).unwrap().contains("one processor"));
    }

    #[test]
    fn this_machine_can_be_asked() {
        let busy = sample().expect("/proc/stat tells");
        assert!((0.0..=sys::cpus::affinity().len() as f64).contains(&busy));
    }
}
