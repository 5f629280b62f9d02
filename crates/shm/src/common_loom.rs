//! Whose turn it is at a common pipe, under loom: the production code of [`Turn`] in every order that the memory model allows.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p shm --lib loom`.

use std::sync::atomic::Ordering::{Acquire, Release};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use crate::common::Turn;

/// A common pipe of one chunk, and what both sides publish and give back in their lanes.
struct Pipe {
    turn: Turn,
    chunk: UnsafeCell<u32>,
    published: [AtomicU32; 2],
    drained: [AtomicU32; 2],
}

/// What a side knows.
struct Side {
    pipe: Arc<Pipe>,
    me: usize,
    known: u32,
    sent: u32,
    read: u32,
}

impl Side {
    fn new(pipe: &Arc<Pipe>, me: usize, known: u32) -> Side {
        Side {
            pipe: pipe.clone(),
            me,
            known,
            sent: 0,
            read: 0,
        }
    }

    /// Writes a section, if it is its turn and there is room.
    fn send(&mut self) -> bool {
        let room = self.pipe.drained[self.me].load(Acquire) == self.sent;
        if !room || !self.pipe.turn.begin(self.known) {
            return false;
        }
        self.known = self.known.wrapping_add(1);
        self.sent += 1;
        let value = self.sent * 2 + self.me as u32;
        // SAFETY: its own until it is published; loom checks that.
        self.pipe.chunk.with_mut(|c| unsafe { *c = value });
        self.pipe.published[self.me].store(self.sent, Release);
        true
    }

    /// Reads a section, if there is one.
    fn receive(&mut self) -> bool {
        let peer = 1 - self.me;
        if self.pipe.published[peer].load(Acquire) == self.read {
            return false;
        }
        self.read += 1;
        // SAFETY: published, and not given back; loom checks that.
        let value = self.pipe.chunk.with(|c| unsafe { *c });
        assert_eq!(value, self.read * 2 + peer as u32);
        self.known = self.known.wrapping_add(1);
        self.pipe.drained[peer].store(self.read, Release);
        true
    }
}

/// Both send whenever they can, and receive what comes: nobody writes what is unread, and nothing is lost.
#[test]
fn loom_turns() {
    loom::model(|| {
        // The count wraps.
        let begun = u32::MAX;
        let pipe = Arc::new(Pipe {
            turn: Turn::new(begun),
            chunk: UnsafeCell::new(0),
            published: Default::default(),
            drained: Default::default(),
        });
        let mut there = Side::new(&pipe, 1, begun);
        let other = thread::spawn(move || {
            let sent = there.send();
            there.receive();
            let again = there.send();
            (there.receive(), u32::from(sent) + u32::from(again))
        });
        let mut here = Side::new(&pipe, 0, begun);
        here.send();
        here.receive();
        here.send();
        let (_, sent) = other.join().unwrap();
        while here.receive() {}
        assert_eq!(here.read, sent);
    });
}
