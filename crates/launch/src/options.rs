//! What `mpiexec` was asked to do: its command line in the dialects of MPICH's Hydra and of Open MPI.
//!
//! Both dialects take long options with one dash or two, and separate programs with `:`, which no
//! argument library does; so there is one table of flags and this small parser. It reads
//! nothing but the arguments and is called once, by `main`.

mod flags;
pub use flags::HELP;
mod hosts;
pub use hosts::{Host, Launcher};
mod words;
pub use words::limit;

use flags::Flag;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// More ranks than this launcher's one loop should serve; protects against a slip of the finger.
pub const RANKS_MAX: u32 = 4096;

/// A whole command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The programs, in the order of their ranks; never empty.
    pub programs: Vec<Program>,
    /// Variables for all programs (`-genv`).
    pub variables: Vec<(OsString, OsString)>,
    /// What ranks inherit of mpiexec's own environment.
    pub inherit: Inherit,
    /// Prefix each line of output with its rank (`-l`).
    pub label: bool,
    /// End the job after this long.
    pub timeout: Option<Limit>,
    /// What `MPI_UNIVERSE_SIZE` says (`-usize`); the number of ranks if not given.
    pub universe: Option<u32>,
    /// Where ranks may run.
    pub binding: Binding,
    /// End all ranks when one fails; `-disable-auto-cleanup` clears it.
    pub cleanup: bool,
    /// Have rank 0 say what carries messages between which ranks (`-report-fabrics`).
    pub report_fabrics: bool,
    /// Whether rank 0 gets mpiexec's standard input.
    pub stdin: bool,
    /// The hosts of programs that name none (`-hosts`, `-f`); this machine if empty.
    pub hosts: Vec<Host>,
    /// Ranks that each host gets in turn, whatever its slots (`-ppn`).
    pub per_host: Option<u32>,
    /// How other hosts are reached.
    pub launcher: Launcher,
}

/// How long a job may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// So long.
    pub time: Duration,
    /// What says so, for messages: the option or the variable.
    pub source: &'static str,
}

/// One program of the job: what stands between two `:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// How many ranks run it, if that was said: otherwise one for each slot of its hosts, and one where
    /// no host is named.
    pub count: Option<u32>,
    /// The program and its arguments; never empty.
    pub argv: Vec<OsString>,
    /// Variables for this program (`-env`, `-x`).
    pub variables: Vec<(OsString, OsString)>,
    /// What it inherits of mpiexec's environment, if not what all do.
    pub inherit: Option<Inherit>,
    /// Its working directory.
    pub directory: Option<PathBuf>,
    /// Its own hosts (`-host`); those of all programs if empty.
    pub hosts: Vec<Host>,
}

/// What a rank inherits of mpiexec's own environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// Everything.
    All,
    /// Nothing.
    Nothing,
    /// These variables.
    Listed(Vec<OsString>),
}

/// Which processors each rank may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    /// All that mpiexec may use: the default, because the kernel's scheduler sees more than we do.
    None,
    /// One hardware thread each.
    Thread,
    /// One core each.
    Core,
    /// One package (socket) each.
    Package,
    /// The sets listed, in turn.
    Listed(Vec<Vec<usize>>),
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To run a job.
    Run(Box<Options>),
    /// To print the help text.
    Help,
    /// To print the version.
    Version,
}

