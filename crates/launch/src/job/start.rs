//! Makes a job's processes, pipes and page, in the order that leaves nothing behind on failure.

use super::member::Member;
use super::stdin::Terminal;
use super::{Job, Keeper, StartError};
use crate::course::Course;
use crate::environment::{self, Identity};
use crate::keeper;
use crate::options::{Options, Program};
use crate::os::child::Ready;
use crate::os::signals::{Signals, is_ignored};
use crate::os::{self, Side};
use crate::output::Sink;
use crate::placement;
use crate::pmi::Server;
use crate::verdict::Verdict;
use report::Book;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;
use wireup::{SECRET_KEY, mapping, wire};

/// Signals mpiexec acts on or passes on. Those it was started with ignored stay ignored, but for SIGQUIT:
/// it ends nothing and asks for the report, and a job in a script's background can be asked as well.
const HANDLED: &[i32] = &[
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGCHLD,
];
/// Signals that only must not stop mpiexec: it writes to the terminal, and looks before it reads.
const HELD_BACK: &[i32] = &[libc::SIGTTIN, libc::SIGTTOU];

type Variables = BTreeMap<OsString, OsString>;

/// A program with everything its ranks have in common.
struct Prepared {
    path: CString,
    argv: Vec<CString>,
    variables: Variables,
    directory: Option<CString>,
    name: String,
}

pub(super) fn start(options: &Options) -> Result<Job, StartError> {
    let prepared = options.programs.iter().map(|p| prepare(options, p));
    let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
    let program_of: Vec<usize> = options
        .programs
        .iter()
        .enumerate()
        .flat_map(|(i, p)| std::iter::repeat_n(i, p.count as usize))
        .collect();
    let size = program_of.len();
    allow_descriptors(size as u64 * 8 + 64);
    let (page, book) = Book::create(size).map_err(|e| system("the report page", e))?;
    let handled: Vec<i32> = HANDLED
        .iter()
        .copied()
        .filter(|s| *s == libc::SIGQUIT || !is_ignored(*s))
        .collect();
    let (signals, mask) = Signals::new(&[&handled[..], HELD_BACK].concat(), &handled)
        .map_err(|e| system("signals", e))?;

    let (ranks, members, terminal) = all_ranks(options, &prepared, &program_of, &page)?;
    let (control, keepers) = socket_pair(SocketType::SEQPACKET)?;
    os::become_subreaper().map_err(|e| system("a subreaper", e))?;
    match os::fork().map_err(|e| system("the keeper process", e))? {
        Side::Child => {
            // mpiexec's ends must not stay open here: a pipe ends when its last holder closes it.
            drop((members, control, terminal, signals));
            keeper::run(keepers, ranks, page, &mask)
        }
        Side::Parent(_) => drop((ranks, keepers)),
    }
    if terminal.is_none() && options.stdin {
        // Rank 0 has the only reading end now, so that a writer notices when rank 0 closes it.
        let _ = rustix::stdio::dup2_stdin(null()?);
    }
    let appnums: Vec<u32> = program_of
        .iter()
        .map(|p| u32::try_from(*p).unwrap_or(0))
        .collect();
    let now = Instant::now();
    Ok(Job {
        members,
        server: server(options, &appnums)?,
        book,
        _page: page,
        keeper: Keeper {
            control,
            family_lives: true,
            lost: false,
        },
        signals,
        terminal,
        sinks: [
            Sink::new(size, options.label),
            Sink::new(size, options.label),
        ],
        sinks_open: [true; 2],
        course: Course::default(),
        verdict: Verdict::default(),
        cleanup: options.cleanup,
        deadline: options.timeout.and_then(|t| now.checked_add(t)),
        last_output: now,
        interrupts: 0,
        announced: false,
    })
}

/// What the keeper starts, what mpiexec listens to, and the terminal to pass on to rank 0.
type Halves = (Vec<keeper::Rank>, Vec<Member>, Option<Terminal>);

fn all_ranks(
    options: &Options,
    prepared: &[Prepared],
    program_of: &[usize],
    page: &OwnedFd,
) -> Result<Halves, StartError> {
    let size = program_of.len();
    let (first_stdin, terminal) = stdin_of_first(options)?;
    let mut first_stdin = Some(first_stdin);
    let cpus = placement::place(&options.binding, size);
    let mut ranks = Vec::with_capacity(size);
    let mut members = Vec::with_capacity(size);
    for (rank, cpus) in cpus.into_iter().enumerate() {
        let program = &prepared[program_of[rank]];
        let stdin = first_stdin.take().map_or_else(null, Ok)?;
        let (kept, member) = one_rank(rank, size, program, stdin, page, cpus)?;
        ranks.push(kept);
        members.push(member);
    }
    Ok((ranks, members, terminal))
}

