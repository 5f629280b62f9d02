//! Numbers that go up a line of ranks and are reduced on the way, and what may happen to the signal by which they are. What a signal
//! does is the same for all threads of a process, so tests that use this run one at a time ([`alone`]).

use super::{LIMIT, Rank, run};
use cad_ring::Ring;
use cad_run::{Counts, Descriptor, Executor, Issued, Plan, State, UserBuf};
use std::mem::MaybeUninit;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

static ALONE: Mutex<()> = Mutex::new(());

pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that go up a line of ranks, each subtracting what comes from its own.
pub struct Line {
    pub own: Vec<i64>,
    got: Vec<i64>,
}

pub fn subtract(src: UserBuf, dst: UserBuf, bytes: u64) {
    for at in (0..bytes as i64).step_by(8) {
        let (mut a, mut b) = ([0; 8], [0; 8]);
        src.offset(at).read(&mut a);
        dst.offset(at).read(&mut b);
        let result = i64::from_ne_bytes(b) - i64::from_ne_bytes(a);
        dst.offset(at).write(&result.to_ne_bytes());
    }
}

/// The memory of numbers.
pub fn memory(numbers: &mut [i64]) -> UserBuf {
    // SAFETY: the numbers outlive the plans, as each test waits for its own.
    unsafe { UserBuf::new(numbers.as_mut_ptr() as usize) }
}

impl Line {
    pub fn new(n: usize) -> Line {
        Line {
            own: vec![0; n],
            got: vec![0; n],
        }
    }

    pub fn plan_with(
        &mut self,
        r: &Rank,
        op: impl Fn(UserBuf, UserBuf, u64) + Copy + Send + Sync + 'static,
    ) -> Rc<Plan> {
        let bytes = 8 * self.own.len() as u64;
        let (own, got) = (memory(&mut self.own), memory(&mut self.got));
        let mut cad = Descriptor::new(r.rank, r.size, None);
        let mut last = cad_run::START;
        if r.rank > 0 {
            last = cad.make_reduction_node(op, got, own, bytes).unwrap();
            let recv = cad.make_recv_node(got, bytes, r.rank - 1).unwrap();
            cad.connect_node(recv, last).unwrap();
        }
        if r.rank + 1 < r.size {
            let send = cad.make_send_node(own, bytes, r.rank + 1).unwrap();
            cad.connect_node(last, send).unwrap();
        }
        Rc::new(cad.plan().unwrap())
    }

    pub fn plan(&mut self, r: &Rank) -> Rc<Plan> {
        self.plan_with(r, subtract)
    }

    pub fn fill(&mut self, rank: u32, round: i64) {
        for (i, number) in (0..).zip(&mut self.own) {
            *number = 10 * i64::from(rank) + round * i;
        }
    }

    pub fn check(&self, rank: u32, round: i64) {
        for (i, &number) in (0..).zip(&self.own) {
            let expected = (0..=rank).fold(0, |got, r| 10 * i64::from(r) + round * i - got);
            assert_eq!(number, expected, "rank {rank}, round {round}, number {i}");
        }
    }
}

/// Who did the reductions of a rank.
pub fn did(ring: &mut Ring) -> (u64, u64) {
    let Counts {
        in_calls,
        in_signals,
        ..
    } = ring.counts();
    (in_calls, in_signals)
}

pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}

pub fn urgent() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGURG);
        set.assume_init()
    }
}

/// Blocks the signal in this thread, or lets it through.
pub fn block(yes: bool) {
    let how = if yes {
        libc::SIG_BLOCK
    } else {
        libc::SIG_UNBLOCK
    };
    // SAFETY: the set is initialised.
    let result = unsafe { libc::pthread_sigmask(how, &urgent(), ptr::null_mut()) };
    assert_eq!(result, 0);
}

/// Whether the kernel has rung, though the signal is blocked.
pub fn has_rung() -> bool {
    let mut set = urgent();
    // SAFETY: the set is initialised, and filled in by the call.
    unsafe { libc::sigpending(&mut set) == 0 && libc::sigismember(&set, libc::SIGURG) == 1 }
}

pub fn disposition() -> libc::sigaction {
    let mut now = MaybeUninit::uninit();
    // SAFETY: asks only; the call fills `now` in.
    unsafe {
        assert_eq!(
            libc::sigaction(libc::SIGURG, ptr::null(), now.as_mut_ptr()),
            0
        );
        now.assume_init()
    }
}

pub fn dispose(to: libc::sighandler_t) {
    let mut action = disposition();
    (action.sa_sigaction, action.sa_flags) = (to, 0);
    // SAFETY: `to` is a handler for a signal, or a word of the system's.
    let result = unsafe { libc::sigaction(libc::SIGURG, &action, ptr::null_mut()) };
    assert_eq!(result, 0);
}

pub static CALLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn programs_own(_: libc::c_int) {
    CALLED.fetch_add(1, Ordering::Relaxed);
}

pub fn programs() -> libc::sighandler_t {
    programs_own as *const () as usize
}

/// Starts a line whose second rank blocks the signal, and goes on there when it is pending; the others finish.
pub fn blocked(then: impl Fn(&mut Rank, &Issued, &mut Line) + Sync) {
    run(3, |mut r| {
        let mut line = Line::new(50);
        let plan = line.plan(&r);
        assert_eq!(r.finish(&plan, 0), State::Done);
        line.fill(r.rank, 7);
        if r.rank != 1 {
            r.meet();
            assert_eq!(r.finish(&plan, 0), State::Done);
            line.check(r.rank, 7);
            r.meet();
            return;
        }
        block(true);
        let issued = r.ring.issue(&plan, 0).unwrap();
        r.meet();
        until("the kernel rings", has_rung);
        assert_eq!(issued.query(), State::Pending);
        then(&mut r, &issued, &mut line);
        line.check(1, 7);
        r.meet();
    });
}
