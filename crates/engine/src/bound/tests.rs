//! Simulated jobs: programs that mix everything with persistent requests, in any interleaving, against MPI's rules.

use layout::Data;
use mtmi::{Completion, Context, Cookie, Endpoint, Matched, Outcome, SendMode, Source, Submit};
use mtmi::{TagSel, Transport};
use proptest::prelude::*;
use testkit::{Bytes, Manner, Sim, World};

use super::{Bound, Event, FALLBACK, Incoming, Outgoing, Stream};

const CONTEXT: Context = Context(4);
/// Bytes of a message that may end unmatched, and of one that is bound.
const SHORT: usize = 8;
const LONG: usize = 24;
const SENDER: u32 = 0;
const RECEIVER: u32 = 1;
/// Who sends beside.
const OTHER: u32 = 2;

/// A request, as the engine would keep it.
struct Request {
    parts: u32,
    end: Option<Completion>,
    /// It was asked to be cancelled.
    asked: bool,
    buffer: Bytes,
}

impl Request {
    fn is_done(&self) -> bool {
        self.parts == 0
    }

    fn is_settled(&self) -> bool {
        self.is_done() && self.end.is_some_and(|e| e.outcome == Outcome::Done)
    }
}

/// What a transfer is, for the rules.
#[derive(Clone, Copy, Debug)]
struct Message {
    from: u32,
    tag: i32,
    request: usize,
    cancelled: bool,
    over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Receive {
    from: Source,
    tag: TagSel,
    request: usize,
    /// The message that it got, once that is known.
    got: Option<usize>,
    over: bool,
}

/// A process.
struct Process {
    m: Matched<Sim>,
    bound: Bound,
    requests: Vec<Request>,
}

impl Process {
    fn request(&mut self, len: usize) -> usize {
        self.requests.push(Request {
            parts: 0,
            end: None,
            asked: false,
            buffer: Bytes::new(len),
        });
        self.requests.len() - 1
    }

    fn begin(&mut self, request: usize) -> (Data, Cookie) {
        let r = &mut self.requests[request];
        r.parts = 1;
        r.end = None;
        r.asked = false;
        (r.buffer.data(), Cookie(request as u64))
    }

    fn ended(&mut self, done: &Completion) {
        let half = done.cookie.0 & FALLBACK != 0;
        let silent = half && self.bound.half_ended(done.cookie);
        let r = &mut self.requests[(done.cookie.0 & 0xffff_ffff) as usize];
        if !silent {
            r.end = Some(*done);
        }
        assert!(r.asked || done.outcome != Outcome::Cancelled || silent);
        r.parts -= 1;
    }

    fn settle(&mut self, submit: Option<Submit>) {
        for event in self.bound.events() {
            match event {
                Event::Split(cookie) => self.requests[cookie.0 as usize].parts += 1,
                Event::PartOver(cookie) => self.requests[cookie.0 as usize].parts -= 1,
                Event::Completed(done) => self.ended(&done),
            }
        }
        if let Some(Submit::Complete(done)) = submit {
            self.ended(&done);
        }
    }

    fn progress(&mut self) -> bool {
        let mut done = Vec::new();
        let mut moved = self.m.progress(&mut done);
        done.iter().for_each(|d| self.ended(d));
        moved |= self.bound.progress(&mut self.m);
        self.settle(None);
        moved
    }
}

/// A job under way, and what it did.
pub(super) struct Job {
    context: Context,
    processes: Vec<Process>,
    messages: Vec<Message>,
    receives: Vec<Receive>,
}

impl Job {
    fn new(manner: Manner, context: Context) -> Job {
        let unmatched = SHORT;
        let world = World::new(
            3,
            Manner {
                unmatched,
                ..manner
            },
        );
        let process = |rank| {
            let mut m = Matched::new(world.join(rank));
            let mut bound = Bound::default();
            assert!(bound.open(&mut m));
            Process {
                m,
                bound,
                requests: Vec::new(),
            }
        };
        Job {
            context,
            processes: (0..3).map(process).collect(),
            messages: Vec::new(),
            receives: Vec::new(),
        }
    }

