//! How processes agree on the communicators that they make: who is in which, and its context.
//!
//! The new communicator's rank 0 takes a context id of its own and the others learn it. Where it
//! isn't known beforehand who that will be, every process offers one and all but one are given
//! back. A process that has none left offers [`REFUSED`], so that all fail together.

use std::rc::Rc;

use types::{Fault, Result, consts, fault};

use crate::comm::{Comm, ContextLease};
use crate::group::Group;
use crate::state::Engine;

/// Stands for a context that could not be had; real ones are even.
const REFUSED: u32 = u32::MAX;

/// A context, and the lease of it at the communicator's rank 0.
pub(crate) struct Learnt {
    pub context: u32,
    pub lease: Option<ContextLease>,
}

/// This process's part of a communicator that is divided: the processes it is with, its rank among
/// them, and their context.
pub(crate) struct Part {
    pub group: Rc<Group>,
    pub rank: u32,
    pub learnt: Learnt,
}

/// What this process offers as a context.
pub(crate) enum Offer {
    /// Nothing: another process's is taken.
    None,
    /// A context of its own.
    Leased(u32, ContextLease),
    /// It should have, but none is left.
    Failed(Box<Fault>),
}

impl Offer {
    fn context(&self) -> u32 {
        match self {
            Offer::Leased(context, _) => *context,
            _ => REFUSED,
        }
    }

    /// The context that was chosen, with its lease if it was the one offered here.
    pub fn take_over(self, chosen: [u8; 4]) -> Result<Learnt> {
        let context = u32::from_ne_bytes(chosen);
        match self {
            Offer::Failed(fault) if context == REFUSED => Err(fault),
            _ if context == REFUSED => Err(fault(
                consts::ERR_OTHER,
                "the new communicator's rank 0 has too many communicators; free some",
            )),
            Offer::Leased(mine, lease) if mine == context => Ok(Learnt {
                context,
                lease: Some(lease),
            }),
            _ => Ok(Learnt {
                context,
                lease: None,
            }),
        }
    }

    /// The context offered here, or none yet.
    pub fn unconfirmed(self) -> Result<Learnt> {
        match self {
            Offer::Failed(fault) => Err(fault),
            Offer::None => Ok(Learnt {
                context: REFUSED,
                lease: None,
            }),
            Offer::Leased(context, lease) => Ok(Learnt {
                context,
                lease: Some(lease),
            }),
        }
    }
}

/// An offer of this process if it is to make one, also as it travels.
pub(crate) fn offer(e: &Engine, parent: &Comm, offers: bool) -> ([u8; 4], Offer) {
    let offer = match offers {
        false => Offer::None,
        true => match e.context_ids.lease(parent.group.endpoint(parent.rank)) {
            Ok((context, lease)) => Offer::Leased(context, lease),
            Err(fault) => Offer::Failed(fault),
        },
    };
    (offer.context().to_ne_bytes(), offer)
}

/// All of `parent`, for a communicator of the same processes.
pub(crate) fn whole(e: &Engine, parent: &Rc<Comm>) -> Result<Part> {
    let (mut bytes, mine) = offer(e, parent, parent.rank == 0);
    e.internal_bcast(parent, 0, &mut bytes)?;
    Ok(Part {
        group: parent.group.clone(),
        rank: parent.rank,
        learnt: mine.take_over(bytes)?,
    })
}

/// The first `size` ranks of `parent`, of which all name the same number; the others get no part.
pub(crate) fn first_ranks(e: &Engine, parent: &Rc<Comm>, size: u32) -> Result<Option<Part>> {
    if size == 0 {
        return Ok(None);
    }
    let all = whole(e, parent)?;
    if parent.rank >= size {
        return Ok(None);
    }
    let ranks: Vec<u32> = (0..size).collect();
    Ok(Some(Part {
        group: Rc::new(parent.group.incl(&ranks)),
        ..all
    }))
}

/// Divides `parent` by color; those with `MPI_UNDEFINED` get no part.
pub(crate) fn by_color(
    e: &Engine,
    parent: &Rc<Comm>,
    color: i32,
    key: i32,
) -> Result<Option<Part>> {
    let wanted = color != consts::UNDEFINED;
    let (offered, mine) = offer(e, parent, wanted);
    let mut entry = [0; 12];
    entry[..4].copy_from_slice(&color.to_ne_bytes());
    entry[4..8].copy_from_slice(&key.to_ne_bytes());
    entry[8..].copy_from_slice(&offered);
    let mut all = vec![0; 12 * parent.size() as usize];
    e.internal_allgather(parent, &entry, &mut all)?;
    if !wanted {
        return Ok(None);
    }
    let (ranks, chosen) = with_color(&all, color);
    let group = parent.group.incl(&ranks);
    let rank = ranks.iter().position(|&r| r == parent.rank);
    Ok(Some(Part {
        group: Rc::new(group),
        rank: rank.unwrap_or_default() as u32,
        learnt: mine.take_over(chosen)?,
    }))
}

