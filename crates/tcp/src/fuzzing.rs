//! What fuzzers call: anything that a peer or a stranger can send, fed to the parts that take it. Nothing here does
//! I/O. The functions check what must hold whatever comes.

use boundary::UserBuf;
use layout::Data;
use mtmi::{
    Context, Cookie, Endpoint, Message, Outgoing, Queues, Receive, SendMode, Source, Submit, TagSel,
};

use mtmi::slot::{Delivery, Landed, Slot, SlotTable};

use crate::frame::{Announced, Frame, HEADER, SlotRef, WINDOW};
use crate::handshake::{Acceptor, Dialer, HELLO, Job, PROOF, VERDICT};
use crate::protocol::{Protocol, Sink};
use crate::slots::{EARLY, Receiving};

/// Numbers out of a fuzzer's bytes; zeros when they end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    /// Small numbers, names as they occur, and extremes.
    fn word(&mut self) -> u64 {
        let kind = self.byte();
        match kind % 8 {
            0 => u64::MAX - u64::from(kind >> 3),
            1 => 1 << (self.byte() & 63),
            2 => u64::from_le_bytes([0; 8].map(|_: u8| self.byte())),
            3 => u64::from(self.byte()) << 32 | u64::from(self.byte() & 3),
            4 => WINDOW / 4 - 2 + u64::from(kind >> 3),
            5 => u64::from(self.byte()) << 10,
            _ => u64::from(self.byte() & 3),
        }
    }

    fn frame(&mut self) -> Frame {
        let kind = self.byte();
        let (a, b) = (self.word(), self.word());
        if kind >= 192 {
            return self.slot_frame(kind, a, b);
        }
        match kind % 12 {
            0..4 => Frame::Message(Announced {
                context: u32::from(self.byte() & 1),
                tag: i32::from(self.byte() & 1),
                total: a,
                early: a.min(b) as u32,
                name: self.word(),
                synchronous: kind & 64 != 0,
            }),
            4..6 => Frame::Data {
                target: a,
                len: b as u32,
            },
            6 => Frame::Clear {
                name: a,
                target: b,
                wanted: self.word(),
            },
            7 => Frame::Matched { name: a },
            8 => Frame::Cancel { name: a },
            9 => Frame::Cancelled { name: a },
            10 => Frame::Credit { bytes: a },
            _ if kind & 16 != 0 => Frame::Bye,
            _ => Frame::Kept { name: a },
        }
    }

    fn slot_frame(&mut self, kind: u8, a: u64, b: u64) -> Frame {
        let at = self.byte();
        let slot = SlotRef {
            name: u32::from(at & 3),
            index: u32::from(at >> 2 & 3),
            generation: a as u32,
        };
        match kind % 8 {
            0 => Frame::SlotQuery { name: slot.name },
            1 => Frame::SlotCount {
                name: slot.name,
                count: b as u32,
            },
            2 | 3 => Frame::SlotPost {
                slot,
                count: if at & 64 == 0 { SLOTS } else { b as u32 },
                length: b,
            },
            4 => Frame::SlotData {
                slot,
                immediate: 7,
                sent: b,
                len: self.word().min(b) as u32,
            },
            5 => Frame::SlotMore {
                slot,
                len: b as u32,
            },
            6 => Frame::SlotWithdraw { slot },
            _ => Frame::SlotReturned { slot },
        }
    }
}

/// Slots of each table.
const SLOTS: u32 = 4;
/// Tables are named 0 to 2; 3 is never opened.
const TABLES: u32 = 3;

/// A process whose peer is driven by the fuzzer.
struct Victim {
    protocol: Protocol,
    queues: Queues,
    memory: Vec<u8>,
    /// Operations that were started, by cookie, and whether they are over.
    over: Vec<bool>,
}

const ME: u32 = 0;
const PEER: u32 = 1;
const ROOM: usize = 1 << 20;

impl Victim {
    fn new() -> Victim {
        Victim {
            protocol: Protocol::new(2),
            queues: Queues::default(),
            memory: vec![0; ROOM],
            over: Vec::new(),
        }
    }

    fn cookie(&mut self) -> Cookie {
        self.over.push(false);
        Cookie(self.over.len() as u64 - 1)
    }

    fn data(&mut self, len: u64) -> Data {
        let buf = UserBuf::of_array(&mut self.memory);
        Data::bytes(buf, len.min(ROOM as u64))
    }

    fn note(&mut self, submit: Option<Submit>) {
        if let Some(Submit::Complete(end)) = submit {
            self.queues.done.push(end);
        }
        for end in self.queues.done.drain(..) {
            let over = &mut self.over[end.cookie.0 as usize];
            assert!(!*over, "one completion for each operation");
            *over = true;
        }
    }

