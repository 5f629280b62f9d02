//! A simulated process: boards, which are seen where news in slots are seen at once, as in shared memory.

use boundary::UserBuf;
use mtmi::{Boards, Endpoint, Watched};

use crate::fabric::Sim;

/// Bytes of a board.
const BOARD: usize = 4 * (4096 + 3 * 65_536);

impl Sim {
    /// Uses a board.
    fn board<R>(&self, of: Endpoint, f: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let mut state = self.shared.lock();
        let board = &mut state.ranks.get_mut(of.index())?.board;
        board.resize(BOARD, 0);
        Some(f(board))
    }
}

impl Boards for Sim {
    fn board_bytes(&self) -> usize {
        BOARD
    }

    fn sees_board(&self, of: Endpoint) -> bool {
        self.shared.manner.at_once || of.0 == self.me
    }

    fn board_load(&self, of: Endpoint, at: usize) -> u64 {
        let load = |board: &mut [u8]| {
            let word = board.get(at..at.checked_add(8)?)?;
            word.try_into().ok().map(u64::from_ne_bytes)
        };
        self.board(of, load).flatten().unwrap_or(0)
    }

    fn board_watch(&self, _: Endpoint, _: usize) -> Option<Watched<'_>> {
        // Boards are behind a lock.
        None
    }

    fn board_store(&mut self, at: usize, value: u64) {
        self.board(Endpoint(self.me), |board| {
            if let Some(word) = board.get_mut(at..at.saturating_add(8)) {
                word.copy_from_slice(&value.to_ne_bytes());
            }
        });
    }

    fn board_write(&mut self, at: usize, from: UserBuf, bytes: usize) {
        self.board(Endpoint(self.me), |board| {
            if let Some(to) = board.get_mut(at..at.saturating_add(bytes)) {
                from.read(to);
            }
        });
    }

    fn board_read(&mut self, of: Endpoint, at: usize, to: UserBuf, bytes: usize) {
        self.board(of, |board| {
            if let Some(from) = board.get(at..at.saturating_add(bytes)) {
                to.write(from);
            }
        });
    }

    fn board_view(&self, _: Endpoint, _: usize, _: usize) -> Option<UserBuf> {
        // Boards are behind a lock.
        None
    }

    fn board_hand_back(&mut self, of: Endpoint, at: usize, bytes: usize) {
        // Whoever still wanted what was there finds something else.
        self.board(of, |board| {
            if let Some(lost) = board.get_mut(at..at.saturating_add(bytes)) {
                lost.fill(0xdb);
            }
        });
    }

    fn ring(&mut self, who: Endpoint) {
        let mut state = self.shared.lock();
        self.shared.wake(&mut state, who.0);
    }
}