/// Parses the arguments after the command's name. `read_file` reads `-configfile` and host files.
/// The error is a sentence for the user.
pub fn parse(
    arguments: Vec<OsString>,
    read_file: &dyn Fn(&OsStr) -> Result<String, String>,
) -> Result<Request, String> {
    let mut parser = Parser {
        options: Options {
            programs: Vec::new(),
            variables: Vec::new(),
            inherit: Inherit::All,
            label: false,
            timeout: None,
            universe: None,
            binding: Binding::None,
            cleanup: true,
            report_fabrics: false,
            stdin: true,
            hosts: Vec::new(),
            per_host: None,
            launcher: Launcher::Ssh,
        },
        read_file,
        launcher_command: None,
        other: None,
        file_depth: 0,
    };
    parser.sections(arguments)?;
    if let Some(other) = parser.other {
        return Ok(other);
    }
    if let Some((name, words)) = parser.launcher_command {
        // Of the launchers it takes the place of the command that they run; this one runs none.
        if parser.options.launcher == Launcher::Fork {
            return Err(format!(
                "-launcher fork reaches no other host, so {name} would do nothing; leave out one of them"
            ));
        }
        parser.options.launcher = Launcher::Command(words);
    }
    if parser.options.programs.is_empty() {
        return Err("no program was given; try: mpiexec -n 4 ./program".into());
    }
    Ok(Request::Run(Box::new(parser.options)))
}

struct Parser<'a> {
    options: Options,
    read_file: &'a dyn Fn(&OsStr) -> Result<String, String>,
    /// The command given by `-launcher-exec`, and what the option was called.
    launcher_command: Option<(String, Vec<OsString>)>,
    other: Option<Request>,
    file_depth: u32,
}

/// What a section has said before its program's name.
#[derive(Default)]
struct Section {
    count: Option<u32>,
    variables: Vec<(OsString, OsString)>,
    inherit: Option<Inherit>,
    directory: Option<PathBuf>,
    directories: Vec<OsString>,
    hosts: Vec<Host>,
}

