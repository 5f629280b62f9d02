//! A job of simulated processes that have FMPL.

use std::cell::RefCell;
use std::time::Instant;

use fmpl::{Core, Host, PROGRAM, Waiting, is_ours};
use mtmi::slot::wait_until;
use mtmi::{Completion, Matched, Transport};
use testkit::{Manner, Sim, World};

pub const MANNERS: [Manner; 3] = [Manner::SHARED, Manner::NETWORK, Manner::SLOW];

type Below = Matched<Sim>;

/// A process.
pub struct Rank {
    core: RefCell<Core>,
    below: RefCell<Below>,
    done: RefCell<Vec<Completion>>,
}

impl Rank {
    /// One whose program's area has `count` indices.
    pub fn new(mut below: Below, count: u32) -> Rank {
        let mut core = Core::new(&below);
        core.open(&mut below, PROGRAM, count).unwrap();
        Rank {
            core: RefCell::new(core),
            below: RefCell::new(below),
            done: RefCell::default(),
        }
    }

    pub fn progress(&self) -> bool {
        let mut done = self.done.borrow_mut();
        let mut moved = self.below.borrow_mut().progress(&mut done);
        for end in done.drain(..) {
            assert!(is_ours(&end));
            self.core.borrow_mut().completed(&end);
        }
        while let Some(peer) = self.below.borrow_mut().next_failure() {
            self.core.borrow_mut().peer_failed(peer.0, false);
        }
        moved |= self.with(|core, below| core.progress(below));
        moved
    }
}

impl Host for Rank {
    type Below = Below;

    fn with<R>(&self, f: impl FnOnce(&mut Core, &mut Below) -> R) -> R {
        f(&mut self.core.borrow_mut(), &mut self.below.borrow_mut())
    }

    fn progress(&self) {
        Rank::progress(self);
    }

    fn wait<R>(
        &self,
        _: Waiting,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Core, &mut Below) -> Option<R>,
    ) -> Option<R> {
        loop {
            if let Some(found) = self.with(&mut look) {
                return Some(found);
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return None;
            }
            if self.progress() {
                continue;
            }
            let mut found = None;
            let core = &self.core;
            let mut see = |below: &mut Below| {
                let mut core = core.borrow_mut();
                found = look(&mut core, below);
                found.is_some() || core.progress(below)
            };
            wait_until(&mut *self.below.borrow_mut(), &mut see, deadline);
            if found.is_some() {
                return found;
            }
        }
    }
}

/// Plays a job of `ranks` processes with `count` indices.
pub fn job(ranks: u32, manner: Manner, count: u32, body: impl Fn(&Rank, u32) + Send + Sync) {
    let world = World::new(ranks, manner);
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (world, body) = (world.clone(), &body);
            scope.spawn(move || {
                let process = Rank::new(Matched::new(world.join(rank)), count);
                let agreed = fmpl::build::agree_on_count(&process, count);
                assert_eq!(agreed, 0);
                body(&process, rank);
                // Nobody stops making progress while another's delivery needs it; where the body has closed the
                // area, that has seen to it.
                let _ = fmpl::barrier::barrier(&process, 0);
            });
        }
    });
}
