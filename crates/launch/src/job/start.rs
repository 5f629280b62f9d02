//! Prepares a job: lays its ranks out, sends daemons to other hosts, and makes what mpiexec's own ranks
//! need. They are started later, when every host is ready.

use super::hosts::Host;
use super::member::Member;
use super::stdin::Input;
use super::{Job, StartError, events};
use crate::branches::{Branches, Reach};
use crate::channel::SILENCE;
use crate::course::Course;
use crate::environment;
use crate::frame::Address;
use crate::node::{self, First, system};
use crate::options::{Launcher, Options};
use crate::os::signals::{Mask, Signals, is_ignored};
use crate::output::Sink;
use crate::pmi::Server;
use crate::protocol::{Down, Plan, Program, Setup, encode};
use crate::spread::{self, Spread};
use crate::tree;
use crate::verdict::Verdict;
use report::Book;
use std::ffi::OsString;
use std::path::PathBuf;
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

pub(super) fn start(options: &Options) -> Result<Job, StartError> {
    let wrong = |text| StartError { text, code: 2 };
    let (launcher, spread) = lay_out(options).map_err(wrong)?;
    let program_of = &spread.program_of;
    let size = program_of.len();
    let programs = programs(options, program_of);
    let far: Vec<usize> = (0..spread.hosts.len())
        .filter(|h| !spread.hosts[*h].is_here)
        .collect();
    let (input, first) = way_of_stdin(options, spread.hosts[spread.host_of[0]].is_here);
    let plan_of = |host| plan(options, &spread, &programs, host, input.is_some());
    let here = spread.hosts.iter().position(|h| h.is_here);
    let prepared = here.map(|host| node::prepare(&plan_of(host))).transpose()?;
    let (page, book) = Book::create(size).map_err(|e| system("make the report page", e))?;
    let (signals, mask, ignored) = block_signals()?;
    crate::os::become_subreaper().map_err(|e| system("become a subreaper", e))?;
    let mut branches = branches(&spread, &far, &launcher, mask);
    for (place, setup) in (0u32..).zip(setups(&spread, &far, launcher, ignored, plan_of)?) {
        let message = Down::Setup(Box::new(setup));
        branches.send(Address::Host(place), &encode(&message));
    }
    for (rank, host) in spread.host_of.iter().enumerate() {
        if !spread.hosts[*host].is_here {
            book.set_host(rank, &spread.hosts[*host].name);
        }
    }
    let server = server(options, &spread)?;
    let sink = || Sink::new(size, options.label);
    Ok(Job {
        members: members(options, &spread),
        hosts: hosts(&spread, &far),
        remind_at: (!far.is_empty()).then(|| Instant::now() + SILENCE),
        far,
        server,
        book,
        page,
        prepared: prepared.map(|prepared| (prepared, first)),
        node: None,
        branches,
        started: false,
        signals,
        mask,
        input,
        terminals: [events::terminal(0), events::terminal(1)],
        sinks: [sink(), sink()],
        sinks_open: [true; 2],
        course: Course::default(),
        verdict: Verdict::new(!options.cleanup),
        cleanup: options.cleanup,
        deadline: options
            .timeout
            .and_then(|limit| Some((Instant::now().checked_add(limit.time)?, limit.source))),
        asked: None,
        passed_on: Vec::new(),
        announced: false,
        signal_told: false,
    })
}

/// The launcher command, and which rank goes where.
fn lay_out(options: &Options) -> Result<(Vec<OsString>, Spread), String> {
    // A command that was given is used for every host, so that it can make any name mean anything.
    let command_given = matches!(options.launcher, Launcher::Command(_));
    let is_here = |name: &str| !command_given && spread::is_this_machine(name);
    let spread = spread::spread(options, &is_here)?;
    let other = spread.hosts.iter().find(|h| !h.is_here);
    match (&options.launcher, other) {
        (Launcher::Fork, Some(other)) => Err(format!(
            "host {} is not this machine, and -launcher fork reaches no other",
            other.name
        )),
        _ => Ok((options.launcher.words(), spread)),
    }
}

/// What mpiexec reads of its standard input, and what its own rank 0 does, if it has that.
fn way_of_stdin(options: &Options, rank_0_is_here: bool) -> (Option<Input>, First) {
    let is_terminal = rustix::termios::isatty(rustix::stdio::stdin());
    match (options.stdin, rank_0_is_here) {
        (false, _) => (None, First::Nothing),
        (true, false) => (Some(Input::new()), First::Nothing),
        (true, true) if is_terminal => (Some(Input::new()), First::Messages),
        (true, true) => (None, First::Own),
    }
}

