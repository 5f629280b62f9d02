//! Groups: ordered sets of processes, named by their endpoint in the job, and their algebra.
//!
//! A group never changes once made, so communicators and group handles share it.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use types::{Handle, Result, consts, fault};

use crate::state::{Engine, out_of_objects};

/// An ordered set of processes.
#[derive(Debug)]
pub struct Group {
    members: Vec<u32>,
    /// Whether member `i` is endpoint `i`, as in the group of `MPI_COMM_WORLD`.
    identity: bool,
    /// Whether each member's endpoint is one more than that of the member before.
    is_run: bool,
    ranks: OnceCell<HashMap<u32, u32>>,
}

/// How two groups compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The same processes in the same order.
    Same,
    /// The same processes in another order.
    Permuted,
    /// Different processes.
    Different,
}

impl Group {
    /// The group of these endpoints, in this order.
    pub fn new(members: Vec<u32>) -> Group {
        let identity = members.iter().enumerate().all(|(i, &m)| i as u32 == m);
        let is_run = members.windows(2).all(|w| w[0] + 1 == w[1]);
        Group {
            members,
            identity,
            is_run,
            ranks: OnceCell::new(),
        }
    }

    /// The group without members.
    pub fn empty() -> Group {
        Group::new(Vec::new())
    }

    /// Number of members.
    #[inline]
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The members' endpoints in order of rank.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// The members' endpoints, if in order of rank they are a run without holes.
    pub fn run(&self) -> Option<std::ops::Range<usize>> {
        let (&first, &last) = (self.members.first()?, self.members.last()?);
        self.is_run.then_some(first as usize..last as usize + 1)
    }

    /// The endpoint of the member with this rank, which must be in range.
    #[inline]
    pub fn endpoint(&self, rank: u32) -> u32 {
        self.members[rank as usize]
    }

    /// The rank of an endpoint in this group.
    #[inline]
    pub fn rank_of(&self, endpoint: u32) -> Option<u32> {
        if self.identity {
            return (endpoint < self.size()).then_some(endpoint);
        }
        let index = || {
            let ranked = self.members.iter().enumerate();
            ranked.map(|(i, &m)| (m, i as u32)).collect()
        };
        self.ranks.get_or_init(index).get(&endpoint).copied()
    }

    fn has(&self, endpoint: u32) -> bool {
        self.rank_of(endpoint).is_some()
    }

    /// How this group compares with another.
    pub fn compare(&self, other: &Group) -> Order {
        if self.members == other.members {
            Order::Same
        } else if self.size() == other.size() && self.is_within(other) {
            Order::Permuted
        } else {
            Order::Different
        }
    }

    /// Whether every member is a member of `other` too.
    pub fn is_within(&self, other: &Group) -> bool {
        self.members.iter().all(|&m| other.has(m))
    }

    /// All of this group, then those of `other` that aren't in it.
    pub fn union(&self, other: &Group) -> Group {
        let more = other.members.iter().filter(|&&m| !self.has(m));
        Group::new(self.members.iter().chain(more).copied().collect())
    }

    /// Those of this group that are in `other`, in this group's order.
    pub fn intersection(&self, other: &Group) -> Group {
        self.filtered(|m| other.has(m))
    }

    /// Those of this group that aren't in `other`, in this group's order.
    pub fn difference(&self, other: &Group) -> Group {
        self.filtered(|m| !other.has(m))
    }

    fn filtered(&self, keep: impl Fn(u32) -> bool) -> Group {
        Group::new(self.members.iter().copied().filter(|&m| keep(m)).collect())
    }

    /// The members with these ranks, in this order. The ranks are valid and distinct.
    pub fn incl(&self, ranks: &[u32]) -> Group {
        Group::new(ranks.iter().map(|&r| self.endpoint(r)).collect())
    }

