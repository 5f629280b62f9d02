//! What travels over an established connection: frames of a 32-byte header and what follows it.
//!
//! `{kind u8, flags u8, zero u16, len u32, word u64, a u64, b u64}`, little-endian; `len` bytes of a body follow.
//! Whatever is read is bounded here before anybody uses it.
//!
//! | kind | len | word | a | b |
//! |---|---|---|---|---|
//! | `Message` | early bytes | tag, context | total bytes | sender's name |
//! | `Data` | bytes | | receiver's name | |
//! | `Clear` | | bytes wanted | sender's name | receiver's name |
//! | `Matched`, `Cancel`, `Cancelled`, `Kept` | | | sender's name | |
//! | `Credit` | | bytes | | |
//! | `Bye` | | | | |
//! | `SlotQuery` | | | table | |
//! | `SlotCount` | | | table | slots |
//! | `SlotPost` | | bytes it takes | table, index | generation, slots |
//! | `SlotData` | bytes | bytes that there were | table, index | generation, immediate |
//! | `SlotMore` | bytes | | table, index | generation |
//! | `SlotWithdraw`, `SlotReturned` | | | table, index | generation |

/// Bytes of a header.
pub(crate) const HEADER: usize = 32;
/// Most bytes that a message brings along unasked: what is sent while the receiver's answer to the first
/// of them is on its way. Measured on loopback: 1 MiB messages take 5 % longer with half or twice as much, 7 % with a
/// quarter.
pub(crate) const EARLY: u64 = 256 << 10;
/// Bytes of unexpected messages that a process keeps for one peer, in other words the credit that each
/// direction of a pair starts with: a few long messages, or thousands of short ones.
pub(crate) const WINDOW: u64 = 1 << 20;
/// Consumed bytes are reported once they are so many: four reports per window.
pub(crate) const REPORT: u64 = WINDOW / 4;
/// Credit that only messages of up to `MEDIUM` bytes may use: a program that has started long sends, for which nobody has posted a receive,
/// may well send short ones with blocking calls next. The others lose little by being asked for.
pub(crate) const RESERVE: u64 = WINDOW / 2;
/// Most bytes of a `Data` frame: at 10 Gbit/s a new message waits 0.2 ms behind one.
pub(crate) const FRAGMENT: u64 = 256 << 10;

/// Another process sent what no correct one sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hostile(pub &'static str);

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    /// A message, or its beginning.
    Message(Announced),
    /// More of a message: so many bytes, which the receiver asked for under its name `target`.
    Data { target: u64, len: u32 },
    /// Asks for the first `wanted` bytes of message `name`, as `target`.
    Clear { name: u64, target: u64, wanted: u64 },
    /// Tells a sender that its message was matched.
    Matched { name: u64 },
    /// Asks the receiver to drop an unmatched message.
    Cancel { name: u64 },
    /// The message was dropped.
    Cancelled { name: u64 },
    /// The message could not be dropped: it was matched before.
    Kept { name: u64 },
    /// So many unasked bytes were consumed, and as many more may come.
    Credit { bytes: u64 },
    /// Nothing more comes.
    Bye,
    /// Asks how many slots the table of this name has.
    SlotQuery { name: u32 },
    /// Tells so.
    SlotCount { name: u32, count: u32 },
    /// A receive of so many bytes is posted in a slot of a table of `count`.
    SlotPost {
        slot: SlotRef,
        count: u32,
        length: u64,
    },
    /// What is delivered to it: the first `len` bytes. The sender had `sent`.
    SlotData {
        slot: SlotRef,
        immediate: u32,
        sent: u64,
        len: u32,
    },
    /// More of it.
    SlotMore { slot: SlotRef, len: u32 },
    /// Asks for the memory of a posted receive.
    SlotWithdraw { slot: SlotRef },
    /// Agrees to that: nothing was delivered, and nothing will be.
    SlotReturned { slot: SlotRef },
}

/// A receive in a slot between two processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotRef {
    /// The table's name.
    pub name: u32,
    pub index: u32,
    /// Which receive in this slot.
    pub generation: u32,
}

/// Most slots of a table.
pub(crate) const MOST_SLOTS: u32 = 1 << 24;

/// Two numbers in a word.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announced {
    pub context: u32,
    pub tag: i32,
    /// Bytes in all.
    pub total: u64,
    /// Bytes that follow at once.
    pub early: u32,
    /// The sender's name for it, if that can be asked for more or wants to hear of the match.
    pub name: u64,
    /// Whether the sender wants to hear of the match.
    pub synchronous: bool,
}

const SYNCHRONOUS: u8 = 1;

