//! Messages that come as a whole through the pipe, with their announcement, into a receive that waits: received while their sender
//! still copies, without an entry in any table.
//!
//! What does not come within a moment is left to the ordinary way, which goes on where this one stopped. So does what is not as it
//! should be: the ordinary way finds that once more, and the words for it.
//!
//! A receive that would have to be posted first ([`Shm::take_coming`]) is not, unless its message stops on the way: then that counts as not looked at, and the
//! receive's owner posts it.
//!
//! Who calls it: [`incoming`](crate::incoming), for an announcement, and the fabric, for a receive that is not posted.

use boundary::UserBuf;
use layout::{Data, Writer};
use mtmi::{Context, Endpoint, Queues, Receive, TagSel};

use crate::Shm;
use crate::lane::{WINDOW, drain};
use crate::pipe::EARLY;
use crate::trial::Way;
use crate::wire::{Header, Kind, decode};

/// Looks for the next chunk of a message whose sender is copying it: at first as often as possible,
const LOOKS: u32 = 256;
/// then with pauses, for about what it takes to copy two of the longest.
const PAUSES: u32 = 64;

/// What became of a message.
pub(crate) enum Begun {
    /// All of it is in its receive.
    Over,
    /// So many of its bytes are; or none, and no receive waits for it.
    At(Option<Receive>, u64),
}

impl Shm {
    /// Whether the next chunk that comes from a peer is the first of the message of `total` bytes that it announces now, and nothing has to be measured.
    pub(crate) fn comes_next(&self, from: u32, total: u64) -> bool {
        let peer = &self.peers[from as usize];
        peer.due == 0 && !peer.direct.measures(total)
    }

    /// Receives a message of `total` bytes that [comes next](Shm::comes_next) as a whole.
    pub(crate) fn take_early(
        &mut self,
        queues: &mut Queues,
        from: u32,
        header: &Header,
        total: u64,
    ) -> Begun {
        let (source, context) = (Endpoint(from), Context(header.context));
        if let Some(post) = queues
            .posted
            .take_at_once(source, context, header.tag, total)
        {
            let arrived = self.copy_early(from, total, Data::bytes(post.buf(), total).writer());
            if arrived == total {
                post.finish(header.tag, total);
                self.learn_of(from, total, Way::Pipe, None);
                return Begun::Over;
            }
            post.tell();
            return Begun::At(Some(Receive::from(post)), arrived);
        }
        let Some(receive) = queues.posted.take(source, context, header.tag) else {
            return Begun::At(None, 0);
        };
        let arrived = self.copy_early(from, total, receive.data.writer());
        if arrived < total {
            return Begun::At(Some(receive), arrived);
        }
        let completion = receive.completion(source, header.tag, total);
        queues.done.push(completion);
        self.learn_of(from, total, Way::Pipe, None);
        Begun::Over
    }

    /// Receives the next message, if that is one of a receive like this, which is not posted, comes whole with its announcement and within a moment,
    /// and fits: its tag and length. No receive may be posted that it might match and no message of the peer be unexpected. `None`: nothing was done, but to
    /// what is in the buffer.
    pub(crate) fn take_coming(
        &mut self,
        from: u32,
        (context, tag): (Context, TagSel),
        (buf, capacity): (UserBuf, u64),
    ) -> Option<(i32, u64)> {
        let port = self.ports.all().get(from as usize)?;
        let (lane, number) = (port.inward, port.rx.next());
        let at = port.next()?;
        let header = lane.read_header(at).ok()?;
        let wanted = matches!(tag, TagSel::Any) || tag == TagSel::Exact(header.tag);
        if header.kind != Kind::Announce || header.context != context.0 || !wanted {
            return None;
        }
        let [_, total, early, how] = decode(lane.payload(at, &header)).ok()?;
        if total > capacity.min(WINDOW as u64)
            || early != total
            || how != 0
            || !self.comes_next(from, total)
        {
            return None;
        }
        port.lane.prefetch_returned();
        let before = self.peers[from as usize].common.mark();
        let to = Data::bytes(buf, total).writer();
        let (arrived, next) = self.copy_chunks(from, total, to, true);
        if arrived < total {
            self.peers[from as usize].common.restore(before);
            return None;
        }
        self.give_back(from, next);
        let port = &self.ports[from];
        port.consume(at, number);
        self.learn_of(from, total, Way::Pipe, None);
        Some((header.tag, total))
    }