    fn send(&mut self, from: u32, request: usize, tag: i32, persistent: bool) {
        self.note();
        let number = self.messages.len() as u64;
        let p = &mut self.processes[from as usize];
        let stream = Stream {
            peer: Endpoint(RECEIVER),
            context: self.context,
            tag,
        };
        let last = p.bound.last_sent(stream);
        let settled = last.is_some_and(|c| p.requests[c.0 as usize].is_settled());
        let (data, cookie) = p.begin(request);
        data.writer().write(&number.to_le_bytes());
        let mode = SendMode::Standard;
        let out = Outgoing {
            stream,
            mode,
            data,
            cookie,
        };
        let submit = match persistent {
            true => p.bound.start_send(&mut p.m, out, settled),
            false => p.bound.send(&mut p.m, out),
        };
        p.settle(Some(submit));
        self.messages.push(Message {
            from,
            tag,
            request,
            cancelled: false,
            over: false,
        });
    }

    fn receive(&mut self, request: usize, from: Source, tag: TagSel, persistent: bool) {
        self.note();
        let p = &mut self.processes[RECEIVER as usize];
        let settled = p.requests[request].is_settled();
        let (data, cookie) = p.begin(request);
        let incoming = Incoming {
            from,
            context: self.context,
            tag,
            data,
            cookie,
        };
        let submit = match persistent {
            true => p.bound.start_receive(&mut p.m, incoming, settled),
            false => p.bound.receive(&mut p.m, incoming),
        };
        p.settle(Some(submit));
        self.receives.push(Receive {
            from,
            tag,
            request,
            got: None,
            over: false,
        });
    }

    /// Takes note of what receives got, before their requests are used again.
    fn note(&mut self) {
        let p = &mut self.processes[RECEIVER as usize];
        for receive in self.receives.iter_mut().filter(|r| !r.over) {
            let request = &mut p.requests[receive.request];
            if !request.is_done() {
                continue;
            }
            receive.over = true;
            let end = request.end.expect("what is over has an end");
            if end.outcome == Outcome::Cancelled {
                continue;
            }
            assert_eq!(end.outcome, Outcome::Done);
            let bytes = request.buffer.bytes();
            let number = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            let message = self.messages[number];
            assert_eq!((end.source.0, end.tag), (message.from, message.tag));
            receive.got = Some(number);
        }
        for message in self.messages.iter_mut().filter(|m| !m.over) {
            let request = &self.processes[message.from as usize].requests[message.request];
            message.over = request.is_done();
            let end = request.end.filter(|_| message.over);
            message.cancelled = end.is_some_and(|e| e.outcome == Outcome::Cancelled);
        }
    }

    fn cancel_receive(&mut self, request: usize) {
        let p = &mut self.processes[RECEIVER as usize];
        let cookie = Cookie(request as u64);
        p.requests[request].asked = true;
        if p.bound.cancel_receive(&mut p.m, cookie).is_none() {
            p.m.cancel_recv(cookie);
        }
        p.settle(None);
    }

    /// Everything that can happen does.
    pub fn rest(&mut self) {
        let mut quiet = 0;
        while quiet < 3 {
            let moved = self.processes.iter_mut().map(Process::progress);
            quiet = match moved.fold(false, |a, b| a | b) {
                true => 0,
                false => quiet + 1,
            };
        }
        self.note();
    }

    pub fn is_bound(&self, tag: i32) -> bool {
        let bound = &self.processes[RECEIVER as usize].bound;
        bound.is_bound(Endpoint(SENDER), tag)
    }

    /// Whether every receive is over.
    pub fn has_received_all(&self) -> bool {
        self.receives.iter().all(|r| r.over)
    }