impl Frame {
    /// The header as bytes.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER] {
        let (kind, flags, len, word, a, b) = match *self {
            Frame::Message(m) => {
                let word = u64::from(m.tag as u32) | u64::from(m.context) << 32;
                let flags = if m.synchronous { SYNCHRONOUS } else { 0 };
                (1, flags, m.early, word, m.total, m.name)
            }
            Frame::Data { target, len } => (2, 0, len, 0, target, 0),
            Frame::Clear {
                name,
                target,
                wanted,
            } => (3, 0, 0, wanted, name, target),
            Frame::Matched { name } => (4, 0, 0, 0, name, 0),
            Frame::Cancel { name } => (5, 0, 0, 0, name, 0),
            Frame::Cancelled { name } => (6, 0, 0, 0, name, 0),
            Frame::Kept { name } => (7, 0, 0, 0, name, 0),
            Frame::Credit { bytes } => (8, 0, 0, bytes, 0, 0),
            Frame::Bye => (9, 0, 0, 0, 0, 0),
            Frame::SlotQuery { name } => (10, 0, 0, 0, u64::from(name), 0),
            Frame::SlotCount { name, count } => (11, 0, 0, 0, name.into(), count.into()),
            Frame::SlotPost {
                slot,
                count,
                length,
            } => (12, 0, 0, length, slot.place(), pair(slot.generation, count)),
            Frame::SlotData {
                slot,
                immediate,
                sent,
                len,
            } => (
                13,
                0,
                len,
                sent,
                slot.place(),
                pair(slot.generation, immediate),
            ),
            Frame::SlotMore { slot, len } => {
                (14, 0, len, 0, slot.place(), pair(slot.generation, 0))
            }
            Frame::SlotWithdraw { slot } => (15, 0, 0, 0, slot.place(), pair(slot.generation, 0)),
            Frame::SlotReturned { slot } => (16, 0, 0, 0, slot.place(), pair(slot.generation, 0)),
        };
        let first = u64::from_le_bytes([kind, flags, 0, 0, 0, 0, 0, 0]) | u64::from(len) << 32;
        let mut out = [0; HEADER];
        for (o, w) in out.chunks_exact_mut(8).zip([first, word, a, b]) {
            o.copy_from_slice(&w.to_le_bytes());
        }
        out
    }

    /// The frame that a header announces, with every number in bounds.
    #[inline]
    pub fn decode(header: &[u8; HEADER]) -> Result<Frame, Hostile> {
        let mut words = [0; 4];
        for (w, b) in words.iter_mut().zip(header.as_chunks::<8>().0) {
            *w = u64::from_le_bytes(*b);
        }
        let [first, word, a, b] = words;
        let len = (first >> 32) as u32;
        let flags = (first >> 8) as u8;
        let frame = match first as u8 {
            1 => Frame::Message(Announced {
                context: (word >> 32) as u32,
                tag: word as u32 as i32,
                total: a,
                early: len,
                name: b,
                synchronous: flags & SYNCHRONOUS != 0,
            }),
            2 => Frame::Data { target: a, len },
            3 => Frame::Clear {
                name: a,
                target: b,
                wanted: word,
            },
            4 => Frame::Matched { name: a },
            5 => Frame::Cancel { name: a },
            6 => Frame::Cancelled { name: a },
            7 => Frame::Kept { name: a },
            8 => Frame::Credit { bytes: word },
            9 => Frame::Bye,
            10..=16 => Frame::decode_slot(first as u8, len, word, a, b)?,
            _ => return Err(Hostile("a frame of no known kind")),
        };
        match frame {
            Frame::Message(m) => {
                let most = m.total.min(EARLY);
                if u64::from(m.early) > most || m.total > i64::MAX as u64 || flags > SYNCHRONOUS {
                    return Err(Hostile("a message with impossible lengths"));
                }
            }
            Frame::Data { len, .. } if len == 0 || u64::from(len) > FRAGMENT => {
                return Err(Hostile("a fragment with an impossible length"));
            }
            Frame::Data { .. } | Frame::SlotData { .. } | Frame::SlotMore { .. } if flags == 0 => {}
            _ if len != 0 || flags != 0 => return Err(Hostile("a control frame with a body")),
            _ => {}
        }
        if first as u32 >> 16 != 0 {
            return Err(Hostile("a header with bits that mean nothing"));
        }
        Ok(frame)
    }

    /// As `decode`, for the frames of slots.
    fn decode_slot(kind: u8, len: u32, word: u64, a: u64, b: u64) -> Result<Frame, Hostile> {
        const STRANGE: Hostile = Hostile("a slot with impossible numbers");
        let (name, index) = (a as u32, (a >> 32) as u32);
        let slot = SlotRef {
            name,
            index,
            generation: b as u32,
        };
        let high = (b >> 32) as u32;
        let frame = match kind {
            10 => Frame::SlotQuery { name },
            11 => Frame::SlotCount {
                name,
                count: b as u32,
            },
            12 => Frame::SlotPost {
                slot,
                count: high,
                length: word,
            },
            13 => Frame::SlotData {
                slot,
                immediate: high,
                sent: word,
                len,
            },
            14 => Frame::SlotMore { slot, len },
            15 => Frame::SlotWithdraw { slot },
            _ => Frame::SlotReturned { slot },
        };
        let sane = match frame {
            Frame::SlotCount { count, .. } => (1..=MOST_SLOTS).contains(&count),
            Frame::SlotPost { count, .. } => index < count && count <= MOST_SLOTS,
            Frame::SlotData { sent, .. } => {
                let most = sent.min(FRAGMENT);
                u64::from(len) <= most && sent <= i64::MAX as u64
            }
            Frame::SlotMore { .. } => len > 0 && u64::from(len) <= FRAGMENT,
            _ => true,
        };
        match sane {
            true => Ok(frame),
            false => Err(STRANGE),
        }
    }
}

