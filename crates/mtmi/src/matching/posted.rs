//! Receives that wait for a message.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::Light;
use super::bins::{Bins, KINDS, Key, NIL, Nodes, SHORT, Slot};
use super::light::Post;
use crate::words::{Context, Endpoint, Source, TagSel};

/// Posted receives, each with a value of the fabric's; of light ones that is made when they are taken.
pub struct Posted<T> {
    nodes: Nodes<(u64, T), 1>,
    bins: [Bins; KINDS],
    indexed: bool,
    light: Rc<Light>,
}

impl<T> Default for Posted<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Posted<T> {
    /// No receives, and no place for light ones.
    pub fn new() -> Posted<T> {
        Self::with(Rc::default())
    }

    /// No receives but those that are or will be in `light`.
    pub fn with(light: Rc<Light>) -> Posted<T> {
        Posted {
            nodes: Nodes::new(),
            bins: [0, 1, 2, 3].map(|kind| Bins::new(kind, 0)),
            indexed: false,
            light,
        }
    }

    /// Number of receives.
    pub fn len(&self) -> usize {
        self.nodes.len + self.light.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Posts a receive behind all others.
    #[inline]
    pub fn post(&mut self, from: Source, context: Context, tag: TagSel, value: T) -> Slot {
        let (key, kind) = Key::of_selector(from, context, tag);
        let number = self.light.ordinary_posted();
        let index = self.nodes.push(key, kind, (number, value));
        if self.indexed {
            self.bins[kind].append(&mut self.nodes, index);
        } else if self.nodes.len > SHORT {
            self.build();
        }
        self.nodes.slot(index)
    }

    /// Takes the first receive that accepts this message.
    #[inline]
    pub fn take(&mut self, source: Endpoint, context: Context, tag: i32) -> Option<T>
    where
        T: From<&'static Post>,
    {
        let key = Key::of_message(source, context, tag);
        let index = if self.indexed {
            self.first_indexed(key)
        } else {
            self.first_short(key)
        };
        let older = match index {
            NIL => None,
            index => self
                .nodes
                .at(index)
                .value
                .as_ref()
                .map(|(number, _)| *number),
        };
        if let Some(post) = self.light.take(key, older) {
            return Some(T::from(post));
        }
        match index {
            NIL => None,
            index => self.take_out(index),
        }
    }

    /// Takes the first receive that accepts this message of `len` bytes, if it is a light one that ends at once when they are
    /// written to its place. `None`: nothing was done.
    #[inline(always)]
    pub fn take_at_once(
        &self,
        source: Endpoint,
        context: Context,
        tag: i32,
        len: u64,
    ) -> Option<&'static Post> {
        self.light.take_at_once(source, context, tag, len)
    }

    /// Takes a light receive that `wanted` accepts: the first of the first source that has one.
    pub fn take_light_where(
        &mut self,
        wanted: impl Fn(Endpoint, &Post) -> bool,
    ) -> Option<(Endpoint, &'static Post)> {
        self.light.take_where(wanted)
    }

    /// Takes the first ordinary receive that `wanted` accepts, in the order of posting.
    pub fn take_where(
        &mut self,
        mut wanted: impl FnMut(Source, Context, TagSel, &T) -> bool,
    ) -> Option<T> {
        let mut at = self.nodes.head;
        while at != NIL {
            let node = self.nodes.at(at);
            let (from, context, tag) = selector(node.key, node.kind);
            if let Some((_, value)) = &node.value
                && wanted(from, context, tag, value)
            {
                return self.take_out(at);
            }
            at = node.order.next;
        }
        None
    }

    /// The receives that accept this message, in the order of posting: of each what `ordinary` or `light` says.
    pub fn accepting<R>(
        &self,
        (source, context, tag): (Endpoint, Context, i32),
        ordinary: impl Fn(&T) -> R,
        light: impl Fn(&Post) -> R,
    ) -> Vec<R> {
        let key = Key::of_message(source, context, tag);
        let mut found = Vec::new();
        let mut at = self.nodes.head;
        while at != NIL {
            let node = self.nodes.at(at);
            at = node.order.next;
            if node.key == key.masked(node.kind as usize)
                && let Some((number, value)) = &node.value
            {
                found.push((*number, ordinary(value)));
            }
        }
        let posts = self.light.accepting(key).into_iter();
        found.extend(posts.map(|(after, post)| (after, light(post))));
        // An ordinary receive goes before the light ones that have its number.
        found.sort_by_key(|(number, _)| *number);
        found.into_iter().map(|(_, what)| what).collect()
    }

    /// The sources that there are receives for which name one, in order.
    pub fn sources(&self) -> BTreeSet<Endpoint> {
        let mut found: BTreeSet<Endpoint> = self.light.sources().collect();
        let mut at = self.nodes.head;
        while at != NIL {
            let node = self.nodes.at(at);
            if let (Source::From(peer), ..) = selector(node.key, node.kind) {
                found.insert(peer);
            }
            at = node.order.next;
        }
        found
    }

    /// Takes back the receive in `slot`, if it is still there.
    pub fn remove(&mut self, slot: Slot) -> Option<T> {
        let index = self.nodes.index(slot)?;
        self.take_out(index)
    }

    #[inline]
    fn first_short(&self, key: Key) -> u32 {
        let mut at = self.nodes.head;
        while at != NIL {
            let node = self.nodes.at(at);
            if node.key == key.masked(node.kind as usize) {
                break;
            }
            at = node.order.next;
        }
        at
    }

    /// The oldest of the first candidates of each kind.
    fn first_indexed(&self, key: Key) -> u32 {
        let mut best = (u64::MAX, NIL);
        for (kind, bins) in self.bins.iter().enumerate() {
            if bins.is_empty() {
                continue;
            }
            let index = bins.first(&self.nodes, key.masked(kind));
            if index != NIL
                && let Some((sequence, _)) = self.nodes.at(index).value
                && sequence < best.0
            {
                best = (sequence, index);
            }
        }
        best.1
    }

    #[inline]
    fn take_out(&mut self, index: u32) -> Option<T> {
        if self.indexed {
            let kind = self.nodes.at(index).kind;
            self.bins[kind as usize].unlink(&mut self.nodes, index);
            self.indexed = self.nodes.len > 1;
        }
        let (_, value) = self.nodes.remove(index)?;
        self.light.ordinary_gone();
        Some(value)
    }

    /// Enters every receive into the bins.
    #[cold]
    fn build(&mut self) {
        self.indexed = true;
        let mut at = self.nodes.head;
        while at != NIL {
            let kind = self.nodes.at(at).kind;
            self.bins[kind as usize].append(&mut self.nodes, at);
            at = self.nodes.at(at).order.next;
        }
    }
}

/// The selector that a key and kind were made of.
fn selector(key: Key, kind: u8) -> (Source, Context, TagSel) {
    let from = if kind & 1 == 0 {
        Source::From(Endpoint(key.source))
    } else {
        Source::Any
    };
    let tag = if kind & 2 == 0 {
        TagSel::Exact(key.tag)
    } else {
        TagSel::Any
    };
    (from, Context(key.context), tag)
}
