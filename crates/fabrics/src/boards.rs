//! Boards: those of shared memory, whoever is reached otherwise has none.

use boundary::UserBuf;
use mtmi::{Boards, Endpoint, Watched};

use crate::routes::Fabrics;

impl Boards for Fabrics {
    fn board_bytes(&self) -> usize {
        self.shm.board_bytes()
    }

    fn sees_board(&self, of: Endpoint) -> bool {
        self.shm.sees_board(of)
    }

    #[inline]
    fn board_load(&self, of: Endpoint, at: usize) -> u64 {
        self.shm.board_load(of, at)
    }

    #[inline]
    fn board_watch(&self, of: Endpoint, at: usize) -> Option<Watched<'_>> {
        self.shm.board_watch(of, at)
    }

    #[inline]
    fn board_store(&mut self, at: usize, value: u64) {
        self.shm.board_store(at, value);
    }

    fn board_write(&mut self, at: usize, from: UserBuf, bytes: usize) {
        self.shm.board_write(at, from, bytes);
    }

    fn board_read(&mut self, of: Endpoint, at: usize, to: UserBuf, bytes: usize) {
        self.shm.board_read(of, at, to, bytes);
    }

    fn board_view(&self, of: Endpoint, at: usize, bytes: usize) -> Option<UserBuf> {
        self.shm.board_view(of, at, bytes)
    }

    fn board_hand_back(&mut self, of: Endpoint, at: usize, bytes: usize) {
        self.shm.board_hand_back(of, at, bytes);
    }

    #[inline]
    fn ring(&mut self, who: Endpoint) {
        self.shm.ring(who);
    }
}
