//! What the simulated processes share.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Sim;

/// How a simulated fabric behaves, within the rules.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// News in slots are seen at once, as in shared memory; otherwise only after progress, as over a network.
    pub at_once: bool,
    /// Deliveries of more bytes than this are pending until both sides have made progress.
    pub pending_above: u64,
    /// Messages of more bytes than this are complete only when they have matched.
    pub unmatched: usize,
}

impl Manner {
    /// As shared memory is.
    pub const SHARED: Manner = Manner {
        at_once: true,
        pending_above: 128 << 10,
        unmatched: usize::MAX,
    };
    /// As a network is.
    pub const NETWORK: Manner = Manner {
        at_once: false,
        pending_above: 16 << 10,
        unmatched: usize::MAX,
    };
    /// Nothing is over before it has to be.
    pub const SLOW: Manner = Manner {
        at_once: false,
        pending_above: 0,
        unmatched: usize::MAX,
    };
}

/// A slot of the whole job: the table's name, who sends, who receives, which.
pub(crate) type Name = (u32, u32, u32, u32);

/// What one process tells another; the other takes it up when it makes progress.
pub(crate) enum Event {
    Message {
        from: u32,
        context: u32,
        tag: i32,
        bytes: Vec<u8>,
        synchronous: Option<u64>,
    },
    Matched(u64),
    Posted(Name, u64),
    Withdraw(Name),
    Landed(Name, Landing),
    /// A delivery came that is pending at its sender,
    Came(Name),
    /// who hears that it is over.
    Taken(Name),
    Died(u32),
}

/// What came into a slot.
pub(crate) enum Landing {
    Data {
        bytes: Vec<u8>,
        sent: u64,
        immediate: u32,
    },
    Withdrawn,
}

#[derive(Default)]
pub(crate) struct Rank {
    pub inbox: VecDeque<Event>,
    /// Grows with everything that should wake it.
    pub news: u64,
    /// Tables that it opened, by name, and their numbers of slots.
    pub opened: HashMap<u32, u32>,
    pub dead: bool,
    /// Its board, once anybody has used it.
    pub board: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct State {
    pub ranks: Vec<Rank>,
    /// Receives that are offered, at their senders.
    pub headers: HashMap<Name, u64>,
    /// What came, at its receivers.
    pub landings: HashMap<Name, Landing>,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub manner: Manner,
    pub ranks: u32,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has failed its test already; the others still end.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells a process something.
    pub fn tell(&self, state: &mut State, to: u32, event: Event) {
        let rank = &mut state.ranks[to as usize];
        if !rank.dead {
            rank.inbox.push_back(event);
        }
        self.wake(state, to);
    }

    /// Ends a process's sleep.
    pub fn wake(&self, state: &mut State, who: u32) {
        state.ranks[who as usize].news += 1;
        self.changed.notify_all();
    }

    /// Sleeps while a process's news are `seen`.
    pub fn sleep(&self, who: u32, seen: u64, deadline: Option<Instant>) {
        let mut state = self.lock();
        while state.ranks[who as usize].news == seen {
            let most = Duration::from_secs(1);
            let left = deadline.map_or(most, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left.min(most));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A simulated job. Clones are the same job.
#[derive(Clone)]
pub struct World(pub(crate) Arc<Shared>);

impl World {
    /// Of `ranks` processes.
    pub fn new(ranks: u32, manner: Manner) -> World {
        let state = State {
            ranks: (0..ranks).map(|_| Rank::default()).collect(),
            ..State::default()
        };
        World(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            manner,
            ranks,
        }))
    }

    /// Process number `rank`; to be taken once, in the thread that plays it.
    pub fn join(&self, rank: u32) -> Sim {
        Sim::new(self.0.clone(), rank)
    }

    /// A process dies: from now on it hears nothing, and the others find out when they make progress.
    pub fn kill(&self, rank: u32) {
        let mut state = self.0.lock();
        state.ranks[rank as usize].dead = true;
        state.ranks[rank as usize].inbox.clear();
        for other in (0..self.0.ranks).filter(|&r| r != rank) {
            self.0.tell(&mut state, other, Event::Died(rank));
        }
    }

    /// Plays all processes in threads of their own, each with its transport, and waits for them.
    ///
    /// # Panics
    /// When one of them does.
    pub fn run(
        ranks: u32,
        manner: Manner,
        body: impl Fn(&mut mtmi::Matched<Sim>, u32) + Send + Sync,
    ) {
        let world = World::new(ranks, manner);
        std::thread::scope(|scope| {
            for rank in 0..ranks {
                let (world, body) = (world.clone(), &body);
                scope.spawn(move || body(&mut mtmi::Matched::new(world.join(rank)), rank));
            }
        });
    }
}
