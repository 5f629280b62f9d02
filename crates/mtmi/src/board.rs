//! Boards: memory of each process that all processes of its machine read, for what one tells many.
//!
//! A board has one writer, but for what a reader hands back. Words of it are flags (a store is published, a load sees what
//! was stored before it); the rest is bytes that a flag says are there. Who writes a flag that somebody may sleep for
//! rings that process's doorbell afterwards.

use std::sync::atomic::{AtomicU64, Ordering};

use boundary::UserBuf;

use crate::fabric::Fabric;
use crate::matched::Matched;
use crate::words::Endpoint;

/// A word of a board that somebody looks at over and over.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a>(&'a AtomicU64);

impl<'a> Watched<'a> {
    /// One that looks at this word.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> Watched<'a> {
        Watched(word)
    }

    /// What it is; what was written before it was stored is seen after this.
    #[inline]
    pub fn load(self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Boards.
///
/// What others wrote is whatever they like: a reader checks it before use. Offsets outside the board, and boards that
/// are not seen, read as 0 and take nothing.
pub trait Boards {
    /// Bytes of each board, zeroed at the start of the job; only what is used is ever backed by memory.
    fn board_bytes(&self) -> usize;

    /// Whether this process sees the board of `of` (its own: always, where there are boards).
    fn sees_board(&self, of: Endpoint) -> bool;

    /// The word at `at` (a multiple of 8) of a board; what was written before it was stored is seen after this.
    fn board_load(&self, of: Endpoint, at: usize) -> u64;

    /// The same word, for whoever looks at it many times: it is found once. `None` where only `board_load` reads it.
    fn board_watch(&self, of: Endpoint, at: usize) -> Option<Watched<'_>>;

    /// Stores a word of this process's board; what was written before is seen by who loads it.
    fn board_store(&mut self, at: usize, value: u64);

    /// Copies `bytes` bytes to this process's board.
    fn board_write(&mut self, at: usize, from: UserBuf, bytes: usize);

    /// Copies `bytes` bytes out of a board.
    fn board_read(&mut self, of: Endpoint, at: usize, to: UserBuf, bytes: usize);

    /// A stretch of a board as memory that is only read, at once, and whose owner may write it meanwhile. `None` where it can't be
    /// had: then `board_read` does.
    fn board_view(&self, of: Endpoint, at: usize, bytes: usize) -> Option<UserBuf>;

    /// Hands a stretch of another's board back that this process alone has read and nobody will read before it is written again: its
    /// bytes are lost, and its owner writes it in less time. Where that helps nothing, nothing is done.
    fn board_hand_back(&mut self, of: Endpoint, at: usize, bytes: usize);

    /// Ends the sleep of a process whose board is seen; costs a load if it is awake.
    fn ring(&mut self, who: Endpoint);
}

impl<F: Fabric + Boards> Boards for Matched<F> {
    fn board_bytes(&self) -> usize {
        self.fabric.board_bytes()
    }

    fn sees_board(&self, of: Endpoint) -> bool {
        self.fabric.sees_board(of)
    }

    #[inline]
    fn board_load(&self, of: Endpoint, at: usize) -> u64 {
        self.fabric.board_load(of, at)
    }

    #[inline]
    fn board_watch(&self, of: Endpoint, at: usize) -> Option<Watched<'_>> {
        self.fabric.board_watch(of, at)
    }

    #[inline]
    fn board_store(&mut self, at: usize, value: u64) {
        self.fabric.board_store(at, value);
    }

    fn board_write(&mut self, at: usize, from: UserBuf, bytes: usize) {
        self.fabric.board_write(at, from, bytes);
    }

    fn board_read(&mut self, of: Endpoint, at: usize, to: UserBuf, bytes: usize) {
        self.fabric.board_read(of, at, to, bytes);
    }

    fn board_view(&self, of: Endpoint, at: usize, bytes: usize) -> Option<UserBuf> {
        self.fabric.board_view(of, at, bytes)
    }

    fn board_hand_back(&mut self, of: Endpoint, at: usize, bytes: usize) {
        self.fabric.board_hand_back(of, at, bytes);
    }

    #[inline]
    fn ring(&mut self, who: Endpoint) {
        self.fabric.ring(who);
    }
}
