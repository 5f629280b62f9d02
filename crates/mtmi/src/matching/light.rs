//! Receives posted without a copy: each lies in its owner's request, in a short list of its source.
//!
//! An ordinary receive is moved into [`Posted`](super::Posted), and its end out of a list of completions. A [`Post`] stays where it is:
//! whoever has its message in hand finds it, writes the data home and marks it as ended, all through shared
//! references. What is special about a source, so that a receive from it has to go the ordinary way, is one word
//! beside the list ([`Row`]).
//!
//! Invariants: a list is in the order of posting and at most [`MOST`] long; a post is in one list at most, and none once it has
//! ended. Which of a post and an ordinary receive is the older one tells the number of ordinary ones posted before it. A row is
//! barred for a context and tag while a message of its source with these is unexpected (or with others that share
//! a bit with them), and for all from when its source has failed.
//!
//! Who calls it: `Posted` and `Unexpected`, so fabrics see no difference; the engine's short paths, which post here and look at rows;
//! and fabrics that end a post at once.

use std::cell::Cell;

use boundary::UserBuf;

use super::bins::Key;
use crate::words::{Context, Cookie, Endpoint, TagSel};

/// Longest list of a source. Searching one costs no more than a look into the bins.
const MOST: u32 = 32;

/// A receive of contiguous bytes from one source, as part of its owner's request. It is used again and again.
#[derive(Default)]
#[repr(C)]
pub struct Post {
    next: Cell<Option<&'static Post>>,
    /// Context and tag, as one number,
    key: Cell<u64>,
    /// and which of its bits count.
    mask: Cell<u64>,
    buf: Cell<UserBuf>,
    capacity: Cell<u64>,
    cookie: Cell<Cookie>,
    /// Number of the last ordinary receive that was posted before.
    after: Cell<u64>,
    /// Parts of its owner's request that have not ended, and [`TELLS`].
    state: Cell<u64>,
    bytes: Cell<u64>,
    /// What its owner calls its source, and the tag of its message.
    origin: [Cell<i32>; 2],
}

/// The bit of a post's state that says that its end is told by a completion, or that it is none.
const TELLS: u64 = 1 << 32;

/// Context and tag of a message as one number.
#[inline(always)]
fn number(context: Context, tag: i32) -> u64 {
    u64::from(context.0) << 32 | u64::from(tag as u32)
}

/// The bits of that number that are the context.
const ANY_TAG: u64 = !0 << 32;

impl Post {
    /// Parts of its owner's request that have not ended; this receive is one. The owner may count others here, and use it when there is no
    /// receive.
    #[inline(always)]
    pub fn parts(&self) -> u32 {
        self.state.get() as u32
    }

    /// Sets how many parts have not ended; the owner has nothing posted.
    #[inline]
    pub fn set_parts(&self, parts: u32) {
        self.state.set(TELLS | u64::from(parts));
    }

    /// A part has ended.
    #[inline]
    pub fn part_ended(&self) {
        self.state.set(self.state.get() - 1);
    }

    /// Whether it ended at once.
    #[inline(always)]
    pub fn is_finished(&self) -> bool {
        self.state.get() == 0
    }

    /// Whose request it is.
    pub fn cookie(&self) -> Cookie {
        self.cookie.get()
    }

    /// In which context it receives.
    pub fn context(&self) -> Context {
        Context((self.key.get() >> 32) as u32)
    }

    /// Which tags it accepts.
    pub fn selector(&self) -> TagSel {
        match self.mask.get() {
            ANY_TAG => TagSel::Any,
            _ => TagSel::Exact(self.key.get() as u32 as i32),
        }
    }

    /// Where its message goes.
    #[inline(always)]
    pub fn buf(&self) -> UserBuf {
        self.buf.get()
    }

    /// Most bytes that fit there.
    #[inline(always)]
    pub fn capacity(&self) -> u64 {
        self.capacity.get()
    }

    /// What its owner calls its source, and the tag of its message once it has ended at once.
    #[inline(always)]
    pub fn origin(&self) -> (i32, i32) {
        (self.origin[0].get(), self.origin[1].get())
    }

    /// The length of its message, once it has ended at once.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Its end is to be told by a completion: somebody has to do something then.
    pub fn tell(&self) {
        self.set_parts(self.parts());
    }