    /// The members without those with these ranks. The ranks are valid.
    pub fn excl(&self, ranks: &[u32]) -> Group {
        let mut keep = vec![true; self.members.len()];
        ranks.iter().for_each(|&r| keep[r as usize] = false);
        let kept = self.members.iter().zip(keep).filter(|&(_, k)| k);
        Group::new(kept.map(|(&m, _)| m).collect())
    }

    /// Checks a list of ranks of this group: each in range, none twice.
    pub fn check_ranks(&self, ranks: impl Iterator<Item = i64>) -> Result<Vec<u32>> {
        let mut seen = vec![false; self.members.len()];
        let mut checked = Vec::new();
        for (i, rank) in ranks.enumerate() {
            let at = usize::try_from(rank).ok().filter(|&r| r < seen.len());
            let Some(at) = at else {
                return Err(fault(
                    consts::ERR_RANK,
                    format!(
                        "entry {i} of the list of ranks is {rank}; the group has {}",
                        crate::comm::counted(seen.len() as u32, "member")
                    ),
                ));
            };
            if std::mem::replace(&mut seen[at], true) {
                return Err(fault(
                    consts::ERR_RANK,
                    format!("rank {rank} stands in the list of ranks twice"),
                ));
            }
            checked.push(at as u32);
        }
        Ok(checked)
    }

    /// The ranks that `(first, last, stride)` triplets select, checked like a list of ranks.
    pub fn check_ranges(&self, ranges: &[(i64, i64, i64)]) -> Result<Vec<u32>> {
        let size = i64::from(self.size());
        for (i, &(first, last, stride)) in ranges.iter().enumerate() {
            if stride == 0 {
                return Err(fault(
                    consts::ERR_ARG,
                    format!("the stride of range {i} is 0"),
                ));
            }
            // Before expanding: a wild range must not be walked. The last rank itself need not be
            // selected, but with the wrong sign of the stride nothing is, wherever it lies.
            let selects = if stride > 0 {
                last >= first
            } else {
                last <= first
            };
            let reached = last - (last - first) % stride;
            let end = if selects { reached } else { first };
            if [first, end].iter().any(|r| !(0..size).contains(r)) {
                return Err(fault(
                    consts::ERR_RANK,
                    format!(
                        "range {i} from {first} to {last} by {stride} leaves the group of {size} members"
                    ),
                ));
            }
        }
        let expand = |&(first, last, stride): &(i64, i64, i64)| {
            let count = (last - first) / stride + 1;
            let crosses = (last - first).signum() == -stride.signum();
            (0..if crosses { 0 } else { count }).map(move |k| first + k * stride)
        };
        self.check_ranks(ranges.iter().flat_map(expand))
    }
}

impl Engine {
    /// A handle for a group that may be shared with a communicator.
    pub(crate) fn group_handle(&self, group: Rc<Group>) -> Result<Handle> {
        if group.size() == 0 {
            return Ok(consts::GROUP_EMPTY);
        }
        let handle = self.groups.insert(group).map(Handle);
        handle.ok_or_else(out_of_objects)
    }

