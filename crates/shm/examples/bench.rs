//! Latency, bandwidth and barrier time of the fabric between forked ranks; figures, no judgement.
//!
//! `cargo run --release -p shm --example bench`. The raw flag (two processes passing one cache line
//! to and fro) is measured before and after, since on virtual machines it changes by the second:
//! compare runs only where it is the same.

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{Rank, WORLD, data, launch, run};
use mtmi::{Endpoint, SendMode, Source, TagSel};

fn main() {
    // With an argument, only the parts whose name contains it.
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let part = |name: &str, ranks: u32, body: fn(&mut Rank)| {
        if name.contains(&wanted) {
            run(name, ranks, body);
        }
    };
    flag();
    part("latency", 2, latency);
    part("bandwidth", 2, bandwidth);
    part("rate", 2, rate);
    flag();
    for ranks in [2, 4, 8] {
        part("barrier", ranks, barrier);
    }
    for ranks in [2, 8] {
        part("init", ranks, |me| {
            if me.me == 0 {
                println!("init, {} ranks: {:?}", me.ranks, me.init);
            }
        });
    }
}

/// Binds rank `i` to processor `i`, where there are so many: otherwise the scheduler of a busy
/// machine puts both onto one.
fn bind(rank: u32) {
    let cpus = sys::cpus::affinity();
    if let Some(cpu) = cpus.get(rank as usize) {
        let _ = sys::cpus::bind(&[*cpu]);
    }
}

/// One way of a bare flag between two processes.
fn flag() {
    launch("flag", 2, |rank, map| {
        let flag: &AtomicU32 = map.get(4096 + 3500).unwrap();
        bind(rank);
        let mut best = Duration::MAX;
        for lap in 0..300 {
            let start = Instant::now();
            for i in 0..200 {
                let turn = (lap * 200 + i) * 2 + rank;
                while flag.load(Ordering::Acquire) != turn {
                    std::hint::spin_loop();
                }
                flag.store(turn + 1, Ordering::Release);
            }
            best = best.min(start.elapsed() / 400);
        }
        if rank == 0 {
            println!("raw flag: {best:?} one way");
        }
    });
}

/// Best and median of `laps` laps of `rounds` ping-pongs, one way.
fn ping_pong(me: &mut Rank, len: usize, laps: usize, rounds: u32) -> (Duration, Duration) {
    let other = 1 - me.me;
    let mut out = vec![1; len];
    let mut back = vec![0; len];
    let mut times: Vec<Duration> = (0..laps)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..rounds {
                if me.me == 0 {
                    me.send(other, 1, &mut out);
                    me.recv(other, 1, &mut back);
                } else {
                    me.recv(other, 1, &mut back);
                    me.send(other, 1, &mut out);
                }
            }
            start.elapsed() / (2 * rounds)
        })
        .collect();
    times.sort();
    (times[0], times[laps / 2])
}

fn latency(me: &mut Rank) {
    bind(me.me);
    for len in [0, 8, 48, 64, 256, 1024, 2048, 4096, 16_384] {
        let (best, median) = ping_pong(me, len, 400, 100);
        if me.me == 0 {
            println!("{len:>7} B: {best:?} one way (median {median:?})");
        }
    }
}

fn bandwidth(me: &mut Rank) {
    bind(me.me);
    for len in [32 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20] {
        let (best, median) = ping_pong(me, len, 100, 4);
        if me.me == 0 {
            let rate = |d: Duration| len as f64 / d.as_secs_f64() / 1e9;
            println!(
                "{:>5} KiB: {:.1} GB/s (median {:.1})",
                len >> 10,
                rate(best),
                rate(median)
            );
        }
    }
}

/// Messages of 8 bytes one way, receives posted 64 at a time.
fn rate(me: &mut Rank) {
    bind(me.me);
    let mut buffers = vec![[0u8; 8]; 64];
    let rounds = 20_000;
    let start = Instant::now();
    for _ in 0..rounds {
        let cookies: Vec<_> = buffers
            .iter_mut()
            .map(|b| match me.me {
                0 => me.isend(1, WORLD, 1, SendMode::Standard, data(b)),
                _ => me.irecv(Source::From(Endpoint(0)), WORLD, TagSel::Exact(1), data(b)),
            })
            .collect();
        for c in cookies {
            me.wait(c);
        }
    }
    if me.me == 1 {
        let each = start.elapsed() / (rounds * 64);
        println!(
            "   rate: {:.1} M messages of 8 B per second",
            1e-6 / each.as_secs_f64()
        );
    }
}

fn barrier(me: &mut Rank) {
    let rounds = 1000;
    let mut best = Duration::MAX;
    let mut total = Duration::ZERO;
    for _ in 0..10 {
        let start = Instant::now();
        for _ in 0..rounds {
            me.barrier();
        }
        best = best.min(start.elapsed() / rounds);
        total += start.elapsed() / rounds;
    }
    if me.me == 0 {
        println!(
            "barrier, {} ranks: {best:?} (mean {:?})",
            me.ranks,
            total / 10
        );
    }
}
