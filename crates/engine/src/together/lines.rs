//! What of the rounds depends on how the machine's processors hand lines over ([`sys::copy::HandOver`]): each kind has its values, measured with two ranks.
//! The same at all members, as they are on one machine.
//!
//! Who calls it: [`rounds`](super::rounds) and [`moves`](super::moves).

use sys::copy::HandOver;

use super::INLINE;

/// The values of one kind.
pub(super) struct Lines {
    /// From so many bytes in a round on exchanges lie in bodies that members write in turn.
    pub exchanged_from: usize,
    /// Up to so many bytes, what is waited for is asked for at each look: its lines then come with the one that says that it is there, not after it.
    pub watched: usize,
    /// Most bytes of a chunk of a broadcast up to [`SHORT_PIPED`].
    pub piped: usize,
}

/// Broadcasts that are cut into shorter chunks, as the first and the last of four take long.
pub(super) const SHORT_PIPED: u64 = 128 << 10;

/// On a Xeon of the sixth generation, allgathers of 1, 2 and 4 KiB take 0.35, 0.44 and 0.63 us so, and 0.45, 0.74 and 0.89 where each rank writes lines of its own;
/// broadcasts of 64, 96 and 128 bytes 0.26, 0.25 and 0.26 us, and 0.30, 0.28 and 0.31 where nothing is asked for (of 512 bytes and more, asked for as a whole,
/// a fifth more); of 128 KiB 8.0 in chunks of 16 KiB, 9.6 in those of 32.
const ASKED: Lines = Lines {
    exchanged_from: INLINE + 1,
    watched: 128,
    piped: 16 << 10,
};

/// On an EPYC of the fifth generation shorter data are written sooner to lines of one's own.
const TAKEN: Lines = Lines {
    exchanged_from: 16 << 10,
    watched: 0,
    piped: usize::MAX,
};

/// The values of this machine.
#[inline]
pub(super) fn here() -> &'static Lines {
    match sys::copy::hand_over() {
        HandOver::Asked => &ASKED,
        HandOver::Taken => &TAKEN,
    }
}