fn prepare(options: &Options, program: &Program) -> Result<Prepared, StartError> {
    let wrong = |text| StartError { text, code: 2 };
    let variables = environment::common(options, program);
    let directory = program.directory.as_deref();
    let path = variables
        .get(&OsString::from("PATH"))
        .map(OsString::as_os_str);
    let path = environment::find_program(&program.argv[0], path, directory)
        .map_err(|text| StartError { text, code: 127 })?;
    let argv = program
        .argv
        .iter()
        .map(|a| environment::c_string(a))
        .collect::<Result<_, _>>();
    let directory = directory
        .map(|d| environment::c_string(d.as_os_str()))
        .transpose();
    Ok(Prepared {
        path: environment::c_string(path.as_os_str()).map_err(wrong)?,
        argv: argv.map_err(wrong)?,
        variables,
        directory: directory.map_err(wrong)?,
        name: program.argv[0].to_string_lossy().into_owned(),
    })
}

/// The two halves of a rank: what the keeper starts and what mpiexec listens to.
fn one_rank(
    rank: usize,
    size: usize,
    program: &Prepared,
    stdin: OwnedFd,
    page: &OwnedFd,
    cpus: Option<Vec<usize>>,
) -> Result<(keeper::Rank, Member), StartError> {
    let (pmi, theirs) = socket_pair(SocketType::STREAM)?;
    let (stdout, stdout_in) = pipe()?;
    let (stderr, stderr_in) = pipe()?;
    let inode = rustix::fs::fstat(&theirs)
        .map_err(|e| system("a socket", e))?
        .st_ino;
    let pmi_identity = (theirs.as_raw_fd(), inode);
    let identity = Identity {
        rank,
        size,
        pmi: pmi_identity,
        page: page.as_raw_fd(),
    };
    let environment = environment::of_rank(&program.variables, &identity)
        .map_err(|text| StartError { text, code: 2 })?;
    let ready = Ready {
        path: program.path.clone(),
        argv: program.argv.clone(),
        environment,
        directory: program.directory.clone(),
        cpus,
    };
    let kept = keeper::Rank {
        ready,
        standard: [stdin, stdout_in, stderr_in],
        pmi: theirs,
    };
    Ok((
        kept,
        Member::new(rank, program.name.clone(), pmi, [stdout, stderr]),
    ))
}

/// The standard input of rank 0, and the terminal to pass on to it, if it is one.
fn stdin_of_first(options: &Options) -> Result<(OwnedFd, Option<Terminal>), StartError> {
    if !options.stdin {
        return Ok((null()?, None));
    }
    let own = rustix::stdio::stdin();
    if !rustix::termios::isatty(own) {
        let copy = rustix::io::fcntl_dupfd_cloexec(own, 3);
        return Ok((copy.map_err(|e| system("standard input", e))?, None));
    }
    let (read, write) = pipe()?;
    rustix::io::ioctl_fionbio(&write, true).map_err(|e| system("a pipe", e))?;
    Ok((read, Some(Terminal::new(write))))
}

fn server(options: &Options, appnums: &[u32]) -> Result<Server, StartError> {
    let size = u32::try_from(appnums.len()).unwrap_or(u32::MAX);
    let mut secret = [0u8; 40];
    let got = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
    if got != Ok(secret.len()) {
        return Err(StartError {
            text: "the system has no randomness to give".into(),
            code: 1,
        });
    }
    let preset = vec![
        ("PMI_process_mapping".into(), mapping::text(&vec![0; size as usize])),
        (SECRET_KEY.into(), wire::to_hex(&secret[..32])),
    ];
    let name = format!(
        "yamabiko_{}_{}",
        std::process::id(),
        wire::to_hex(&secret[32..])
    );
    Ok(Server::new(
        &name,
        appnums,
        options.universe.unwrap_or(size),
        preset,
    ))
}

/// Raises the soft limit of open files where the hard one allows it.
fn allow_descriptors(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map_or(wanted, |m| m.min(wanted));
        // If it fails, making the pipes says so.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(current),
                maximum: limit.maximum,
            },
        );
    }
}

fn null() -> Result<OwnedFd, StartError> {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    Ok(file.map_err(|e| system("/dev/null", e))?.into())
}

fn pipe() -> Result<(OwnedFd, OwnedFd), StartError> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|e| system("a pipe", e))
}

fn socket_pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), StartError> {
    rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(|e| system("a socket pair", e))
}

fn system(what: &str, error: impl Into<std::io::Error>) -> StartError {
    StartError {
        text: format!("cannot make {what}: {}", os::reason(error)),
        code: 1,
    }
}
