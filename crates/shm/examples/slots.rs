//! Latency, posting and bandwidth of slots between forked ranks; figures, no judgement.
//!
//! `cargo run --release -p shm --example slots [part]`. The raw exchange (header, payload and flag between two processes, with
//! nothing around it) is measured between the parts: on virtual machines it changes by the second, so compare only
//! where it is the same.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Rank, data, launch, run};
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotTable, Slots};
use mtmi::{Endpoint, Matched, Transport};
use shm::Shm;

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let part = |name: &str, body: fn(&mut Rank)| {
        if name.contains(&wanted) {
            raw(4096);
            run(name, 2, body);
        }
    };
    part("latency", latency);
    part("posted", posted);
    part("bandwidth", bandwidth);
    raw(4096);
}

fn bind(rank: u32) {
    let cpus = sys::cpus::affinity();
    if let Some(cpu) = cpus.get(rank as usize) {
        let _ = sys::cpus::bind(&[*cpu]);
    }
}

fn slot(peer: u32, index: u32) -> Slot {
    Slot {
        table: SlotTable(0),
        peer: Endpoint(peer),
        index,
    }
}

/// Bare flag, and bare slot, payload and flag: one way.
fn raw(at: usize) {
    launch("raw", 2, |rank, map| {
        bind(rank);
        let words: &[AtomicU64] = map.slice(at, 40).unwrap();
        let (mine, theirs) = (
            &words[rank as usize * 16..],
            &words[16 - rank as usize * 16..],
        );
        let (mut flag, mut slots) = (Duration::MAX, Duration::MAX);
        let mut turn = 0;
        for _ in 0..300 {
            let start = Instant::now();
            for _ in 0..100 {
                turn += 1;
                if rank == 0 {
                    mine[0].store(turn, Ordering::Release);
                }
                while theirs[0].load(Ordering::Acquire) != turn {
                    spin_loop();
                }
                if rank == 1 {
                    mine[0].store(turn, Ordering::Release);
                }
            }
            flag = flag.min(start.elapsed() / 200);
        }
        // Header in one line, payload and flag in another.
        for _ in 0..300 {
            let start = Instant::now();
            for _ in 0..100 {
                turn += 1;
                let send = || {
                    while theirs[0].load(Ordering::Acquire) != turn {
                        spin_loop();
                    }
                    mine[9].store(theirs[1].load(Ordering::Relaxed), Ordering::Relaxed);
                    mine[8].store(turn, Ordering::Release);
                };
                mine[1].store(turn, Ordering::Relaxed);
                mine[0].store(turn, Ordering::Release);
                if rank == 0 {
                    send();
                }
                while theirs[8].load(Ordering::Acquire) != turn {
                    spin_loop();
                }
                if rank == 1 {
                    send();
                }
            }
            slots = slots.min(start.elapsed() / 200);
        }
        if rank == 0 {
            println!("raw: flag {flag:?}, slot and payload and flag {slots:?}, one way");
        }
    });
}

#[inline(always)]
fn deliver(t: &mut Matched<Shm>, slot: Slot, data: &Data) {
    let mut polls = 0u32;
    loop {
        match t.deliver(slot, data, 0) {
            Ok(Delivery::Done { .. }) => return,
            Ok(_) => break,
            Err(_) => spin_loop(),
        }
        polls += 1;
        if polls.is_multiple_of(1000) {
            t.advance();
        }
    }
    while t.delivered(slot) == Delivery::Pending {
        spin_loop();
    }
}

#[inline(always)]
fn receive(t: &mut Matched<Shm>, slot: Slot) {
    let mut polls = 0u32;
    loop {
        match t.landed(slot) {
            Landed::NotYet => spin_loop(),
            Landed::Done { .. } => return,
            other => panic!("{other:?}"),
        }
        polls += 1;
        if polls.is_multiple_of(64) {
            t.advance();
        }
    }
}

