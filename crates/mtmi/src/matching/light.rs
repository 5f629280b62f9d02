//! Receives posted without a copy: each lies in its owner's request, in a short list of its source.
//!
//! An ordinary receive is moved into [`Posted`](super::Posted), and its end out of a list of completions. A [`Post`] stays where it is:
//! whoever has its message in hand finds it, writes the data home and marks it as ended, all through shared
//! references. What is special about a source, so that a receive from it has to go the ordinary way, is one word
//! beside the list ([`Row`]).
//!
//! A list is as long as it gets: messages mostly come in the order in which their receives were posted, so the first is the one. If
//! a search would go beyond [`MOST`] of them, all go to [bins](super::binned), where none is searched for, and the row takes no other until
//! these are gone. So each is moved once at most, and a search costs the same however many are posted.
//!
//! Invariants: a list is in the order of posting, and empty while posts of its source are in bins; a post is in one list or bin at most, and
//! none once it has ended; then it has no next one. Which of a post and an ordinary receive is the older one tells the number of ordinary ones posted before it. A row is
//! barred for a context and tag while a message of its source with these is unexpected (or with others that share
//! a bit with them), for all while posts of its source are in bins, and for all from when its source has failed.
//!
//! Who calls it: `Posted` and `Unexpected`, so fabrics see no difference; the engine's short paths, which post here and look at rows;
//! and fabrics that end a post at once.

use std::cell::{Cell, RefCell};

use boundary::UserBuf;

use super::binned::Binned;
use super::bins::Key;
use crate::words::{Context, Cookie, Endpoint, TagSel};

/// So many of a list a search looks at. That costs no more than a look into the bins.
const MOST: u32 = 32;

/// Where a post is linked in: a list's head, or the post before.
type Link = Cell<Option<&'static Post>>;

/// A receive of contiguous bytes from one source, as part of its owner's request. It is used again and again.
#[derive(Default)]
#[repr(C)]
pub struct Post {
    /// Parts of its owner's request that have not ended, and [`TELLS`]. It comes first, for who looks at it together with what is before.
    state: Cell<u32>,
    context: Cell<u32>,
    /// The tag that it accepts, or [`ANY_TAG`].
    tag: Cell<i32>,
    /// What its owner calls its source, and the tag of its message.
    origin: [Cell<i32>; 2],
    bytes: Cell<u64>,
    next: Link,
    buf: Cell<UserBuf>,
    capacity: Cell<u64>,
    /// Number of the last ordinary receive that was posted before.
    after: Cell<u64>,
    cookie: Cell<Cookie>,
}

/// The bit of a post's state that says that its end is told by a completion, or that it is none.
const TELLS: u32 = 1 << 31;

/// Any tag. It is that of no message.
const ANY_TAG: i32 = i32::MIN;

impl Post {
    /// The [state](Post::state) of one that is posted and of which no completion tells.
    pub const PENDING: u32 = 1;

    /// Parts of its owner's request that have not ended; this receive is one. The owner may count others here, and use it when there is no
    /// receive.
    #[inline(always)]
    pub fn parts(&self) -> u32 {
        self.state.get() & !TELLS
    }

    /// Sets how many parts have not ended; the owner has nothing posted.
    #[inline]
    pub fn set_parts(&self, parts: u32) {
        self.state.set(TELLS | parts);
    }

    /// A part has ended.
    #[inline]
    pub fn part_ended(&self) {
        self.state.set(self.state.get() - 1);
    }

    /// Whether it ended at once.
    #[inline(always)]
    pub fn is_finished(&self) -> bool {
        self.state() == 0
    }

    /// 0 if it ended at once, and [`PENDING`](Post::PENDING) while it may. It is the first word of a post.
    #[inline(always)]
    pub fn state(&self) -> u32 {
        self.state.get()
    }

    /// Says where the message goes of a receive that is to be posted, and how many bytes fit there.
    #[inline(always)]
    pub fn set_place(&self, buf: UserBuf, capacity: u64) {
        self.buf.set(buf);
        self.capacity.set(capacity);
    }

    /// Says whose request it is. So it stays, however often it is posted.
    pub fn set_cookie(&self, cookie: Cookie) {
        self.cookie.set(cookie);
    }

    /// Whose request it is.
    pub fn cookie(&self) -> Cookie {
        self.cookie.get()
    }