    /// MPI's rules of matching, when everything has come to rest.
    pub fn check(&self) {
        let accepts = |r: &Receive, m: &Message| {
            (r.from == Source::Any || r.from == Source::From(Endpoint(m.from)))
                && (r.tag == TagSel::Any || r.tag == TagSel::Exact(m.tag))
        };
        let mut receiver_of = vec![None; self.messages.len()];
        for (at, receive) in self.receives.iter().enumerate() {
            let Some(got) = receive.got else { continue };
            assert_eq!(
                receiver_of[got].replace(at),
                None,
                "message {got} came twice"
            );
            assert!(accepts(receive, &self.messages[got]));
            assert!(!self.messages[got].cancelled, "message {got} was cancelled");
        }
        for (number, message) in self.messages.iter().enumerate() {
            if message.cancelled {
                continue;
            }
            let got = receiver_of[number];
            for (at, receive) in self.receives.iter().enumerate() {
                if !accepts(receive, message) {
                    continue;
                }
                match (got, receive.got) {
                    // Sent before what an earlier receive got: it went to one earlier still.
                    (Some(to), Some(other))
                        if self.messages[other].from == message.from && number < other =>
                    {
                        assert!(
                            to < at,
                            "message {number} went to receive {to}, message {other} to {at}"
                        );
                    }
                    (Some(to), None) if !receive.over => {
                        assert!(to <= at, "receive {at} was before {to} for {number}");
                    }
                    (None, Some(other)) if self.messages[other].from == message.from => {
                        assert!(other < number, "message {other} overtook {number}");
                    }
                    (None, None) => {
                        assert!(receive.over, "message {number} and receive {at} wait");
                    }
                    _ => {}
                }
            }
        }
    }
}

/// What a program does next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Starts a persistent send, if it is inactive.
    Start(usize),
    /// Starts a persistent receive, if it is inactive.
    Await(usize),
    /// The sender, or the other process, sends an ordinary message, short or long.
    Send {
        other: bool,
        tag: i32,
        long: bool,
    },
    /// The receiver posts an ordinary receive.
    Receive {
        any_source: bool,
        any_tag: bool,
    },
    /// Probes, and receives what was found.
    Probe {
        any: bool,
    },
    CancelSend(usize),
    CancelReceive(usize),
    Free(usize),
    Progress(usize),
    /// Looks at slots alone, as before a sleep: news there may overtake messages.
    Look(usize),
    Rest,
}

fn step() -> impl Strategy<Value = Step> {
    let receive = |(any_source, any_tag)| Step::Receive {
        any_source,
        any_tag,
    };
    let send = |(other, tag, long)| Step::Send { other, tag, long };
    prop_oneof![
        12 => (0..3usize).prop_map(Step::Start),
        12 => (0..4usize).prop_map(Step::Await),
        2 => (any::<bool>(), 0..2i32, any::<bool>()).prop_map(send),
        1 => (any::<bool>(), any::<bool>()).prop_map(receive),
        1 => any::<bool>().prop_map(|any| Step::Probe { any }),
        1 => (0..3usize).prop_map(Step::CancelSend),
        1 => (0..4usize).prop_map(Step::CancelReceive),
        1 => (0..3usize).prop_map(Step::Free),
        12 => (0..3usize).prop_map(Step::Progress),
        6 => (0..2usize).prop_map(Step::Look),
        2 => Just(Step::Rest),
    ]
}

/// The same with little but the pair that is bound.
fn calm_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Start(0)),
        2 => Just(Step::Start(1)),
        8 => Just(Step::Await(0)),
        14 => (0..2usize).prop_map(Step::Progress),
        8 => (0..2usize).prop_map(Step::Look),
        2 => Just(Step::Rest),
        1 => step(),
    ]
}

pub(super) fn manner() -> impl Strategy<Value = Manner> {
    prop_oneof![
        Just(Manner::SHARED),
        Just(Manner::NETWORK),
        Just(Manner::SLOW)
    ]
}

/// Persistent sends: two alike, and one of another stream.
const SENDS: [i32; 3] = [0, 0, 1];
/// Persistent receives: two alike, one of another stream, one from any source.
const RECEIVES: [(Source, TagSel); 4] = [
    (Source::From(Endpoint(SENDER)), TagSel::Exact(0)),
    (Source::From(Endpoint(SENDER)), TagSel::Exact(0)),
    (Source::From(Endpoint(SENDER)), TagSel::Exact(1)),
    (Source::Any, TagSel::Exact(0)),
];

pub(super) fn play(manner: Manner, context: Context, steps: &[Step]) -> Job {
    let mut job = Job::new(manner, context);
    let sends: Vec<usize> = SENDS.map(|_| job.processes[0].request(LONG)).to_vec();
    let receives: Vec<usize> = RECEIVES.map(|_| job.processes[1].request(LONG)).to_vec();
    for &step in steps {
        play_step(&mut job, &sends, &receives, step);
    }
    job.rest();
    job
}

