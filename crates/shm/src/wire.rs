//! What stands in a message's first cell, and the control messages.
//!
//! A cell is `{sequence u32, kind, length and first line u32, tag u32, context u32, payload 48 B}`; a payload beyond
//! 48 bytes lies in lines elsewhere. Numbers are in the machine's byte order: both processes
//! run on one machine. Whatever is read is bounded here before anybody uses it.

use crate::lines::{LINES, Span};
use crate::ring::{CELL, Hostile};

/// Bytes of a cell before its payload.
pub(crate) const HEADER: usize = 16;
/// Payload of one cell.
pub(crate) const INLINE: usize = CELL - HEADER;
/// Longest payload of a message in the ring.
pub(crate) const EAGER: usize = 2048;

const _: () = assert!(EAGER < 1 << KIND && LINES <= 1 << (32 - LINE));
/// Where in its word the kind of a message begins,
const KIND: u32 = 16;
/// and where the number of its first line does.
const LINE: u32 = 21;

/// In the last word of an announcement: its sender waits until it has matched,
pub(crate) const SYNCHRONOUS: u64 = 1;
/// and it comes as it does whatever would be faster.
pub(crate) const LENT: u64 = 2;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A message with its data.
    Eager,
    /// As `Eager`, with the send's name in front: to be acknowledged when matched.
    Synchronous,
    /// Announces a message whose data come through the pipe.
    Announce,
    /// Asks the sender of an announced message for its data.
    Clear,
    /// Tells a sender that its message was matched.
    Matched,
    /// Asks the receiver to drop an unmatched message.
    Cancel,
    /// The message was dropped.
    Cancelled,
    /// The message could not be dropped: it was matched before.
    Kept,
    /// A delivery to a slot streams, and needs more than one turn.
    SlotStream,
    /// Asks for the memory of a receive that is posted in a slot.
    SlotWithdraw,
    /// Agrees to that.
    SlotReturned,
    /// Asks for a delivery to a slot as a stream, which the kernel would not copy.
    SlotAgain,
    /// Announces a message whose data lie in mapped memory.
    Offer,
    /// Asks the sender of such a message to copy its part.
    Join,
    /// Announces a message whose data the receiver reads in the sender's own memory.
    Lend,
    /// Asks the sender of such a message to write its part into the receiver's own memory.
    Help,
    /// Says where the receiver may try to read the sender's memory.
    Introduce,
    /// Says the same, and that it could be read.
    Introduced,
    /// A message whose data lie in a sheet.
    Sheet,
    /// A message whose data lie on its sender's shelf.
    Shelved,
}

/// A message's header, as read: kind known, length bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub kind: Kind,
    pub len: usize,
    /// The first line of the payload, if that is longer than `INLINE`; else 0.
    pub line: u32,
    pub tag: i32,
    pub context: u32,
}

impl Header {
    /// The lines of the payload, which is longer than `INLINE`.
    #[inline(always)]
    pub fn lines(&self) -> Span {
        Span::new(self.line, self.len)
    }
}

/// Kind, length and first line in one word. That of an eager message without lines is its length.
#[inline(always)]
pub(crate) const fn pack(kind: Kind, len: usize, line: u32) -> u32 {
    line << LINE | (kind as u32) << KIND | len as u32
}

/// Kind, length and first line from their word.
#[inline(always)]
pub(crate) fn unpack(word: u32) -> Result<(Kind, usize, u32), Hostile> {
    let kind = match word << (32 - LINE) >> (32 - LINE + KIND) {
        0 => Kind::Eager,
        1 => Kind::Synchronous,
        2 => Kind::Announce,
        3 => Kind::Clear,
        4 => Kind::Matched,
        5 => Kind::Cancel,
        6 => Kind::Cancelled,
        7 => Kind::Kept,
        8 => Kind::SlotStream,
        9 => Kind::SlotWithdraw,
        10 => Kind::SlotReturned,
        11 => Kind::SlotAgain,
        12 => Kind::Offer,
        13 => Kind::Join,
        14 => Kind::Lend,
        15 => Kind::Help,
        16 => Kind::Introduce,
        17 => Kind::Introduced,
        18 => Kind::Sheet,
        19 => Kind::Shelved,
        _ => return Err(Hostile),
    };
    let (len, line) = ((word & 0xffff) as usize, word >> LINE);
    if len > EAGER || Span::new(line, len).end() > LINES {
        return Err(Hostile);
    }
    Ok((kind, len, line))
}

/// Payload of a control message: up to four words.
pub(crate) type Words = [u64; 4];

/// Bytes of a control message's payload.
pub(crate) const WORDS: usize = 32;

/// A control message's payload as bytes.
pub(crate) fn encode(words: Words) -> [u8; WORDS] {
    let mut out = [0; WORDS];
    for (o, w) in out.chunks_exact_mut(8).zip(words) {
        o.copy_from_slice(&w.to_ne_bytes());
    }
    out
}

/// A control message's payload from its bytes.
pub(crate) fn decode(bytes: &[u8]) -> Result<Words, Hostile> {
    if bytes.len() != WORDS {
        return Err(Hostile);
    }
    let mut words = [0; 4];
    for (w, b) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *w = u64::from_ne_bytes(b.try_into().map_err(|_| Hostile)?);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for kind in [Kind::Eager, Kind::Announce, Kind::Join, Kind::Sheet] {
            for line in [0, 3, LINES - 2] {
                assert_eq!(unpack(pack(kind, 77, line)), Ok((kind, 77, line)));
            }
            assert_eq!(unpack(pack(kind, 77, LINES - 1)), Err(Hostile));
        }
        assert_eq!(pack(Kind::Eager, 5, 0), 5);
        assert_eq!(unpack(pack(Kind::Eager, EAGER + 1, 0)), Err(Hostile));
        assert_eq!(unpack(20 << KIND), Err(Hostile));
        assert_eq!(
            decode(&encode([1, 2, 3, u64::MAX])),
            Ok([1, 2, 3, u64::MAX])
        );
        assert_eq!(decode(&[0; 8]), Err(Hostile));
    }
}
