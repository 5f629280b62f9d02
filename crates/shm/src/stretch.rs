//! Stretches: memory of each process that the others of its machine read, for whoever looks at it again and again.
//!
//! Beside its [board](mtmi::Boards) each process has some [common memory](Shm::common), zeroed at the start of the job; only what is used is
//! ever backed by memory. A stretch of it is found and checked once, then used without a look-up. Who writes what is for its
//! users to agree on; what others wrote is whatever they like: a reader checks it before use.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::UserBuf;
use mtmi::Endpoint;

use crate::Shm;
use crate::segment::{BellRef, COMMON, Segment};

/// Part of a process's common memory, and the bell of that process.
#[derive(Debug)]
pub struct Stretch {
    start: NonNull<u8>,
    bytes: usize,
    bell: BellRef,
    // Declared last, dropped last: all of the above point into it.
    _segment: Arc<Segment>,
}

impl Stretch {
    /// The word at `at`; what was written before it was stored is seen after this. 0 where there is none.
    #[inline(always)]
    pub fn load(&self, at: usize) -> u64 {
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Stores a word; who loads it sees what was written before.
    #[inline(always)]
    pub fn store(&self, at: usize, value: u64) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    /// Fetches a line that is to be written soon, so that its copies elsewhere are gone by then.
    #[inline(always)]
    pub fn claim(&self, at: usize) {
        if let Some(start) = self.range(at, 1) {
            sys::copy::own(start, 1);
        }
    }

    /// Asks for a line that is to be read soon.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        if let Some(start) = self.range(at, 1) {
            sys::copy::prefetch(start);
        }
    }

    /// Copies `bytes` bytes there. Outside nothing is done.
    #[inline]
    pub fn write(&self, at: usize, from: UserBuf, bytes: usize) {
        if let Some(to) = self.range(at, bytes) {
            // SAFETY: `range` gives `bytes` bytes of the segment, which `self` keeps mapped; the maker of `from` promised readable
            // memory. The two don't overlap but where `from` is memory of the same stretch, whose reader has to bear any bytes.
            unsafe { sys::across::hand(to, from.as_mut_ptr(), bytes) }
        }
    }

    /// Copies `bytes` bytes from there. Outside nothing is done.
    #[inline]
    pub fn read(&self, at: usize, to: UserBuf, bytes: usize) {
        if let Some(from) = self.range(at, bytes) {
            // SAFETY: as for `write`, with the direction turned; another process may be writing (`fetch` allows that, as `copy` does).
            unsafe { sys::across::fetch(to.as_mut_ptr(), from, bytes) }
        }
    }

    /// `bytes` bytes of it as memory, to be written by whoever has the right to, or read, at once.
    #[inline]
    pub fn memory(&self, at: usize, bytes: usize) -> Option<UserBuf> {
        let start = self.range(at, bytes)?;
        // SAFETY: `range` gives `bytes` bytes, mapped as long as `self` lives; whoever asked uses them now. All readers of
        // buffers allow that somebody writes them meanwhile.
        Some(unsafe { UserBuf::new(start as usize) })
    }

    /// Ends the sleep of the stretch's process; costs a load if it is awake.
    #[inline(always)]
    pub fn ring(&self) {
        self.bell.get().ring();
    }

    #[inline(always)]
    fn range(&self, at: usize, bytes: usize) -> Option<*mut u8> {
        if at > self.bytes || bytes > self.bytes - at {
            return None;
        }
        // SAFETY: inside the stretch, or one past its end.
        Some(unsafe { self.start.as_ptr().add(at) })
    }

    #[inline(always)]
    fn word(&self, at: usize) -> Option<&AtomicU64> {
        let word = self.range(at, 8).filter(|_| at.is_multiple_of(8))?;
        // SAFETY: eight bytes inside the stretch, which begins at a line; any bytes are a valid word, and others may change it.
        Some(unsafe { &*word.cast::<AtomicU64>() })
    }
}

impl Shm {
    /// Bytes of common memory of each process.
    pub const COMMON: usize = COMMON;

    /// A stretch of the common memory of `of`, from a line on. `None` where it is not inside, and of processes of other machines.
    pub fn common(&self, of: Endpoint, at: usize, bytes: usize) -> Option<Stretch> {
        let member = self.members.binary_search(&of.0).ok()? as u32;
        let start = self.segment.common(member, at, bytes)?;
        // Whoever sees a stretch may ring its owner.
        self.segment.bell(member).attach();
        Some(Stretch {
            start: NonNull::new(start)?,
            bytes,
            bell: self.segment.bell_ref(member),
            _segment: self.segment.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shm() -> Shm {
        let (_, segment) = Segment::create(3, "test").unwrap();
        let none = Err(std::io::ErrorKind::Unsupported.into());
        Shm::new(segment, none, 1, vec![2, 5, 9], 10)
    }

    #[test]
    fn stretches_lie_inside() {
        let shm = shm();
        let me = Endpoint(5);
        assert!(shm.common(Endpoint(1), 0, 64).is_none());
        assert!(shm.common(me, COMMON - 64, 65).is_none());
        assert!(shm.common(me, usize::MAX - 63, 128).is_none());
        assert!(shm.common(me, 8, 64).is_none());
        assert!(shm.common(me, COMMON - 64, 64).is_some());
    }

    #[test]
    fn what_is_outside_a_stretch_is_not_touched() {
        let shm = shm();
        let all = shm.common(Endpoint(5), 0, 256).unwrap();
        let part = shm.common(Endpoint(5), 64, 64).unwrap();
        let mut bytes = [7; 128];
        let from = UserBuf::of_array(&mut bytes);
        part.write(0, from, 65);
        part.write(usize::MAX, from, 2);
        part.store(64, 7);
        part.store(60, 7);
        part.claim(usize::MAX);
        part.prefetch(usize::MAX);
        assert!((0..256).step_by(8).all(|at| all.load(at) == 0));
        part.store(56, 8);
        part.write(0, from, 8);
        assert_eq!(
            (all.load(64), all.load(120)),
            (u64::from_ne_bytes([7; 8]), 8)
        );
        assert_eq!(
            (part.load(64), part.load(1), part.load(usize::MAX - 7)),
            (0, 0, 0)
        );
        assert!(part.memory(60, 5).is_none());
        let mut out = [0; 8];
        part.memory(56, 8).unwrap().read(&mut out);
        assert_eq!(u64::from_ne_bytes(out), 8);
        part.read(60, UserBuf::of_array(&mut out), 8);
        assert_eq!(u64::from_ne_bytes(out), 8);
        part.read(0, UserBuf::of_array(&mut out), 8);
        assert_eq!(out, [7; 8]);
    }

    #[test]
    fn each_process_has_its_own() {
        let shm = shm();
        let of = |who| shm.common(Endpoint(who), 128, 64).unwrap();
        for who in [2, 5, 9] {
            of(who).store(0, u64::from(who));
        }
        assert_eq!([2, 5, 9].map(|who| of(who).load(0)), [2, 5, 9]);
    }
}
