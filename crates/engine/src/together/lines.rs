//! What of the rounds depends on how the machine's processors hand lines over ([`sys::copy::HandOver`]): each kind has its values, measured with two ranks.
//!
//! Invariant: the same at all members. One of them may take the processor for another kind, as under an emulator; so they [agree](super::places).
//!
//! Who calls it: [`places`](super::places), [`rounds`](super::rounds) and [`moves`](super::moves).

use cad::together::CHUNK;
use sys::copy::HandOver;

use super::{HANDED, INLINE};

/// The values of one kind.
#[derive(Debug)]
pub(super) struct Lines {
    /// From so many bytes in a round on exchanges lie in bodies that members write in turn.
    pub exchanged_from: usize,
    /// Up to so many bytes, what is waited for is asked for at each look: its lines then come with the one that says that it is there, not after it.
    pub watched: usize,
    /// What one of two members has for the other goes by the body that they hand to each other up to so many bytes, if it doesn't fit beside a head and that is its turn.
    pub handed: u64,
    /// Most bytes of a chunk of a broadcast up to [`SHORT_PIPED`].
    piped: usize,
}

/// Bytes of a broadcast up to which the first and the last of four chunks take long.
const SHORT_PIPED: u64 = 128 << 10;

/// On a Xeon of the sixth generation, allgathers of 1, 2 and 4 KiB take 0.35, 0.44 and 0.63 us so, and 0.45, 0.74 and 0.89 where each rank writes lines of its own;
/// broadcasts of 64, 96 and 128 bytes 0.26, 0.25 and 0.26 us, and 0.30, 0.28 and 0.31 where nothing is asked for (of 512 bytes and more, asked for as a whole,
/// a fifth more; roots in turn); what the two hand to each other takes, of 256 bytes, 1, 4 and 16 KiB, 0.24, 0.33, 0.63 and 1.9 us so, and 0.32, 0.45, 0.97 and 2.5 in bodies of the root's own; a
/// broadcast of 128 KiB 8.0 in chunks of 16 KiB, 9.6 in those of 32.
const ASKED: Lines = Lines {
    exchanged_from: INLINE + 1,
    watched: 128,
    handed: HANDED as u64,
    piped: 16 << 10,
};

/// On an EPYC of the fifth generation shorter data are written sooner to lines of one's own. More than two ranks have been measured with these alone.
const TAKEN: Lines = Lines {
    exchanged_from: 16 << 10,
    watched: 0,
    handed: 0,
    piped: CHUNK,
};

// What lies beside a head is its member's own.
const _: () = assert!(ASKED.exchanged_from > INLINE && TAKEN.exchanged_from > INLINE);

impl Lines {
    /// Those of so many members; `all_ask`: all say that [their processor](asks) is one that asks for lines.
    pub fn of(members: usize, all_ask: bool) -> &'static Lines {
        match members {
            2 if all_ask => &ASKED,
            _ => &TAKEN,
        }
    }

    /// Most bytes of a chunk of a broadcast of `bytes`.
    pub fn piped(&self, bytes: u64) -> usize {
        match bytes {
            ..=SHORT_PIPED => self.piped,
            _ => CHUNK,
        }
    }
}

/// Whether this process takes its processor for one that asks for lines.
pub(super) fn asks() -> bool {
    sys::copy::hand_over() == HandOver::Asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members_have_to_ask() {
        assert_eq!(Lines::of(2, true).exchanged_from, ASKED.exchanged_from);
        for (members, all_ask) in [(2, false), (3, true), (16, true), (3, false)] {
            let lines = Lines::of(members, all_ask);
            assert_eq!(lines.exchanged_from, TAKEN.exchanged_from);
            assert_eq!((lines.watched, lines.handed), (0, 0));
        }
    }
}
