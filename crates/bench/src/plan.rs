//! What the arguments ask for, as panels with values and ranks. Pure functions; called by `command`.

use crate::command::Args;
use crate::experiment::{Axis, Experiment, Interface, Panel, Ranks};
use crate::implementation::Implementation;
use crate::report::{Outcome, Series};
use crate::runner::Measured;
use crate::{Result, experiments};

/// A panel to be measured.
pub struct Planned {
    /// The experiment that it belongs to.
    pub experiment: &'static Experiment,
    /// The panel.
    pub panel: &'static Panel,
    /// The values of its axis.
    pub values: Vec<u64>,
    /// How many ranks; none: as many as the value.
    pub ranks: Option<u32>,
}

impl Planned {
    /// Whether implementations take part in each way in which they can be made to progress.
    pub fn sets_progress(&self) -> bool {
        let mut kernels = self.experiment.kernels.iter();
        kernels.any(|(interface, _)| matches!(interface, Interface::Progress | Interface::Cad))
    }

    /// Its series: each implementation that has a kernel for it, with each variant.
    pub fn series(&self, implementations: &[Implementation]) -> Vec<(usize, &'static str)> {
        let has_kernel = |one: &Implementation| {
            let mut kernels = self.experiment.kernels.iter();
            kernels.any(|(interface, _)| *interface == one.interface)
        };
        let all = implementations.iter().enumerate();
        all.filter(|(_, one)| has_kernel(one) && (self.panel.steered || !one.steered))
            .flat_map(|(i, one)| {
                let words = self.panel.words(one.interface);
                words.iter().map(move |word| (i, *word))
            })
            .collect()
    }

    /// What came of it.
    pub fn outcome(&self, series: Vec<Series>, wanted: u32, measured: Measured) -> Outcome {
        Outcome {
            experiment: self.experiment.name,
            panel: self.panel.name,
            about: self.panel.about,
            unit: self.panel.unit,
            absent: self.panel.absent,
            printed: self.panel.printed,
            axis: self.experiment.axis.name,
            values: self.values.clone(),
            ranks: self.ranks,
            series,
            wanted,
            measured,
        }
    }
}

/// The panels asked for.
///
/// # Errors
/// When the arguments do not fit an experiment, or nothing is left.
pub fn of(args: &Args) -> Result<Vec<Planned>> {
    let tour = args.is_tour();
    let asked = |one: &&Experiment| {
        let mut names = args.experiments.iter();
        tour || names.any(|name| experiments::is_meant(one, name))
    };
    let (mut planned, mut parts, mut left_out) = (Vec::new(), Vec::new(), None);
    for experiment in experiments::ALL.iter().filter(asked) {
        for panel in experiment.panels {
            if !parts.contains(&panel.name) {
                parts.push(panel.name);
            }
            if !is_chosen(args.only.as_deref(), panel) {
                continue;
            }
            if panel.steered && args.steering.is_none() {
                let wants = format!("{} wants --steering", experiment.name);
                if args.experiments.iter().any(|name| name == experiment.name) {
                    return Err(wants);
                }
                left_out = Some(wants);
                continue;
            }
            planned.push(Planned {
                experiment,
                panel,
                values: values(args, &experiment.axis, panel, tour)
                    .map_err(|why| format!("{}: {why}", experiment.name))?,
                ranks: ranks(args, experiment, panel, tour)?,
            });
        }
    }
    if let (true, Some(wants)) = (planned.is_empty(), left_out) {
        return Err(wants);
    }
    if planned.is_empty() {
        let word = args.only.as_deref().unwrap_or_default();
        let shown = if word.is_empty() { "" } else { " " };
        let all = parts.join(", ");
        return Err(format!("--only{shown}{word}: the parts there are: {all}"));
    }
    check_effects(args, &planned)?;
    Ok(planned)
}

/// Whether --only, if that is given, leaves a panel. Without a word it leaves none.
fn is_chosen(only: Option<&str>, panel: &Panel) -> bool {
    only.is_none_or(|word| !word.is_empty() && panel.name.contains(word))
}

