//! Starts the ranks of one host.

use super::resident::Resident;
use super::{Input, Node};
use crate::environment::{self, Identity};
use crate::job::StartError;
use crate::keeper;
use crate::options::RANKS_MAX;
use crate::os::child::Ready;
use crate::os::signals::Mask;
use crate::os::{self, Side};
use crate::placement;
use crate::protocol::{Plan, Program, WINDOW};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

/// Descriptors that mpiexec or a daemon holds for each rank while it starts it, at most: both ends of its
/// PMI socket and of its output pipes, standard input, and one to spare.
const DESCRIPTORS_EACH: u64 = 8;
/// What it holds besides, however many ranks there are: its own standard streams, links and signals.
const DESCRIPTORS_BESIDE: u64 = 64;

/// A plan that this host can carry out: its programs have been found.
pub struct Prepared {
    size: usize,
    /// The ranks, each with the number of its program.
    ranks: Vec<(u32, usize)>,
    /// The programs that have ranks here.
    programs: HashMap<usize, Found>,
    cpus: Vec<Option<Vec<usize>>>,
}

/// A program with everything its ranks have in common.
struct Found {
    path: CString,
    argv: Vec<CString>,
    variables: BTreeMap<OsString, OsString>,
    directory: Option<CString>,
}

/// What rank 0 reads.
pub enum First {
    /// Nothing: it runs elsewhere, or shall not read.
    Nothing,
    /// What mpiexec would read itself.
    Own,
    /// What comes in messages.
    Messages,
}

/// Checks a plan and finds its programs.
pub fn prepare(plan: &Plan) -> Result<Prepared, StartError> {
    let size = plan.size as usize;
    let ascending = plan.ranks.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let in_range = |(rank, program): &(u32, u32)| {
        *rank < plan.size && (*program as usize) < plan.programs.len()
    };
    let sound = ascending && plan.ranks.iter().all(in_range) && plan.size <= RANKS_MAX;
    if !sound || plan.programs.iter().any(|p| p.argv.is_empty()) {
        return Err(StartError {
            text: "the plan of the job makes no sense".into(),
            code: 1,
        });
    }
    let ranks: Vec<(u32, usize)> = plan.ranks.iter().map(|(r, p)| (*r, *p as usize)).collect();
    let mut programs = HashMap::new();
    for (_, program) in &ranks {
        if !programs.contains_key(program) {
            programs.insert(*program, find(&plan.programs[*program])?);
        }
    }
    Ok(Prepared {
        size,
        ranks,
        programs,
        cpus: placement::place(&plan.binding, plan.ranks.len()),
    })
}

fn find(program: &Program) -> Result<Found, StartError> {
    let wrong = |text| StartError { text, code: 2 };
    let directory = program.directory.as_deref();
    let path = program.variables.get(&OsString::from("PATH"));
    let path =
        environment::find_program(&program.argv[0], path.map(OsString::as_os_str), directory)
            .map_err(|text| StartError { text, code: 127 })?;
    let argv = program.argv.iter().map(|a| environment::c_string(a));
    let directory = directory.map(|d| environment::c_string(d.as_os_str()));
    Ok(Found {
        path: environment::c_string(path.as_os_str()).map_err(wrong)?,
        argv: argv.collect::<Result<_, _>>().map_err(wrong)?,
        variables: program.variables.clone(),
        directory: directory.transpose().map_err(wrong)?,
    })
}

/// Starts the ranks, with the report page `page` and the signal mask `mask`.
pub fn start(
    prepared: Prepared,
    page: &OwnedFd,
    first: First,
    mask: &Mask,
) -> Result<Node, StartError> {
    let count = prepared.ranks.len();
    allow_descriptors(descriptors(count));
    begin(prepared, page, first, mask).map_err(|error| for_ranks(error, count))
}

/// Descriptors that so many ranks may take on their host.
fn descriptors(ranks: usize) -> u64 {
    ranks as u64 * DESCRIPTORS_EACH + DESCRIPTORS_BESIDE
}

/// The error with how many ranks were asked for, where these take too many descriptors.
fn for_ranks(mut error: StartError, count: usize) -> StartError {
    if error.text.ends_with(&advice_on_descriptors()) {
        let most = descriptors(count);
        error.text = format!(
            "{}, and the {count} asked for here up to {most}",
            error.text
        );
    }
    error
}

