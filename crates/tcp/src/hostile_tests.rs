//! A peer that has proved itself and then sends what no correct one sends, over a real connection: it has failed, with a
//! reason, everything that needs it ends, and the others' messages go on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Landed, Slot, SlotTable, Slots};
use mtmi::{
    Context, Cookie, Endpoint, Matched, Outcome, SendMode, Source, Submit, TagSel, Transport,
};

use crate::frame::{Announced, EARLY, Frame, SlotRef};
use crate::handshake::{Dialer, HELLO, Job, VERDICT, Verdict};
use crate::{Config, ReactorKind, Tcp};

const SECRET: [u8; 32] = [3; 32];

fn join(reactor: ReactorKind) -> (Matched<Tcp>, SocketAddr) {
    let config = Config {
        reactor: Some(reactor),
        ..Config::default()
    };
    let listening = Tcp::listen(config).unwrap();
    let address = listening.address();
    let port = u16::from_str_radix(&address[2..6], 16).unwrap();
    let all = [None, Some(address.clone()), Some(address)];
    let tcp = listening.join(Endpoint(0), 3, &all, SECRET);
    (Matched::new(tcp), SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Connects as `rank`, truly.
fn connect(rank: u32, to: SocketAddr, tcp: &mut Matched<Tcp>) -> TcpStream {
    let job = Job {
        secret: SECRET,
        version: Config::default().version,
        me: rank,
        ranks: 3,
    };
    let mut dialer = Dialer::new(&job, 0, &[rank as u8; 32]);
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(&dialer.hello()).unwrap();
    let mut theirs = [0; HELLO];
    listen_to(&mut stream, &mut theirs, tcp);
    let proof = dialer.prove(&job, &theirs).unwrap();
    stream.write_all(&proof).unwrap();
    let mut said = [0; VERDICT];
    listen_to(&mut stream, &mut said, tcp);
    assert_eq!(dialer.verdict(&job, &said), Ok(Verdict::Welcome));
    stream
}

/// Reads while the other end gets its turn.
fn listen_to(stream: &mut TcpStream, out: &mut [u8], tcp: &mut Matched<Tcp>) {
    stream.set_nonblocking(true).unwrap();
    let (mut done, end) = (0, Instant::now() + Duration::from_secs(20));
    while done < out.len() {
        tcp.progress(&mut Vec::new());
        match stream.read(&mut out[done..]) {
            Ok(n) => done += n,
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(Instant::now() < end);
    }
    stream.set_nonblocking(false).unwrap();
}

/// The receive that is posted in table 0.
const SLOT: SlotRef = SlotRef {
    name: 0,
    index: 0,
    generation: 1,
};

fn post(name: u32, index: u32) -> [u8; 32] {
    let slot = SlotRef {
        name,
        index,
        generation: 1,
    };
    Frame::SlotPost {
        slot,
        count: 2,
        length: 8,
    }
    .encode()
}

/// A delivery to the receive of 64 bytes that the victim has posted.
fn slot_data(sent: u64, len: u32) -> [u8; 32] {
    let slot = SlotRef { index: 1, ..SLOT };
    Frame::SlotData {
        slot,
        immediate: 0,
        sent,
        len,
    }
    .encode()
}

fn message(total: u64, early: u32) -> Frame {
    Frame::Message(Announced {
        context: 1,
        tag: 1,
        total,
        early,
        name: 5,
        synchronous: false,
    })
}

#[test]
fn liars_fail_alone() {
    let lies: Vec<Vec<u8>> = vec![
        vec![0xff; 40],
        Frame::Matched { name: 9 }.encode().into(),
        Frame::Clear {
            name: 0,
            target: 0,
            wanted: 1,
        }
        .encode()
        .into(),
        Frame::Credit { bytes: 1 }.encode().into(),
        Frame::Data { target: 0, len: 1 }.encode().into(),
        message(u64::MAX, 0).encode().into(),
        message(1, EARLY as u32 + 1).encode().into(),
        [Frame::Bye.encode(), Frame::Bye.encode()].concat(),
        // A delivery to a slot in which nothing is posted, and an answer that nobody asked for.
        Frame::SlotData {
            slot: SLOT,
            immediate: 0,
            sent: 1,
            len: 1,
        }
        .encode()
        .into(),
        Frame::SlotReturned { slot: SLOT }.encode().into(),
        // Two receives in one slot.
        post(0, 1).repeat(2),
        // A delivery longer than the receive that is posted, and one that goes on after its end.
        slot_data(65, 65).into(),
        [&slot_data(64, 64)[..], &[0; 64], &slot_data(64, 64)[..]].concat(),
        // More than the window, without waiting for credit.
        {
            let part = [
                &message(EARLY, EARLY as u32).encode()[..],
                &[0; EARLY as usize],
            ]
            .concat();
            part.repeat(5)
        },
        // Half a message, and an end without taking leave.
        [&message(1000, 1000).encode()[..], &[0; 500]].concat(),
    ];
    for reactor in [ReactorKind::Epoll, ReactorKind::IoUring] {
        for lie in &lies {
            suffer(reactor, lie);
        }
    }
}

fn suffer(reactor: ReactorKind, lie: &[u8]) {
    let (mut tcp, address) = join(reactor);
    let mut liar = connect(1, address, &mut tcp);
    let mut honest = connect(2, address, &mut tcp);
    let mut memory = vec![0; 5000];
    let data = Data::bytes(UserBuf::of_array(&mut memory), 5000);
    let never = tcp.irecv(
        Source::From(Endpoint(1)),
        Context(2),
        TagSel::Any,
        data.clone(),
        Cookie(1),
    );
    tcp.open_slots(0, 2).unwrap();
    let posted = Slot {
        table: SlotTable(0),
        peer: Endpoint(1),
        index: 1,
    };
    let mut room = [0; 64];
    tcp.post(posted, &Data::bytes(UserBuf::of_array(&mut room), 64))
        .unwrap();
    let sync = SendMode::Synchronous;
    let unmatched = tcp.isend(Endpoint(1), Context(1), 1, sync, data, Cookie(2));
    assert_eq!((never, unmatched), (Submit::Pending, Submit::Pending));
    // It may be found out before it is done.
    let _ = liar.write_all(lie);
    drop(liar);
    let (mut done, end) = (Vec::new(), Instant::now() + Duration::from_secs(20));
    while done.len() < 2 {
        tcp.progress(&mut done);
        assert!(Instant::now() < end, "{lie:?} ends nothing");
    }
    assert!(done.iter().all(|c| c.outcome == Outcome::PeerFailed));
    assert_ne!(tcp.landed(posted), Landed::NotYet);
    assert_eq!(tcp.next_failure(), Some(Endpoint(1)));
    let reason = tcp.fabric().reason(Endpoint(1)).unwrap().to_string();
    assert!(reason.contains("lost"), "{reason}");
    // Rank 2 goes on.
    honest.write_all(&message(3, 3).encode()).unwrap();
    honest.write_all(b"abc").unwrap();
    let data = Data::bytes(UserBuf::of_array(&mut memory), 5000);
    let from = Source::From(Endpoint(2));
    done.clear();
    let submit = tcp.irecv(from, Context(1), TagSel::Any, data, Cookie(3));
    if let Submit::Complete(end) = submit {
        done.push(end);
    }
    while done.is_empty() {
        tcp.progress(&mut done);
        assert!(Instant::now() < end);
    }
    assert_eq!((done[0].outcome, done[0].bytes), (Outcome::Done, 3));
    assert_eq!(memory[..3], *b"abc");
    assert_eq!(tcp.next_failure(), None);
}