/// Refuses options that nothing of what is planned takes notice of.
fn check_effects(args: &Args, planned: &[Planned]) -> Result<()> {
    if args.steering.is_some() && !planned.iter().any(|one| one.panel.steered) {
        let mut with = experiments::ALL.iter();
        let with = with.find(|one| one.panels.iter().any(|panel| panel.steered));
        let name = with.map_or("no experiment", |one| one.name);
        return Err(format!(
            "--steering: that is for {name}, which isn't asked for"
        ));
    }
    if !args.sizes.is_empty() && planned.iter().all(|one| one.panel.single) {
        let mut names: Vec<_> = planned.iter().map(|one| one.experiment.name).collect();
        names.dedup();
        return Err(format!(
            "--sizes: nothing of {} that is asked for is measured at several values",
            names.join(", ")
        ));
    }
    Ok(())
}

/// The values of a panel's axis.
fn values(args: &Args, axis: &Axis, panel: &Panel, tour: bool) -> Result<Vec<u64>> {
    if panel.single {
        return Ok(vec![0]);
    }
    let list = match (args.sizes.as_slice(), args.quick, tour) {
        ([], true, _) => axis.quick,
        ([], false, true) => axis.tour,
        ([], false, false) => axis.values,
        (sizes, _, _) => sizes,
    };
    let mut values = list.to_vec();
    values.sort_unstable();
    values.dedup();
    let (least, most) = axis.limits;
    match values.iter().find(|value| !(least..=most).contains(value)) {
        Some(value) => Err(format!(
            "{} are from {least} to {most}, not {value}",
            axis.name
        )),
        None => Ok(values),
    }
}

