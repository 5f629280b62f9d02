//! What matching by library keeps for all fabrics of a process: posted receives, unexpected
//! messages, completions to be told, and spare buffers.
//!
//! [`Matched`](crate::Matched) owns it and lends it to its [`Fabric`](crate::Fabric), which hands in
//! what arrives. One set for all fabrics, so that a receive from any source sees them all.

use std::collections::BTreeSet;
use std::rc::Rc;

use layout::Data;

use crate::matching::{Light, Post, Posted, Unexpected};
use crate::words::*;

/// A posted receive.
#[derive(Debug)]
pub struct Receive {
    /// Where its message goes.
    pub data: Data,
    /// Whose request it is.
    pub cookie: Cookie,
}

/// A message that waits for its receive.
#[derive(Debug)]
pub enum Message {
    /// All of it is here.
    Whole {
        /// Its data.
        body: Body,
        /// The sender's name for it, if that wants to hear of the match.
        synchronous: Option<u64>,
    },
    /// Its fabric has it under this name: more data come, or are asked for.
    Partial(u64),
    /// A send of this very process, by its name.
    Held(u64),
}

/// Bytes of a message kept in the queue itself; what fits a cache line beside a header.
pub const SHORT: usize = 48;

/// The data of a whole message.
#[derive(Debug)]
pub enum Body {
    /// Few.
    Short {
        /// How many of `bytes` count.
        len: u8,
        /// The data.
        bytes: [u8; SHORT],
    },
    /// Many: a buffer out of [`Queues::buffer`].
    Long(Vec<u8>),
}

impl Body {
    /// The data.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Short { len, bytes } => &bytes[..usize::from(*len).min(SHORT)],
            Body::Long(bytes) => bytes,
        }
    }
}

impl From<&'static Post> for Receive {
    #[inline]
    fn from(post: &'static Post) -> Receive {
        Receive {
            data: Data::bytes(post.buf(), post.capacity()),
            cookie: post.cookie(),
        }
    }
}

impl Receive {
    /// Its completion with a whole message of `len` bytes.
    pub fn completion(&self, source: Endpoint, tag: i32, len: u64) -> Completion {
        let capacity = self.data.len();
        let outcome = if len > capacity {
            Outcome::Truncated { sent: len }
        } else {
            Outcome::Done
        };
        Completion {
            cookie: self.cookie,
            source,
            tag,
            bytes: len.min(capacity),
            outcome,
        }
    }

    /// Its completion without a message.
    pub fn ended(&self, source: Endpoint, tag: TagSel, outcome: Outcome) -> Completion {
        Completion {
            cookie: self.cookie,
            source,
            tag: match tag {
                TagSel::Exact(tag) => tag,
                TagSel::Any => 0,
            },
            bytes: 0,
            outcome,
        }
    }
}

/// Spare buffers kept for unexpected messages.
const SPARES: usize = 16;

/// The queues.
#[derive(Default)]
pub struct Queues {
    /// Receives that wait for a message.
    pub posted: Posted<Receive>,
    /// Messages that wait for a receive.
    pub unexpected: Unexpected<Message>,
    /// Completions for the next `progress`.
    pub done: Vec<Completion>,
    /// By source, whether a probe has looked for its message in vain since [`Queues::take_awaited`].
    probed: Vec<bool>,
    light: Rc<Light>,
    spare: Vec<Vec<u8>>,
}

impl Queues {
    /// Empty queues, with light receives in `light`.
    pub fn with(light: &Rc<Light>) -> Queues {
        Queues {
            posted: Posted::with(light.clone()),
            unexpected: Unexpected::with(light.clone()),
            done: Vec::new(),
            probed: vec![false; light.rows().len()],
            light: light.clone(),
            spare: Vec::new(),
        }
    }

    /// A probe has found no message of `from`.
    #[inline]
    pub(crate) fn note_vain_probe(&mut self, from: Source) {
        if let Source::From(peer) = from
            && let Some(probed) = self.probed.get_mut(peer.index())
        {
            *probed = true;
        }
    }

    /// The sources that receives are posted for by name, and those that probes have named in vain since the last call.
    pub fn take_awaited(&mut self) -> BTreeSet<Endpoint> {
        let mut awaited = self.posted.sources();
        for (source, probed) in (0..).zip(&mut self.probed) {
            if std::mem::take(probed) {
                awaited.insert(Endpoint(source));
            }
        }
        awaited
    }

    /// An empty buffer, an old one if there is one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a buffer for the next unexpected message.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARES && buffer.capacity() > 0 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Keeps the data of a message.
    pub fn body(&mut self, data: &[u8]) -> Body {
        if data.len() <= SHORT {
            let mut bytes = [0; SHORT];
            bytes[..data.len()].copy_from_slice(data);
            return Body::Short {
                len: data.len() as u8,
                bytes,
            };
        }
        let mut buffer = self.buffer();
        buffer.extend_from_slice(data);
        Body::Long(buffer)
    }

    /// Takes an unmatched message of `peer` out: the one that `wanted` knows.
    pub fn withdraw(
        &mut self,
        peer: Endpoint,
        mut wanted: impl FnMut(&Message) -> bool,
    ) -> Option<Message> {
        let slot = self
            .unexpected
            .find_where(|source, message| source == peer && wanted(message))?;
        self.unexpected.remove(slot).map(|(_, _, message)| message)
    }

    /// Takes the receive with this cookie out, with its source and tag.
    pub fn withdraw_receive(&mut self, cookie: Cookie) -> Option<(Source, TagSel, Receive)> {
        let mut selector = (Source::Any, TagSel::Any);
        let ordinary = self.posted.take_where(|from, _, tag, receive| {
            selector = (from, tag);
            receive.cookie == cookie
        });
        if let Some(receive) = ordinary {
            return Some((selector.0, selector.1, receive));
        }
        let this = |_, post: &Post| post.cookie() == cookie;
        let (source, post) = self.posted.take_light_where(this)?;
        Some((Source::From(source), post.selector(), Receive::from(post)))
    }

    /// Ends all posted receives that only `peer` could satisfy; later ones find that it has failed.
    pub fn fail_receives(&mut self, peer: Endpoint) {
        self.light.bar_all(peer);
        while let Some((_, post)) = self.posted.take_light_where(|source, _| source == peer) {
            let end = Receive::from(post).ended(peer, post.selector(), Outcome::PeerFailed);
            self.done.push(end);
        }
        let only = Source::From(peer);
        let mut tag = TagSel::Any;
        while let Some(receive) = self.posted.take_where(|from, _, t, _| {
            tag = t;
            from == only
        }) {
            let end = receive.ended(peer, tag, Outcome::PeerFailed);
            self.done.push(end);
        }
    }
}
