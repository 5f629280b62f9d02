//! Ranks as threads of one process, each with a ring of its own.

// Each test program uses a part of it.
#![allow(dead_code)]

pub mod line;

use cad_ring::{Meet, Opening, Ring, usable};
use cad_run::{Callback, Descriptor, END, Executor, Issued, Plan, START, State, UserBuf};
use std::rc::Rc;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(60);

pub fn soon() -> Option<Instant> {
    Some(Instant::now() + LIMIT)
}

/// A barrier that gives up, so that a failed rank does not hang the others.
#[derive(Default)]
pub struct Meeting {
    came: Mutex<(u32, u32)>,
    all: Condvar,
}

impl Meeting {
    pub fn meet(&self, size: u32) {
        let mut came = self.came.lock().unwrap();
        let turn = came.1;
        came.0 += 1;
        if came.0 == size {
            *came = (0, turn + 1);
            self.all.notify_all();
            return;
        }
        let waits = |c: &mut (u32, u32)| c.1 == turn;
        let (came, late) = self.all.wait_timeout_while(came, LIMIT, waits).unwrap();
        assert!(!late.timed_out(), "others did not come");
        drop(came);
    }
}

/// A rank.
pub struct Rank<'a> {
    pub ring: Ring,
    pub rank: u32,
    pub size: u32,
    pub meeting: &'a Meeting,
}

impl Rank<'_> {
    pub fn meet(&self) {
        self.meeting.meet(self.size);
    }

    pub fn finish(&mut self, plan: &Rc<Plan>, channel: u32) -> State {
        let issued = self.ring.issue(plan, channel).unwrap();
        self.ring.wait(&issued, soon())
    }
}

/// Whether this machine lets rings be; else there is nothing to be tested, for a reason that is known.
pub fn possible() -> bool {
    match usable() {
        Ok(()) => true,
        Err(why) => {
            let why = why.to_string();
            assert!(why.contains("io_uring"), "{why}");
            false
        }
    }
}

/// Plays all ranks, on one host and on two; `body` gets its own.
pub fn run(size: u32, body: impl Fn(Rank) + Sync) {
    run_with(size, Callback::Signal, body);
}

/// As `run`, with reductions done as said.
pub fn run_with(size: u32, callback: Callback, body: impl Fn(Rank) + Sync) {
    for hosts in 1..=2 {
        run_on(hosts, size, callback, &body);
    }
}

/// The cards as a rank sees them that believes in so many hosts: those of others say that they are elsewhere.
fn seen(cards: &[String], rank: u32, hosts: u32) -> Vec<String> {
    let seen = (0u32..).zip(cards).map(|(other, card)| {
        let mut parts: Vec<&str> = card.split('/').collect();
        if other % hosts != rank % hosts {
            parts[2] = "0123456789abcdef";
        }
        parts.join("/")
    });
    seen.collect()
}

/// Plays all ranks, dealt out to hosts in turn.
pub fn run_on(hosts: u32, size: u32, callback: Callback, body: impl Fn(Rank) + Sync) {
    play(hosts, Meet::AtOnce, size, callback, body);
}

/// The same on two hosts, where each two meet when they need each other.
pub fn run_apart(size: u32, body: impl Fn(Rank) + Sync) {
    play(2, Meet::WhenNeeded, size, Callback::None, body);
}

fn play(hosts: u32, meet: Meet, size: u32, callback: Callback, body: impl Fn(Rank) + Sync) {
    if !possible() {
        return;
    }
    let (meeting, cards) = (
        Meeting::default(),
        Mutex::new(vec![String::new(); size as usize]),
    );
    std::thread::scope(|scope| {
        for rank in 0..size {
            let (meeting, cards, body) = (&meeting, &cards, &body);
            scope.spawn(move || {
                let mut opening = Opening::new().unwrap();
                if hosts > 1 {
                    opening.reach(1).unwrap();
                }
                cards.lock().unwrap()[rank as usize] = opening.card();
                meeting.meet(size);
                let cards = seen(&cards.lock().unwrap(), rank, hosts);
                opening.fits(&cards).unwrap();
                let ring = opening.join(rank, &cards, Some([7; 32]), callback, meet);
                let ring = ring.unwrap();
                body(Rank {
                    ring,
                    rank,
                    size,
                    meeting,
                });
            });
        }
    });
}

/// Passes chunks on from rank to rank, as the paper's example does.
pub fn pipeline(memory: &mut [u8], rank: u32, size: u32, chunk: usize) -> Rc<Plan> {
    let mut cad = Descriptor::new(rank, size, None);
    pass_on(&mut cad, memory, rank, size, chunk);
    Rc::new(cad.plan().unwrap())
}

/// Adds what [`pipeline`] does; returns the node that is the last chunk's last.
pub fn pass_on(cad: &mut Descriptor, memory: &mut [u8], rank: u32, size: u32, chunk: usize) -> u32 {
    let mut last = START;
    for part in memory.chunks_mut(chunk) {
        let (buf, n) = (UserBuf::of_array(part), part.len() as u64);
        last = START;
        if rank > 0 {
            let recv = cad.make_recv_node(buf, n, rank - 1).unwrap();
            cad.connect_node(last, recv).unwrap();
            last = recv;
        }
        if rank + 1 < size {
            let send = cad.make_send_node(buf, n, rank + 1).unwrap();
            cad.connect_node(last, send).unwrap();
            last = send;
        }
        cad.connect_node(last, END).unwrap();
    }
    last
}

/// Computes until the word says that the issue is over: no call of the library, and no system call.
pub fn compute(issued: &Issued) {
    let (end, mut sum) = (Instant::now() + LIMIT, 0u64);
    while issued.query() == State::Pending {
        for i in 0..1000 {
            sum = std::hint::black_box(sum ^ i);
        }
        assert!(Instant::now() < end, "nothing came to a rank that computes");
    }
}

/// Names of the kernel's own threads in this process.
pub fn workers() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |e: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(e.unwrap().path().join("comm")).unwrap_or_default()
    };
    let mut names: Vec<String> = tasks.map(name).collect();
    names.retain(|n| n.starts_with("iou-"));
    names
}