    /// Its message of `bytes` bytes, which fit, was written to its place: the end.
    #[inline(always)]
    pub fn finish(&self, tag: i32, bytes: u64) {
        self.origin[1].set(tag);
        self.bytes.set(bytes);
        self.part_ended();
    }

    #[inline(always)]
    fn accepts(&self, number: u64) -> bool {
        (self.key.get() ^ number) & self.mask.get() == 0
    }
}

/// What there is of one source: posts, and what bars others.
#[derive(Default)]
#[repr(C, align(32))]
pub struct Row {
    /// Posts in the list.
    posts: Cell<u32>,
    /// Reasons to go the ordinary way: unexpected messages, and a failure.
    bars: Cell<u32>,
    /// For which contexts and tags; all bits are clear when there is no reason.
    barred: Cell<u64>,
    head: Cell<Option<&'static Post>>,
    tail: Cell<Option<&'static Post>>,
}

/// The bit of a context and tag in [`Row::barred`]; neighbours have different ones.
#[inline(always)]
fn bit(context: Context, tag: i32) -> u64 {
    1 << (context.0.wrapping_add(tag as u32) & 63)
}

impl Row {
    /// Whether a receive may be posted here.
    #[inline(always)]
    pub fn is_open(&self, context: Context, tag: TagSel) -> bool {
        self.posts.get() < MOST && !self.is_barred(context, tag)
    }

    /// Whether no receive is posted here and no unexpected message may be for one that would be.
    #[inline(always)]
    pub fn is_clear(&self, context: Context, tag: TagSel) -> bool {
        self.posts.get() == 0 && !self.is_barred(context, tag)
    }

    #[inline(always)]
    fn is_barred(&self, context: Context, tag: TagSel) -> bool {
        let bits = match tag {
            TagSel::Exact(tag) => bit(context, tag),
            TagSel::Any => !0,
        };
        self.barred.get() & bits != 0
    }

    #[inline(always)]
    fn append(&self, post: &'static Post) {
        self.posts.set(self.posts.get() + 1);
        match self.tail.replace(Some(post)) {
            None => self.head.set(Some(post)),
            Some(last) => last.next.set(Some(post)),
        }
    }

    /// The first post that accepts a message, and the one before it.
    #[inline(always)]
    fn find(&self, number: u64) -> Option<(Option<&'static Post>, &'static Post)> {
        self.find_where(|post| post.accepts(number))
    }

    #[inline(always)]
    fn find_where(
        &self,
        wanted: impl Fn(&Post) -> bool,
    ) -> Option<(Option<&'static Post>, &'static Post)> {
        let (mut before, mut at) = (None, self.head.get());
        while let Some(post) = at {
            if wanted(post) {
                return Some((before, post));
            }
            (before, at) = (at, post.next.get());
        }
        None
    }

    #[inline(always)]
    fn unlink(&self, before: Option<&'static Post>, post: &'static Post) {
        let next = post.next.get();
        match before {
            None => self.head.set(next),
            Some(before) => before.next.set(next),
        }
        if next.is_none() {
            self.tail.set(before);
        }
        self.posts.set(self.posts.get() - 1);
    }
}

/// The rows of all sources, and what ordinary receives there are beside them.
#[derive(Default)]
pub struct Light {
    rows: Box<[Row]>,
    /// Number of the last ordinary receive.
    last: Cell<u64>,
    /// Ordinary receives that are posted now.
    ordinary: Cell<usize>,
}

impl Light {
    /// Rows for so many sources.
    pub(crate) fn new(sources: usize) -> Light {
        Light {
            rows: (0..sources).map(|_| Row::default()).collect(),
            ..Light::default()
        }
    }

    /// One row for each source, in order.
    #[inline(always)]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether ordinary receives are posted.
    #[inline(always)]
    pub fn has_ordinary(&self) -> bool {
        self.ordinary.get() != 0
    }

    /// Posts a receive in a row of these that [is open](Row::is_open) to it, behind all others. `source` is what its owner calls
    /// the row's source.
    #[inline(always)]
    pub fn post(
        &self,
        row: &Row,
        post: &'static Post,
        (source, context, tag): (i32, Context, TagSel),
        (buf, capacity): (UserBuf, u64),
        cookie: Cookie,
    ) {
        let (tag, mask) = match tag {
            TagSel::Exact(tag) => (tag, !0),
            TagSel::Any => (0, ANY_TAG),
        };
        post.next.set(None);
        post.key.set(number(context, tag));
        post.mask.set(mask);
        post.buf.set(buf);
        post.capacity.set(capacity);
        post.cookie.set(cookie);
        post.after.set(self.last.get());
        post.state.set(1);
        post.origin[0].set(source);
        row.append(post);
    }

