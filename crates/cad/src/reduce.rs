//! Reduce.
//!
//! In place (at the root) the root's data lie in its receive buffer; nobody else's receive buffer
//! is touched.

use crate::fold::{Accumulator, Range, Survivors, directions, halve, split};
use crate::graph::{BufId, Builder, Graph, NodeId, START};
use crate::parts::{self, Home, Parts};
use crate::shape::{Shape, Team};
use crate::straight::{COMBINED_BY_ONE_MAX, Operands};
use crate::tree::{absolute, children, parent, relative};

/// Parameters of a reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// This process.
    pub team: Team,
    /// Rank that gets the result.
    pub root: u32,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub ty: Shape,
    /// Whether the operation commutes.
    pub commutative: bool,
    /// Whether the root's data lie in its receive buffer (false elsewhere).
    pub in_place: bool,
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Whole vectors up a binomial tree. For operations that do not commute the tree is that of
    /// rank 0, which forwards the result to the root.
    Binomial,
    /// Rabenseifner's: reduce-scatter by halving, then a binomial gather; in rank order.
    Rabenseifner,
    /// Each process sends its vector to the root, which combines all in rank order.
    Straight,
    /// Each process combines a part of all, and gives it to the root.
    Parts {
        /// Elements of a segment.
        segment: u64,
    },
}

/// Bytes up to which rounds count more than traffic: Thakur, Rabenseifner and Gropp (2005), 2 KiB.
pub const BINOMIAL_MAX: u64 = 2 << 10;

/// The algorithm for these parameters; the same on every process.
pub fn choose(p: &Params) -> Algorithm {
    if p.team.straight && p.ty.bytes(p.count) <= COMBINED_BY_ONE_MAX {
        Algorithm::Straight
    } else if parts::serves(p.team, &p.ty, p.count) {
        Algorithm::Parts {
            segment: parts::segment(p.team, &p.ty, parts::longest_even(p.team, p.count)),
        }
    } else if p.ty.bytes(p.count) <= BINOMIAL_MAX
        || p.count < u64::from(p.team.size)
        || p.team.size <= 2
    {
        Algorithm::Binomial
    } else {
        Algorithm::Rabenseifner
    }
}

/// The graph of the chosen algorithm.
pub fn graph(p: &Params) -> Graph {
    build(p, choose(p))
}

/// The graph of a given algorithm (which has to be the same on every process).
pub fn build(p: &Params, algorithm: Algorithm) -> Graph {
    let mut b = Builder::new(p.team);
    let root = p.team.rank == p.root;
    b.recv_buffer(p.ty, if root { p.count } else { 0 });
    if !(root && p.in_place) {
        b.send_buffer(p.ty, p.count);
    }
    let own = if root && p.in_place {
        BufId::Recv
    } else {
        BufId::Send
    };
    if p.count == 0 {
        return b.finish();
    }
    if p.team.size == 1 {
        if !p.in_place {
            let all = Range {
                start: 0,
                end: p.count,
            };
            b.copy(all.of(own, &p.ty), all.of(BufId::Recv, &p.ty), &[]);
        }
        return b.finish();
    }
    match algorithm {
        Algorithm::Binomial if p.commutative => binomial(&mut b, p, own),
        Algorithm::Binomial => ordered(&mut b, p, own),
        Algorithm::Rabenseifner => rabenseifner(&mut b, p, own),
        Algorithm::Straight => straight(&mut b, p, own),
        Algorithm::Parts { segment } => combine_parts(&mut b, p, own, segment),
    }
    b.finish()
}

/// Combines the data of the subtree of relative rank `r`, in relative order; the result lies in
/// `home` where there is one. Returns where it lies and after which node.
pub(crate) fn subtree(
    b: &mut Builder,
    p: &Params,
    root: u32,
    own: BufId,
    home: Option<BufId>,
) -> (BufId, NodeId) {
    let (size, all) = (
        p.team.size,
        Range {
            start: 0,
            end: p.count,
        },
    );
    let r = relative(p.team.rank, root, size);
    let distances: Vec<u32> = children(r, size).collect();
    if distances.is_empty() {
        return (own, START);
    }
    // Results alternate between two buffers, so that the last one lies in the first of these.
    let last_in = home.unwrap_or_else(|| b.temp_elements(p.ty, p.count));
    let in_home = home == Some(own);
    let other = match distances.len() > 1 || in_home {
        true => b.temp_elements(p.ty, p.count),
        false => last_in,
    };
    let target = |i: usize| {
        if (distances.len() - 1 - i).is_multiple_of(2) {
            last_in
        } else {
            other
        }
    };
    let (mut current, mut last) = (own, START);
    if target(0) == own {
        last = b.copy(all.of(own, &p.ty), all.of(other, &p.ty), &[]);
        current = other;
    }
    for (i, &m) in distances.iter().enumerate() {
        // The first two buffers are free at once, unless the own data lie or are moved there.
        let free = if i >= 2 || in_home { last } else { START };
        let to = all.of(target(i), &p.ty);
        let recv = b.recv(absolute(r + m, root, size), 0, to, &[free]);
        last = b.calc(all.of(current, &p.ty), to, &[recv, last]);
        current = target(i);
    }
    (current, last)
}

