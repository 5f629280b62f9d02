//! The barrier: by flags inside a machine, by messages elsewhere.
//!
//! **Flags.** Up to [`FLAT`] members look at everybody's flag: one line's way, and where they share processors each needs a
//! single turn of one. More form a tree of [`FAN`] children each:
//! a member raises its flag when all flags below it are up, and takes its parent's word for the end.
//! Who raises a flag rings those who look at it.
//!
//! **Messages** (section 5.2's software barrier): in round k each member hears from the one 2^k behind it and tells the
//! one 2^k ahead, so all have heard of all after log2 p rounds.

use std::ops::Range;
use std::rc::Rc;

use fmpl_table::code;
use layout::Data;

use crate::comm::Comm;
use crate::core::{Core, Lane};
use crate::face::{self, Flag};
use crate::host::{Below, Host, Waiting};
use crate::steps::{Entered, deliver, landed, post, waiting};

/// Most members that look at everybody's flag.
const FLAT: u32 = 16;
/// Children of a member in the tree of flags.
const FAN: u32 = 8;

/// Looks at flags before progress is made for everybody,
const LOOKS: u32 = 64;
/// and where members outnumber processors: who looks keeps those from running who would raise them. 8 on 2 processors take 5 us
/// for a flat barrier with 1 to 4 looks between turns, 6 with 16, 10 with 64.
const LOOKS_CROWDED: u32 = 2;

/// Of all that a goal names.
pub(crate) const ALL: Range<usize> = 0..usize::MAX;

/// What `fmpl_barrier` is called in reports.
const CALL: &str = "fmpl_barrier";

/// `fmpl_barrier`.
#[inline]
pub fn barrier<H: Host>(h: &H, comm: i32) -> i32 {
    match h.with(|core, below| begin(core, below, comm)) {
        Ok(Begun::Over) => code::SUCCESS,
        Ok(begun) => go_on(h, begun),
        Err(code) => code,
    }
}

/// How far a barrier comes at once.
enum Begun {
    /// All are there.
    Over,
    /// This process's flag is up, with this number.
    Raised(Rc<Comm>, u64),
    /// Not begun: it goes another way.
    Otherwise(Rc<Comm>),
}

/// A flat barrier for whose end nobody else has to be let in: nothing is counted or marked that only others would see.
#[inline]
fn begin<B: Below>(core: &Core, below: &mut B, comm: i32) -> Result<Begun, i32> {
    let comm = core.comm(comm)?;
    if !comm.is_open() || comm.size > FLAT || core.software || !face::has_faces(comm, below) {
        return Ok(Begun::Otherwise(comm.clone()));
    }
    let number = arrive(comm, below);
    Ok(match soon(below, comm, &all(comm, number), &mut { ALL }) {
        true => Begun::Over,
        false => Begun::Raised(comm.clone(), number),
    })
}

#[inline(never)]
fn go_on<H: Host>(h: &H, begun: Begun) -> i32 {
    let result = match begun {
        Begun::Over => Ok(()),
        Begun::Raised(comm, number) => {
            Entered::of(comm).and_then(|entered| entered.run(|comm| meet(h, CALL, comm, number)))
        }
        Begun::Otherwise(comm) => {
            Entered::of(comm).and_then(|entered| entered.run(|comm| run(h, CALL, comm)))
        }
    };
    result.map_or_else(|code| code, |()| code::SUCCESS)
}

/// The barrier itself, in an entered communicator, for `call`.
pub(crate) fn run<H: Host>(h: &H, call: &'static str, comm: &Comm) -> Result<(), i32> {
    let flags = h.with(|core, below| !core.software && face::has_faces(comm, below));
    match flags {
        true if comm.size <= FLAT => {
            let number = h.with(|_, below| arrive(comm, below));
            meet(h, call, comm, number)
        }
        true => tree(h, call, comm),
        false => messages(h, call, comm),
    }
}

/// Flags that are waited for: those of `peers(0)`, `peers(1)`, …, in turn, are to reach a value.
pub(crate) struct Goal<P> {
    /// The processes, up to the first `None`.
    pub peers: P,
    /// Which flag of each.
    pub flag: Flag,
    /// The value.
    pub value: u64,
}

/// The same flag of each of a list.
pub(crate) fn of_each(list: &[u32], flag: Flag, value: u64) -> Goal<impl Fn(usize) -> Option<u32>> {
    Goal {
        peers: |i| list.get(i).copied(),
        flag,
        value,
    }
}

/// A flag of one.
pub(crate) fn of_one(peer: u32, flag: Flag, value: u64) -> Goal<impl Fn(usize) -> Option<u32>> {
    Goal {
        peers: move |i| (i == 0).then_some(peer),
        flag,
        value,
    }
}

/// The flags of a flat barrier.
#[inline]
fn all(comm: &Comm, number: u64) -> Goal<impl Fn(usize) -> Option<u32>> {
    Goal {
        peers: |i| {
            let distance = i as u32 + 1;
            (distance < comm.size).then(|| comm.around(distance))
        },
        flag: Flag::Arrived,
        value: number,
    }
}

/// Looks, so many times more than once. Flags only grow: those before `seen.start` have reached the value.
#[inline(always)]
pub(crate) fn look<B: Below, P: Fn(usize) -> Option<u32>>(
    below: &B,
    comm: &Comm,
    goal: &Goal<P>,
    seen: &mut Range<usize>,
    mut more: u32,
) -> bool {
    while seen.start < seen.end
        && let Some(peer) = (goal.peers)(seen.start)
    {
        let watched = face::watch(below, comm, peer, goal.flag);
        let load = || match watched {
            Some(watched) => watched.load(),
            None => face::load(below, comm, peer, goal.flag),
        };
        while load() < goal.value {
            if more == 0 {
                return false;
            }
            more -= 1;
            std::hint::spin_loop();
        }
        seen.start += 1;
    }
    true
}

