//! Light receives that were moved out of their source's list: found by what they accept, however many there are.
//!
//! Invariants: those of one source are in the order of posting, as all were moved that its list had, and the list takes no other until none
//! of its source is left here.
//!
//! Who calls it: [`Light`](super::Light), where a search of a list got long.

use super::bins::{Bins, Key, Nodes};
use super::light::Post;
use crate::words::{Endpoint, Source};

/// Posts by key. Each has a number, in the order in which they came here.
pub(super) struct Binned {
    nodes: Nodes<(u64, &'static Post), 1>,
    /// Those that accept one tag, and those that accept any.
    bins: [Bins; 2],
    last: u64,
}

impl Default for Binned {
    fn default() -> Binned {
        Binned {
            nodes: Nodes::new(),
            bins: [Bins::new(0, 0), Bins::new(2, 0)],
            last: 0,
        }
    }
}

/// Which bins hold keys of a kind: none of these receives is from any source.
fn of_kind(kind: usize) -> usize {
    kind >> 1
}

impl Binned {
    /// Number of posts.
    pub fn len(&self) -> usize {
        self.nodes.len
    }

    /// Adds a post of `source` behind all others.
    pub fn push(&mut self, source: Endpoint, post: &'static Post) {
        let from = Source::From(source);
        let (key, kind) = Key::of_selector(from, post.context(), post.selector());
        self.last += 1;
        let index = self.nodes.push(key, kind, (self.last, post));
        self.bins[of_kind(kind)].append(&mut self.nodes, index);
    }

    /// The first post that accepts a message with this key, and where it is.
    pub fn first(&self, key: Key) -> Option<(u32, &'static Post)> {
        let candidate = |kind: usize| {
            let index = self.bins[of_kind(kind)].first(&self.nodes, key.masked(kind));
            let (number, post) = self.nodes.get(index)?.value?;
            Some((number, index, post))
        };
        let first = [candidate(0), candidate(2)].into_iter().flatten();
        first
            .min_by_key(|(number, ..)| *number)
            .map(|(_, index, post)| (index, post))
    }

    /// Takes out the post at `index`.
    pub fn remove(&mut self, index: u32) {
        let kind = usize::from(self.nodes.at(index).kind);
        self.bins[of_kind(kind)].unlink(&mut self.nodes, index);
        self.nodes.discard(index);
    }

    /// All posts in order, with their sources and where they are.
    pub fn all(&self) -> impl Iterator<Item = (Endpoint, u32, &'static Post)> {
        let mut at = self.nodes.head;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at)?;
            let index = std::mem::replace(&mut at, node.order.next);
            let (_, post) = node.value?;
            Some((Endpoint(node.key.source), index, post))
        })
    }
}