/// How many ranks a panel runs on; none if it sweeps them.
fn ranks(args: &Args, experiment: &Experiment, panel: &Panel, tour: bool) -> Result<Option<u32>> {
    let free = || {
        let processors = u32::try_from(sys::cpus::allowed()).unwrap_or(2);
        args.ranks.unwrap_or(processors.max(2))
    };
    let fixed = panel.ranks.map_or(experiment.ranks, Ranks::Exactly);
    match (fixed, args.ranks) {
        (Ranks::Free, _) => Ok(Some(free())),
        (Ranks::Exactly(ranks), asked) if tour || asked.is_none_or(|asked| asked == ranks) => {
            Ok(Some(ranks))
        }
        (Ranks::Swept, asked) if tour || asked.is_none() => Ok(None),
        (Ranks::Swept, _) => Err(format!("{} sweeps the ranks: say --sizes", experiment.name)),
        (Ranks::Exactly(ranks), _) => {
            let both = [experiment.name, panel.name];
            let what = both[usize::from(both[0] == both[1])..].join(" ");
            let s = if ranks == 1 { "" } else { "s" };
            Err(format!("--ranks: {what} is measured on {ranks} rank{s}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::asked;
    use std::path::Path;

    /// A panel's name, values and ranks.
    type Part = (&'static str, Vec<u64>, Option<u32>);

    fn planned(words: &str) -> Result<Vec<Part>> {
        let plan = of(&asked(words).unwrap())?;
        let all = plan.into_iter();
        Ok(all
            .map(|one| (one.panel.name, one.values, one.ranks))
            .collect())
    }

    #[test]
    fn what_is_asked_is_planned() {
        let latency = planned("bench latency --sizes 1k,8,8").unwrap();
        assert_eq!(latency, [("latency", vec![8, 1024], Some(2))]);
        let bcast = planned("bench collectives --only bcast --ranks 5 --sizes 8").unwrap();
        assert_eq!(bcast, [("bcast", vec![8], Some(5))]);
        let both = planned("bench collectives --only b --sizes 8").unwrap();
        let barrier = both.iter().find(|part| part.0 == "barrier").unwrap();
        assert_eq!(barrier.1, [0]);
        let startup = planned("bench startup --only init --sizes 2,3").unwrap();
        assert_eq!(startup, [("init", vec![2, 3], None)]);
        let datatypes = planned("bench datatypes --quick").unwrap();
        assert_eq!((datatypes[0].2, datatypes[1].2), (Some(2), Some(1)));
    }

    #[test]
    fn all_is_all_of_them() {
        for (words, steering) in [
            ("bench all", false),
            ("bench all --quick --ranks 3", false),
            ("bench all --steering /s", true),
        ] {
            let names: Vec<_> = planned(words).unwrap().into_iter().map(|p| p.0).collect();
            let every = experiments::ALL
                .iter()
                .flat_map(|e| e.panels)
                .filter(|p| steering || !p.steered)
                .map(|p| p.name);
            assert_eq!(names, every.collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |words: &str| planned(words).unwrap_err();
        assert!(refused("bench latency --ranks 3").contains("on 2 ranks"));
        assert!(refused("bench depth --sizes 0").contains("from 1 to 32767"));
        assert!(refused("bench startup --ranks 3").contains("--sizes"));
        assert_eq!(
            refused("bench startup --only nothing"),
            "--only nothing: the parts there are: init, launch"
        );
        assert_eq!(
            refused("bench startup --only"),
            "--only: the parts there are: init, launch"
        );
        assert!(refused("bench latency --steering /s").contains("for kacc-steer"));
        assert!(refused("bench fmpl-parts --sizes 8").contains("fmpl-parts"));
        assert!(refused("bench collectives --only barrier --sizes 8").contains("--sizes: "));
        assert!(refused("bench kacc-steer").contains("--steering"));
        let times = planned("bench kacc --only time-4x4").unwrap();
        assert!(!times.is_empty() && times.iter().all(|part| !part.0.starts_with("steer")));
        assert!(refused("bench kacc --only steer-first").contains("wants --steering"));
        assert!(refused("bench kacc-steer --only").contains("steer-first-40x40"));
    }

    #[test]
    fn interfaces_may_have_words_of_their_own() {
        let all = [
            Implementation::yamabiko("mpi", Path::new("/p")),
            Implementation::fmpl("fmpl", Path::new("/p")),
            Implementation::blacs("blacs", Path::new("/p")),
            Implementation::raw(),
        ];
        let of = |words: &str| of(&asked(words).unwrap()).unwrap()[0].series(&all);
        let bandwidth = [(0, "heap"), (0, "alloc_mem"), (1, "mapped"), (1, "heap")];
        assert_eq!(of("bench fmpl-bandwidth")[..4], bandwidth);
        assert_eq!(of("bench fmpl-bandwidth")[4..], [(2, ""), (3, "")]);
        assert_eq!(of("bench fmpl-parts"), [(1, "")]);
    }

    #[test]
    fn ways_to_progress_are_implementations_of_their_own() {
        let mut way = Implementation::yamabiko("ring", Path::new("/p"));
        way.interface = Interface::Progress;
        let all = [
            Implementation::yamabiko("mpi", Path::new("/p")),
            way,
            Implementation::cad("cad", Path::new("/p")),
            Implementation::raw(),
        ];
        let of = |words: &str| of(&asked(words).unwrap()).unwrap().remove(0);
        let lost = of("bench kacc-lost");
        let series = [(0, "explicit"), (1, "ibcast"), (2, "tree"), (2, "pipeline")];
        assert_eq!(lost.series(&all), series);
        assert!(lost.sets_progress() && !of("bench latency").sets_progress());
        assert_eq!(of("bench kacc-allreduce").series(&all), [(1, "iallreduce")]);
        assert_eq!(of("bench overlap").series(&all), [(1, "")]);
        let gradients = [(1, "pipelined"), (1, "pipelined-blocking")];
        assert_eq!(of("bench kacc-cg --only speedup").series(&all), gradients);
        let mut steered = all.to_vec();
        steered.extend(crate::progress::steered(&all));
        assert_eq!(lost.series(&steered), series);
        let steer = of("bench kacc-steer --steering /s");
        let more = [(4, "ibcast"), (5, "tree"), (5, "pipeline")];
        assert_eq!(steer.series(&steered), [&series[..], &more].concat());
        let ranks = |words: &str| of(words).ranks;
        assert_eq!(ranks("bench kacc-lost --ranks 5"), Some(5));
        assert_eq!(ranks("bench kacc-chain"), Some(3));
        assert_eq!(ranks("bench kacc-crowded"), Some(4));
    }

    #[test]
    fn only_those_with_a_kernel_take_part() {
        let all = [
            Implementation::yamabiko("a", Path::new("/p")),
            Implementation::yamabiko("b", Path::new("/q")),
            Implementation::raw(),
        ];
        let of = |words: &str| of(&asked(words).unwrap()).unwrap()[0].series(&all);
        assert_eq!(of("bench latency"), [(0, ""), (1, "")]);
        assert_eq!(of("bench datatypes"), [(0, ""), (1, ""), (2, "")]);
        let both = of("bench bandwidth");
        assert_eq!(both[..3], [(0, "heap"), (0, "alloc_mem"), (1, "heap")]);
    }
}
