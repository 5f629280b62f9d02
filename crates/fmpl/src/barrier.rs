//! The barrier: by flags inside a machine, by messages elsewhere.
//!
//! **Flags.** Up to [`FLAT`] members look at everybody's flag: one line's way. More form a tree of [`FAN`] children each:
//! a member raises its flag when all flags below it are up, and takes its parent's word for the end.
//! Who raises a flag rings those who look at it.
//!
//! **Messages** (section 5.2's software barrier): in round k each member hears from the one 2^k behind it and tells the
//! one 2^k ahead, so all have heard of all after log2 p rounds.

use fmpl_table::code;
use layout::Data;

use crate::comm::Comm;
use crate::core::{Core, Lane};
use crate::face::{self, Flag};
use crate::host::{Below, Host, Waiting};
use crate::steps::{Entered, deliver, landed, post, waiting};

/// Most members that look at everybody's flag.
const FLAT: u32 = 4;
/// Children of a member in the tree of flags.
const FAN: u32 = 8;

/// `ERR_PEER` if one of the processes is gone.
fn lost(core: &Core, peers: &[u32]) -> Option<Result<(), i32>> {
    peers
        .iter()
        .any(|&p| core.has_failed(p))
        .then_some(Err(code::ERR_PEER))
}

/// `fmpl_barrier`.
pub fn barrier<H: Host>(h: &H, comm: i32) -> i32 {
    let result = Entered::new(h, comm).and_then(|entered| run(h, &entered.0));
    result.map_or_else(|code| code, |()| code::SUCCESS)
}

/// The barrier itself, in an entered communicator.
pub(crate) fn run<H: Host>(h: &H, comm: &Comm) -> Result<(), i32> {
    let flags = h.with(|core, below| !core.software && face::has_faces(comm, below));
    match flags {
        true if comm.size <= FLAT => flat(h, comm),
        true => tree(h, comm),
        false => messages(h, comm),
    }
}

/// Waits until these processes' flags have reached `value`.
pub(crate) fn reached<H: Host>(
    h: &H,
    comm: &Comm,
    what: Waiting,
    of: &[u32],
    flag: Flag,
    value: u64,
) -> Result<(), i32> {
    // Those before `seen` have reached it; flags only grow.
    let mut seen = 0;
    h.wait_for(what, |core, below| {
        while let Some(&peer) = of.get(seen) {
            if face::load(below, comm, peer, flag) < value {
                return match core.has_failed(peer) {
                    true => lost(core, &of[seen..]),
                    false => None,
                };
            }
            seen += 1;
        }
        Some(Ok(()))
    })
}

/// Raises a flag and rings who looks at it.
pub(crate) fn raise(below: &mut impl Below, comm: &Comm, flag: Flag, value: u64, who: &[u32]) {
    face::store(below, comm, flag, value);
    who.iter()
        .for_each(|&peer| below.ring(mtmi::Endpoint(peer)));
}

fn flat<H: Host>(h: &H, comm: &Comm) -> Result<(), i32> {
    let number = comm.barriers.get() + 1;
    comm.barriers.set(number);
    let mut others = [0; FLAT as usize];
    let n = comm.size as usize - 1;
    for (distance, other) in (1..).zip(&mut others[..n]) {
        *other = comm.around(distance);
    }
    let others = &others[..n];
    h.with(|_, below| raise(below, comm, Flag::Arrived, number, others));
    let what = waiting("fmpl_barrier", comm.around(1), 0);
    reached(h, comm, what, others, Flag::Arrived, number)
}

fn tree<H: Host>(h: &H, comm: &Comm) -> Result<(), i32> {
    let number = comm.barriers.get() + 1;
    comm.barriers.set(number);
    let member = |rank: u32| comm.peer(rank as i32).unwrap_or(0);
    let first = comm.rank * FAN + 1;
    let children: Vec<u32> = (first..first + FAN)
        .take_while(|&rank| rank < comm.size)
        .map(member)
        .collect();
    let up = |peer| waiting("fmpl_barrier", peer, 0);
    if let Some(&child) = children.first() {
        reached(h, comm, up(child), &children, Flag::Arrived, number)?;
    }
    if comm.rank > 0 {
        let parent = [member((comm.rank - 1) / FAN)];
        h.with(|_, below| raise(below, comm, Flag::Arrived, number, &parent));
        reached(h, comm, up(parent[0]), &parent, Flag::Released, number)?;
    }
    h.with(|_, below| raise(below, comm, Flag::Released, number, &children));
    Ok(())
}

/// The barrier by messages.
pub(crate) fn messages<H: Host>(h: &H, comm: &Comm) -> Result<(), i32> {
    let mut distance = 1;
    while distance < comm.size {
        let to = comm.around(distance);
        let from = comm.around(comm.size - distance);
        post(h, comm, from, Lane::Round, &Data::EMPTY)?;
        deliver(h, comm, "fmpl_barrier", to, Lane::Round, &Data::EMPTY)?;
        let bytes = landed(h, comm, "fmpl_barrier", from, Lane::Round)?;
        if bytes != 0 {
            return Err(code::ERR_SIZE);
        }
        distance *= 2;
    }
    Ok(())
}