    /// In which context it receives.
    pub fn context(&self) -> Context {
        Context(self.context.get())
    }

    /// Which tags it accepts.
    pub fn selector(&self) -> TagSel {
        match self.tag.get() {
            ANY_TAG => TagSel::Any,
            tag => TagSel::Exact(tag),
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

    /// It is over without having been posted: its message of `bytes` bytes, which fit, was here and is written to its place. `source`
    /// is what its owner calls its source.
    #[inline]
    pub fn end_unposted(&self, (source, context): (i32, Context), tag: i32, bytes: u64) {
        self.context.set(context.0);
        self.tag.set(tag);
        self.origin[0].set(source);
        self.state.set(1);
        self.finish(tag, bytes);
    }

    #[inline(always)]
    fn accepts(&self, context: Context, tag: i32) -> bool {
        let wanted = self.tag.get();
        (wanted == tag || wanted == ANY_TAG) && self.context.get() == context.0
    }
}

/// What there is of one source: posts, and what bars others.
#[repr(C, align(32))]
pub struct Row {
    /// How many posts are in bins.
    binned: Cell<u32>,
    /// Reasons to go the ordinary way: unexpected messages, a failure, posts in bins.
    bars: Cell<u32>,
    /// For which contexts and tags; all bits are clear when there is no reason.
    barred: Cell<u64>,
    head: Link,
    /// Where the next post is linked in: the head, or the last post.
    end: Cell<&'static Link>,
}

/// The bit of a context and tag in [`Row::barred`]; neighbouring tags have different ones. Of the context it matters only whether it is odd: so
/// who knows that need not load it.
#[inline(always)]
fn bit(context: Context, tag: i32) -> u64 {
    1 << ((context.0 << 5).wrapping_add(tag as u32) & 63)
}

impl Row {
    /// Whether a receive may be posted here.
    #[inline(always)]
    pub fn is_open(&self, context: Context, tag: TagSel) -> bool {
        !self.is_barred(context, tag)
    }

    /// Whether no receive is posted here and no unexpected message may be for one that would be.
    #[inline(always)]
    pub fn is_clear(&self, context: Context, tag: TagSel) -> bool {
        self.head.get().is_none() && !self.is_barred(context, tag)
    }

    #[inline(always)]
    fn is_barred(&self, context: Context, tag: TagSel) -> bool {
        let bits = match tag {
            TagSel::Exact(tag) => bit(context, tag),
            TagSel::Any => !0,
        };
        self.barred.get() & bits != 0
    }

    /// Posts a receive here, if the row [is open](Row::is_open) to it, behind all others. `source` is what its owner calls the row's
    /// source. Whose it is, and the place of its message, was said before.
    #[inline(always)]
    pub fn post(
        &self,
        post: &'static Post,
        (source, context, tag): (i32, Context, TagSel),
        ordinary: &Ordinary,
    ) {
        post.state.set(Post::PENDING);
        post.context.set(context.0);
        post.tag.set(match tag {
            TagSel::Exact(tag) => tag,
            TagSel::Any => ANY_TAG,
        });
        post.origin[0].set(source);
        post.after.set(ordinary[0].get());
        self.append(post);
    }

    #[inline(always)]
    fn append(&self, post: &'static Post) {
        self.end.get().set(Some(post));
        self.end.set(&post.next);
    }

    /// The first post in the list that is `wanted`, and where it is linked in.
    fn find_where(
        &'static self,
        wanted: impl Fn(&Post) -> bool,
    ) -> Option<(&'static Link, &'static Post)> {
        let mut link = &self.head;
        while let Some(post) = link.get() {
            if wanted(post) {
                return Some((link, post));
            }
            link = &post.next;
        }
        None
    }

    /// Takes out a post that `link` links in.
    #[inline(always)]
    fn unlink(&self, link: &'static Link, post: &Post) {
        let next = post.next.take();
        link.set(next);
        if next.is_none() {
            self.end.set(link);
        }
    }

    /// Whether there are posts of its source, in the list or in bins.
    fn has_posts(&self) -> bool {
        self.head.get().is_some() || self.binned.get() > 0
    }

    /// The posts in the list.
    fn listed(&self) -> impl Iterator<Item = &'static Post> {
        std::iter::successors(self.head.get(), |post| post.next.get())
    }

    /// Moves all posts of the list, which has some, to bins.
    fn move_to(&'static self, binned: &mut Binned, source: Endpoint) {
        if self.binned.get() == 0 {
            self.bar(!0);
        }
        while let Some(post) = self.head.get() {
            self.unlink(&self.head, post);
            binned.push(source, post);
            self.binned.set(self.binned.get() + 1);
        }
    }

    /// A post of its source has left the bins.
    fn left_bins(&self) {
        self.binned.set(self.binned.get() - 1);
        if self.binned.get() == 0 {
            self.unbar();
        }
    }

    /// A reason more to go the ordinary way, for the contexts and tags of these bits.
    #[inline]
    fn bar(&self, bits: u64) {
        self.bars.set(self.bars.get() + 1);
        self.barred.set(self.barred.get() | bits);
    }

    /// A reason less. Bits stay until the last has gone.
    #[inline]
    fn unbar(&self) {
        self.bars.set(self.bars.get() - 1);
        if self.bars.get() == 0 {
            self.barred.set(0);
        }
    }
}

/// What ordinary receives there are beside the light ones: the number of the last, and how many are posted now. Who posts looks at it
/// each time, so it may lie where that is near.
pub type Ordinary = [Cell<u64>; 2];

/// Whether ordinary receives are posted.
#[inline(always)]
pub fn has_ordinary(ordinary: &Ordinary) -> bool {
    ordinary[1].get() != 0
}

/// Where a post is that was found.
enum Place {
    /// Linked in there.
    Listed(&'static Link),
    /// In bins, with that index.
    Binned(u32),
}

/// A post that was found: its row, where it is, and itself.
type Found = (&'static Row, Place, &'static Post);

/// The rows of all sources, and what ordinary receives there are beside them.
pub struct Light {
    rows: &'static [Row],
    /// The posts of lists in which a search got long.
    binned: RefCell<Binned>,
    /// What the rows were made with; kept, so that no tool for finding leaks takes it for lost.
    _nowhere: Option<&'static Link>,
    /// The ordinary receives, unless they are noted elsewhere.
    own: Ordinary,
    elsewhere: Option<&'static Ordinary>,
}

impl Default for Light {
    /// No rows: nothing is posted here.
    fn default() -> Light {
        Light {
            rows: &[],
            binned: RefCell::default(),
            _nowhere: None,
            own: Ordinary::default(),
            elsewhere: None,
        }
    }
}

impl Light {
    /// Rows for so many sources. They are never given back: lists point to where they begin.
    pub fn new(sources: usize) -> Light {
        let nowhere: &'static Link = Box::leak(Box::default());
        let row = |_| Row {
            binned: Cell::new(0),
            bars: Cell::new(0),
            barred: Cell::new(0),
            head: Cell::new(None),
            end: Cell::new(nowhere),
        };
        let rows: &'static [Row] = Vec::leak((0..sources).map(row).collect());
        rows.iter().for_each(|row| row.end.set(&row.head));
        Light {
            rows,
            _nowhere: Some(nowhere),
            ..Light::default()
        }
    }

