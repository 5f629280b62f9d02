//! Kernels as programs: compiled once for each implementation, started, their output read. Called by `command`,
//! which gives a [`Run`] to `runner`.

use crate::calibrate::Calibration;
use crate::experiment::{Experiment, Panel, Source};
use crate::implementation::{Described, Implementation};
use crate::runner::Bench;
use crate::{Result, lines, process};
use indicatif::ProgressBar;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest that a compiler may take.
const COMPILING: Duration = Duration::from_secs(120);
/// Longest that a calibration may take; it ends by itself long before.
const CALIBRATING: Duration = Duration::from_secs(30);
/// Longest that switching steering may take.
const SWITCHING: Duration = Duration::from_secs(60);
/// How much longer than its limit a launcher gets to end a run by itself, which leaves less behind.
const LAUNCHER_GRACE: Duration = Duration::from_secs(5);

/// Where kernels are compiled and run.
pub struct Workshop {
    /// The folder of the sources.
    sources: PathBuf,
    /// The folder of what is compiled; removed at the end.
    folder: Folder,
    calibration: PathBuf,
    implementations: Vec<Implementation>,
    described: Vec<Described>,
    /// Programs by implementation and source; why it does not compile, if it does not.
    compiled: HashMap<(usize, &'static str), Result<PathBuf>>,
    /// Processors that may be used.
    processors: usize,
    /// What switches steering, and how it has set it.
    steering: Option<(PathBuf, Option<bool>)>,
    limits: Limits,
}

/// Bounds of a kernel's run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest a run may take.
    pub run: Duration,
    /// Time for each value of the axis, in milliseconds.
    pub milliseconds: u32,
    /// Most time for the flag of a calibration, in milliseconds.
    pub flag_milliseconds: u32,
}

/// A panel on the machine: what `runner` runs.
pub struct Run<'a> {
    /// Where.
    pub workshop: &'a mut Workshop,
    /// What.
    pub experiment: &'static Experiment,
    /// Which part of it.
    pub panel: &'static Panel,
    /// The values of its axis.
    pub values: Vec<u64>,
    /// How many ranks; none: as many as the value.
    pub ranks: Option<u32>,
    /// The series: an implementation's number and a variant's word.
    pub series: Vec<(usize, &'static str)>,
    /// Shows how far it is: a tick for each run.
    pub bar: &'a ProgressBar,
    /// Rounds left out so far.
    pub left_out: u32,
    /// How long the panel may still wait for a regime.
    pub patience: Duration,
}

/// How often the machine is looked at while a regime is waited for.
const LOOK: Duration = Duration::from_millis(500);

impl Workshop {
    /// Makes a workshop for `implementations`, with the sources in the folder `sources`.
    ///
    /// # Errors
    /// When no folder for programs can be made, or the calibration does not compile.
    pub fn new(
        sources: &Path,
        implementations: Vec<Implementation>,
        limits: Limits,
    ) -> Result<Workshop> {
        let folder = Folder::new()?;
        let calibration = folder.0.join("calibrate");
        let source = sources.join("calibrate.c");
        let mut compile = Implementation::raw().compile(&source, &calibration);
        checked("the calibration", &mut compile, COMPILING)?;
        Ok(Workshop {
            sources: sources.to_path_buf(),
            folder,
            calibration,
            described: implementations
                .iter()
                .map(Implementation::described)
                .collect(),
            implementations,
            compiled: HashMap::new(),
            processors: sys::cpus::allowed(),
            steering: None,
            limits,
        })
    }

    /// From now on, this switches steering: a command that is called with `on` or `off`.
    pub fn steered_by(&mut self, switch: &Path) {
        self.steering = Some((switch.to_path_buf(), None));
    }

    /// Switches steering, where something does.
    ///
    /// # Errors
    /// When that fails.
    pub fn steer(&mut self, on: bool) -> Result<()> {
        let Some((switch, is)) = &mut self.steering else {
            return Ok(());
        };
        if *is != Some(on) {
            let mut command = Command::new(switch);
            command.arg(if on { "on" } else { "off" });
            *is = None;
            checked("steering", &mut command, SWITCHING)?;
            *is = Some(on);
        }
        Ok(())
    }

