//! Scan and exscan: recursive doubling, or straight from each to all above; operands in rank order.
//!
//! In place the data lie in the receive buffer. Rank 0's receive buffer is not touched by exscan.

use crate::fold::{Range, elements};
use crate::graph::{BufId, Builder, Graph, START};
use crate::shape::{Shape, Team};
use crate::straight::{COMBINED_MAX, Operands, send_to};

/// Parameters of a scan or exscan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// This process.
    pub team: Team,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub ty: Shape,
    /// Whether the data lie in the receive buffer.
    pub in_place: bool,
}

/// The graph of an inclusive scan.
pub fn graph(p: &Params) -> Graph {
    build(p, true)
}

/// The graph of an exclusive scan.
pub fn graph_exclusive(p: &Params) -> Graph {
    build(p, false)
}

fn build(p: &Params, inclusive: bool) -> Graph {
    let mut b = Builder::new(p.team);
    b.recv_buffer(p.ty, p.count);
    if !p.in_place {
        b.send_buffer(p.ty, p.count);
    }
    if p.count == 0 {
        return b.finish();
    }
    match p.team.straight && p.ty.bytes(p.count) <= COMBINED_MAX {
        true => straight(&mut b, p, inclusive),
        false => doubling(&mut b, p, inclusive),
    }
    b.finish()
}

fn straight(b: &mut Builder, p: &Params, inclusive: bool) {
    let own = if p.in_place { BufId::Recv } else { BufId::Send };
    let (Team { rank, size, .. }, all) = (p.team, elements(own, &p.ty, 0, p.count));
    let operands = Operands {
        team: p.team,
        ty: p.ty,
        count: p.count,
        own,
        sent: send_to(b, rank + 1..size, all, START),
    };
    operands.combine(b, rank + u32::from(inclusive));
}

/// Whether `rank` has a partner after round `k`.
fn goes_on(rank: u32, k: u32, size: u32) -> bool {
    (k + 1..32).any(|j| rank ^ (1 << j) < size)
}

/// Exchanges the total of the own group of `2^k` ranks with the neighbouring group's; totals of
/// lower groups go into the result. A rank whose partner does not exist skips the round: groups
/// lower than it are always complete. A lower rank that needs no total any more gets none.
fn doubling(b: &mut Builder, p: &Params, inclusive: bool) {
    let (rank, size, all) = (
        p.team.rank,
        p.team.size,
        Range {
            start: 0,
            end: p.count,
        },
    );
    let own = all.of(if p.in_place { BufId::Recv } else { BufId::Send }, &p.ty);
    let result = all.of(BufId::Recv, &p.ty);
    let mut result_last = START;
    if inclusive && !p.in_place {
        result_last = b.copy(own, result, &[]);
    }
    if size == 1 {
        return;
    }
    let mut total = all.of(b.temp_elements(p.ty, p.count), &p.ty);
    let mut arriving = all.of(b.temp_elements(p.ty, p.count), &p.ty);
    let mut last = b.copy(own, total, &[]);
    if p.in_place {
        result_last = last;
    }
    let mut empty = !inclusive;
    for k in 0..32 - (size - 1).leading_zeros() {
        let partner = rank ^ (1 << k);
        if partner >= size {
            continue;
        }
        if partner < rank {
            let recv = b.recv(partner, k, arriving, &[last, result_last]);
            let mut send = START;
            if goes_on(partner, k, size) {
                send = b.send(partner, k, total, &[last]);
            }
            result_last = match empty {
                true => b.copy(arriving, result, &[recv, result_last]),
                false => b.calc(arriving, result, &[recv, result_last]),
            };
            empty = false;
            if goes_on(rank, k, size) {
                last = b.calc(arriving, total, &[recv, send]);
            }
        } else {
            let send = b.send(partner, k, total, &[last]);
            if goes_on(rank, k, size) {
                let recv = b.recv(partner, k, arriving, &[last, result_last]);
                last = b.calc(total, arriving, &[recv, send]);
                std::mem::swap(&mut total, &mut arriving);
            }
        }
    }
}
