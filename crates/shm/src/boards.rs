//! Boards: a stretch of the segment for each process, which it alone writes and all others read.

use std::sync::atomic::Ordering;

use boundary::UserBuf;
use mtmi::{Boards, Endpoint, Watched};

use crate::Shm;
use crate::ring::CELL;
use crate::segment::BOARD;

impl Shm {
    /// The place of a process in the segment, if it is a member.
    #[inline]
    fn board_of(&self, of: Endpoint) -> Option<u32> {
        // On one machine all are members.
        if self.members.get(of.index()) == Some(&of.0) {
            return Some(of.0);
        }
        let place = self.members.binary_search(&of.0).ok()?;
        u32::try_from(place).ok()
    }

    /// The address of a stretch of a board.
    fn stretch(&self, member: u32, at: usize, bytes: usize) -> Option<*mut u8> {
        self.segment.board(member, at, bytes)
    }
}

impl Boards for Shm {
    fn board_bytes(&self) -> usize {
        BOARD
    }

    fn sees_board(&self, of: Endpoint) -> bool {
        let Some(member) = self.board_of(of) else {
            return false;
        };
        // Whoever sees a board may ring its owner.
        self.segment.bell(member).attach();
        true
    }

    #[inline]
    fn board_load(&self, of: Endpoint, at: usize) -> u64 {
        self.board_watch(of, at).map_or(0, Watched::load)
    }

    #[inline]
    fn board_watch(&self, of: Endpoint, at: usize) -> Option<Watched<'_>> {
        let word = self.segment.board_word(self.board_of(of)?, at);
        word.map(Watched::new)
    }

    #[inline]
    fn board_store(&mut self, at: usize, value: u64) {
        if let Some(word) = self.segment.board_word(self.local, at) {
            word.store(value, Ordering::Release);
        }
    }

    fn board_write(&mut self, at: usize, from: UserBuf, bytes: usize) {
        if let Some(to) = self.stretch(self.local, at, bytes) {
            // SAFETY: `stretch` gives `bytes` bytes of this process's own board, which nobody else writes; the maker
            // of `from` promised readable memory, which is not inside the segment's boards: their addresses are
            // never given out.
            unsafe { sys::copy::copy(to, from.as_mut_ptr(), bytes) }
        }
    }

    fn board_read(&mut self, of: Endpoint, at: usize, to: UserBuf, bytes: usize) {
        let from = self
            .board_of(of)
            .and_then(|member| self.stretch(member, at, bytes));
        if let Some(from) = from {
            // SAFETY: `stretch` gives `bytes` readable bytes of a board, which their owner may be writing (`copy`
            // allows that); the maker of `to` promised writable memory, which is not inside the boards.
            unsafe { sys::copy::copy(to.as_mut_ptr(), from, bytes) }
        }
    }

    fn board_view(&self, of: Endpoint, at: usize, bytes: usize) -> Option<UserBuf> {
        let from = self.stretch(self.board_of(of)?, at, bytes)?;
        // SAFETY: `stretch` gives `bytes` bytes of a board, mapped as long as the segment is; whoever asked only reads
        // them, now. All readers of buffers allow that somebody writes them meanwhile.
        Some(unsafe { UserBuf::new(from as usize) })
    }

    /// As whoever drains a chunk of a pipe does (`Lane::drain_chunk`): lines that were read are written, so that they leave the
    /// owner's cache, and it need not have them invalidated here first.
    fn board_hand_back(&mut self, of: Endpoint, at: usize, bytes: usize) {
        let stretch = self
            .board_of(of)
            .filter(|&member| member != self.local)
            .and_then(|member| self.stretch(member, at, bytes));
        let Some(stretch) = stretch else {
            return;
        };
        for line in (0..bytes).step_by(CELL) {
            // SAFETY: inside the stretch, which is mapped as long as the segment is; whoever writes or reads it meanwhile
            // does so with bytes that may change.
            unsafe { stretch.add(line).write_volatile(0) };
        }
    }

    #[inline]
    fn ring(&mut self, who: Endpoint) {
        if let Some(member) = self.board_of(who) {
            self.segment.bell(member).ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Segment;

    #[test]
    fn boards_have_ends() {
        let (_, segment) = Segment::create(3, "test").unwrap();
        // Boards don't need the slots' area.
        let none = Err(std::io::ErrorKind::Unsupported.into());
        let mut shm = Shm::new(segment, none, 1, vec![2, 5, 9], 10);
        let (me, other) = (Endpoint(5), Endpoint(9));
        assert!(shm.sees_board(me) && shm.sees_board(other) && !shm.sees_board(Endpoint(1)));
        shm.board_store(BOARD - 8, 7);
        shm.board_store(BOARD, 8);
        shm.board_store(usize::MAX - 7, 8);
        assert_eq!(shm.board_load(me, BOARD - 8), 7);
        assert_eq!(shm.board_load(me, BOARD), 0);
        assert_eq!(shm.board_load(me, 3), 0);
        assert_eq!(shm.board_load(other, 0), 0);
        assert_eq!(shm.board_watch(me, BOARD - 8).map(Watched::load), Some(7));
        assert!(shm.board_watch(me, BOARD).is_none() && shm.board_watch(me, 3).is_none());
        // Members are named by their rank in the job, which may be another's place here.
        assert!(
            shm.board_watch(Endpoint(2), 0).is_some() && shm.board_watch(Endpoint(0), 0).is_none()
        );
        let mut bytes = *b"echo";
        let buf = UserBuf::of_array(&mut bytes);
        shm.board_write(BOARD - 4, buf, 4);
        shm.board_write(BOARD - 3, buf, 4);
        let mut out = [0; 4];
        shm.board_read(me, BOARD - 4, UserBuf::of_array(&mut out), 4);
        assert_eq!(&out, b"echo");
        let mut seen = [0; 4];
        shm.board_view(me, BOARD - 4, 4).unwrap().read(&mut seen);
        assert_eq!(&seen, b"echo");
        assert!(shm.board_view(me, BOARD - 3, 4).is_none());
        assert!(shm.board_view(Endpoint(1), 0, 4).is_none());
        shm.board_read(other, 0, UserBuf::of_array(&mut out), 4);
        assert_eq!(out, [0; 4]);
        // Nothing of ours, and nothing outside, is lost.
        shm.board_hand_back(me, BOARD - 4, 4);
        shm.board_hand_back(other, BOARD - 3, 4);
        shm.board_hand_back(Endpoint(1), 0, 4);
        shm.board_read(me, BOARD - 4, UserBuf::of_array(&mut out), 4);
        assert_eq!(&out, b"echo");
    }
}