    /// The implementations.
    pub fn implementations(&self) -> &[Implementation] {
        &self.implementations
    }

    /// What a report says of the implementations; what they say they are is known once they have run.
    pub fn described(&self) -> Vec<Described> {
        self.described.clone()
    }

    /// Switches steering off at the end, also after an interrupt.
    ///
    /// # Errors
    /// When that fails.
    pub fn end_steering(&mut self) -> Result<()> {
        match &self.steering {
            Some((switch, _)) if process::is_interrupted() => {
                let mut command = Command::new(switch);
                let status = command.arg("off").process_group(0).status();
                match status.is_ok_and(|status| status.success()) {
                    true => Ok(()),
                    false => Err("steering could not be switched off".into()),
                }
            }
            _ => self.steer(false),
        }
    }

    /// The program of a kernel, compiled when it is first asked for.
    fn program(
        &mut self,
        implementation: usize,
        experiment: &'static Experiment,
    ) -> Result<PathBuf> {
        let one = &self.implementations[implementation];
        let kernel = experiment.kernels.iter().find(|k| k.0 == one.interface);
        let (_, file) = kernel.ok_or_else(|| format!("{} has no such kernel", one.name))?;
        let compiled = self.compiled.entry((implementation, file));
        let program = compiled.or_insert_with(|| {
            let program = self
                .folder
                .0
                .join(format!("{implementation}-{file}.program"));
            let mut compile = one.compile(&self.sources.join(file), &program);
            checked(
                &format!("compiler of {}", one.name),
                &mut compile,
                COMPILING,
            )
            .map(|_| program)
        });
        program.clone()
    }

    /// Nanoseconds and gigabytes of now.
    fn calibrate(&self) -> Result<Calibration> {
        let mut command = Command::new(&self.calibration);
        command.arg(self.limits.flag_milliseconds.to_string());
        let done = checked("the calibration", &mut command, CALIBRATING)?;
        Calibration::parse(&done.output)
    }

    /// One run of a kernel: its figures.
    fn run(
        &mut self,
        implementation: usize,
        experiment: &'static Experiment,
        arguments: &Arguments<'_>,
    ) -> Result<Vec<f64>> {
        let program = self.program(implementation, experiment)?;
        self.steer(self.implementations[implementation].steered)?;
        let one = &self.implementations[implementation];
        let kept_to = arguments
            .panel
            .processors
            .map_or(usize::MAX, |n| n as usize);
        let crowded = arguments.ranks as usize > self.processors.min(kept_to);
        let mut command = one.start(&program, arguments.ranks, crowded);
        command.args(arguments.words(self.limits.milliseconds));
        // The well-known launchers read it; seconds.
        command.env(
            "MPIEXEC_TIMEOUT",
            self.limits.run.as_secs().max(1).to_string(),
        );
        let started = Instant::now();
        let limit = self.limits.run;
        // Named as a run: a sentence that begins with a name alone would read `yamabiko: yamabiko: ...`.
        let who = format!("run of {}", one.name);
        let done = checked(&who, &mut command, limit + LAUNCHER_GRACE).map_err(|why| {
            // However its launcher puts that.
            match started.elapsed() >= limit {
                true => format!("{why}\n(a run may take {} s: --limit)", limit.as_secs()),
                false => why,
            }
        })?;
        let shown = process::shown(&command);
        let wrong = |why: String| format!("{who}: `{shown}` {why}");
        let mut complaints = done.complaint.lines();
        let vain = one
            .vain
            .and_then(|word| complaints.find(|line| line.contains(word)));
        if let Some(line) = vain {
            return Err(wrong(format!("said: {line}")));
        }
        match arguments.panel.source {
            Source::Wall if done.output.is_empty() => Ok(vec![1e3 * done.wall.as_secs_f64()]),
            Source::Wall => Err(wrong("printed something where nothing was expected".into())),
            Source::Printed => {
                let said = lines::parse(&done.output, arguments.values, arguments.panel.unit);
                let said = said.map_err(wrong)?;
                self.described[implementation].library = said.library;
                Ok(said.figures)
            }
        }
    }
}

