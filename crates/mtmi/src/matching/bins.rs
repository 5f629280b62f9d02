//! Entries in a slab, in one ordered list and in hash bins by key.

use crate::words::{Context, Endpoint, Source, TagSel};

/// The end of a list.
pub(super) const NIL: u32 = u32::MAX;
/// Most entries of a list that are looked at one by one.
pub(super) const SHORT: usize = 8;
/// Kinds of selector: bit 0 says any source, bit 1 any tag.
pub(super) const KINDS: usize = 4;

/// A name for an entry; it goes stale when the entry leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    index: u32,
    generation: u32,
}

impl Slot {
    /// The slot as one number.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The slot that `to_bits` gave (or, of any other number, one that is stale or not its maker's).
    pub const fn from_bits(bits: u64) -> Slot {
        Slot {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// What an entry is found by. Of a wildcard's key the free parts are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub context: u32,
    pub source: u32,
    pub tag: i32,
}

impl Key {
    pub fn of_message(source: Endpoint, context: Context, tag: i32) -> Key {
        Key {
            context: context.0,
            source: source.0,
            tag,
        }
    }

    /// The key and the kind of a selector.
    #[inline]
    pub fn of_selector(from: Source, context: Context, tag: TagSel) -> (Key, usize) {
        let (source, any_source) = match from {
            Source::From(e) => (e.0, 0),
            Source::Any => (0, 1),
        };
        let (tag, any_tag) = match tag {
            TagSel::Exact(t) => (t, 0),
            TagSel::Any => (0, 2),
        };
        let key = Key {
            context: context.0,
            source,
            tag,
        };
        (key, any_source | any_tag)
    }

    /// A message's key as selectors of `kind` see it.
    #[inline]
    pub fn masked(self, kind: usize) -> Key {
        Key {
            context: self.context,
            source: if kind & 1 == 0 { self.source } else { 0 },
            tag: if kind & 2 == 0 { self.tag } else { 0 },
        }
    }

    /// Multiplicative hash; the upper bits are the good ones.
    fn hash(self) -> u64 {
        let a = (u64::from(self.context) << 32 | u64::from(self.source))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let b = (a ^ a >> 29 ^ u64::from(self.tag as u32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        b ^ b >> 32
    }
}

#[derive(Clone, Copy)]
pub(super) struct Link {
    pub prev: u32,
    pub next: u32,
}

const UNLINKED: Link = Link {
    prev: NIL,
    next: NIL,
};

/// An entry. `LINKS` is the number of bins it may be in at once.
pub(super) struct Node<T, const LINKS: usize> {
    pub key: Key,
    /// The selector's kind (posted receives), 0 for messages.
    pub kind: u8,
    generation: u32,
    pub order: Link,
    links: [Link; LINKS],
    /// `None`: the slot is free, and `order.next` is the next free one.
    pub value: Option<T>,
}

/// All entries, in order.
pub(super) struct Nodes<T, const LINKS: usize> {
    nodes: Vec<Node<T, LINKS>>,
    free: u32,
    pub head: u32,
    tail: u32,
    pub len: usize,
}

impl<T, const LINKS: usize> Default for Nodes<T, LINKS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const LINKS: usize> Nodes<T, LINKS> {
    pub const fn new() -> Self {
        Nodes {
            nodes: Vec::new(),
            free: NIL,
            head: NIL,
            tail: NIL,
            len: 0,
        }
    }

    /// The entry at `index`; none, if that is [`NIL`].
    pub fn get(&self, index: u32) -> Option<&Node<T, LINKS>> {
        self.nodes.get(index as usize)
    }

    #[inline]
    pub fn at(&self, index: u32) -> &Node<T, LINKS> {
        &self.nodes[index as usize]
    }

    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut Node<T, LINKS> {
        &mut self.nodes[index as usize]
    }

    pub fn slot(&self, index: u32) -> Slot {
        Slot {
            index,
            generation: self.at(index).generation,
        }
    }

    /// The index of a slot that isn't stale.
    pub fn index(&self, slot: Slot) -> Option<u32> {
        let node = self.nodes.get(slot.index as usize)?;
        (node.generation == slot.generation && node.value.is_some()).then_some(slot.index)
    }

    /// Appends an entry.
    #[inline]
    pub fn push(&mut self, key: Key, kind: usize, value: T) -> u32 {
        let order = Link {
            prev: self.tail,
            next: NIL,
        };
        let index = self.free;
        let index = if index != NIL {
            let node = &mut self.nodes[index as usize];
            self.free = node.order.next;
            node.key = key;
            node.kind = kind as u8;
            node.order = order;
            node.value = Some(value);
            index
        } else {
            self.grow(Node {
                key,
                kind: kind as u8,
                generation: 0,
                order,
                links: [UNLINKED; LINKS],
                value: Some(value),
            })
        };
        match self.tail {
            NIL => self.head = index,
            tail => self.nodes[tail as usize].order.next = index,
        }
        self.tail = index;
        self.len += 1;
        index
    }

    #[cold]
    fn grow(&mut self, node: Node<T, LINKS>) -> u32 {
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Takes an entry out of the list and frees its slot; it must be in no bin any more.
    #[inline]
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.at_mut(index).value.take()?;
        self.free(index);
        Some(value)
    }

    /// The same, where nobody wants its value.
    #[inline]
    pub fn discard(&mut self, index: u32) {
        if self.at_mut(index).value.is_some() {
            self.at_mut(index).value = None;
            self.free(index);
        }
    }

    /// Frees a slot that has no value any more.
    #[inline]
    fn free(&mut self, index: u32) {
        let free = self.free;
        let node = self.at_mut(index);
        let Link { prev, next } = node.order;
        node.generation = node.generation.wrapping_add(1);
        node.order.next = free;
        self.free = index;
        match prev {
            NIL => self.head = next,
            p => self.at_mut(p).order.next = next,
        }
        match next {
            NIL => self.tail = prev,
            n => self.at_mut(n).order.prev = prev,
        }
        self.len -= 1;
    }
}

/// The entries of all keys with one hash, in order.
#[derive(Clone, Copy)]
struct Bucket {
    head: u32,
    tail: u32,
}

const EMPTY: Bucket = Bucket {
    head: NIL,
    tail: NIL,
};

/// Buckets from the first entry on. Up to here no search among so many keys is long.
const FIRST: usize = 64;

/// Hash bins for one kind of key: an entry is in the bucket of its key's hash, in the order of all. There are never more entries than buckets, so
/// beside those with the key that is looked for a search sees one on average, however many there are and whatever keys they have.
pub(super) struct Bins {
    buckets: Vec<Bucket>,
    len: usize,
    /// The kind of selector that keys are masked for,
    kind: usize,
    /// and which of an entry's links is used.
    link: usize,
}

impl Bins {
    /// Empty bins for keys as selectors of `kind` see them, of entries linked by their link number `link`.
    pub const fn new(kind: usize, link: usize) -> Bins {
        Bins {
            buckets: Vec::new(),
            len: 0,
            kind,
            link,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn bucket(&self, key: Key) -> usize {
        key.hash() as usize & (self.buckets.len() - 1)
    }

    /// The first entry with `key`, which is masked, or `NIL`.
    #[inline]
    pub fn first<T, const L: usize>(&self, nodes: &Nodes<T, L>, key: Key) -> u32 {
        if self.is_empty() {
            return NIL;
        }
        let mut at = self.buckets[self.bucket(key)].head;
        while at != NIL {
            let node = nodes.at(at);
            if node.key.masked(self.kind) == key {
                break;
            }
            at = node.links[self.link].next;
        }
        at
    }

    /// Appends entry `index`.
    #[inline]
    pub fn append<T, const L: usize>(&mut self, nodes: &mut Nodes<T, L>, index: u32) {
        if self.len == self.buckets.len() {
            self.grow(nodes);
        }
        self.len += 1;
        let key = nodes.at(index).key.masked(self.kind);
        let bucket = self.bucket(key);
        self.append_to(bucket, nodes, index);
    }

    #[inline]
    fn append_to<T, const L: usize>(&mut self, bucket: usize, nodes: &mut Nodes<T, L>, index: u32) {
        let bucket = &mut self.buckets[bucket];
        let tail = std::mem::replace(&mut bucket.tail, index);
        match tail {
            NIL => bucket.head = index,
            tail => nodes.at_mut(tail).links[self.link].next = index,
        }
        nodes.at_mut(index).links[self.link] = Link {
            prev: tail,
            next: NIL,
        };
    }

    /// Takes out entry `index`, which must be in.
    #[inline]
    pub fn unlink<T, const L: usize>(&mut self, nodes: &mut Nodes<T, L>, index: u32) {
        let node = nodes.at(index);
        let (key, Link { prev, next }) = (node.key.masked(self.kind), node.links[self.link]);
        if prev != NIL {
            nodes.at_mut(prev).links[self.link].next = next;
        }
        if next != NIL {
            nodes.at_mut(next).links[self.link].prev = prev;
        }
        if prev == NIL || next == NIL {
            let bucket = self.bucket(key);
            let bucket = &mut self.buckets[bucket];
            if prev == NIL {
                bucket.head = next;
            }
            if next == NIL {
                bucket.tail = prev;
            }
        }
        self.len -= 1;
    }

    /// Doubles the buckets. What is in one of them comes from one, so it stays in order.
    #[cold]
    fn grow<T, const L: usize>(&mut self, nodes: &mut Nodes<T, L>) {
        let buckets = vec![EMPTY; (self.buckets.len() * 2).max(FIRST)];
        for Bucket { head: mut at, .. } in std::mem::replace(&mut self.buckets, buckets) {
            while at != NIL {
                let node = nodes.at(at);
                let (key, next) = (node.key.masked(self.kind), node.links[self.link].next);
                let bucket = self.bucket(key);
                self.append_to(bucket, nodes, at);
                at = next;
            }
        }
    }
}