/// The ranks with `color` in order of key, then rank, and what the first of them offers.
fn with_color(all: &[u8], color: i32) -> (Vec<u32>, [u8; 4]) {
    let word = |entry: &[u8], i: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&entry[4 * i..4 * i + 4]);
        word
    };
    let mut members: Vec<(i32, u32, [u8; 4])> = Vec::new();
    for (rank, entry) in (0..).zip(all.chunks_exact(12)) {
        if i32::from_ne_bytes(word(entry, 0)) == color {
            members.push((i32::from_ne_bytes(word(entry, 1)), rank, word(entry, 2)));
        }
    }
    members.sort_unstable_by_key(|&(key, rank, _)| (key, rank));
    let chosen = members.first().map_or(REFUSED.to_ne_bytes(), |m| m.2);
    (members.into_iter().map(|m| m.1).collect(), chosen)
}

/// The part of `parent` that is `group`; all of `parent` take part, each with its own group.
pub(crate) fn by_group(e: &Engine, parent: &Rc<Comm>, group: Rc<Group>) -> Result<Option<Part>> {
    let rank = group.rank_of(parent.group.endpoint(parent.rank));
    let (offered, mine) = offer(e, parent, rank == Some(0));
    let mut all = vec![0; 4 * parent.size() as usize];
    e.internal_allgather(parent, &offered, &mut all)?;
    let Some(rank) = rank else { return Ok(None) };
    let first = parent.group.rank_of(group.endpoint(0));
    let mut chosen = [0; 4];
    let at = 4 * first.unwrap_or_default() as usize;
    chosen.copy_from_slice(&all[at..at + 4]);
    let learnt = mine.take_over(chosen)?;
    Ok(Some(Part {
        group,
        rank,
        learnt,
    }))
}

/// The part of `parent` that is `group`, of which only the members take part.
pub(crate) fn from_members(
    e: &Engine,
    parent: &Rc<Comm>,
    group: Rc<Group>,
    tag: i32,
) -> Result<Option<Part>> {
    let Some(rank) = group.rank_of(parent.group.endpoint(parent.rank)) else {
        return Ok(None);
    };
    let (mut bytes, mine) = offer(e, parent, rank == 0);
    e.internal_group_bcast(parent, &group, tag, &mut bytes)?;
    let learnt = mine.take_over(bytes)?;
    Ok(Some(Part {
        group,
        rank,
        learnt,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::ContextIds;

    fn entries(rows: &[(i32, i32, u32)]) -> Vec<u8> {
        let entry = |&(color, key, context): &(i32, i32, u32)| {
            [
                color.to_ne_bytes(),
                key.to_ne_bytes(),
                context.to_ne_bytes(),
            ]
            .concat()
        };
        rows.iter().flat_map(entry).collect()
    }

    #[test]
    fn a_color_is_ordered_by_key_then_rank() {
        let all = entries(&[
            (1, 5, 10),
            (0, 0, 20),
            (1, -2, 30),
            (1, 5, 40),
            (-32766, 0, 50),
        ]);
        assert_eq!(with_color(&all, 1), (vec![2, 0, 3], 30u32.to_ne_bytes()));
        assert_eq!(with_color(&all, 0), (vec![1], 20u32.to_ne_bytes()));
    }

    #[test]
    fn only_the_chosen_offer_keeps_its_lease() {
        let ids = ContextIds::new();
        let (a, lease) = ids.lease(3).unwrap();
        let taken = Offer::Leased(a, lease).take_over(a.to_ne_bytes()).unwrap();
        assert!(taken.context == a && taken.lease.is_some());
        let (b, lease) = ids.lease(3).unwrap();
        let other = Offer::Leased(b, lease).take_over(a.to_ne_bytes()).unwrap();
        assert!(other.context == a && other.lease.is_none());
        let refused = Offer::None.take_over(REFUSED.to_ne_bytes());
        assert_eq!(refused.err().map(|f| f.class), Some(consts::ERR_OTHER));
    }
}