/// The signals mpiexec handles, the mask before, and those that stay ignored.
fn block_signals() -> Result<(Signals, Mask, Vec<i32>), StartError> {
    let ignored: Vec<i32> = HANDLED.iter().copied().filter(|s| is_ignored(*s)).collect();
    let stays = |signal: &i32| *signal != libc::SIGQUIT && ignored.contains(signal);
    let handled: Vec<i32> = HANDLED.iter().copied().filter(|s| !stays(s)).collect();
    let (signals, mask) = Signals::new(&[&handled[..], HELD_BACK].concat(), &handled)
        .map_err(|e| system("receive signals", e))?;
    Ok((signals, mask, ignored))
}

/// The programs, of which each rank has the one with this number.
fn programs(options: &Options, program_of: &[u32]) -> Vec<Program> {
    let program = |(number, p)| {
        let ranks = program_of.iter().filter(|of| **of == number).count();
        let mut variables = environment::common(options, p);
        variables.insert(wireup::MAXPROCS_VARIABLE.into(), ranks.to_string().into());
        Program {
            argv: p.argv.clone(),
            variables,
            directory: p.directory.clone(),
        }
    };
    (0u32..).zip(&options.programs).map(program).collect()
}

fn plan(
    options: &Options,
    spread: &Spread,
    programs: &[Program],
    host: usize,
    input: bool,
) -> Plan {
    let program_of = &spread.program_of;
    let of_host = (0u32..).zip(&spread.host_of).filter(|(_, h)| **h == host);
    Plan {
        size: u32::try_from(program_of.len()).unwrap_or(u32::MAX),
        ranks: of_host
            .map(|(rank, _)| (rank, program_of[rank as usize]))
            .collect(),
        programs: programs.to_vec(),
        binding: options.binding.clone(),
        input,
    }
}

fn branches(spread: &Spread, far: &[usize], launcher: &[OsString], mask: Mask) -> Branches {
    let hosts = u32::try_from(far.len()).unwrap_or(u32::MAX);
    let reach = Reach {
        launcher: launcher.to_vec(),
        mask,
    };
    Branches::start(None, hosts, &names(spread, far, None), &reach)
}

/// The names of the hosts of a node's children in the tree.
fn names(spread: &Spread, far: &[usize], place: Option<u32>) -> Vec<String> {
    let hosts = u32::try_from(far.len()).unwrap_or(u32::MAX);
    let children = tree::children(place, hosts);
    children
        .map(|child| spread.hosts[far[child as usize]].name.clone())
        .collect()
}

/// What each daemon has to know.
fn setups(
    spread: &Spread,
    far: &[usize],
    launcher: Vec<OsString>,
    ignored: Vec<i32>,
    plan_of: impl Fn(usize) -> Plan,
) -> Result<Vec<Setup>, StartError> {
    if far.is_empty() {
        return Ok(Vec::new());
    }
    let directory: PathBuf =
        std::env::current_dir().map_err(|e| system("make out the working directory", e))?;
    // The only way to learn it is to change it.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    let setup = |(place, host): (u32, &usize)| Setup {
        host: place,
        hosts: u32::try_from(far.len()).unwrap_or(u32::MAX),
        children: names(spread, far, Some(place)),
        launcher: launcher.clone(),
        directory: directory.clone(),
        umask: umask.bits(),
        ignored: ignored.clone(),
        plan: plan_of(*host),
    };
    Ok((0u32..).zip(far).map(setup).collect())
}

fn members(options: &Options, spread: &Spread) -> Vec<Member> {
    let name = |program: u32| options.programs[program as usize].argv[0].to_string_lossy();
    let ranks = spread.program_of.iter().zip(&spread.host_of).enumerate();
    ranks
        .map(|(rank, (program, host))| Member::new(rank, *host, name(*program).into_owned()))
        .collect()
}

fn hosts(spread: &Spread, far: &[usize]) -> Vec<Host> {
    let place = |host: usize| {
        let place = far.iter().position(|h| *h == host)?;
        u32::try_from(place).ok()
    };
    let hosts = spread.hosts.iter().enumerate();
    hosts
        .map(|(i, host)| Host {
            name: host.name.clone(),
            place: place(i),
            ready: host.is_here,
            family_lives: true,
            lost: false,
            owed: [0; 2],
        })
        .collect()
}

fn server(options: &Options, spread: &Spread) -> Result<Server, StartError> {
    let appnums = &spread.program_of;
    let size = u32::try_from(appnums.len()).unwrap_or(u32::MAX);
    let mut secret = [0u8; 40];
    let got = rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty());
    if got != Ok(secret.len()) {
        return Err(StartError {
            text: "the system has no randomness to give".into(),
            code: 1,
        });
    }
    let mut preset = vec![(SECRET_KEY.into(), wire::to_hex(&secret[..32]))];
    let nodes = spread
        .host_of
        .iter()
        .map(|h| u32::try_from(*h).unwrap_or(u32::MAX));
    let mapping = mapping::text(&nodes.collect::<Vec<_>>());
    // Ranks dealt out without any order may need more than a value holds; then nothing is said.
    if mapping.len() <= wire::VALUE_MAX {
        preset.push(("PMI_process_mapping".into(), mapping));
    }
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