fn begin(
    prepared: Prepared,
    page: &OwnedFd,
    first: First,
    mask: &Mask,
) -> Result<Node, StartError> {
    // The keeper's own; the ranks inherit it under its number.
    let page = page
        .try_clone()
        .map_err(|e| system("keep the report page", e))?;
    let (mut ranks, mut residents, mut input) = (Vec::new(), Vec::new(), None);
    for i in 0..prepared.ranks.len() {
        let stdin = match (prepared.ranks[i].0, &first) {
            (0, First::Own) => own_stdin()?,
            (0, First::Messages) => {
                let (read, write) = pipe()?;
                input = Some(Input {
                    pipe: write,
                    queue: VecDeque::new(),
                    ended: false,
                });
                read
            }
            _ => null()?,
        };
        let (rank, resident) = one_rank(&prepared, i, stdin, &page)?;
        ranks.push(rank);
        residents.push(resident);
    }
    let (control, keepers) = socket_pair(SocketType::SEQPACKET)?;
    let keeper = match os::fork().map_err(|e| system("make the keeper process", e))? {
        Side::Child => keeper::run(keepers, ranks, page, mask),
        Side::Parent(pid) => pid,
    };
    drop((ranks, keepers, page));
    if matches!(first, First::Own) {
        // Rank 0 has the only reading end now, so that a writer notices when rank 0 closes it.
        let _ = rustix::stdio::dup2_stdin(null()?);
    }
    let by_rank: HashMap<u32, usize> = (0..).zip(&residents).map(|(i, r)| (r.rank, i)).collect();
    Ok(Node {
        residents,
        by_rank,
        control,
        keeper,
        family_lives: true,
        keeper_lost: false,
        stop: None,
        input,
        credit: [WINDOW; 2],
        last_output: Instant::now(),
        news: VecDeque::new(),
    })
}

/// The two halves of a rank: what the keeper starts and what stays here.
fn one_rank(
    prepared: &Prepared,
    i: usize,
    stdin: OwnedFd,
    page: &OwnedFd,
) -> Result<(keeper::Rank, Resident), StartError> {
    let (number, program) = prepared.ranks[i];
    let program = &prepared.programs[&program];
    let (pmi, theirs) = socket_pair(SocketType::STREAM)?;
    let (stdout, stdout_in) = pipe()?;
    let (stderr, stderr_in) = pipe()?;
    let inode = rustix::fs::fstat(&theirs)
        .map_err(|e| system("make a socket", e))?
        .st_ino;
    let identity = Identity {
        rank: number as usize,
        size: prepared.size,
        local: (i, prepared.ranks.len()),
        pmi: (theirs.as_raw_fd(), inode),
        page: page.as_raw_fd(),
    };
    let environment = environment::of_rank(&program.variables, &identity)
        .map_err(|text| StartError { text, code: 2 })?;
    let ready = Ready {
        path: program.path.clone(),
        argv: program.argv.clone(),
        environment,
        directory: program.directory.clone(),
        cpus: prepared.cpus[i].clone(),
        is_rank: true,
    };
    let rank = keeper::Rank {
        number,
        ready,
        standard: [stdin, stdout_in, stderr_in],
        pmi: theirs,
    };
    Ok((rank, Resident::new(number, pmi, [stdout, stderr])))
}

/// Raises the soft limit of open files where the hard one allows it.
pub fn allow_descriptors(wanted: u64) {
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

fn own_stdin() -> Result<OwnedFd, StartError> {
    let copy = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    copy.map_err(|e| system("keep standard input", e))
}

/// `/dev/null`, for reading and writing.
pub fn null() -> Result<OwnedFd, StartError> {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    Ok(file.map_err(|e| system("open /dev/null", e))?.into())
}

fn pipe() -> Result<(OwnedFd, OwnedFd), StartError> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|e| system("make a pipe", e))
}

fn socket_pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), StartError> {
    rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(|e| system("make a socket pair", e))
}

/// The error of a system call that was to do this.
pub fn system(what: &str, error: impl Into<std::io::Error>) -> StartError {
    let error = error.into();
    let advice = match error.raw_os_error() {
        Some(libc::EMFILE) => advice_on_descriptors(),
        _ => String::new(),
    };
    StartError {
        text: format!("cannot {what}: {}{advice}", os::reason(error)),
        code: 1,
    }
}

fn advice_on_descriptors() -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let current = limit.current.map_or("unlimited".into(), |n| n.to_string());
    format!(
        "; raise the limit on them (ulimit -n), which is {current}: every rank on a host takes up to {DESCRIPTORS_EACH}"
    )
}
