//! The protocol between two processes of which the connection is two queues of bytes, cut at random: what is received
//! is what was sent, in the order that matching prescribes, and all credit comes back.

use std::collections::VecDeque;

use boundary::UserBuf;
use layout::{Bounds, Data, Kind, Program, Tree};
use mtmi::matching::{Light, Post};
use mtmi::{
    Completion, Context, Cookie, Endpoint, Message, Outcome, Outgoing, Queues, Receive, SendMode,
    Source, Submit, TagSel,
};
use proptest::prelude::*;
use std::rc::Rc;

use crate::frame::{EARLY, FRAGMENT, REPORT, RESERVE, WINDOW};
use crate::protocol::Protocol;

/// One process: the protocol with one peer and the queues.
struct End {
    protocol: Protocol,
    queues: Queues,
    me: u32,
    light: Rc<Light>,
    /// Light receives that have not ended at once so far.
    posts: Vec<&'static Post>,
    /// Bytes to the peer.
    wire: VecDeque<u8>,
    ended: Vec<Completion>,
}

const CONTEXT: Context = Context(3);

impl End {
    fn new(me: u32) -> End {
        let light = Rc::new(Light::new(2));
        End {
            protocol: Protocol::new(2),
            queues: Queues::with(&light),
            me,
            light,
            posts: Vec::new(),
            wire: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    fn peer(&self) -> u32 {
        1 - self.me
    }

    /// Lets up to `n` bytes leave.
    fn leave(&mut self, n: usize) -> bool {
        let peer = self.peer();
        let offer = self.protocol.offer(&mut self.queues, peer);
        let mut out = offer.staged.to_vec();
        if let Some((buf, len)) = offer.tail {
            let mut tail = vec![0; len];
            buf.read(&mut tail);
            out.extend(tail);
        }
        out.truncate(n);
        self.protocol.sent(&mut self.queues, peer, out.len());
        self.wire.extend(&out);
        !out.is_empty()
    }

    /// Takes up to `n` bytes of the peer's wire, where the protocol wants them first.
    fn take(&mut self, wire: &mut VecDeque<u8>, n: usize) -> bool {
        let peer = self.peer();
        let bytes: Vec<u8> = wire.drain(..n.min(wire.len())).collect();
        let mut rest = &bytes[..];
        if let Some((buf, room)) = self.protocol.direct(peer) {
            let now;
            (now, rest) = rest.split_at(room.min(rest.len()));
            buf.write(now);
            self.protocol.arrived(&mut self.queues, peer, now.len());
        }
        self.protocol.feed(&mut self.queues, peer, rest).unwrap();
        self.gather();
        !bytes.is_empty()
    }

    /// Notes what has ended, told or not.
    fn gather(&mut self) {
        self.ended.append(&mut self.queues.done);
        let source = Endpoint(self.peer());
        let finished = self.posts.extract_if(.., |post| post.is_finished());
        self.ended.extend(finished.map(|post| Completion {
            cookie: post.cookie(),
            source,
            tag: post.origin().1,
            bytes: post.bytes(),
            outcome: Outcome::Done,
        }));
    }

    fn send(&mut self, tag: i32, mode: SendMode, data: Data, cookie: u64) {
        let message = Outgoing {
            to: Endpoint(self.peer()),
            context: CONTEXT,
            tag,
            mode,
            data,
            cookie: Cookie(cookie),
        };
        match self.protocol.submit(message) {
            Submit::Pending => {}
            Submit::Complete(end) => self.ended.push(end),
        }
    }

    /// Posts a light receive, if nothing bars it: whether it did.
    fn receive_light(&mut self, tag: TagSel, (buf, len): (UserBuf, u64), cookie: u64) -> bool {
        let (source, light) = (self.peer(), self.light.clone());
        let row = &light.rows()[source as usize];
        if !row.is_open(CONTEXT, tag) {
            return false;
        }
        let post: &'static Post = Box::leak(Box::default());
        post.set_cookie(Cookie(cookie));
        post.set_place(buf, len);
        row.post(post, (source as i32, CONTEXT, tag), light.ordinary());
        self.posts.push(post);
        true
    }

    fn receive(&mut self, tag: TagSel, data: Data, cookie: u64) {
        let from = Source::From(Endpoint(self.peer()));
        let receive = Receive {
            data,
            cookie: Cookie(cookie),
        };
        let Some((source, tag, message)) = self.queues.unexpected.take(from, CONTEXT, tag) else {
            self.queues.posted.post(from, CONTEXT, tag, receive);
            return;
        };
        match message {
            Message::Whole { body, synchronous } => {
                let bytes = body.bytes();
                receive.data.writer().write(bytes);
                let len = bytes.len() as u64;
                self.ended.push(receive.completion(source, tag, len));
                self.protocol.taken(source.0, len, synchronous);
            }
            Message::Partial(name) => {
                let submit = self
                    .protocol
                    .claim(&mut self.queues, source, tag, name, receive);
                if let Submit::Complete(end) = submit {
                    self.ended.push(end);
                }
            }
            Message::Held(_) => unreachable!("nobody sends to itself here"),
        }
    }
}

/// Moves bytes both ways in pieces of about `cut` until nothing moves.
fn settle(a: &mut End, b: &mut End, cut: usize) {
    loop {
        let mut moved = a.leave(cut) | b.leave(cut);
        moved |= b.take(&mut a.wire, cut.saturating_mul(2) / 3 + 1);
        moved |= a.take(&mut b.wire, cut.saturating_mul(2) / 3 + 1);
        if !moved {
            a.gather();
            b.gather();
            return;
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Send {
        tag: i32,
        len: usize,
        synchronous: bool,
        strided: bool,
    },
    Receive {
        tag: Option<i32>,
        room: usize,
        strided: bool,
        light: bool,
    },
    /// Bytes that leave and arrive, in each direction.
    Move { forth: usize, back: usize },
}

fn len() -> impl Strategy<Value = usize> {
    let early = EARLY as usize;
    prop_oneof![
        6 => 0usize..200,
        2 => 0usize..20_000,
        1 => early - 2..early + 3,
        1 => 0usize..3 * early + FRAGMENT as usize,
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..3, len(), any::<bool>(), any::<bool>()).prop_map(
            |(tag, len, synchronous, strided)| Act::Send { tag, len, synchronous, strided }),
        3 => (prop::option::of(0..3), len(), any::<bool>(), any::<bool>()).prop_map(
            |(tag, room, strided, light)| Act::Receive { tag, room, strided, light }),
        4 => (0usize..400_000, 0usize..2000).prop_map(|(forth, back)| Act::Move { forth, back }),
        2 => (0usize..100, 0usize..100).prop_map(|(forth, back)| Act::Move { forth, back }),
    ]
}

/// A message's content.
fn filled(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i * 7 + i / 251 + seed * 31) as u8)
        .collect()
}

/// Two bytes of every three.
fn strided(count: u64) -> Rc<Program> {
    let tree = Tree::block(0, 2, Kind::OPAQUE).unwrap();
    let tree = tree.repeat(count, 3).unwrap();
    let extent = 3 * count as i64;
    Rc::new(tree.compile(Bounds { lb: 0, extent }).unwrap())
}

struct Buffer {
    bytes: Vec<u8>,
    strided: bool,
}

impl Buffer {
    fn new(packed: &[u8], strided: bool) -> Buffer {
        if !strided {
            let bytes = packed.to_vec();
            return Buffer { bytes, strided };
        }
        let mut bytes = Vec::new();
        for pair in packed.chunks(2) {
            bytes.extend_from_slice(pair);
            bytes.push(0xee);
        }
        Buffer { bytes, strided }
    }