/// Best and median of laps of ping-pongs, one way, the receive posted right before the send.
fn ping_pong(
    me: &mut Rank,
    at: Slot,
    (out, back): (&Data, &Data),
    laps: usize,
    rounds: u32,
) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..laps)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..rounds {
                me.t.post(at, back).unwrap();
                if me.me == 0 {
                    deliver(&mut me.t, at, out);
                    receive(&mut me.t, at);
                } else {
                    receive(&mut me.t, at);
                    deliver(&mut me.t, at, out);
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
    me.t.open_slots(1, 16).unwrap();
    let at = slot(1 - me.me, 3);
    let mut memory = [vec![1; 4096], vec![0; 4096]];
    for len in [0, 8, 24, 48, 512, 4096] {
        let [out, back] = memory.each_mut().map(|m| data(&mut m[..len]));
        let (best, median) = ping_pong(me, at, (&out, &back), 400, 100);
        if me.me == 0 {
            println!("{len:>7} B: {best:?} one way (median {median:?})");
        }
    }
    // Started again by one word.
    let [out, back] = memory.each_mut().map(|m| data(&mut m[..8]));
    me.t.prepare(at, &back).unwrap();
    let mut best = Duration::MAX;
    for _ in 0..400 {
        let start = Instant::now();
        for _ in 0..100 {
            me.t.start(at).unwrap();
            if me.me == 0 {
                deliver(&mut me.t, at, &out);
                receive(&mut me.t, at);
            } else {
                receive(&mut me.t, at);
                deliver(&mut me.t, at, &out);
            }
        }
        best = best.min(start.elapsed() / 200);
    }
    let mut messages = Duration::MAX;
    for _ in 0..400 {
        let start = Instant::now();
        for _ in 0..100 {
            let (mut a, mut b) = ([1; 8], [0; 8]);
            if me.me == 0 {
                me.send(1, 1, &mut a);
                me.recv(1, 1, &mut b);
            } else {
                me.recv(0, 1, &mut b);
                me.send(0, 1, &mut a);
            }
        }
        messages = messages.min(start.elapsed() / 200);
    }
    if me.me == 0 {
        println!("prepared, 8 B: {best:?}; as a message: {messages:?}");
    }
}

/// Latency and cost of posting with many receives posted.
fn posted(me: &mut Rank) {
    bind(me.me);
    me.t.open_slots(1, 5001).unwrap();
    let other = 1 - me.me;
    let mut memory = vec![0u8; 8 * 5001];
    let buffers: Vec<Data> = memory.chunks_exact_mut(8).map(data).collect();
    for count in [1, 600, 5000] {
        let mut best = Duration::MAX;
        let mut laps = Vec::new();
        for _ in 0..20 {
            let start = Instant::now();
            for i in 0..count {
                me.t.post(slot(other, i), &buffers[i as usize]).unwrap();
            }
            best = best.min(start.elapsed() / count);
            let ends = (&buffers[5000], &buffers[5000]);
            laps.push(ping_pong(me, slot(other, 5000), ends, 40, 100).0);
            // Each is delivered, so that it is posted anew.
            for i in 0..count {
                deliver(&mut me.t, slot(other, i), &buffers[i as usize]);
            }
            for i in 0..count {
                receive(&mut me.t, slot(other, i));
            }
            me.barrier();
        }
        laps.sort();
        if me.me == 0 {
            let (least, middle) = (laps[0], laps[laps.len() / 2]);
            println!("{count:>5} posted: {best:?} each; 8 B {least:?} one way (median {middle:?})");
        }
    }
}

fn bandwidth(me: &mut Rank) {
    bind(me.me);
    me.t.open_slots(1, 1).unwrap();
    let at = slot(1 - me.me, 0);
    let most = 4 << 20;
    let mut heap = [vec![1; most], vec![0; most]];
    let mapped = [(); 2].map(|()| me.t.alloc_mapped(most).unwrap());
    for shift in 12..=22 {
        let len = 1usize << shift;
        let [out, back] = heap.each_mut().map(|m| data(&mut m[..len]));
        let (slow, slow_median) = ping_pong(me, at, (&out, &back), 30, 4);
        let [out, back] = mapped.map(|buf| Data::bytes(buf, len as u64));
        let (fast, fast_median) = ping_pong(me, at, (&out, &back), 30, 4);
        if me.me == 0 {
            let rate = |d: Duration| len as f64 / d.as_secs_f64() / 1e9;
            println!(
                "{:>5} KiB: mapped {:.1} GB/s (median {:.1}), heap {:.1} ({:.1})",
                len >> 10,
                rate(fast),
                rate(fast_median),
                rate(slow),
                rate(slow_median)
            );
        }
    }
}