    /// The same, where the ordinary receives are noted there.
    pub(crate) fn beside(sources: usize, ordinary: &'static Ordinary) -> Light {
        ordinary.iter().for_each(|number| number.set(0));
        Light {
            elsewhere: Some(ordinary),
            ..Light::new(sources)
        }
    }

    /// One row for each source, in order.
    #[inline(always)]
    pub fn rows(&self) -> &'static [Row] {
        self.rows
    }

    /// The ordinary receives.
    #[inline(always)]
    pub fn ordinary(&self) -> &Ordinary {
        self.elsewhere.unwrap_or(&self.own)
    }

    /// The first post that accepts this message.
    #[inline(always)]
    fn find(&self, key: Key) -> Option<Found> {
        let row = self.rows.get(key.source as usize)?;
        let mut link = &row.head;
        for _ in 0..MOST {
            match link.get() {
                Some(post) if post.accepts(Context(key.context), key.tag) => {
                    return Some((row, Place::Listed(link), post));
                }
                Some(post) => link = &post.next,
                None if row.binned.get() == 0 => return None,
                None => break,
            }
        }
        self.find_binned(row, key)
    }

    /// The same where the posts are in bins, or should be.
    #[cold]
    #[inline(never)]
    fn find_binned(&self, row: &'static Row, key: Key) -> Option<Found> {
        let mut binned = self.binned.borrow_mut();
        if row.head.get().is_some() {
            row.move_to(&mut binned, Endpoint(key.source));
        }
        let (index, post) = binned.first(key)?;
        Some((row, Place::Binned(index), post))
    }