/// What a kernel is asked.
struct Arguments<'a> {
    panel: &'static Panel,
    variant: &'static str,
    values: &'a [u64],
    ranks: u32,
}

impl Arguments<'_> {
    fn words(&self, milliseconds: u32) -> Vec<OsString> {
        let variant = if self.variant.is_empty() {
            "-"
        } else {
            self.variant
        };
        let mut words: Vec<OsString> = vec![milliseconds.to_string().into()];
        words.extend([self.panel.name, variant].map(OsString::from));
        words.extend(self.values.iter().map(|value| value.to_string().into()));
        words
    }
}

impl Bench for Run<'_> {
    fn calibrate(&mut self) -> Result<Calibration> {
        self.workshop.calibrate()
    }

    fn run(&mut self, series: usize) -> Result<Vec<f64>> {
        let (implementation, variant) = self.series[series];
        let mut words = vec![
            self.experiment.name,
            self.panel.name,
            &self.workshop.implementations[implementation].name,
            variant,
        ];
        words.retain(|word| !word.is_empty());
        // Where there is but one panel, it has the experiment's name.
        words.dedup();
        self.bar.set_message(format!(
            "{}; {} rounds left out",
            words.join(" "),
            self.left_out
        ));
        let ask = |values: &[u64], ranks: u32, workshop: &mut Workshop| {
            let arguments = Arguments {
                panel: self.panel,
                variant,
                values,
                ranks,
            };
            workshop.run(implementation, self.experiment, &arguments)
        };
        let figures = match self.ranks {
            Some(ranks) => ask(&self.values, ranks, self.workshop),
            None => {
                let mut figures = Vec::new();
                for value in &self.values {
                    // Bounded by the axis.
                    let ranks = u32::try_from(*value).unwrap_or(u32::MAX);
                    figures.extend(ask(&[*value], ranks, self.workshop)?);
                }
                Ok(figures)
            }
        };
        self.bar.inc(1);
        figures
    }

    fn is_interrupted(&self) -> bool {
        process::is_interrupted()
    }

    fn round_over(&mut self, counts: bool) {
        if !counts {
            self.left_out += 1;
            // It may be run again.
            self.bar.inc_length(self.series.len() as u64);
        }
    }

    fn wait(&mut self) -> bool {
        if self.patience < LOOK {
            return false;
        }
        self.patience -= LOOK;
        self.bar.set_message("waiting for the other regime");
        std::thread::sleep(LOOK);
        true
    }
}

/// Runs a command; its failure names who it was and shows the command.
fn checked(who: &str, command: &mut Command, limit: Duration) -> Result<process::Done> {
    process::run(command, limit)
        .map_err(|why| format!("{who}: `{}` {why}", process::shown(command)))
}