    /// Copies the chunks of a message of `total` bytes, as long as each comes within a moment: how many bytes.
    fn copy_early(&mut self, from: u32, total: u64, to: Writer) -> u64 {
        let (arrived, next) = self.copy_chunks(from, total, to, false);
        self.give_back(from, next);
        arrived
    }

    /// Gives back the chunks up to number `next`.
    fn give_back(&mut self, from: u32, next: u32) {
        let peer = &mut self.peers[from as usize];
        peer.consumed = next;
        // Once for all: their sender waits for none of these chunks, only for the room of all.
        peer.inward.set_drained(next);
        self.ports[from].bell.get().ring();
    }

    /// Copies the same and gives nothing back: how many bytes, and the number of the first chunk that is left. `again`: what they hold may have to be
    /// read once more.
    fn copy_chunks(&mut self, from: u32, total: u64, mut to: Writer, again: bool) -> (u64, u32) {
        let (looks, pauses) = match self.shares_processors() {
            true => (0, 0),
            false => (LOOKS, PAUSES),
        };
        let peer = &mut self.peers[from as usize];
        let (lane, mut chunk, mut arrived) = (peer.inward, peer.consumed, 0);
        let comes = |chunk| {
            (0..=looks).any(|_| lane.chunk_ready(chunk))
                || (0..pauses).any(|_| {
                    sys::copy::pause();
                    lane.chunk_ready(chunk)
                })
        };
        while arrived < total && comes(chunk) {
            let Ok(header) = lane.read_chunk_header(chunk) else {
                break;
            };
            let len = header.len as u64;
            if header.target != EARLY || len > total - arrived {
                break;
            }
            let take = |bytes: &[u8]| drain(bytes, &mut to);
            match again {
                true => peer.common.read(lane, header, take),
                false => peer.common.drain(lane, header, take),
            }
            arrived += len;
            chunk = chunk.wrapping_add(1);
        }
        (arrived, chunk)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering;

    use boundary::UserBuf;
    use mtmi::matching::Post;
    use mtmi::{Completion, Cookie, Matched, Outcome, Source, Submit, TagSel, Transport};

    use super::*;
    use crate::lane::{ChunkHeader, Lane, Whose};
    use crate::ring::{At, RingMemory, STEP};
    use crate::segment::Segment;
    use crate::slots::Area;
    use crate::wire::{Kind, encode};
    use layout::Reader;

    const TAG: i32 = 5;
    const CONTEXT: Context = Context(0);
    const HALF: usize = 4096;
    const TOTAL: usize = 2 * HALF;

    /// Rank 0, and what rank 1 writes, step by step.
    struct Pair {
        shm: Matched<Shm>,
        segment: Segment,
        lane: Lane,
        next: u32,
        chunk: u32,
        /// Whether chunks lie in a common pipe.
        common: bool,
        done: Vec<Completion>,
    }

    impl Pair {
        fn new() -> Pair {
            let (fd, mine) = Segment::create(2, "test").unwrap();
            let segment = Segment::open(&fd, 2, "test").unwrap();
            segment.senders(0)[0].fetch_or(2, Ordering::SeqCst);
            let area: std::io::Result<Area> = Err(std::io::ErrorKind::OutOfMemory.into());
            Pair {
                shm: Matched::new(Shm::new(mine, area, 0, vec![0, 1], 2)),
                lane: segment.lane(1, 0),
                segment,
                next: 1,
                chunk: 0,
                common: false,
                done: Vec::new(),
            }
        }

        fn announce(&mut self, total: u64) {
            let header = Header {
                kind: Kind::Announce,
                len: 32,
                line: 0,
                tag: TAG,
                context: CONTEXT.0,
            };
            let at = At::of(self.next);
            self.lane.write_header(at, &header);
            let words = encode([u64::MAX, total, total, 0]);
            self.lane.inline_mut(at, 32).copy_from_slice(&words);
            self.lane.set_sequence(at, self.next);
            self.next = self.next.wrapping_add(STEP);
        }

        /// The next chunk: so many times this byte.
        fn chunk(&mut self, byte: u8, len: usize) {
            let bytes = vec![byte; len];
            // SAFETY: read before the end of this function.
            let from = unsafe { UserBuf::new(bytes.as_ptr() as usize) };
            let mut reader: Reader = Data::bytes(from, len as u64).reader();
            let start = self.chunk as usize * HALF;
            let whose = match self.common {
                true => {
                    let mut lane = self.segment.common_lane(1, 0, 0);
                    lane.fill_chunk(start, len, &mut reader);
                    let last = self.chunk % 2 == 1;
                    Whose::Common { area: 0, last }
                }
                false => {
                    self.lane.fill_chunk(start, len, &mut reader);
                    Whose::Own
                }
            };
            let header = ChunkHeader {
                start,
                len,
                target: EARLY,
                whose,
            };
            self.lane.publish_chunk(self.chunk, header);
            self.chunk += 1;
        }

        /// A receive that is not posted.
        fn coming(&mut self, tag: i32, to: &mut [u8]) -> Option<(i32, u64)> {
            let wanted = (CONTEXT, TagSel::Exact(tag));
            let place = (UserBuf::of_array(to), to.len() as u64);
            self.shm.receive_coming(Endpoint(1), wanted, place)
        }

        fn progress(&mut self) -> usize {
            self.shm.progress(&mut self.done);
            self.done.len()
        }

        fn receive(&mut self, to: &mut [u8]) {
            let data = Data::bytes(UserBuf::of_array(to), to.len() as u64);
            let from = Source::From(Endpoint(1));
            let submit = (self.shm).irecv(from, CONTEXT, TagSel::Exact(TAG), data, Cookie(7));
            assert!(matches!(submit, Submit::Pending));
        }

        /// A light receive.
        fn post(&mut self, to: &mut [u8]) -> &'static Post {
            let post: &'static Post = Box::leak(Box::default());
            post.set_cookie(Cookie(7));
            post.set_place(UserBuf::of_array(to), to.len() as u64);
            let light = self.shm.light();
            light.rows()[1].post(post, (1, CONTEXT, TagSel::Any), light.ordinary());
            post
        }
    }

