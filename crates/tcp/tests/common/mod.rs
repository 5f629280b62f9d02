//! Ranks as forked processes, and a small blocking layer over the transport: what tests and the
//! example share. Only `mtmi` and `tcp` are linked, no engine.

#![allow(dead_code)]

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use boundary::UserBuf;
use layout::{Bounds, Data, Kind, Program, Tree};
use mtmi::{
    Completion, Context, Cookie, Endpoint, Matched, MessageId, SendMode, Source, Submit, TagSel,
    Transport,
};
use sys::memfd::Mapping;
use tcp::{Config, ReactorKind, Tcp};

/// Bytes for each rank's address.
const SLOT: usize = 256;
/// Most ranks of a test.
const RANKS: u32 = 64;

/// Tells the ranks each other's addresses through memory that they inherited.
pub fn exchange(
    map: &Mapping,
    place: usize,
    (me, ranks): (u32, u32),
    address: &str,
) -> Vec<Option<String>> {
    assert!(address.len() <= 200 && ranks <= RANKS);
    map.write(4096 + me as usize * SLOT, address.as_bytes());
    meet(map, place, ranks);
    (0..ranks)
        .map(|rank| {
            let mut out = [0; 200];
            map.read(4096 + rank as usize * SLOT, &mut out);
            let end = out.iter().position(|&b| b == 0).unwrap_or(out.len());
            Some(String::from_utf8_lossy(&out[..end]).into_owned())
        })
        .collect()
}

/// Waits until all ranks are here; each `place` is for one meeting.
pub fn meet(map: &Mapping, place: usize, ranks: u32) {
    let count: &AtomicU32 = map.get(place * 4).unwrap();
    count.fetch_add(1, Ordering::SeqCst);
    while count.load(Ordering::SeqCst) < ranks {
        std::thread::sleep(Duration::from_micros(50));
    }
}

pub const SECRET: [u8; 32] = [42; 32];

/// How a test's ranks are connected.
#[derive(Clone, Debug)]
pub struct Net {
    pub interface: Option<&'static str>,
    pub reactor: ReactorKind,
}

impl Net {
    pub fn config(&self) -> Config {
        Config {
            interface: self.interface.map(str::to_string),
            reactor: Some(self.reactor),
            ..Config::default()
        }
    }
}

/// Joins a job whose ranks inherited `map`.
pub fn join(config: Config, map: &Mapping, me: u32, ranks: u32) -> Tcp {
    let listening = Tcp::listen(config).unwrap();
    let addresses = exchange(map, 0, (me, ranks), &listening.address());
    listening.join(Endpoint(me), ranks, &addresses, SECRET)
}

/// Runs `body` in `ranks` forked processes; panics in a rank, or a minute without an end, fail.
pub fn run(name: &str, ranks: u32, net: &Net, body: impl Fn(&mut Rank)) {
    launch(name, ranks, |rank, map| {
        let tcp = join(net.config(), map, rank, ranks);
        let mut me = Rank::new(Matched::new(tcp), rank, ranks);
        body(&mut me);
        me.finish();
    });
}