/// Looks for a while.
#[inline]
fn soon<B: Below, P: Fn(usize) -> Option<u32>>(
    below: &mut B,
    comm: &Comm,
    goal: &Goal<P>,
    seen: &mut Range<usize>,
) -> bool {
    let looks = looks(below);
    look(below, comm, goal, seen, looks - 1)
}

/// How many looks at flags are worth while before others are let in.
#[inline]
pub(crate) fn looks(below: &mut impl Below) -> u32 {
    match below.is_crowded() {
        true => LOOKS_CROWDED,
        false => LOOKS,
    }
}

/// Waits until the flags have reached the value.
pub(crate) fn reached<H: Host, P: Fn(usize) -> Option<u32>>(
    h: &H,
    comm: &Comm,
    what: Waiting,
    goal: &Goal<P>,
) -> Result<(), i32> {
    reached_some(h, comm, what, goal, ALL)
}

/// Waits until some of the flags have reached the value. It is in vain if any process from there on is gone that has not raised its
/// own, or if any member is dead: whoever misses that one may have given up.
pub(crate) fn reached_some<H: Host, P: Fn(usize) -> Option<u32>>(
    h: &H,
    comm: &Comm,
    what: Waiting,
    goal: &Goal<P>,
    mut some: Range<usize>,
) -> Result<(), i32> {
    match h.with(|_, below| soon(below, comm, goal, &mut some)) {
        true => Ok(()),
        false => reached_later(h, comm, what, goal, some),
    }
}

#[inline(never)]
fn reached_later<H: Host, P: Fn(usize) -> Option<u32>>(
    h: &H,
    comm: &Comm,
    what: Waiting,
    goal: &Goal<P>,
    mut seen: Range<usize>,
) -> Result<(), i32> {
    wait_on(h, what, |core, below| {
        if look(below, comm, goal, &mut seen, 0) {
            return Some(Ok(()));
        }
        if comm.is_broken() {
            return Some(Err(code::ERR_PEER));
        }
        let missing =
            |peer| core.has_failed(peer) && face::load(below, comm, peer, goal.flag) < goal.value;
        let mut rest = (seen.start..).map_while(&goal.peers);
        (core.has_failures() && rest.any(missing)).then_some(Err(code::ERR_PEER))
    })
}

/// Waits for ever, after many looks.
pub(crate) fn wait_on<H: Host, R>(
    h: &H,
    what: Waiting,
    mut look: impl FnMut(&mut Core, &mut H::Below) -> Option<R>,
) -> R {
    loop {
        if let Some(found) = h.wait_on(what, None, &mut look) {
            return found;
        }
    }
}

/// Raises a flag and rings who looks at it.
#[inline]
pub(crate) fn raise(below: &mut impl Below, comm: &Comm, flag: Flag, value: u64, who: &[u32]) {
    face::store(below, comm, flag, value);
    who.iter()
        .for_each(|&peer| below.ring(mtmi::Endpoint(peer)));
}

/// Begins a flat barrier; gives its number.
#[inline]
fn arrive(comm: &Comm, below: &mut impl Below) -> u64 {
    let number = comm.barriers.get() + 1;
    comm.barriers.set(number);
    face::store(below, comm, Flag::Arrived, number);
    (1..comm.size).for_each(|distance| below.ring(mtmi::Endpoint(comm.around(distance))));
    number
}

/// The rest of one.
fn meet<H: Host>(h: &H, call: &'static str, comm: &Comm, number: u64) -> Result<(), i32> {
    let what = waiting(call, comm.around(1), 0);
    reached(h, comm, what, &all(comm, number))
}

fn tree<H: Host>(h: &H, call: &'static str, comm: &Comm) -> Result<(), i32> {
    let number = comm.barriers.get() + 1;
    comm.barriers.set(number);
    let member = |rank: u32| comm.peer(rank as i32).unwrap_or(0);
    let first = comm.rank * FAN + 1;
    let children: Vec<u32> = (first..first + FAN)
        .take_while(|&rank| rank < comm.size)
        .map(member)
        .collect();
    let up = |peer| waiting(call, peer, 0);
    if let Some(&child) = children.first() {
        let below = of_each(&children, Flag::Arrived, number);
        reached(h, comm, up(child), &below)?;
    }
    if comm.rank > 0 {
        let parent = [member((comm.rank - 1) / FAN)];
        h.with(|_, below| raise(below, comm, Flag::Arrived, number, &parent));
        let above = of_each(&parent, Flag::Released, number);
        reached(h, comm, up(parent[0]), &above)?;
    }
    h.with(|_, below| raise(below, comm, Flag::Released, number, &children));
    Ok(())
}

/// The barrier by messages.
pub(crate) fn messages<H: Host>(h: &H, call: &'static str, comm: &Comm) -> Result<(), i32> {
    let mut distance = 1;
    while distance < comm.size {
        let to = comm.around(distance);
        let from = comm.around(comm.size - distance);
        post(h, comm, from, Lane::Round, &Data::EMPTY)?;
        deliver(h, comm, call, to, Lane::Round, &Data::EMPTY)?;
        let bytes = landed(h, comm, call, from, Lane::Round)?;
        if bytes != 0 {
            return Err(code::ERR_SIZE);
        }
        distance *= 2;
    }
    Ok(())
}