impl Parser<'_> {
    /// Parses programs separated by `:`.
    fn sections(&mut self, arguments: Vec<OsString>) -> Result<(), String> {
        let several = arguments.iter().any(|a| a == ":");
        for section in arguments.split(|a| a == ":") {
            if several && section.is_empty() {
                return Err("a program is missing before or after a : alone".into());
            }
            self.section(section)?;
            if self.other.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn section(&mut self, arguments: &[OsString]) -> Result<(), String> {
        let mut section = Section::default();
        let mut rest = arguments;
        while let [first, after @ ..] = rest {
            let text = first.to_string_lossy();
            if text == "--" {
                rest = after;
                break;
            }
            if !text.starts_with('-') || text == "-" {
                break;
            }
            let (flag, arity, inline) = flags::find(&text)?;
            let inline: Option<OsString> = inline.map(Into::into);
            let mut values: Vec<OsString> = inline.into_iter().collect();
            let mut wanted = arity - values.len();
            let is_variable = matches!(flag, Flag::Env | Flag::GenEnv);
            if is_variable
                && values
                    .iter()
                    .chain(after)
                    .next()
                    .is_some_and(|w| words::is_pair(w))
            {
                // NAME=VALUE is one word.
                wanted -= 1;
            }
            if after.len() < wanted {
                return Err(format!(
                    "{text} needs {arity} argument{}",
                    if arity == 1 { "" } else { "s" }
                ));
            }
            values.extend_from_slice(&after[..wanted]);
            rest = &after[wanted..];
            self.apply(flag, &text, &values, &mut section)?;
            if self.other.is_some() {
                return Ok(());
            }
        }
        if rest.is_empty() {
            // Options alone (`mpiexec -genv A b : ...`) or the section a -configfile stood in.
            if section.count.is_some() {
                return Err("a number of ranks was given, but no program after it".into());
            }
            return Ok(());
        }
        let mut argv = rest.to_vec();
        if !section.directories.is_empty() {
            argv[0] = found_in(&argv[0], &section.directories);
        }
        self.options.programs.push(Program {
            count: section.count,
            argv,
            variables: section.variables,
            inherit: section.inherit,
            directory: section.directory,
            hosts: section.hosts,
        });
        Ok(())
    }

    fn apply(
        &mut self,
        flag: Flag,
        name: &str,
        values: &[OsString],
        section: &mut Section,
    ) -> Result<(), String> {
        let text = |i: usize| values[i].to_string_lossy().into_owned();
        let options = &mut self.options;
        match flag {
            Flag::Count => section.count = Some(words::count(name, &text(0))?),
            Flag::Env => section.variables.push(words::variable(name, values)?),
            Flag::EnvAll => section.inherit = Some(Inherit::All),
            Flag::EnvNone => section.inherit = Some(Inherit::Nothing),
            Flag::EnvList => {
                section.inherit = Some(Inherit::Listed(words::names(name, &values[0])?));
            }
            Flag::GenEnv => options.variables.push(words::variable(name, values)?),
            Flag::GenEnvAll => options.inherit = Inherit::All,
            Flag::GenEnvNone => options.inherit = Inherit::Nothing,
            Flag::GenEnvList => options.inherit = Inherit::Listed(words::names(name, &values[0])?),
            Flag::Export => section.variables.extend(words::export(name, &values[0])?),
            Flag::Directory => section.directory = Some(PathBuf::from(&values[0])),
            Flag::SearchPath => section.directories = words::directories(&values[0]),
            Flag::Label => options.label = true,
            Flag::Timeout => {
                options.timeout = Some(Limit {
                    time: words::seconds(name, &text(0))?,
                    source: "-timeout",
                })
            }
            Flag::Universe => options.universe = Some(words::universe(name, &text(0))?),
            Flag::Bind => options.binding = words::binding(name, &text(0))?,
            Flag::NoCleanup => options.cleanup = false,
            Flag::Cleanup => options.cleanup = true,
            Flag::ReportFabrics => options.report_fabrics = true,
            Flag::Stdin => options.stdin = words::stdin(name, &text(0))?,
            Flag::OwnHosts => section.hosts.extend(hosts::listed(name, &text(0))?),
            Flag::Hosts => options.hosts.extend(hosts::listed(name, &text(0))?),
            Flag::HostFile => {
                let found = hosts::file(&(self.read_file)(&values[0])?);
                options
                    .hosts
                    .extend(found.map_err(|e| format!("{}: {e}", text(0)))?);
            }
            Flag::PerHost => options.per_host = Some(hosts::per_host(name, &text(0))?),
            Flag::InTurn => options.per_host = Some(1),
            Flag::Map => {
                let per_host = hosts::per_host_of_mapping(name, &text(0))?;
                options.per_host = per_host.or(options.per_host);
            }
            Flag::Launcher => options.launcher = hosts::launcher(name, &text(0))?,
            Flag::LauncherCommand => {
                let words = words::split_quoted(&text(0))?;
                if words.is_empty() {
                    return Err(format!("{name} needs a command"));
                }
                self.launcher_command = Some((name.to_string(), words));
            }
            Flag::ConfigFile => self.config_file(&values[0])?,
            Flag::Help => self.other = Some(Request::Help),
            Flag::Version => self.other = Some(Request::Version),
            Flag::Ignored => {}
            Flag::Refused(why) => return Err(format!("{name} is not supported: {why}")),
        }
        Ok(())
    }

    /// Each line of a configuration file is a program as it would stand between two `:`.
    fn config_file(&mut self, path: &OsStr) -> Result<(), String> {
        self.file_depth += 1;
        if self.file_depth > 4 {
            return Err("configuration files name each other too deeply".into());
        }
        for line in (self.read_file)(path)?.lines() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                self.sections(words::split_quoted(line)?)?;
            }
        }
        self.file_depth -= 1;
        Ok(())
    }
}

/// The program in the first of `directories` that has it (`-path`); its bare name if none has.
fn found_in(program: &OsStr, directories: &[OsString]) -> OsString {
    let mut candidates = directories.iter().map(|d| PathBuf::from(d).join(program));
    candidates
        .find(|c| c.is_file())
        .map_or(program.to_os_string(), Into::into)
}

#[cfg(test)]
mod tests;
