//! The table of flags: names of both dialects, how many arguments each takes, what it means.
//!
//! A name is written here without dashes; the user may write one dash or two. Flags that make no
//! difference, or whose effect this launcher has anyway, are accepted and ignored, so
//! that scripts written for other launchers keep working.

/// What a flag means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flag {
    Count,
    Env,
    EnvAll,
    EnvNone,
    EnvList,
    GenEnv,
    GenEnvAll,
    GenEnvNone,
    GenEnvList,
    Export,
    Directory,
    SearchPath,
    Label,
    Timeout,
    Universe,
    Bind,
    Cleanup,
    NoCleanup,
    ReportFabrics,
    Stdin,
    OwnHosts,
    Hosts,
    HostFile,
    PerHost,
    InTurn,
    Map,
    Launcher,
    LauncherCommand,
    ConfigFile,
    Help,
    Version,
    Ignored,
    Refused(&'static str),
}

const RANK_FILE: &str = "give each program its hosts with -host";
const FILES: &str = "redirect the output of mpiexec instead (-l tells the ranks apart)";
const DEBUG: &str = "start the debugger as the program: mpiexec -n 2 gdb --args ./program";

/// Names, number of arguments, meaning.
const FLAGS: &[(&[&str], usize, Flag)] = &[
    (&["n", "np", "c"], 1, Flag::Count),
    (&["env"], 2, Flag::Env),
    (&["envall"], 0, Flag::EnvAll),
    (&["envnone"], 0, Flag::EnvNone),
    (&["envlist"], 1, Flag::EnvList),
    (&["genv"], 2, Flag::GenEnv),
    (&["genvall"], 0, Flag::GenEnvAll),
    (&["genvnone"], 0, Flag::GenEnvNone),
    (&["genvlist"], 1, Flag::GenEnvList),
    (&["x"], 1, Flag::Export),
    (&["wdir", "wd"], 1, Flag::Directory),
    (&["path"], 1, Flag::SearchPath),
    (&["l", "tag-output", "prepend-rank"], 0, Flag::Label),
    (&["timeout"], 1, Flag::Timeout),
    (&["report-fabrics"], 0, Flag::ReportFabrics),
    (&["usize"], 1, Flag::Universe),
    (&["bind-to", "binding"], 1, Flag::Bind),
    (&["bind-to-none"], 0, Flag::Ignored),
    (&["enable-auto-cleanup"], 0, Flag::Cleanup),
    (
        &["disable-auto-cleanup", "continuous", "enable-recovery"],
        0,
        Flag::NoCleanup,
    ),
    (&["stdin", "s"], 1, Flag::Stdin),
    (&["host", "H"], 1, Flag::OwnHosts),
    (&["hosts", "hostlist"], 1, Flag::Hosts),
    (
        &[
            "f",
            "hostfile",
            "machinefile",
            "machine",
            "default-hostfile",
        ],
        1,
        Flag::HostFile,
    ),
    (
        &["ppn", "N", "npernode", "perhost", "grr"],
        1,
        Flag::PerHost,
    ),
    (&["rr", "pernode", "bynode"], 0, Flag::InTurn),
    (&["map-by"], 1, Flag::Map),
    (&["launcher", "bootstrap"], 1, Flag::Launcher),
    (
        &["launcher-exec", "bootstrap-exec", "rsh-agent"],
        1,
        Flag::LauncherCommand,
    ),
    (&["configfile", "app"], 1, Flag::ConfigFile),
    (&["h", "help"], 0, Flag::Help),
    (&["V", "version", "info"], 0, Flag::Version),
    // No difference here, or done anyway.
    (
        &[
            "oversubscribe",
            "nooversubscribe",
            "allow-run-as-root",
            "use-hwthread-cpus",
        ],
        0,
        Flag::Ignored,
    ),
    (
        &[
            "v",
            "verbose",
            "q",
            "quiet",
            "nolocal",
            "print-all-exitcodes",
        ],
        0,
        Flag::Ignored,
    ),
    (
        &[
            "display-map",
            "display-allocation",
            "report-bindings",
            "order-nodes",
            "skip-launch-node",
        ],
        0,
        Flag::Ignored,
    ),
    (&["disable-hostname-propagation"], 0, Flag::Ignored),
    (
        &["rank-by", "display", "rmk", "iface", "localhost", "prefix"],
        1,
        Flag::Ignored,
    ),
    (
        &[
            "topolib",
            "membind",
            "enable-x",
            "disable-x",
            "pmi-port",
            "nameserver",
            "pmi",
            "pml",
        ],
        1,
        Flag::Ignored,
    ),
    (
        &["mca", "gmca", "prtemca", "pmixmca", "omca"],
        2,
        Flag::Ignored,
    ),
    // Would change what happens, so a clear word is better than silence.
    (
        &[
            "outfile-pattern",
            "errfile-pattern",
            "output-filename",
            "output",
            "prepend-pattern",
        ],
        1,
        Flag::Refused(FILES),
    ),
    (
        &["timestamp-output", "xml", "merge-stderr-to-stdout"],
        0,
        Flag::Refused(FILES),
    ),
    (
        &["gpus-per-proc", "gpu-subdevs-per-proc"],
        1,
        Flag::Refused("set CUDA_VISIBLE_DEVICES with -env for each program"),
    ),
    (&["rankfile", "rf"], 1, Flag::Refused(RANK_FILE)),
    (&["tv", "debug", "gdb"], 0, Flag::Refused(DEBUG)),
    (
        &["ckpoint-interval", "ckpoint-prefix", "ckpointlib"],
        1,
        Flag::Refused("there is no checkpointing"),
    ),
];