    /// Takes out a post that was found.
    #[inline(always)]
    fn take_out(&self, (row, place, post): Found) -> &'static Post {
        match place {
            Place::Listed(link) => row.unlink(link, post),
            Place::Binned(index) => self.take_out_of_bins(row, index),
        }
        post
    }

    #[cold]
    #[inline(never)]
    fn take_out_of_bins(&self, row: &Row, index: u32) {
        self.binned.borrow_mut().remove(index);
        row.left_bins();
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
        let found = self.find(Key::of_message(source, context, tag))?;
        let (_, _, post) = found;
        let tells = post.state.get() & TELLS != 0;
        if has_ordinary(self.ordinary()) || len > post.capacity.get() || tells {
            return None;
        }
        Some(self.take_out(found))
    }

    /// Takes the first post that accepts this message, to be told by a completion, unless the ordinary receive numbered `older` comes before it.
    #[inline]
    pub(super) fn take(&self, key: Key, older: Option<u64>) -> Option<&'static Post> {
        let found = self.find(key)?;
        let (_, _, post) = found;
        if older.is_some_and(|number| number <= post.after.get()) {
            return None;
        }
        post.tell();
        Some(self.take_out(found))
    }

    /// Takes the first post that `wanted` accepts, to be told by a completion. Of one source's the first is the oldest.
    pub(super) fn take_where(
        &self,
        wanted: impl Fn(Endpoint, &Post) -> bool,
    ) -> Option<(Endpoint, &'static Post)> {
        let listed = self.rows.iter().zip(0..).find_map(|(row, source)| {
            let (link, post) = row.find_where(|post| wanted(Endpoint(source), post))?;
            Some((Endpoint(source), (row, Place::Listed(link), post)))
        });
        let (source, found) = listed.or_else(|| {
            let binned = self.binned.borrow();
            let mut all = binned.all();
            let (source, index, post) = all.find(|(source, _, post)| wanted(*source, post))?;
            let row = &self.rows[source.index()];
            Some((source, (row, Place::Binned(index), post)))
        })?;
        let post = self.take_out(found);
        post.tell();
        Some((source, post))
    }

    /// The posts that accept this message, in order, each with the number of the ordinary receive it follows.
    pub(super) fn accepting(&self, key: Key) -> Vec<(u64, &'static Post)> {
        let binned = self.binned.borrow();
        let of_source = binned.all().filter(|(source, ..)| source.0 == key.source);
        let row = self.rows.get(key.source as usize);
        let all = of_source
            .map(|(.., post)| post)
            .chain(row.into_iter().flat_map(Row::listed));
        let accepting = all.filter(|post| post.accepts(Context(key.context), key.tag));
        accepting.map(|post| (post.after.get(), post)).collect()
    }

    /// The sources that receives are posted for.
    pub(super) fn sources(&self) -> impl Iterator<Item = Endpoint> {
        let rows = (0..).zip(self.rows);
        rows.filter(|(_, row)| row.has_posts())
            .map(|(source, _)| Endpoint(source))
    }

    /// Number of posts.
    pub(super) fn len(&self) -> usize {
        let listed: usize = self.rows.iter().map(|row| row.listed().count()).sum();
        listed + self.binned.borrow().len()
    }

    /// An ordinary receive is posted: its number.
    #[inline]
    pub(super) fn ordinary_posted(&self) -> u64 {
        let [last, posted] = self.ordinary();
        posted.set(posted.get() + 1);
        last.set(last.get() + 1);
        last.get()
    }

    /// An ordinary receive is posted no more.
    #[inline]
    pub(super) fn ordinary_gone(&self) {
        let [_, posted] = self.ordinary();
        posted.set(posted.get() - 1);
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
            row.bar(bits);
        }
    }

    /// A message of `source` is unexpected no more. Bits stay until the last has gone.
    #[inline]
    pub(super) fn unbar(&self, source: Endpoint) {
        if let Some(row) = self.rows.get(source.index()) {
            row.unbar();
        }
    }
}