    /// Something that the process itself does with slots.
    fn act_in_slots(&mut self, what: u8, len: u64) {
        let table = self.protocol.slots.named(u32::from(what >> 3 & 3) % TABLES);
        let slot = Slot {
            table: SlotTable(table.unwrap_or(u32::MAX)),
            peer: Endpoint(PEER),
            index: u32::from(what >> 5 & 3),
        };
        let data = self.data(len);
        let ours = &mut self.protocol;
        match what % 8 {
            0 => {
                let name = u32::from(what >> 3 & 3) % TABLES;
                // Open already, or closed for ever.
                let _ = ours.open_slots(name, SLOTS, 2);
            }
            1 if len == 0 => ours.close_slots(slot.table),
            1 | 2 => {
                let _ = ours.bind_slot(slot, &data, false, ME);
                let _ = ours.start_slot(slot, false, ME);
            }
            3 => {
                let _ = ours.withdraw_slot(slot, ME);
            }
            4 => {
                let _ = ours.slot_landed(slot);
            }
            5 => {
                let _ = ours.opened_slots(slot.table, slot.peer);
            }
            6 => {
                let _ = ours.delivered_slot(slot);
            }
            _ => {
                let _ = ours.deliver_slot(slot, &data, 9, ME);
            }
        }
    }

    /// Something that the process itself does.
    fn act(&mut self, script: &mut Script<'_>) {
        let (what, len) = (script.byte(), script.word());
        if what & 8 != 0 {
            return self.act_in_slots(what, len);
        }
        let tag = i32::from(what >> 4 & 1);
        let cookie = self.cookie();
        let submit = match what % 4 {
            0 | 1 => {
                let data = self.data(len);
                let mode = [SendMode::Standard, SendMode::Synchronous][usize::from(what >> 5 & 1)];
                Some(self.protocol.submit(Outgoing {
                    to: Endpoint(PEER),
                    context: Context(0),
                    tag,
                    mode,
                    data,
                    cookie,
                }))
            }
            2 => {
                let receive = Receive {
                    data: self.data(len),
                    cookie,
                };
                self.receive(tag, receive)
            }
            _ => {
                self.over[cookie.0 as usize] = true;
                self.protocol.cancel(&mut self.queues, Cookie(len));
                None
            }
        };
        self.note(submit);
    }

    fn receive(&mut self, tag: i32, receive: Receive) -> Option<Submit> {
        let (from, context) = (Source::From(Endpoint(PEER)), Context(0));
        let (source, tag, message) = match self.queues.unexpected.take(from, context, TagSel::Any) {
            Some(found) => found,
            None => {
                let tag = TagSel::Exact(tag);
                self.queues.posted.post(from, context, tag, receive);
                return None;
            }
        };
        match message {
            Message::Whole { body, synchronous } => {
                let len = body.bytes().len() as u64;
                receive.data.writer().write(body.bytes());
                self.protocol.taken(PEER, len, synchronous);
                Some(Submit::Complete(receive.completion(source, tag, len)))
            }
            Message::Partial(name) => {
                let queues = &mut self.queues;
                Some(self.protocol.claim(queues, source, tag, name, receive))
            }
            Message::Held(_) => None,
        }
    }

    /// Lets some bytes leave.
    fn leave(&mut self, n: usize) {
        let offer = self.protocol.offer(&mut self.queues, PEER);
        let all = offer.staged.len() + offer.tail.map_or(0, |t| t.1);
        self.protocol.sent(&mut self.queues, PEER, n.min(all));
        self.note(None);
    }

    /// Bytes from the peer; false when they were not what a correct one sends.
    fn feed(&mut self, mut bytes: &[u8]) -> bool {
        if let Some((buf, room)) = self.protocol.direct(PEER) {
            let now;
            (now, bytes) = bytes.split_at(room.min(bytes.len()));
            let (start, end) = (self.memory.as_ptr() as usize, buf.addr() + room);
            assert!(
                buf.addr() >= start && end <= start + ROOM,
                "only to a receive's memory"
            );
            buf.write(now);
            self.protocol.arrived(&mut self.queues, PEER, now.len());
        }
        let fine = self.protocol.feed(&mut self.queues, PEER, bytes).is_ok();
        self.note(None);
        fine
    }

    fn check(&self) {
        let link = &self.protocol.links[PEER as usize];
        assert!(link.credit <= WINDOW && link.granted + link.owed <= WINDOW);
        let kept = |sink: &Sink| match sink {
            Sink::Heap(buffer) => buffer.len() as u64,
            Sink::User { .. } => 0,
        };
        let heap: u64 = self
            .protocol
            .arriving
            .iter()
            .map(|(_, m)| kept(&m.sink))
            .sum();
        assert!(heap <= WINDOW, "unasked data stay within the window");
        assert!(self.protocol.slots.kept[PEER as usize] <= EARLY + 1);
        let pairs = self.protocol.slots.tables.iter().flatten();
        for receive in pairs.flat_map(|t| &t.pairs[PEER as usize].receives) {
            if let Receiving::Arrives { bytes, of, .. } = receive.state {
                assert!(bytes < of && of <= receive.memory.len());
            }
        }
    }