pub(super) fn play_step(job: &mut Job, sends: &[usize], receives: &[usize], step: Step) {
    job.note();
    match step {
        Step::Start(which) => {
            if job.processes[0].requests[sends[which]].is_done() {
                job.send(SENDER, sends[which], SENDS[which], true);
            }
        }
        Step::Await(which) => {
            if job.processes[1].requests[receives[which]].is_done() {
                let (from, tag) = RECEIVES[which];
                job.receive(receives[which], from, tag, true);
            }
        }
        Step::Send { other, tag, long } => {
            let from = if other { OTHER } else { SENDER };
            let len = if long { LONG } else { SHORT };
            let request = job.processes[from as usize].request(len);
            job.send(from, request, tag, false);
        }
        Step::Receive {
            any_source,
            any_tag,
        } => {
            let request = job.processes[1].request(LONG);
            let from = match any_source {
                true => Source::Any,
                false => Source::From(Endpoint(SENDER)),
            };
            let tag = match any_tag {
                true => TagSel::Any,
                false => TagSel::Exact(0),
            };
            job.receive(request, from, tag, false);
        }
        Step::Probe { any } => {
            let from = match any {
                true => Source::Any,
                false => Source::From(Endpoint(SENDER)),
            };
            probe(job, from);
        }
        Step::CancelSend(which) => {
            let p = &mut job.processes[0];
            // A simulated send can't be cancelled once it has left.
            p.requests[sends[which]].asked = true;
            p.bound.cancel_send(Cookie(sends[which] as u64));
            p.settle(None);
        }
        Step::CancelReceive(which) => job.cancel_receive(receives[which]),
        Step::Free(which) => {
            // The request is made again under its old name, as happens.
            let p = &mut job.processes[0];
            if p.requests[sends[which]].is_done() {
                p.bound.forget(&mut p.m, Cookie(sends[which] as u64));
                p.requests[sends[which]].end = None;
                p.settle(None);
            }
            let p = &mut job.processes[1];
            if p.requests[receives[which]].is_done() {
                p.bound.forget(&mut p.m, Cookie(receives[which] as u64));
                p.requests[receives[which]].end = None;
                p.settle(None);
            }
        }
        Step::Progress(who) => drop(job.processes[who].progress()),
        Step::Look(who) => {
            let p = &mut job.processes[who];
            p.bound.progress(&mut p.m);
            p.settle(None);
        }
        Step::Rest => job.rest(),
    }
}