/// Finds the flag that `word` (with its dashes) names, the number of its arguments, and the argument
/// that stands in the word itself (`--timeout=5`).
pub(super) fn find(word: &str) -> Result<(Flag, usize, Option<&str>), String> {
    let name = word
        .strip_prefix("--")
        .or_else(|| word.strip_prefix('-'))
        .unwrap_or(word);
    let (name, inline) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    };
    let entry = FLAGS.iter().find(|(names, ..)| names.contains(&name));
    match entry {
        Some((_, 0, _)) if inline.is_some() => {
            Err(format!("{word}: this option takes no argument"))
        }
        Some((_, arity, flag)) => Ok((*flag, *arity, inline)),
        None => Err(format!(
            "unknown option {word}; mpiexec --help lists the options"
        )),
    }
}

/// The text of `mpiexec --help`.
pub const HELP: &str = "\
usage: mpiexec [options] program [arguments] [: [options] program [arguments]]...

Runs an MPI job on this machine or several. Options take one dash or two.

  -n N, -np N            number of ranks of the next program (default: one for each slot of
                         the hosts that are named; 1 if none is)
  -env NAME VALUE        set a variable for the next program (also -env NAME=VALUE)
  -x NAME[=VALUE]        the same; without a value, mpiexec's own is passed
  -envall -envnone -envlist A,B     what the next program inherits (default: all)
  -genv NAME VALUE, -genvall -genvnone -genvlist A,B    the same for all programs
  -wdir DIR, -wd DIR     working directory
  -path A:B              where to look for the program first
  -configfile FILE       read programs from FILE, one a line
  -l, --tag-output       put [rank] before every line of output
  -stdin 0|none          who reads standard input (default: rank 0)
  -bind-to none|hwthread|core|socket|user:0,1,2+3    processors per rank (default: none)
  -timeout SECONDS       end the job then, tell where each rank waits, exit with 124
                         (also: the environment variable MPIEXEC_TIMEOUT)
  -report-fabrics        say what carries messages between which ranks, and why
  -usize N               value of MPI_UNIVERSE_SIZE
  -disable-auto-cleanup  let the other ranks go on when one fails
  -hosts A,B:4,[::1]:2   hosts, with the ranks each gets before the next has its turn (default 1)
  -f FILE, -hostfile FILE           the same from a file: lines as A:4 or A slots=4 max_slots=8 user=ME
  -host A,B:4            hosts of the next program only
  -ppn N, -npernode N, --map-by ppr:N:node    so many ranks on each host in turn
  -launcher ssh|rsh|fork            how other hosts are reached (default: ssh; fork: not at all)
  -launcher-exec CMD     reach every host that is named by running CMD HOST COMMAND..., as ssh
                         would be: this machine, too, and localhost, which need no launcher otherwise;
                         beside -launcher ssh or rsh, before or after it, this command is the one that runs
  --oversubscribe --allow-run-as-root --mca K V    accepted, no effect
  --version, --help

Signals: INT, TERM, HUP, USR1, USR2, TSTP and CONT are passed to all ranks; a second INT, TERM or
HUP kills them, as does TERM or HUP when they have not ended after 10 s. QUIT prints where each rank waits, as does: yamabiko report PID-of-mpiexec

Exit code: that of the first rank that failed, 128 + its signal, or MPI_Abort's code modulo 256
(1 where that would make 0 of another code); 124 after -timeout; 128 + the signal if mpiexec was
told by one to kill the ranks; 127 or 126 if a program could not be found or run; 2 for a wrong
command line; 1 if a host is lost. A host counts as lost when its daemon ends or is silent for
12 seconds, or yamabiko-keeper, which starts and watches its ranks, is stopped for as long. A daemon
ends its ranks when mpiexec is silent for 12 seconds; so suspend a job over hosts by TSTP to mpiexec
(Ctrl-Z), which tells them, and not by STOP.
";