impl SlotRef {
    fn place(self) -> u64 {
        pair(self.name, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_frame() -> impl Strategy<Value = Frame> {
        let message = (
            any::<(u32, i32, u64, bool)>(),
            0..=i64::MAX as u64,
            0..=EARLY,
        );
        prop_oneof![
            message.prop_map(|((context, tag, name, synchronous), total, early)| {
                Frame::Message(Announced {
                    context,
                    tag,
                    total,
                    early: early.min(total) as u32,
                    name,
                    synchronous,
                })
            }),
            (any::<u64>(), 1..=FRAGMENT as u32)
                .prop_map(|(target, len)| Frame::Data { target, len }),
            any::<(u64, u64, u64)>().prop_map(|(name, target, wanted)| Frame::Clear {
                name,
                target,
                wanted
            }),
            any::<u64>().prop_map(|name| Frame::Matched { name }),
            any::<u64>().prop_map(|name| Frame::Cancel { name }),
            any::<u64>().prop_map(|name| Frame::Cancelled { name }),
            any::<u64>().prop_map(|name| Frame::Kept { name }),
            any::<u64>().prop_map(|bytes| Frame::Credit { bytes }),
            Just(Frame::Bye),
            any_slot_frame(),
        ]
    }

    fn any_slot_frame() -> impl Strategy<Value = Frame> {
        let slot = any::<(u32, u32, u32)>().prop_map(|(name, index, generation)| SlotRef {
            name,
            index: index % MOST_SLOTS,
            generation,
        });
        let numbers = (any::<u32>(), 0..=i64::MAX as u64, 1..=FRAGMENT as u32);
        (0..7, slot, numbers).prop_map(|(kind, slot, (number, word, len))| match kind {
            0 => Frame::SlotQuery { name: number },
            1 => Frame::SlotCount {
                name: number,
                count: slot.index + 1,
            },
            2 => Frame::SlotPost {
                slot,
                count: MOST_SLOTS - number % (MOST_SLOTS - slot.index),
                length: word,
            },
            3 => Frame::SlotData {
                slot,
                immediate: number,
                sent: word,
                len: word.min(u64::from(len)) as u32,
            },
            4 => Frame::SlotMore { slot, len },
            5 => Frame::SlotWithdraw { slot },
            _ => Frame::SlotReturned { slot },
        })
    }

    proptest! {
        #[test]
        fn frames_come_back(frame in any_frame()) {
            prop_assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }

        #[test]
        fn what_is_read_is_what_was_written(kind in 0u8..20, header in any::<[u8; 32]>()) {
            // A header has one meaning or none: no bit of it is ignored in control frames' first word.
            let mut header = header;
            header[0] = kind;
            if let Ok(frame) = Frame::decode(&header) {
                prop_assert_eq!(&frame.encode()[..8], &header[..8]);
            }
        }
    }

    #[test]
    fn bounds() {
        let mut header = Frame::Data {
            target: 1,
            len: FRAGMENT as u32,
        }
        .encode();
        assert!(Frame::decode(&header).is_ok());
        header[4] += 1;
        assert!(Frame::decode(&header).is_err());
        let mut header = Frame::Bye.encode();
        header[2] = 1;
        assert!(Frame::decode(&header).is_err());
        assert!(Frame::decode(&[0xff; HEADER]).is_err());
    }
}