    /// Nothing in slots waits for a peer that is gone.
    fn check_slots_ended(&mut self) {
        for table in 0..TABLES {
            for index in 0..SLOTS {
                let slot = Slot {
                    table: SlotTable(table),
                    peer: Endpoint(PEER),
                    index,
                };
                assert_ne!(self.protocol.slot_landed(slot), Landed::NotYet);
                assert_ne!(self.protocol.delivered_slot(slot), Delivery::Pending);
            }
        }
    }
}

/// A peer that has proved itself and sends anything, while the process goes on with its own affairs. Some of it
/// is frames with numbers of the fuzzer's choice.
pub fn peer(script: &[u8]) {
    let mut script = Script(script);
    let mut victim = Victim::new();
    let body = [0x5a; 3000];
    while !script.0.is_empty() {
        let fine = match script.byte() % 8 {
            0 | 1 => {
                victim.act(&mut script);
                true
            }
            2 => {
                let n = script.word() as usize;
                victim.leave(n);
                true
            }
            3 => {
                let n = usize::from(script.byte()).min(script.0.len());
                let (bytes, rest) = script.0.split_at(n);
                script.0 = rest;
                victim.feed(bytes)
            }
            4 => {
                let left = victim.protocol.links[PEER as usize].body_left;
                (0..left.div_ceil(body.len())).all(|_| victim.feed(&body)) || left == 0
            }
            _ => {
                let header: [u8; HEADER] = script.frame().encode();
                victim.feed(&header)
            }
        };
        victim.check();
        if !fine {
            break;
        }
    }
    victim.protocol.fail(&mut victim.queues, PEER);
    victim.check_slots_ended();
    victim.queues.fail_receives(Endpoint(PEER));
    victim.note(None);
    assert!(victim.over.iter().all(|over| *over), "everything ends");
}

fn job(me: u32) -> Job {
    Job {
        secret: *b"nobody who fuzzes this knows it.",
        version: "1".into(),
        me,
        ranks: 3,
    }
}

/// The bytes for a message of the handshake: the fuzzer's, or a true one of which it changes some.
fn words<const N: usize>(script: &mut Script<'_>, truth: [u8; N]) -> [u8; N] {
    if script.byte() & 1 == 0 {
        return truth.map(|_| script.byte());
    }
    let mut out = truth;
    for _ in 0..script.byte() % 4 {
        let at = usize::from(script.byte()) % N;
        out[at] ^= script.byte();
    }
    out
}

/// A caller who does not know the secret says anything; it is never let in.
pub fn caller(script: &[u8]) {
    let mut script = Script(script);
    let mut acceptor = Acceptor::new(&job(0), &[1; 32]);
    let mut stranger = job(1);
    stranger.secret = [7; 32];
    let mut dialer = Dialer::new(&stranger, 0, &[2; 32]);
    let hello = words::<HELLO>(&mut script, dialer.hello());
    if acceptor.greet(&hello).is_err() {
        return;
    }
    let Ok(proof) = dialer.prove(&stranger, &acceptor.hello()) else {
        return;
    };
    let proof = words::<PROOF>(&mut script, proof);
    assert!(
        acceptor.check(&job(0), &proof).is_err(),
        "a stranger got in"
    );
}

/// An answer by somebody who does not know the secret; it is never believed.
pub fn answer(script: &[u8]) {
    let mut script = Script(script);
    let mut dialer = Dialer::new(&job(1), 0, &[2; 32]);
    let mut stranger = job(0);
    stranger.secret = [7; 32];
    let acceptor = Acceptor::new(&stranger, &[1; 32]);
    let hello = words::<HELLO>(&mut script, acceptor.hello());
    if dialer.prove(&job(1), &hello).is_err() {
        return;
    }
    let verdict = acceptor.verdict(&stranger, crate::handshake::Verdict::Welcome);
    let verdict = words::<VERDICT>(&mut script, verdict);
    assert!(
        dialer.verdict(&job(1), &verdict).is_err(),
        "a stranger was believed"
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::path::Path;

    type Target = (&'static str, fn(&[u8]));
    const TARGETS: [Target; 3] = [
        ("peer", super::peer),
        ("caller", super::caller),
        ("answer", super::answer),
    ];

    /// What the fuzzers found worth keeping.
    #[test]
    fn the_corpus_does_no_harm() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        for (name, target) in TARGETS {
            let files: Vec<_> = std::fs::read_dir(corpus.join(name)).unwrap().collect();
            assert!(!files.is_empty(), "{name} has a corpus");
            for file in files {
                target(&std::fs::read(file.unwrap().path()).unwrap());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn anything_does_no_harm(script in prop::collection::vec(any::<u8>(), 0..600)) {
            for (_, target) in TARGETS {
                target(&script);
            }
        }
    }
}