    fn data(&mut self, len: usize) -> Data {
        let buf = UserBuf::of_array(&mut self.bytes);
        if self.strided && len > 0 {
            Data::typed(buf, &strided(len as u64 / 2), 1)
        } else {
            Data::bytes(buf, len as u64)
        }
    }

    fn packed(&self) -> Vec<u8> {
        if self.strided {
            let pairs = self.bytes.chunks(3);
            pairs.flat_map(|c| &c[..c.len().min(2)]).copied().collect()
        } else {
            self.bytes.clone()
        }
    }
}

struct Sent {
    tag: i32,
    len: usize,
    seed: usize,
}

struct Posted {
    tag: Option<i32>,
    room: usize,
    buffer: Buffer,
}

/// What the receives must find: each the first message that it accepts and no earlier one took. For one sender
/// that does not depend on when things arrive.
fn check(sent: &[Sent], posted: &[Posted], ended: &[Completion]) {
    let mut open: Vec<&Sent> = sent.iter().collect();
    for (i, p) in posted.iter().enumerate() {
        let at = open.iter().position(|m| p.tag.is_none_or(|t| t == m.tag));
        let mut ends = ended.iter().filter(|c| c.cookie == Cookie(i as u64));
        let (Some(at), end) = (at, ends.next()) else {
            assert_eq!(ends.next(), None);
            continue;
        };
        let m = open.remove(at);
        let end = end.expect("a receive whose message was sent completes");
        assert_eq!(ends.next(), None, "once");
        let n = m.len.min(p.room);
        assert_eq!((end.tag, end.bytes), (m.tag, n as u64));
        let truncated = Outcome::Truncated { sent: m.len as u64 };
        let outcome = if m.len > p.room {
            truncated
        } else {
            Outcome::Done
        };
        assert_eq!(end.outcome, outcome);
        let got = p.buffer.packed();
        assert!(got[..n] == filled(m.seed, m.len)[..n], "message {i}");
        assert!(got[n..].iter().all(|&b| b == 0xdd), "behind message {i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_is_received(acts in prop::collection::vec(act(), 1..40), cut in 1usize..300_000) {
        let (mut a, mut b) = (End::new(0), End::new(1));
        let (mut sent, mut posted): (Vec<Sent>, Vec<Posted>) = Default::default();
        let mut buffers = Vec::new();
        for act in acts {
            match act {
                Act::Send { tag, len, synchronous, strided } => {
                    let strided = strided && len % 2 == 0;
                    let mut buffer = Buffer::new(&filled(sent.len(), len), strided);
                    let mode = if synchronous { SendMode::Synchronous } else { SendMode::Standard };
                    let data = buffer.data(len);
                    a.send(tag, mode, data, sent.len() as u64);
                    sent.push(Sent { tag, len, seed: sent.len() });
                    buffers.push(buffer);
                }
                Act::Receive { tag, room, strided, light } => {
                    let strided = strided && room % 2 == 0;
                    let mut buffer = Buffer::new(&vec![0xdd; room], strided);
                    let data = buffer.data(room);
                    let selector = tag.map_or(TagSel::Any, TagSel::Exact);
                    let cookie = posted.len() as u64;
                    let place = data.contiguous().filter(|_| light);
                    if !place.is_some_and(|place| b.receive_light(selector, place, cookie)) {
                        b.receive(selector, data, cookie);
                    }
                    posted.push(Posted { tag, room, buffer });
                }
                Act::Move { forth, back } => {
                    a.leave(forth);
                    b.leave(back);
                    b.take(&mut a.wire, forth / 2);
                    a.take(&mut b.wire, back / 2);
                }
            }
        }
        settle(&mut a, &mut b, cut);
        check(&sent, &posted, &b.ended);
        // The rest goes to receives of anything, then every send is over and all credit is back.
        let rest = sent.len();
        for _ in 0..rest {
            let mut buffer = Buffer::new(&[], false);
            let data = buffer.data(0);
            b.receive(TagSel::Any, data, u64::MAX);
        }
        settle(&mut a, &mut b, cut);
        prop_assert_eq!(a.ended.len(), sent.len());
        prop_assert!(a.ended.iter().all(|c| c.outcome == Outcome::Done));
        prop_assert!(a.protocol.sends.is_empty() && b.protocol.arriving.is_empty());
        let (from, to) = (&a.protocol.links[1], &b.protocol.links[0]);
        prop_assert_eq!(from.credit, to.granted);
        prop_assert_eq!(to.granted + to.owed, WINDOW);
        prop_assert!(to.owed < REPORT);
        prop_assert!(from.is_idle() && b.queues.unexpected.is_empty());
    }
}

/// A message of a gibibyte and a short one behind it: the short one is there after at most a fragment.
#[test]
fn nothing_waits_behind_a_long_message() {
    let (mut a, mut b) = (End::new(0), End::new(1));
    let mut long = vec![1; 64 << 20];
    let mut into = vec![0; 64 << 20];
    let len = long.len() as u64;
    let data = Data::bytes(UserBuf::of_array(&mut into), len);
    b.receive(TagSel::Exact(1), data, 1);
    let data = Data::bytes(UserBuf::of_array(&mut long), len);
    a.send(1, SendMode::Standard, data, 1);
    for _ in 0..40 {
        a.leave(100_000);
        b.take(&mut a.wire, 100_000);
        b.leave(1000);
        a.take(&mut b.wire, 1000);
    }
    b.receive(TagSel::Exact(2), Data::EMPTY, 2);
    a.send(2, SendMode::Standard, Data::EMPTY, 2);
    let mut moved = 0;
    while b.ended.is_empty() {
        a.leave(10_000);
        b.take(&mut a.wire, 10_000);
        moved += 10_000;
        assert!(moved <= FRAGMENT + EARLY, "it waits");
    }
    assert_eq!(b.ended[0].cookie, Cookie(2));
    settle(&mut a, &mut b, 1 << 20);
    assert!(into == long);
}

/// A short message that is here with its header ends its light receive where it lies, without a completion; a synchronous one, one
/// that comes in pieces and one that is too long are told.
#[test]
fn a_light_receive_ends_in_place() {
    let long = EARLY as usize;
    let cases = [
        (8, SendMode::Standard, usize::MAX, false),
        (0, SendMode::Standard, usize::MAX, false),
        (8, SendMode::Synchronous, usize::MAX, true),
        (8, SendMode::Standard, 35, true),
        (9, SendMode::Standard, usize::MAX, true),
        (long, SendMode::Standard, long / 2, true),
    ];
    for (len, mode, cut, told) in cases {
        let (mut a, mut b) = (End::new(0), End::new(1));
        let room = if len == 9 { 8 } else { len };
        let (mut from, mut into) = (filled(1, len), vec![0; room]);
        let place = (UserBuf::of_array(&mut into), room as u64);
        assert!(b.receive_light(TagSel::Exact(5), place, 1));
        let data = Data::bytes(UserBuf::of_array(&mut from), len as u64);
        a.send(5, mode, data, 1);
        a.leave(usize::MAX);
        while !a.wire.is_empty() {
            let now = cut.min(a.wire.len());
            let bytes: Vec<u8> = a.wire.drain(..now).collect();
            b.protocol.feed(&mut b.queues, 0, &bytes).unwrap();
        }
        let finished = b.posts[0].is_finished();
        assert_eq!(
            (finished, b.queues.done.len()),
            (!told, usize::from(told)),
            "{len} {mode:?}"
        );
        assert!(into == from[..room]);
        let link = &b.protocol.links[0];
        assert_eq!(link.granted + link.owed, WINDOW);
    }
}

/// Unexpected data stay within the window, whatever is sent.
#[test]
fn the_window_bounds_memory() {
    let (mut a, mut b) = (End::new(0), End::new(1));
    let mut buffers: Vec<Vec<u8>> = (0..200).map(|i| filled(i, 1000 + i * 500)).collect();
    for (i, buffer) in buffers.iter_mut().enumerate() {
        let len = buffer.len() as u64;
        let data = Data::bytes(UserBuf::of_array(buffer), len);
        a.send(0, SendMode::Standard, data, i as u64);
    }
    settle(&mut a, &mut b, 100_000);
    assert!(a.ended.len() < 200, "some wait for their receive");
    // What is kept for shorter ones is left.
    let left = b.protocol.links[0].granted;
    assert!((RESERVE..RESERVE + 101_000).contains(&left), "{left}");
    for (i, buffer) in buffers.iter().enumerate() {
        let mut into = vec![0; buffer.len()];
        let data = Data::bytes(UserBuf::of_array(&mut into), buffer.len() as u64);
        b.receive(TagSel::Any, data, i as u64);
        settle(&mut a, &mut b, 100_000);
        assert!(into == *buffer, "message {i}");
    }
    assert_eq!(a.ended.len(), 200);
}

/// However much is sent that nobody receives, short messages behind it leave.
#[test]
fn long_messages_leave_room_for_short_ones() {
    let (mut a, mut b) = (End::new(0), End::new(1));
    let mut long = filled(1, EARLY as usize);
    for cookie in 0..8 {
        let data = Data::bytes(UserBuf::of_array(&mut long), EARLY);
        a.send(0, SendMode::Standard, data, cookie);
    }
    let mut short = filled(2, 1000);
    for cookie in 8..208 {
        let data = Data::bytes(UserBuf::of_array(&mut short), 1000);
        a.send(1, SendMode::Standard, data, cookie);
    }
    settle(&mut a, &mut b, 100_000);
    let over = |c: &&Completion| c.cookie.0 >= 8;
    assert_eq!(a.ended.iter().filter(over).count(), 200);
}

#[test]
fn cancelled_in_every_state() {
    let mut buffer = vec![1; EARLY as usize + 1];
    for len in [0, 10, EARLY, EARLY + 1] {
        for mode in [SendMode::Standard, SendMode::Synchronous] {
            for left in [0, 1, 40, 5000, usize::MAX] {
                let (mut a, mut b) = (End::new(0), End::new(1));
                let data = Data::bytes(UserBuf::of_array(&mut buffer), len);
                a.send(0, mode, data, 1);
                if left > 0 {
                    a.leave(left);
                    b.take(&mut a.wire, left);
                }
                let unsent = a.protocol.cancel(&mut a.queues, Cookie(1));
                assert_eq!(unsent, left == 0);
                settle(&mut a, &mut b, 1000);
                assert_eq!(a.ended.len(), 1);
                let gone = a.ended[0].outcome == Outcome::Cancelled;
                assert_eq!(gone, b.queues.unexpected.is_empty());
                let waits = mode == SendMode::Synchronous || len > EARLY;
                assert_eq!(gone, unsent || waits, "{len} {mode:?} {left}");
                let link = &b.protocol.links[0];
                assert!(!gone || link.granted + link.owed == WINDOW);
            }
        }
    }
}

#[test]
fn a_failure_ends_everything() {
    for left in [0, 10, 40, 300_000, 500_000] {
        let (mut a, mut b) = (End::new(0), End::new(1));
        let (mut from, mut into) = (vec![1; 1 << 20], vec![0; 1 << 20]);
        for (tag, len) in [(0, 1 << 20), (1, 100), (2, 100_000), (3, 1 << 20)] {
            let data = Data::bytes(UserBuf::of_array(&mut from), len);
            a.send(tag, SendMode::Synchronous, data, tag as u64);
        }
        let data = Data::bytes(UserBuf::of_array(&mut into), 1 << 20);
        b.receive(TagSel::Exact(0), data, 7);
        a.leave(left);
        b.take(&mut a.wire, left);
        a.protocol.fail(&mut a.queues, 1);
        b.protocol.fail(&mut b.queues, 0);
        b.queues.fail_receives(Endpoint(0));
        a.ended.append(&mut a.queues.done);
        b.ended.append(&mut b.queues.done);
        assert_eq!((a.ended.len(), b.ended.len()), (4, 1));
        let failed = |c: &Completion| c.outcome == Outcome::PeerFailed;
        assert!(a.ended.iter().all(failed) && b.ended.iter().all(failed));
        assert!(b.protocol.arriving.is_empty() && a.protocol.sends.is_empty());
        a.send(0, SendMode::Standard, Data::EMPTY, 9);
        assert!(failed(a.ended.last().unwrap()));
    }
}
