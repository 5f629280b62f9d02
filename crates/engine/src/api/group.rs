//! Groups (section 7.3): none of these calls communicates.

use std::rc::Rc;

use boundary::Ints;
use types::{Handle, Result, consts, fault};

use crate::group::{Group, Order};
use crate::state::Engine;

/// `MPI_Group_size`.
pub fn group_size(e: &Engine, group: Handle, size: &mut i32) -> Result<()> {
    *size = e.group(group)?.size() as i32;
    Ok(())
}

/// `MPI_Group_rank`.
pub fn group_rank(e: &Engine, group: Handle, rank: &mut i32) -> Result<()> {
    *rank = e.rank_in(&*e.group(group)?);
    Ok(())
}

/// `MPI_Group_translate_ranks`.
pub fn group_translate_ranks(
    e: &Engine,
    group1: Handle,
    n: i32,
    ranks1: Ints,
    group2: Handle,
    ranks2: Ints,
) -> Result<()> {
    let (from, to) = (e.group(group1)?, e.group(group2)?);
    for i in 0..length(n)? {
        let rank = ranks1.get(i);
        if rank == i64::from(consts::PROC_NULL) {
            ranks2.set(i, rank);
            continue;
        }
        if !(0..i64::from(from.size())).contains(&rank) {
            return Err(fault(
                consts::ERR_RANK,
                format!(
                    "entry {i} of the list of ranks is {rank}; the group has {}",
                    crate::comm::counted(from.size(), "member")
                ),
            ));
        }
        let translated = to.rank_of(from.endpoint(rank as u32));
        ranks2.set(
            i,
            translated.map_or(i64::from(consts::UNDEFINED), i64::from),
        );
    }
    Ok(())
}

/// `MPI_Group_compare`.
pub fn group_compare(e: &Engine, group1: Handle, group2: Handle, result: &mut i32) -> Result<()> {
    *result = match e.group(group1)?.compare(&*e.group(group2)?) {
        Order::Same => consts::IDENT,
        Order::Permuted => consts::SIMILAR,
        Order::Different => consts::UNEQUAL,
    };
    Ok(())
}

/// `MPI_Comm_group`.
pub fn comm_group(e: &Engine, comm: Handle, group: &mut Handle) -> Result<()> {
    *group = e.group_handle(e.comm(comm)?.group.clone())?;
    Ok(())
}

/// `MPI_Group_union`.
pub fn group_union(e: &Engine, group1: Handle, group2: Handle, new: &mut Handle) -> Result<()> {
    let made = e.group(group1)?.union(&*e.group(group2)?);
    give(e, made, new)
}

/// `MPI_Group_intersection`.
pub fn group_intersection(
    e: &Engine,
    group1: Handle,
    group2: Handle,
    new: &mut Handle,
) -> Result<()> {
    let made = e.group(group1)?.intersection(&*e.group(group2)?);
    give(e, made, new)
}

/// `MPI_Group_difference`.
pub fn group_difference(
    e: &Engine,
    group1: Handle,
    group2: Handle,
    new: &mut Handle,
) -> Result<()> {
    let made = e.group(group1)?.difference(&*e.group(group2)?);
    give(e, made, new)
}

/// `MPI_Group_incl`.
pub fn group_incl(e: &Engine, group: Handle, n: i32, ranks: Ints, new: &mut Handle) -> Result<()> {
    let group = e.group(group)?;
    let ranks = group.check_ranks((0..length(n)?).map(|i| ranks.get(i)))?;
    give(e, group.incl(&ranks), new)
}

/// `MPI_Group_excl`.
pub fn group_excl(e: &Engine, group: Handle, n: i32, ranks: Ints, new: &mut Handle) -> Result<()> {
    let group = e.group(group)?;
    let ranks = group.check_ranks((0..length(n)?).map(|i| ranks.get(i)))?;
    give(e, group.excl(&ranks), new)
}

/// `MPI_Group_range_incl`; `ranges` are `n` triplets one after the other.
pub fn group_range_incl(
    e: &Engine,
    group: Handle,
    n: i32,
    ranges: Ints,
    new: &mut Handle,
) -> Result<()> {
    let group = e.group(group)?;
    let ranks = group.check_ranges(&triplets(n, ranges)?)?;
    give(e, group.incl(&ranks), new)
}

/// `MPI_Group_range_excl`; `ranges` are `n` triplets one after the other.
pub fn group_range_excl(
    e: &Engine,
    group: Handle,
    n: i32,
    ranges: Ints,
    new: &mut Handle,
) -> Result<()> {
    let group = e.group(group)?;
    let ranks = group.check_ranges(&triplets(n, ranges)?)?;
    give(e, group.excl(&ranks), new)
}

/// `MPI_Group_free`. `MPI_GROUP_EMPTY` may be freed too, since calls that make groups give it.
pub fn group_free(e: &Engine, group: &mut Handle) -> Result<()> {
    e.group(*group)?;
    if *group != consts::GROUP_EMPTY {
        e.groups.remove(group.0);
    }
    *group = consts::GROUP_NULL;
    Ok(())
}

fn give(e: &Engine, group: Group, new: &mut Handle) -> Result<()> {
    *new = e.group_handle(Rc::new(group))?;
    Ok(())
}

fn length(n: i32) -> Result<usize> {
    usize::try_from(n).map_err(|_| {
        fault(
            consts::ERR_ARG,
            format!("the length of the list is {n}; it must be 0 or more"),
        )
    })
}

fn triplets(n: i32, ranges: Ints) -> Result<Vec<(i64, i64, i64)>> {
    let triplet = |i: usize| {
        (
            ranges.get(3 * i),
            ranges.get(3 * i + 1),
            ranges.get(3 * i + 2),
        )
    };
    Ok((0..length(n)?).map(triplet).collect())
}