    /// Takes the first post that accepts this message, if that is what comes first, it fits, and nobody is to be told.
    #[inline(always)]
    pub(super) fn take_at_once(
        &self,
        source: Endpoint,
        context: Context,
        tag: i32,
        len: u64,
    ) -> Option<&'static Post> {
        let row = self.rows.get(source.index())?;
        let (before, post) = row.find(number(context, tag))?;
        let tells = post.state.get() & TELLS != 0;
        if self.has_ordinary() || len > post.capacity.get() || tells {
            return None;
        }
        row.unlink(before, post);
        Some(post)
    }

    /// Takes the first post that accepts this message, to be told by a completion, unless the ordinary receive numbered `older` comes before it.
    #[inline]
    pub(super) fn take(&self, key: Key, older: Option<u64>) -> Option<&'static Post> {
        let row = self.rows.get(key.source as usize)?;
        let (before, post) = row.find(number(Context(key.context), key.tag))?;
        if older.is_some_and(|number| number <= post.after.get()) {
            return None;
        }
        row.unlink(before, post);
        post.tell();
        Some(post)
    }

    /// Takes the first post, source by source, that `wanted` accepts, to be told by a completion.
    pub(super) fn take_where(
        &self,
        wanted: impl Fn(Endpoint, &Post) -> bool,
    ) -> Option<(Endpoint, &'static Post)> {
        self.rows.iter().zip(0..).find_map(|(row, source)| {
            let source = Endpoint(source);
            let (before, post) = row.find_where(|post| wanted(source, post))?;
            row.unlink(before, post);
            post.tell();
            Some((source, post))
        })
    }

    /// The posts that accept this message, each with the number of the ordinary receive it follows.
    pub(super) fn accepting(&self, key: Key) -> impl Iterator<Item = (u64, &'static Post)> {
        let number = number(Context(key.context), key.tag);
        let mut at = self
            .rows
            .get(key.source as usize)
            .and_then(|r| r.head.get());
        let posts = std::iter::from_fn(move || {
            let post = at?;
            at = post.next.get();
            Some(post)
        });
        let accepting = posts.filter(move |post| post.accepts(number));
        accepting.map(|post| (post.after.get(), post))
    }

    /// The sources that receives are posted for.
    pub(super) fn sources(&self) -> impl Iterator<Item = Endpoint> {
        let rows = (0..).zip(&self.rows);
        rows.filter(|(_, row)| row.posts.get() > 0)
            .map(|(source, _)| Endpoint(source))
    }

    /// Number of posts.
    pub(super) fn len(&self) -> usize {
        self.rows.iter().map(|row| row.posts.get() as usize).sum()
    }

    /// An ordinary receive is posted: its number.
    #[inline]
    pub(super) fn ordinary_posted(&self) -> u64 {
        self.ordinary.set(self.ordinary.get() + 1);
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// An ordinary receive is posted no more.
    #[inline]
    pub(super) fn ordinary_gone(&self) {
        self.ordinary.set(self.ordinary.get() - 1);
    }

    /// A message is unexpected: receives from its source that might be for it go the ordinary way.
    #[inline]
    pub(super) fn bar(&self, source: Endpoint, context: Context, tag: i32) {
        self.bar_bits(source, bit(context, tag));
    }

    /// All receives from `source` go the ordinary way from now on.
    pub(crate) fn bar_all(&self, source: Endpoint) {
        self.bar_bits(source, !0);
    }

    #[inline]
    fn bar_bits(&self, source: Endpoint, bits: u64) {
        if let Some(row) = self.rows.get(source.index()) {
            row.bars.set(row.bars.get() + 1);
            row.barred.set(row.barred.get() | bits);
        }
    }

    /// A message of `source` is unexpected no more. Bits stay until the last has gone.
    #[inline]
    pub(super) fn unbar(&self, source: Endpoint) {
        if let Some(row) = self.rows.get(source.index()) {
            row.bars.set(row.bars.get() - 1);
            if row.bars.get() == 0 {
                row.barred.set(0);
            }
        }
    }
}
