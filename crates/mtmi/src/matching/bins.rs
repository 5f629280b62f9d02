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

/// The entries of one key, in order.
#[derive(Clone, Copy)]
struct Bin {
    key: Key,
    head: u32,
    tail: u32,
    /// Next bin of the same bucket, or the next free one.
    chain: u32,
}

/// Hash bins for one kind of key. A bin lives while it has entries.
pub(super) struct Bins {
    buckets: Vec<u32>,
    bins: Vec<Bin>,
    free: u32,
    live: usize,
}

impl Default for Bins {
    fn default() -> Bins {
        Bins::new()
    }
}

impl Bins {
    pub const fn new() -> Bins {
        Bins {
            buckets: Vec::new(),
            bins: Vec::new(),
            free: NIL,
            live: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    fn bucket(&self, key: Key) -> usize {
        key.hash() as usize & (self.buckets.len() - 1)
    }

    fn find(&self, key: Key) -> u32 {
        if self.live == 0 {
            return NIL;
        }
        let mut b = self.buckets[self.bucket(key)];
        while b != NIL && self.bins[b as usize].key != key {
            b = self.bins[b as usize].chain;
        }
        b
    }

    /// The first entry with `key`, or `NIL`.
    pub fn first(&self, key: Key) -> u32 {
        match self.find(key) {
            NIL => NIL,
            b => self.bins[b as usize].head,
        }
    }

    /// Appends entry `index` to the bin of `key`, using its link number `link`.
    pub fn append<T, const L: usize>(
        &mut self,
        nodes: &mut Nodes<T, L>,
        link: usize,
        key: Key,
        index: u32,
    ) {
        let b = match self.find(key) {
            NIL => self.open(key),
            b => b,
        };
        let bin = &mut self.bins[b as usize];
        let tail = bin.tail;
        bin.tail = index;
        if tail == NIL {
            bin.head = index;
        } else {
            nodes.at_mut(tail).links[link].next = index;
        }
        nodes.at_mut(index).links[link] = Link {
            prev: tail,
            next: NIL,
        };
    }

    /// Takes entry `index` out of the bin of `key`, where it must be.
    pub fn unlink<T, const L: usize>(
        &mut self,
        nodes: &mut Nodes<T, L>,
        link: usize,
        key: Key,
        index: u32,
    ) {
        let b = self.find(key);
        let Link { prev, next } = nodes.at(index).links[link];
        let bin = &mut self.bins[b as usize];
        match prev {
            NIL => bin.head = next,
            p => nodes.at_mut(p).links[link].next = next,
        }
        match next {
            NIL => bin.tail = prev,
            n => nodes.at_mut(n).links[link].prev = prev,
        }
        if bin.head == NIL {
            self.close(b);
        }
    }

    fn open(&mut self, key: Key) -> u32 {
        if self.live == self.buckets.len() {
            self.rehash();
        }
        let bucket = self.bucket(key);
        let bin = Bin {
            key,
            head: NIL,
            tail: NIL,
            chain: self.buckets[bucket],
        };
        let b = self.free;
        let b = if b != NIL {
            self.free = self.bins[b as usize].chain;
            self.bins[b as usize] = bin;
            b
        } else {
            self.bins.push(bin);
            (self.bins.len() - 1) as u32
        };
        self.buckets[bucket] = b;
        self.live += 1;
        b
    }

    fn close(&mut self, b: u32) {
        let Bin { key, chain, .. } = self.bins[b as usize];
        let bucket = self.bucket(key);
        let mut at = self.buckets[bucket];
        if at == b {
            self.buckets[bucket] = chain;
        } else {
            while self.bins[at as usize].chain != b {
                at = self.bins[at as usize].chain;
            }
            self.bins[at as usize].chain = chain;
        }
        self.bins[b as usize].chain = self.free;
        self.free = b;
        self.live -= 1;
    }

    /// Doubles the buckets, so that there are never more bins than buckets.
    fn rehash(&mut self) {
        let old = std::mem::take(&mut self.buckets);
        self.buckets = vec![NIL; (old.len() * 2).max(16)];
        for mut b in old {
            while b != NIL {
                let Bin { key, chain, .. } = self.bins[b as usize];
                let bucket = self.bucket(key);
                self.bins[b as usize].chain = self.buckets[bucket];
                self.buckets[bucket] = b;
                b = chain;
            }
        }
    }
}
