//! Barrier: no process leaves before all have entered.

use crate::graph::{Builder, Graph, Region, START};
use crate::shape::Team;
use crate::straight::{others, send_to};

/// The graph; the same kind on every process.
pub fn graph(team: &Team) -> Graph {
    match team.straight {
        true => straight(team),
        false => dissemination(team),
    }
}

/// Each process tells all others.
fn straight(team: &Team) -> Graph {
    let mut b = Builder::new(*team);
    send_to(&mut b, others(*team), Region::EMPTY, START);
    for rank in others(*team) {
        b.recv(rank, 0, Region::EMPTY, &[]);
    }
    b.finish()
}

/// The dissemination barrier (Hensgen, Finkel, Manber 1988): in round `k` each process tells the
/// one `2^k` above it, which then knows of `2^(k+1)` processes; `ceil(log2 size)` rounds.
fn dissemination(team: &Team) -> Graph {
    let mut b = Builder::new(*team);
    let (mut sent, mut received, mut distance, mut round) = (START, START, 1, 0);
    while distance < team.size {
        let recv = b.recv(team.left(distance), round, Region::EMPTY, &[]);
        // The send of the round before stands for all earlier receives.
        sent = b.send(
            team.right(distance),
            round,
            Region::EMPTY,
            &[sent, received],
        );
        received = recv;
        round += 1;
        distance = distance.saturating_mul(2);
    }
    b.finish()
}