/// Probes; what is found is what a receive like it gets.
fn probe(job: &mut Job, from: Source) {
    let p = &mut job.processes[1];
    p.bound.make_way(&mut p.m, from, job.context, TagSel::Any);
    p.settle(None);
    let Some(found) = p.m.probe(from, job.context, TagSel::Any) else {
        return;
    };
    let request = p.request(LONG);
    job.receive(request, from, TagSel::Any, false);
    job.note();
    let end = job.processes[1].requests[request].end;
    let end = end.expect("what a probe found can be received");
    assert_eq!((end.source, end.tag), (found.source, found.tag));
    assert_eq!(end.bytes, found.bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any mixture of everything, in any interleaving, matches as MPI says.
    #[test]
    fn any_mixture_matches_as_mpi_says(
        manner in manner(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        play(manner, CONTEXT, &steps).check();
    }

    /// So does a pair that is bound most of the time.
    #[test]
    fn a_bound_pair_that_is_disturbed_matches_as_mpi_says(
        manner in manner(),
        steps in prop::collection::vec(calm_step(), 1..200),
    ) {
        play(manner, CONTEXT, &steps).check();
    }
}

/// A pair after so many messages in step, each awaited first.
pub(super) fn bound_pair(manner: Manner, context: Context) -> (Job, Vec<usize>, Vec<usize>) {
    let mut job = Job::new(manner, context);
    let sends: Vec<usize> = SENDS.map(|_| job.processes[0].request(LONG)).to_vec();
    let receives: Vec<usize> = RECEIVES.map(|_| job.processes[1].request(LONG)).to_vec();
    for round in 0..8 {
        play_step(&mut job, &sends, &receives, Step::Await(0));
        job.rest();
        play_step(&mut job, &sends, &receives, Step::Start(0));
        job.rest();
        assert!(round > 0 || !job.is_bound(0), "nothing has matched yet");
    }
    assert!(job.is_bound(0));
    job.check();
    (job, sends, receives)
}

/// Without this the other tests would show nothing.
#[test]
fn a_pair_in_step_is_bound_and_its_messages_are_not_matched() {
    for manner in [Manner::SHARED, Manner::NETWORK, Manner::SLOW] {
        let (mut job, sends, receives) = bound_pair(manner, CONTEXT);
        play_step(&mut job, &sends, &receives, Step::Start(0));
        job.rest();
        let p = &mut job.processes[1];
        let from = Source::From(Endpoint(SENDER));
        assert!(p.m.probe(from, CONTEXT, TagSel::Any).is_none());
        play_step(&mut job, &sends, &receives, Step::Await(0));
        job.rest();
        assert!(job.is_bound(0));
        assert!(job.has_received_all());
        job.check();
        let [sender, receiver] =
            [SENDER, RECEIVER].map(|r| job.processes[r as usize].bound.counts());
        assert!(sender.sent > 1 && sender.received == 0);
        assert_eq!((receiver.sent, receiver.received), (0, sender.sent));
        for end in [sender, receiver] {
            assert_eq!((end.bound, end.unbound), (1, 0));
        }
    }
}

/// What a bound pair meets, one at a time: with the receive started before, and with the message sent before.
#[test]
fn each_disturbance_of_a_bound_pair_ends_well() {
    let disturbances = [
        Step::Receive {
            any_source: true,
            any_tag: true,
        },
        Step::Receive {
            any_source: false,
            any_tag: false,
        },
        Step::Probe { any: true },
        Step::Probe { any: false },
        Step::Await(1),
        Step::Await(3),
        Step::CancelReceive(0),
        Step::Send {
            other: false,
            tag: 0,
            long: false,
        },
    ];
    for manner in [Manner::SHARED, Manner::NETWORK, Manner::SLOW] {
        for disturbance in disturbances {
            for first in [Step::Await(0), Step::Start(0)] {
                let (mut job, sends, receives) = bound_pair(manner, CONTEXT);
                let mut play = |step| play_step(&mut job, &sends, &receives, step);
                play(first);
                play(disturbance);
                play(Step::Start(0));
                play(Step::Start(1));
                play(Step::Await(0));
                play(Step::Rest);
                assert!(!job.is_bound(0), "{disturbance:?}");
                for process in &job.processes[..2] {
                    assert_eq!(process.bound.counts().unbound, 1, "{disturbance:?}");
                }
                job.check();
            }
        }
    }
}

/// A proposal may overtake messages.
#[test]
fn a_pair_is_not_bound_while_a_message_is_under_way() {
    let steps = [
        Step::Await(0),
        Step::Start(0),
        Step::Rest,
        Step::Await(0),
        Step::Look(1),
        Step::Start(0),
        Step::Look(0),
        Step::Start(1),
        Step::Look(1),
        Step::Look(0),
        Step::Rest,
        Step::Await(0),
        Step::Start(0),
        Step::Rest,
    ];
    for manner in [Manner::SHARED, Manner::NETWORK, Manner::SLOW] {
        play(manner, CONTEXT, &steps).check();
    }
}

/// A duplicate at the sender, and a cancelled send, need no unbinding.
#[test]
fn what_concerns_the_sender_alone_keeps_a_pair_bound() {
    let (mut job, sends, receives) = bound_pair(Manner::NETWORK, CONTEXT);
    let mut play = |step| play_step(&mut job, &sends, &receives, step);
    play(Step::Start(1));
    play(Step::Start(0));
    play(Step::CancelSend(0));
    play(Step::Await(0));
    play(Step::Rest);
    assert!(job.is_bound(0));
    job.check();
    assert!(job.messages.last().is_some_and(|m| m.cancelled));
    assert!(job.has_received_all());
}

#[test]
fn what_a_dead_peer_owes_fails() {
    for dead in [SENDER, RECEIVER] {
        let (mut job, sends, receives) = bound_pair(Manner::NETWORK, CONTEXT);
        let step = if dead == SENDER {
            Step::Await(0)
        } else {
            Step::Start(0)
        };
        play_step(&mut job, &sends, &receives, step);
        let alive = &mut job.processes[(1 - dead) as usize];
        alive.m.peer_failed(Endpoint(dead));
        alive.bound.peer_failed(&mut alive.m, Endpoint(dead));
        alive.settle(None);
        alive.progress();
        let ended = alive.requests.iter().filter_map(|r| r.end);
        let failed = ended.filter(|e| e.outcome == Outcome::PeerFailed);
        assert_eq!(failed.count(), 1);
        assert!(alive.requests.iter().all(Request::is_done));
    }
}
