//! Frames: how messages travel between mpiexec and its daemons. No I/O happens here.
//!
//! A frame is its length, an address (4 bytes each, little endian) and a body. What comes up a link
//! begins with a greeting, and bytes before it are skipped, because a login shell at the far side may
//! say something before the daemon does. Both ends treat each other as hostile: a length is checked
//! before anything is kept for it, and nothing here panics.

/// What a daemon says first.
pub const GREETING: &[u8] = b"\x01yamabiko-link-1\x02";
/// Most bytes that may come before the greeting.
const NOISE_MAX: usize = 64 << 10;
/// Longest frame on its way up: a piece of output and what stands around it.
pub const UP_MAX: usize = 128 << 10;
/// Longest frame on its way down: the environments of a host's programs.
pub const DOWN_MAX: usize = 64 << 20;

const HOP: u32 = u32::MAX;
const EVERYONE: u32 = u32::MAX - 1;

/// Whom a frame is for (down) or from (up).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// The other end of this link.
    Hop,
    /// Every daemon below.
    Everyone,
    /// This host.
    Host(u32),
}

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Whom it is for or from.
    pub address: Address,
    /// The message.
    pub body: Vec<u8>,
}

/// Why a stream is not one of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The greeting did not come.
    NoGreeting,
    /// A frame's length is impossible.
    Length,
}

/// Appends a frame to `queue`.
pub fn put(queue: &mut Vec<u8>, address: Address, body: &[u8]) {
    let number = match address {
        Address::Hop => HOP,
        Address::Everyone => EVERYONE,
        Address::Host(host) => host,
    };
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    queue.extend_from_slice(&length.to_le_bytes());
    queue.extend_from_slice(&number.to_le_bytes());
    queue.extend_from_slice(body);
}

/// Turns received bytes into frames.
pub struct Decoder {
    held: Vec<u8>,
    /// Bytes of `held` that have been taken.
    taken: usize,
    longest: usize,
    greeted: bool,
}

impl Decoder {
    /// For a stream whose frames are at most `longest`; `greeting` tells whether it begins with one.
    pub fn new(longest: usize, greeting: bool) -> Decoder {
        Decoder {
            held: Vec::new(),
            taken: 0,
            longest,
            greeted: !greeting,
        }
    }

    /// Takes received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.held.drain(..self.taken);
            self.taken = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// The next frame, if it is complete. After an error the stream is of no use any more.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Broken> {
        if !self.greeted {
            let at = self
                .held
                .windows(GREETING.len())
                .position(|w| w == GREETING);
            match at {
                Some(at) => {
                    self.greeted = true;
                    self.taken = at + GREETING.len();
                }
                None if self.held.len() > NOISE_MAX => return Err(Broken::NoGreeting),
                None => return Ok(None),
            }
        }
        let rest = &self.held[self.taken..];
        let Some((length, after)) = word(rest) else {
            return Ok(None);
        };
        let length = length as usize;
        if length < 4 || length > self.longest {
            return Err(Broken::Length);
        }
        let (Some((number, _)), true) = (word(after), after.len() >= length) else {
            return Ok(None);
        };
        let address = match number {
            HOP => Address::Hop,
            EVERYONE => Address::Everyone,
            host => Address::Host(host),
        };
        let body = after[4..length].to_vec();
        self.taken += 4 + length;
        Ok(Some(Frame { address, body }))
    }
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*first), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(decoder: &mut Decoder) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = decoder.next_frame() {
            frames.push(frame);
        }
        frames
    }

    #[test]
    fn what_a_shell_says_first_is_skipped() {
        let mut bytes = b"Welcome to node7!\n\x01yamabiko".to_vec();
        bytes.extend_from_slice(GREETING);
        put(&mut bytes, Address::Host(3), b"news");
        let mut decoder = Decoder::new(UP_MAX, true);
        decoder.feed(&bytes);
        let frame = Frame {
            address: Address::Host(3),
            body: b"news".to_vec(),
        };
        assert_eq!(decoder.next_frame(), Ok(Some(frame)));
        assert_eq!(decoder.next_frame(), Ok(None));
        let mut endless = Decoder::new(UP_MAX, true);
        endless.feed(&[b'x'; NOISE_MAX]);
        assert_eq!(endless.next_frame(), Ok(None));
        endless.feed(b"x");
        assert_eq!(endless.next_frame(), Err(Broken::NoGreeting));
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for length in [0, 3, UP_MAX as u32 + 1, u32::MAX] {
            let mut decoder = Decoder::new(UP_MAX, false);
            decoder.feed(&length.to_le_bytes());
            assert_eq!(decoder.next_frame(), Err(Broken::Length), "{length}");
        }
    }

    fn address() -> impl Strategy<Value = Address> {
        prop_oneof![
            Just(Address::Hop),
            Just(Address::Everyone),
            (0..EVERYONE).prop_map(Address::Host),
        ]
    }

    proptest! {
        /// However the bytes are cut, the frames come out as they were put in.
        #[test]
        fn frames_survive_any_cut(
            frames in proptest::collection::vec((address(), proptest::collection::vec(any::<u8>(), 0..60)), 0..20),
            cuts in proptest::collection::vec(1usize..90, 1..200),
        ) {
            let mut bytes = GREETING.to_vec();
            for (address, body) in &frames {
                put(&mut bytes, *address, body);
            }
            let mut decoder = Decoder::new(64, true);
            let (mut got, mut rest) = (Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                decoder.feed(piece);
                got.extend(all(&mut decoder).into_iter().map(|f| (f.address, f.body)));
                rest = after;
            }
            prop_assert_eq!(got, frames);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), greeting: bool) {
            let mut decoder = Decoder::new(64, greeting);
            decoder.feed(&bytes);
            for frame in all(&mut decoder) {
                prop_assert!(frame.body.len() <= 60);
            }
        }
    }
}