fn binomial(b: &mut Builder, p: &Params, own: BufId) {
    let (size, all) = (
        p.team.size,
        Range {
            start: 0,
            end: p.count,
        },
    );
    let r = relative(p.team.rank, p.root, size);
    let home = (r == 0).then_some(BufId::Recv);
    let (at, last) = subtree(b, p, p.root, own, home);
    if r != 0 {
        b.send(
            absolute(parent(r), p.root, size),
            0,
            all.of(at, &p.ty),
            &[last],
        );
    }
}

/// The tree of rank 0 keeps rank order; rank 0 then sends the result to the root.
fn ordered(b: &mut Builder, p: &Params, own: BufId) {
    let (rank, all) = (
        p.team.rank,
        Range {
            start: 0,
            end: p.count,
        },
    );
    let home = (rank == 0 && p.root == 0).then_some(BufId::Recv);
    let (at, mut last) = subtree(b, p, 0, own, home);
    if rank != 0 {
        last = b.send(parent(rank), 0, all.of(at, &p.ty), &[last]);
    } else if p.root != 0 {
        b.send(p.root, 1, all.of(at, &p.ty), &[last]);
    }
    if rank == p.root && rank != 0 {
        // In place the own data have to be gone first.
        b.recv(0, 1, all.of(BufId::Recv, &p.ty), &[last]);
    }
}

fn straight(b: &mut Builder, p: &Params, own: BufId) {
    if p.team.rank != p.root {
        let all = Range {
            start: 0,
            end: p.count,
        };
        b.send(p.root, 0, all.of(own, &p.ty), &[]);
        return;
    }
    let operands = Operands {
        team: p.team,
        ty: p.ty,
        count: p.count,
        own,
        sent: Vec::new(),
    };
    operands.combine(b, p.team.size);
}

fn combine_parts(b: &mut Builder, p: &Params, own: BufId, segment: u64) {
    let is_root = p.team.rank == p.root;
    let mut parts = Parts {
        team: p.team,
        ty: p.ty,
        starts: parts::even_starts(p.team, p.count),
        segment,
        own,
        home: Home::InPlace,
        commutative: p.commutative,
    };
    if !is_root {
        parts.home = parts.temporary_home(b);
    }
    let given = parts.give(b);
    let combined = parts.combine(b);
    if is_root {
        parts.learn(b, given);
    } else {
        parts.tell(b, [p.root].into_iter(), combined);
    }
}

/// Tag of the message between folded ranks: above those of at most 2 * 32 rounds.
const FOLD_TAG: u32 = 100;

fn rabenseifner(b: &mut Builder, p: &Params, own: BufId) {
    let (rank, ty) = (p.team.rank, &p.ty);
    let all = Range {
        start: 0,
        end: p.count,
    };
    let who = Survivors::new(p.team, Some(p.root));
    let v = who.of(rank);
    if who.rank(v) != rank {
        b.send(who.rank(v), FOLD_TAG, all.of(own, ty), &[]);
        return;
    }
    let home = match rank == p.root {
        true => BufId::Recv,
        false => b.temp_elements(p.ty, p.count),
    };
    let temp = b.temp_elements(p.ty, p.count);
    let owned = Accumulator::arrange(home, temp, &directions(&who, v, rank));
    let mut acc = Accumulator::new(p.ty, own, owned);
    if let Some(twin) = who.twin(v) {
        acc.exchange(b, twin, FOLD_TAG, None, all, twin < rank);
    }
    let (steps, mut held) = halve(b, &mut acc, &who, v, p.count, 0);
    acc.settle(b, home, held);
    // Binomial gather towards the root: steps in reverse; who is not on the root's side sends.
    let goal = who.of(p.root);
    let mut have = vec![acc.last];
    for (i, step) in steps.iter().enumerate().rev() {
        let (partner, tag) = (who.rank(v ^ step.mask), (steps.len() + i) as u32);
        if (v ^ goal) & step.mask != 0 {
            b.send(partner, tag, held.of(home, ty), &have);
            return;
        }
        let (_, theirs) = split(step.before, v & step.mask != 0);
        have.push(b.recv(partner, tag, theirs.of(home, ty), &[acc.last]));
        held = step.before;
    }
}
