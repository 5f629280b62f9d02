//! Where long messages were received, and how long ago: memory that has left the caches since is written past them ([`sys::past`]), as what is
//! brought there again would be displaced before it is read, and displace other data.
//!
//! A process that receives again and again into the same buffers has them in its caches, and reads what came from there. One that goes
//! round through more memory than the caches hold finds nothing of it there. Which it is shows when a message comes to where another one began before: if
//! more has been received since than the caches hold, that has left them. What nothing is known of counts as cached, so a program's first messages, and those to
//! places that never come again, are written as ever.
//!
//! Bytes that were received are counted, not those that a program reads and writes besides. So memory may be gone that is taken for cached; and a buffer that
//! a program reads all the time, beside much else that it receives, is taken for gone, and read from memory the next time.
//!
//! Invariants: whatever is answered decides how fast a copy is, and nothing else. Nobody outside this thread is told that a message has ended before its bytes are settled.
//!
//! Who calls it: [`incoming`](crate::incoming), once for each message that is longer than a pipe and comes through it, and [`pipe`](crate::pipe), which copies.

use std::cell::OnceCell;

/// Places that are remembered, in 16 bytes each: 512 buffers can be in turn and few of them share one.
const PLACES: usize = 1024;

const _: () = assert!(PLACES.is_power_of_two());

/// Where a message began, and how many bytes had been received before.
type Place = (u64, u64);

/// What is known of the memory of long receives.
pub(crate) struct Footprint {
    /// Bytes after which memory has left the caches, if it is of use to know.
    held: OnceCell<Option<u64>>,
    /// By [`index`]; empty until the first message.
    places: Vec<Place>,
    /// Bytes received.
    received: u64,
    /// Whether bytes went past the caches that others may not see yet.
    unsettled: bool,
}

/// Where a message that begins at this address is looked for.
fn index(at: u64) -> usize {
    // Buffers are mostly multiples of 4 KiB apart, and at the same place of a page: the product's upper bits depend on all.
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
}

impl Footprint {
    /// Nothing was received yet. The processor is asked with the first long message, which costs some microseconds in virtual machines.
    pub fn new() -> Footprint {
        Footprint {
            held: OnceCell::new(),
            places: Vec::new(),
            received: 0,
            unsettled: false,
        }
    }

    /// The same, of caches that hold so much.
    #[cfg(all(test, not(loom)))]
    pub fn with(held: Option<u64>) -> Footprint {
        Footprint {
            held: OnceCell::from(held),
            ..Footprint::new()
        }
    }

    /// Takes note of a message of `len` bytes that is received at address `at`. Whether that memory is known to have left the caches.
    pub fn receives(&mut self, at: u64, len: u64) -> bool {
        let Some(held) = *self.held.get_or_init(sys::past::held) else {
            return false;
        };
        if self.places.is_empty() {
            self.places = vec![(0, 0); PLACES];
        }
        let before = std::mem::replace(&mut self.places[index(at)], (at, self.received));
        let since = self.received - before.1;
        self.received += len;
        before.0 == at && since > held
    }

    /// As [`drain`](crate::lane::drain), past the caches; to be [settled](Footprint::settle) before another thread or process can learn of it.
    pub fn drain(&mut self, from: &[u8], to: &mut layout::Writer) {
        let Some((buf, left)) = to.contiguous() else {
            to.write(from);
            return;
        };
        let n = (from.len() as u64).min(left) as usize;
        // SAFETY: the buffer's maker vouched for `left` bytes; `from` is part of a lane, where no caller's buffer lies. Other bytes than
        // these are written until they are settled, and nobody is told of them.
        unsafe { sys::past::copy_past(buf.as_mut_ptr(), from.as_ptr(), n) }
        to.seek(to.position() + n as u64);
        self.unsettled = true;
    }

    /// Has all that was [drained](Footprint::drain) become visible before what this thread does next.
    #[inline]
    pub fn settle(&mut self) {
        if self.unsettled {
            sys::past::settle();
            self.unsettled = false;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// So many buffers of some MiB in turn: whether each message of the third turn goes past the caches.
    fn third_turn(footprint: &mut Footprint, buffers: u64, mib: u64) -> Vec<bool> {
        let mut turn = || {
            let at = |i| 0x7f00_0000_0010 + i * mib * MIB;
            let all = (0..buffers).map(|i| footprint.receives(at(i), mib * MIB));
            all.collect::<Vec<_>>()
        };
        assert!(!turn().contains(&true), "nothing is known at first");
        turn();
        turn()
    }

    #[test]
    fn buffers_that_fit_stay_cached() {
        for (buffers, mib) in [(1, 4), (8, 4), (4, 8), (32, 1)] {
            let past = third_turn(&mut Footprint::with(Some(32 * MIB)), buffers, mib);
            assert!(!past.contains(&true), "{buffers} of {mib}");
        }
    }

    #[test]
    fn more_than_the_caches_hold_goes_past_them() {
        for (buffers, mib) in [(1, 64), (16, 4), (64, 1), (5, 8), (512, 4)] {
            let past = third_turn(&mut Footprint::with(Some(32 * MIB)), buffers, mib);
            // Buffers that share a place with others are not known.
            let known = past.iter().filter(|past| **past).count() as u64;
            assert!(known * 10 >= buffers * 8, "{buffers} of {mib}: {known}");
        }
    }

    #[test]
    fn where_it_is_of_no_use_nothing_does() {
        assert!(!third_turn(&mut Footprint::with(None), 16, 4).contains(&true));
    }

    #[test]
    fn any_length_is_counted() {
        let mut footprint = Footprint::with(Some(32 * MIB));
        for _ in 0..3 {
            footprint.receives(16, i64::MAX as u64 / 4);
        }
        assert!(footprint.receives(16, 1));
        assert!(!footprint.receives(16, 1));
    }
}