    /// This process's rank in a group, or `MPI_UNDEFINED`.
    pub(crate) fn rank_in(&self, group: &Group) -> i32 {
        let world = self.comm_world.borrow();
        let me = world.as_ref().map(|w| w.group.endpoint(w.rank));
        let rank = me.and_then(|me| group.rank_of(me));
        rank.map_or(consts::UNDEFINED, |r| r as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups() -> impl Strategy<Value = Vec<u32>> {
        let all: Vec<u32> = (0..12).collect();
        proptest::sample::subsequence(all, 0..=12).prop_shuffle()
    }

    proptest! {
        #[test]
        fn algebra_agrees_with_lists(a in groups(), b in groups()) {
            let (ga, gb) = (Group::new(a.clone()), Group::new(b.clone()));
            let mut union = a.clone();
            union.extend(b.iter().filter(|m| !a.contains(m)));
            prop_assert_eq!(ga.union(&gb).members().to_vec(), union);
            let both: Vec<u32> = a.iter().copied().filter(|m| b.contains(m)).collect();
            prop_assert_eq!(ga.intersection(&gb).members().to_vec(), both);
            let rest: Vec<u32> = a.iter().copied().filter(|m| !b.contains(m)).collect();
            prop_assert_eq!(ga.difference(&gb).members().to_vec(), rest.clone());
            prop_assert_eq!(ga.is_within(&gb), rest.is_empty());
            for m in 0..14 {
                let naive = a.iter().position(|&x| x == m).map(|i| i as u32);
                prop_assert_eq!(ga.rank_of(m), naive);
            }
        }

        #[test]
        fn comparison_agrees_with_sorting(a in groups(), b in groups()) {
            let (ga, gb) = (Group::new(a.clone()), Group::new(b.clone()));
            let (mut sa, mut sb) = (a.clone(), b.clone());
            sa.sort_unstable();
            sb.sort_unstable();
            let expected = if a == b {
                Order::Same
            } else if sa == sb {
                Order::Permuted
            } else {
                Order::Different
            };
            prop_assert_eq!(ga.compare(&gb), expected);
            sa.reverse();
            let expected = if sa == a { Order::Same } else { Order::Permuted };
            prop_assert_eq!(ga.compare(&Group::new(sa)), expected);
        }

        #[test]
        fn selection_agrees_with_lists(a in groups(), picks in groups()) {
            let g = Group::new(a.clone());
            let wanted = picks.iter().map(|&r| i64::from(r));
            let checked = g.check_ranks(wanted);
            let valid = picks.iter().all(|&r| (r as usize) < a.len());
            prop_assert_eq!(checked.is_ok(), valid);
            if let Ok(ranks) = checked {
                let incl: Vec<u32> = picks.iter().map(|&r| a[r as usize]).collect();
                let (included, excluded) = (g.incl(&ranks), g.excl(&ranks));
                prop_assert_eq!(included.members(), &incl[..]);
                let rest: Vec<u32> = a.iter().copied().filter(|m| !incl.contains(m)).collect();
                prop_assert_eq!(excluded.members(), &rest[..]);
            }
        }

        #[test]
        fn ranges_agree_with_counting(
            n in 1u32..12,
            first in -2i64..13,
            last in -2i64..13,
            stride in -3i64..4,
        ) {
            let g = Group::new((0..n).collect());
            let mut naive = Vec::new();
            let mut r = first;
            while stride > 0 && r <= last || stride < 0 && r >= last {
                naive.push(r);
                r += stride;
            }
            let inside = |r: &i64| (0..i64::from(n)).contains(r);
            let valid = stride != 0 && inside(&first) && naive.iter().all(inside);
            let checked = g.check_ranges(&[(first, last, stride)]);
            prop_assert_eq!(checked.is_ok(), valid);
            if let Ok(ranks) = checked {
                let ranks: Vec<i64> = ranks.iter().map(|&r| i64::from(r)).collect();
                prop_assert_eq!(ranks, naive);
            }
        }
    }

    #[test]
    fn wrong_lists_are_refused() {
        let g = Group::new(vec![5, 3, 9]);
        let class = |r: Result<Vec<u32>>| r.unwrap_err().class;
        assert_eq!(
            class(g.check_ranks([0, 1, 0].into_iter())),
            consts::ERR_RANK
        );
        assert_eq!(class(g.check_ranks([-1].into_iter())), consts::ERR_RANK);
        assert_eq!(class(g.check_ranges(&[(0, 2, 0)])), consts::ERR_ARG);
        assert_eq!(
            class(g.check_ranges(&[(0, 2, 1), (2, 2, 1)])),
            consts::ERR_RANK
        );
        assert_eq!(
            class(g.check_ranges(&[(0, i64::MAX / 2, 1)])),
            consts::ERR_RANK
        );
    }
}
