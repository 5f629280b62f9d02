//! Whose a sheet is, under loom: the production code of [`Sheets`] in every order that the memory model allows.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p shm --lib loom`.

use std::sync::atomic::Ordering::{Acquire, Release};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use crate::sheets::{MOST, Sheet, Sheets};

/// Cells of each direction: as many messages as a side sends here.
const CELLS: usize = 2;

/// Sheets of one word each, and the cells of both directions; 0: nothing was published.
struct Memory {
    sheets: [UnsafeCell<u64>; 8],
    cells: [[AtomicU64; CELLS]; 2],
}

/// What a side knows.
struct Side {
    memory: Arc<Memory>,
    me: usize,
    sheets: Sheets,
    sent: usize,
    read: usize,
}

impl Side {
    /// With one sheet of its own.
    fn new(memory: &Arc<Memory>, me: usize) -> Side {
        Side {
            memory: memory.clone(),
            me,
            sheets: Sheets::new(1 << me),
            sent: 0,
            read: 0,
        }
    }

    fn place(sheet: Sheet) -> usize {
        sheet.start() / (MOST + crate::lane::PLAY)
    }

    /// Sends a message, if there is a sheet.
    fn send(&mut self) -> bool {
        let Some(sheet) = self.sheets.next(0, MOST) else {
            return false;
        };
        let value = (self.sent * 2 + self.me) as u64;
        // SAFETY: its own until it is published; loom checks that.
        self.memory.sheets[Side::place(sheet)].with_mut(|s| unsafe { *s = value });
        self.sheets.give(sheet);
        self.memory.cells[self.me][self.sent].store(sheet.word(), Release);
        self.sent += 1;
        true
    }

    /// Receives a message, if there is one.
    fn receive(&mut self) -> bool {
        let peer = 1 - self.me;
        let word = match self.memory.cells[peer].get(self.read) {
            Some(cell) => cell.load(Acquire),
            None => 0,
        };
        if word == 0 {
            return false;
        }
        let sheet = Sheet::of(word).unwrap();
        self.sheets.check(sheet).unwrap();
        // SAFETY: published, and not given back; loom checks that.
        let value = self.memory.sheets[Side::place(sheet)].with(|s| unsafe { *s });
        assert_eq!(value, (self.read * 2 + peer) as u64);
        self.sheets.keep(sheet);
        self.read += 1;
        true
    }
}

/// Both send while they have a sheet, and receive what comes: nobody writes what is unread, and nothing is lost.
#[test]
fn loom_sheets() {
    loom::model(|| {
        let memory = Arc::new(Memory {
            sheets: Default::default(),
            cells: Default::default(),
        });
        let mut there = Side::new(&memory, 1);
        let other = thread::spawn(move || {
            there.send();
            there.receive();
            there.send();
            there.receive();
            there.sent
        });
        let mut here = Side::new(&memory, 0);
        here.send();
        here.receive();
        here.send();
        let sent = other.join().unwrap();
        while here.receive() {}
        assert_eq!(here.read, sent);
    });
}
