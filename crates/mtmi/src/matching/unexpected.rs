//! Messages that wait for a receive.

use std::rc::Rc;

use super::Light;
use super::bins::{Bins, KINDS, Key, NIL, Nodes, SHORT, Slot};
use crate::words::{Context, Endpoint, Source, TagSel};

/// Unexpected messages, each with a value of the fabric's.
pub struct Unexpected<T> {
    nodes: Nodes<T, KINDS>,
    bins: [Bins; KINDS],
    /// Which kinds of bins are kept now (bit by kind); none while the list is short, or its first entries are what is looked for.
    kept: u8,
    light: Rc<Light>,
}

/// The kinds whose bits are set.
#[inline]
fn kinds(mut kept: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let kind = kept.trailing_zeros() as usize;
        kept &= kept.wrapping_sub(1);
        (kind < KINDS).then_some(kind)
    })
}

impl<T> Default for Unexpected<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Unexpected<T> {
    /// No messages.
    pub fn new() -> Unexpected<T> {
        Self::with(Rc::default())
    }

    /// No messages; those to come bar the rows of `light`.
    pub fn with(light: Rc<Light>) -> Unexpected<T> {
        Unexpected {
            nodes: Nodes::new(),
            bins: [0, 1, 2, 3].map(|kind| Bins::new(kind, kind)),
            kept: 0,
            light,
        }
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.nodes.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.len == 0
    }

    /// Appends a message that no posted receive accepted.
    pub fn arrive(&mut self, source: Endpoint, context: Context, tag: i32, value: T) -> Slot {
        let key = Key::of_message(source, context, tag);
        let index = self.nodes.push(key, 0, value);
        self.light.bar(source, context, tag);
        for kind in kinds(self.kept) {
            self.bins[kind].append(&mut self.nodes, index);
        }
        self.nodes.slot(index)
    }

    /// The first message that these arguments accept.
    #[inline]
    pub fn find(&mut self, from: Source, context: Context, tag: TagSel) -> Option<Slot> {
        if self.is_empty() {
            return None;
        }
        match self.first(from, context, tag) {
            NIL => None,
            index => Some(self.nodes.slot(index)),
        }
    }

    /// Takes the first message that these arguments accept, with its source and tag.
    #[inline]
    pub fn take(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
    ) -> Option<(Endpoint, i32, T)> {
        let slot = self.find(from, context, tag)?;
        self.remove(slot)
    }

    /// Has `receive` look at the first message that these arguments accept, with its source and tag, where it lies. If that returns
    /// something, the message is gone.
    #[inline]
    pub fn take_if<R>(
        &mut self,
        from: Source,
        context: Context,
        tag: TagSel,
        receive: impl FnOnce(Endpoint, i32, &mut T) -> Option<R>,
    ) -> Option<R> {
        let index = self.first(from, context, tag);
        if index == NIL {
            return None;
        }
        let node = self.nodes.at_mut(index);
        let (source, tag) = (Endpoint(node.key.source), node.key.tag);
        let received = receive(source, tag, node.value.as_mut()?)?;
        self.unlink(index);
        self.nodes.discard(index);
        self.light.unbar(source);
        Some(received)
    }

    /// Takes the message in `slot`, if it is still there.
    pub fn remove(&mut self, slot: Slot) -> Option<(Endpoint, i32, T)> {
        let index = self.nodes.index(slot)?;
        let key = self.nodes.at(index).key;
        self.unlink(index);
        let value = self.nodes.remove(index)?;
        self.light.unbar(Endpoint(key.source));
        Some((Endpoint(key.source), key.tag, value))
    }

    /// Takes an entry that is about to go out of the bins.
    #[inline]
    fn unlink(&mut self, index: u32) {
        for kind in kinds(self.kept) {
            self.bins[kind].unlink(&mut self.nodes, index);
        }
        if self.nodes.len == 1 {
            self.kept = 0;
        }
    }

    /// Source, tag and value of the message in `slot`, if it is still there.
    pub fn get(&self, slot: Slot) -> Option<(Endpoint, i32, &T)> {
        let node = self.nodes.at(self.nodes.index(slot)?);
        let value = node.value.as_ref()?;
        Some((Endpoint(node.key.source), node.key.tag, value))
    }

    /// The value of the message in `slot`, if it is still there.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let index = self.nodes.index(slot)?;
        self.nodes.at_mut(index).value.as_mut()
    }

    /// The first message that `wanted` accepts, in the order of arrival.
    pub fn find_where(&self, mut wanted: impl FnMut(Endpoint, &T) -> bool) -> Option<Slot> {
        let mut at = self.nodes.head;
        while at != NIL {
            let node = self.nodes.at(at);
            if let Some(value) = &node.value
                && wanted(Endpoint(node.key.source), value)
            {
                return Some(self.nodes.slot(at));
            }
            at = node.order.next;
        }
        None
    }

    fn first(&mut self, from: Source, context: Context, tag: TagSel) -> u32 {
        let (key, kind) = Key::of_selector(from, context, tag);
        if self.kept >> kind & 1 != 0 {
            return self.bins[kind].first(&self.nodes, key);
        }
        // What came first is mostly wanted first, however much came behind it.
        let mut at = self.nodes.head;
        for _ in 0..SHORT {
            if at == NIL {
                return NIL;
            }
            let node = self.nodes.at(at);
            if node.key.masked(kind) == key {
                return at;
            }
            at = node.order.next;
        }
        if at == NIL {
            return NIL;
        }
        self.keep(kind);
        self.bins[kind].first(&self.nodes, key)
    }

    /// Enters every message into the bins of `kind`, which are kept from now on.
    #[cold]
    fn keep(&mut self, kind: usize) {
        self.kept |= 1 << kind;
        let mut at = self.nodes.head;
        while at != NIL {
            self.bins[kind].append(&mut self.nodes, at);
            at = self.nodes.at(at).order.next;
        }
    }
}