    fn halves(bytes: &[u8]) -> bool {
        bytes[..HALF].iter().all(|&b| b == 1) && bytes[HALF..].iter().all(|&b| b == 2)
    }

    #[test]
    fn what_is_there_ends_at_once() {
        let (mut pair, mut to) = (Pair::new(), vec![0; TOTAL]);
        let post = pair.post(&mut to);
        pair.chunk(1, HALF);
        pair.chunk(2, HALF);
        pair.announce(TOTAL as u64);
        assert_eq!(pair.progress(), 0, "no completion tells of it");
        assert!(post.is_finished() && halves(&to));
        assert_eq!((post.bytes(), post.origin()), (TOTAL as u64, (1, TAG)));
        assert_eq!(pair.segment.lane(1, 0).drained(), 2);
    }

    #[test]
    fn what_comes_later_is_added() {
        for light in [false, true] {
            for first in [false, true] {
                let (mut pair, mut to) = (Pair::new(), vec![0; TOTAL]);
                let post = light.then(|| pair.post(&mut to));
                if !light {
                    pair.receive(&mut to);
                }
                pair.announce(TOTAL as u64);
                if first {
                    pair.chunk(1, HALF);
                }
                assert_eq!(pair.progress(), 0);
                assert!(!post.is_some_and(Post::is_finished));
                if !first {
                    pair.chunk(1, HALF);
                    assert_eq!(pair.progress(), 0);
                }
                pair.chunk(2, HALF);
                assert_eq!(pair.progress(), 1);
                let over = &pair.done[0];
                assert_eq!((over.cookie, over.bytes), (Cookie(7), TOTAL as u64));
                assert!(matches!(over.outcome, Outcome::Done) && halves(&to));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        for light in [false, true] {
            let (mut pair, mut to) = (Pair::new(), vec![0; TOTAL]);
            let (to, rest) = to.split_at_mut(HALF + 1);
            match light {
                true => drop(pair.post(to)),
                false => pair.receive(to),
            }
            pair.announce(TOTAL as u64);
            pair.chunk(1, HALF);
            pair.chunk(2, HALF);
            assert_eq!(pair.progress(), 1);
            let sent = TOTAL as u64;
            assert_eq!(pair.done[0].outcome, Outcome::Truncated { sent });
            assert!(halves(to) && rest.iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn what_comes_needs_no_post() {
        let (mut pair, mut to) = (Pair::new(), vec![0; TOTAL]);
        pair.progress();
        for count in 1..=2 {
            to.fill(0);
            pair.chunk(1, HALF);
            pair.chunk(2, HALF);
            pair.announce(TOTAL as u64);
            assert_eq!(pair.coming(TAG + 1, &mut to), None, "another tag");
            assert_eq!(pair.coming(TAG, &mut to[1..]), None, "too long");
            assert_eq!(pair.coming(TAG, &mut to), Some((TAG, TOTAL as u64)));
            assert!(halves(&to));
            assert_eq!(pair.segment.lane(1, 0).drained(), 2 * count);
            assert_eq!(pair.coming(TAG, &mut to), None, "no other is there");
        }
        assert_eq!(pair.progress(), 0);
    }

    #[test]
    fn what_stops_on_the_way_is_received_once() {
        for common in [false, true] {
            let (mut pair, mut to) = (Pair::new(), vec![0; TOTAL]);
            pair.progress();
            pair.common = common;
            pair.announce(TOTAL as u64);
            pair.chunk(1, HALF);
            for _ in 0..2 {
                assert_eq!(pair.coming(TAG, &mut to), None);
                assert_eq!(pair.segment.lane(1, 0).drained(), 0);
            }
            pair.receive(&mut to);
            assert_eq!(pair.progress(), 0);
            pair.chunk(2, HALF);
            assert_eq!(pair.progress(), 1);
            assert!(halves(&to));
            assert_eq!(pair.segment.lane(1, 0).drained(), 2);
            let data = Data::bytes(UserBuf::of_array(&mut to), TOTAL as u64);
            assert!(
                pair.shm
                    .send_at_once(Endpoint(1), CONTEXT, TAG, data.clone())
            );
        }
    }

    #[test]
    fn the_next_message_waits_for_the_first() {
        let (mut pair, mut to) = (Pair::new(), vec![0; TOTAL]);
        let mut second = vec![0; HALF];
        pair.receive(&mut to);
        pair.receive(&mut second);
        pair.announce(TOTAL as u64);
        pair.announce(HALF as u64);
        pair.chunk(1, HALF);
        assert_eq!(pair.progress(), 0);
        pair.chunk(2, HALF);
        pair.chunk(3, HALF);
        assert_eq!(pair.progress(), 2);
        assert!(halves(&to) && second.iter().all(|&b| b == 3));
    }

    #[test]
    fn a_chunk_too_long_ends_the_peer() {
        for light in [false, true] {
            let (mut pair, mut to) = (Pair::new(), vec![0; 3 * HALF]);
            let (to, rest) = to.split_at_mut(TOTAL);
            match light {
                true => drop(pair.post(to)),
                false => pair.receive(to),
            }
            pair.announce(TOTAL as u64);
            pair.chunk(1, HALF);
            pair.chunk(9, HALF + 64);
            for _ in 0..3 {
                pair.progress();
            }
            assert_eq!(pair.done.len(), 1, "it ends");
            assert_eq!(pair.done[0].outcome, Outcome::PeerFailed);
            assert!(rest.iter().all(|&b| b == 0));
        }
    }
}