/// A folder for what is compiled, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("yamabiko-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    /// The raw implementation, with a launcher that takes the number of ranks and does what `script` says.
    fn workshop(script: &str, run: Duration) -> Workshop {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let mut fake = Implementation::raw();
        fake.name = "fake".into();
        fake.launcher = ["sh", "-c", script, "sh"].map(OsString::from).to_vec();
        let limits = Limits {
            run,
            milliseconds: 1,
            flag_milliseconds: 10,
        };
        Workshop::new(&sources, vec![fake], limits).unwrap()
    }

    fn figures(script: &str, values: Vec<u64>) -> Result<Vec<f64>> {
        let experiment = experiments::named("datatypes").unwrap();
        let mut workshop = workshop(script, Duration::from_secs(60));
        let bar = ProgressBar::hidden();
        let mut run = Run {
            workshop: &mut workshop,
            experiment,
            panel: &experiment.panels[0],
            values,
            ranks: Some(2),
            series: vec![(0, "")],
            bar: &bar,
            left_out: 0,
            patience: Duration::ZERO,
        };
        run.run(0)
    }

    #[test]
    fn a_kernel_is_compiled_started_and_read() {
        assert_eq!(
            figures("shift; exec \"$@\"", vec![8, 100]).unwrap().len(),
            2
        );
    }

    #[test]
    fn broken_kernels_are_named_with_their_command() {
        for (script, expected) in [
            (
                "echo nonsense",
                "`nonsense` where `library NAME` was expected",
            ),
            ("exit 7", "exit status: 7"),
            (
                "shift; \"$@\"; echo more",
                "`more` where `nothing more` was expected",
            ),
            ("yes", "printed more than"),
        ] {
            let why = figures(script, vec![8]).unwrap_err();
            assert!(why.starts_with("run of fake: `sh -c"), "{why}");
            assert!(why.contains(" 2 /") && why.contains("1 pair - 8"), "{why}");
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_run_without_what_was_set_does_not_count() {
        let experiment = experiments::named("datatypes").unwrap();
        let script = "shift; echo 'rank 0: X=ring has no effect: why' >&2; exec \"$@\"";
        let mut workshop = workshop(script, Duration::from_secs(60));
        let arguments = Arguments {
            panel: &experiment.panels[0],
            variant: "",
            values: &[8],
            ranks: 1,
        };
        assert!(workshop.run(0, experiment, &arguments).is_ok());
        workshop.implementations[0].vain = Some("has no effect");
        let why = workshop.run(0, experiment, &arguments).unwrap_err();
        assert!(
            why.contains("said: rank 0: X=ring has no effect: why"),
            "{why}"
        );
    }

    #[test]
    fn a_run_that_is_over_its_time_says_so() {
        let experiment = experiments::named("datatypes").unwrap();
        // A launcher that ends the run by itself, somehow.
        let mut workshop = workshop("sleep 0.1; exit 9", Duration::from_millis(50));
        let arguments = Arguments {
            panel: &experiment.panels[0],
            variant: "",
            values: &[8],
            ranks: 1,
        };
        let why = workshop.run(0, experiment, &arguments).unwrap_err();
        assert!(
            why.contains("exit status: 9") && why.contains("--limit"),
            "{why}"
        );
    }

    #[test]
    fn steering_is_switched_before_a_run_that_wants_it_otherwise() {
        let experiment = experiments::named("datatypes").unwrap();
        let mut workshop = workshop("shift; exec \"$@\"", Duration::from_secs(60));
        let mut steered = workshop.implementations[0].clone();
        steered.steered = true;
        workshop.implementations.push(steered);
        workshop.described.push(workshop.described[0].clone());
        let folder = Folder::new().unwrap();
        let (switch, said) = (folder.0.join("switch"), folder.0.join("said"));
        // Written by another process, as one that is open for writing is no program.
        let text = format!(
            "printf '#!/bin/sh\\necho $1 >> {}\\n' > \"$0\"; chmod +x \"$0\"",
            said.display()
        );
        assert!(
            Command::new("sh")
                .args(["-c", &text])
                .arg(&switch)
                .status()
                .unwrap()
                .success()
        );
        workshop.steered_by(&switch);
        let arguments = Arguments {
            panel: &experiment.panels[0],
            variant: "",
            values: &[8],
            ranks: 1,
        };
        for who in [0, 0, 1, 1, 0] {
            workshop.run(who, experiment, &arguments).unwrap();
        }
        workshop.end_steering().unwrap();
        assert_eq!(std::fs::read_to_string(&said).unwrap(), "off\non\noff\n");
        std::fs::remove_file(&switch).unwrap();
        assert!(workshop.steer(true).unwrap_err().contains("steering: "));
    }

    #[test]
    fn what_does_not_compile_says_so() {
        let mut workshop = workshop("exit 0", Duration::from_secs(1));
        workshop.sources = "/nonexistent".into();
        let experiment = experiments::named("datatypes").unwrap();
        let why = workshop.program(0, experiment).unwrap_err();
        assert!(
            why.starts_with("compiler of fake: ") && why.contains("raw_transpose.c"),
            "{why}"
        );
    }

    #[test]
    fn a_calibration_can_be_made() {
        let workshop = workshop("exit 0", Duration::from_secs(1));
        let calibration = workshop.calibrate().unwrap();
        assert!(calibration.flag > 0.0 && calibration.memcpy > 0.0);
    }
}