/// Forks `ranks` processes and gives each its number and the inherited memory.
pub fn launch(name: &str, ranks: u32, body: impl Fn(u32, &Rc<Mapping>)) {
    let (_fd, map) = sys::memfd::create_sealed("exchange", 4096 + RANKS as usize * SLOT).unwrap();
    let map = Rc::new(map);
    let mut children = Vec::new();
    for rank in 0..ranks {
        // SAFETY: this process has one thread, so the child may do anything.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let body = std::panic::AssertUnwindSafe(|| body(rank, &map));
            let ok = std::panic::catch_unwind(body).is_ok();
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!ok)) };
        }
        children.push(pid);
    }
    let start = Instant::now();
    let mut failed = Vec::new();
    while !children.is_empty() {
        children.retain(|&pid| {
            let mut status = 0;
            // SAFETY: a child of ours; `status` outlives the call.
            let done = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == pid;
            if done && status != 0 {
                failed.push(status);
            }
            !done
        });
        if !failed.is_empty() || start.elapsed() > Duration::from_secs(100) {
            for &pid in &children {
                // SAFETY: a child of ours that was not waited for yet.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            for &pid in &children {
                // SAFETY: as above.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            }
            panic!("{name} with {ranks} ranks failed: {failed:?}");
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// A rank of a test.
pub struct Rank {
    pub t: Matched<Tcp>,
    pub me: u32,
    pub ranks: u32,
    pub ended: HashMap<u64, Completion>,
    done: Vec<Completion>,
    next: u64,
}

pub const WORLD: Context = Context(1);
const BARRIER: Context = Context(2);

/// The buffer `v` as data.
pub fn data(v: &mut [u8]) -> Data {
    // SAFETY: callers keep the buffer until the operation completed.
    let buf = unsafe { UserBuf::new(v.as_mut_ptr() as usize) };
    Data::bytes(buf, v.len() as u64)
}

/// Blocks of `len` bytes every `step` bytes, `count` of them, as a layout program.
pub fn strided(len: u64, step: i64, count: u64) -> Rc<Program> {
    let tree = Tree::block(0, len, Kind::OPAQUE)
        .unwrap()
        .repeat(count, step)
        .unwrap();
    let bounds = Bounds {
        lb: 0,
        extent: step * count as i64,
    };
    Rc::new(tree.compile(bounds).unwrap())
}

/// What a buffer with a strided layout holds.
pub fn typed(v: &mut [u8], program: &Rc<Program>, count: u64) -> Data {
    assert!(
        program.true_ub() as u64 + count.saturating_sub(1) * program.extent() as u64
            <= v.len() as u64
    );
    // SAFETY: callers keep the buffer until the operation completed.
    let buf = unsafe { UserBuf::new(v.as_mut_ptr() as usize) };
    Data::typed(buf, program, count)
}

impl Rank {
    pub fn new(t: Matched<Tcp>, me: u32, ranks: u32) -> Rank {
        Rank {
            t,
            me,
            ranks,
            ended: HashMap::new(),
            done: Vec::new(),
            next: 1,
        }
    }

    pub fn finish(mut self) {
        self.barrier();
        assert!(self.ended.is_empty(), "unclaimed: {:?}", self.ended);
        assert!(self.t.finalize(sys::clock::after(Duration::from_secs(20))));
    }

    fn cookie(&mut self) -> Cookie {
        self.next += 1;
        Cookie(self.next)
    }

    fn note(&mut self, cookie: Cookie, submit: Submit) -> Cookie {
        if let Submit::Complete(c) = submit {
            assert_eq!(c.cookie, cookie);
            assert!(self.ended.insert(cookie.0, c).is_none());
        }
        cookie
    }

    pub fn isend(&mut self, to: u32, ctx: Context, tag: i32, mode: SendMode, data: Data) -> Cookie {
        let c = self.cookie();
        let s = self.t.isend(Endpoint(to), ctx, tag, mode, data, c);
        self.note(c, s)
    }

    pub fn irecv(&mut self, from: Source, ctx: Context, tag: TagSel, data: Data) -> Cookie {
        let c = self.cookie();
        let s = self.t.irecv(from, ctx, tag, data, c);
        self.note(c, s)
    }

    pub fn imrecv(&mut self, id: MessageId, data: Data) -> Cookie {
        let c = self.cookie();
        let s = self.t.imrecv(id, data, c);
        self.note(c, s)
    }

    /// Waits until so many processes are at `place`, and moves what can move meanwhile.
    pub fn meet(&mut self, map: &Mapping, place: usize, processes: u32) {
        let count: &AtomicU32 = map.get(place * 4).unwrap();
        count.fetch_add(1, Ordering::SeqCst);
        while count.load(Ordering::SeqCst) < processes {
            self.poll();
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// One round of progress.
    pub fn poll(&mut self) -> bool {
        let moved = self.t.progress(&mut self.done);
        for c in self.done.drain(..) {
            assert!(self.ended.insert(c.cookie.0, c).is_none(), "{c:?} twice");
        }
        moved
    }

    pub fn wait(&mut self, c: Cookie) -> Completion {
        loop {
            if let Some(end) = self.ended.remove(&c.0) {
                return end;
            }
            if !self.poll() {
                self.t.wait(sys::clock::after(Duration::from_secs(30)));
            }
        }
    }

    pub fn send(&mut self, to: u32, tag: i32, v: &mut [u8]) -> Completion {
        let c = self.isend(to, WORLD, tag, SendMode::Standard, data(v));
        self.wait(c)
    }

    pub fn recv(&mut self, from: u32, tag: i32, v: &mut [u8]) -> Completion {
        let c = self.irecv(
            Source::From(Endpoint(from)),
            WORLD,
            TagSel::Exact(tag),
            data(v),
        );
        self.wait(c)
    }

    /// A dissemination barrier.
    pub fn barrier(&mut self) {
        let mut step = 1;
        while step < self.ranks {
            let to = (self.me + step) % self.ranks;
            let from = Source::From(Endpoint((self.me + self.ranks - step) % self.ranks));
            let r = self.irecv(from, BARRIER, TagSel::Exact(step as i32), data(&mut []));
            let s = self.isend(to, BARRIER, step as i32, SendMode::Standard, data(&mut []));
            self.wait(r);
            self.wait(s);
            step *= 2;
        }
    }
}

/// Processor time this process used.
pub fn cpu_time() -> Duration {
    // SAFETY: plain data, filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|t| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000))
        .sum()
}

/// A small random number generator (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The message with this seed.
pub fn filled(seed: u64, len: usize) -> Vec<u8> {
    let mut word = Random(seed).next();
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        word = word
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(seed | 1);
        out.extend_from_slice(&(word ^ word >> 29).to_le_bytes());
    }
    out.truncate(len);
    out
}

/// Checks that `got` is the start of the message with this seed.
pub fn check(seed: u64, got: &[u8]) {
    if got != filled(seed, got.len()) {
        let want = filled(seed, got.len());
        let at = (0..got.len()).find(|&i| got[i] != want[i]);
        panic!("byte {at:?} of {} of message {seed} is wrong", got.len());
    }
}
