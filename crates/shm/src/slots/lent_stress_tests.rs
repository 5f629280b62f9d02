//! Two ends in two threads, everything at once and both ways: what rides in landings, streams, copies between mapped buffers and copies by the kernel, of which some are
//! refused, at random and in the middle. All data arrive, and nothing is written or read after it was given back.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotTable, Slots};
use mtmi::{Endpoint, Matched, Transport};
use sys::sparse::Sparse;

use crate::Shm;
use crate::direct::Choice;
use crate::foreign::{Foreign, refusals};
use crate::places::Mover;
use crate::segment::Segment;
use crate::slots::Area;

const SLOTS: usize = 4;
const MOST: usize = 700_000;
const ROUNDS: u64 = 25;
/// What is in memory that its program has again.
const GIVEN_BACK: u64 = 99;

/// A number that both ends find.
fn number(round: u64, sender: u32, what: u64) -> u64 {
    let mixed = (round << 20 | u64::from(sender) << 16 | what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

/// How long the message in a slot is.
fn length(round: u64, sender: u32, index: usize) -> usize {
    let n = number(round, sender, index as u64);
    let (kind, n) = (n % 5, (n / 5) as usize);
    match kind {
        0 => n % 30,
        1 => 25 + n % 16_000,
        2 => 16_384 + n % 20_000,
        3 => 32_768 + n % 300_000,
        _ => 16_384 + n % (MOST - 16_384),
    }
}

fn byte(key: u64, i: usize) -> u8 {
    (key as usize + i * 7 + i / 251) as u8
}

fn fill(buf: UserBuf, len: usize, key: u64) {
    let bytes: Vec<u8> = (0..len).map(|i| byte(key, i)).collect();
    Data::bytes(buf, len as u64).writer().write(&bytes);
}

fn holds(buf: UserBuf, len: usize, key: u64) -> bool {
    let mut bytes = vec![0; len];
    buf.read(&mut bytes);
    (0..len).all(|i| bytes[i] == byte(key, i))
}

struct End {
    m: Matched<Shm>,
    me: u32,
    /// Memory of its own and mapped memory: receives' and then sends'.
    buffers: [Vec<UserBuf>; 2],
    round: u64,
}

impl End {
    fn slot(&self, index: usize) -> Slot {
        Slot {
            table: SlotTable(0),
            peer: Endpoint(1 - self.me),
            index: index as u32,
        }
    }

    /// Where the receive of a slot, or its send, is: as both know.
    fn buffer(&self, sender: u32, index: usize) -> (UserBuf, usize) {
        let sends = sender == self.me;
        let what = 16 + index as u64 + if sends { 8 } else { 0 };
        let mapped = number(self.round, self.me, what).is_multiple_of(4);
        let at = index + if sends { SLOTS } else { 0 };
        let buffers = &self.buffers[usize::from(mapped)];
        (buffers[at], length(self.round, sender, index))
    }

    fn data(&self, sender: u32, index: usize) -> Data {
        let (buf, len) = self.buffer(sender, index);
        Data::bytes(buf, len as u64)
    }

    fn key(&self, sender: u32, index: usize) -> u64 {
        number(self.round, sender, 40 + index as u64) % 90
    }

    /// The kernel may copy again.
    fn renew(&mut self) {
        let peer = 1 - self.me;
        let fabric = self.m.fabric();
        let direct = &mut fabric.peers[peer as usize].direct;
        direct.renew();
        direct.believe(Foreign::new(std::process::id() as i32));
        fabric.wish(peer, u32::MAX);
    }

    fn begin(&mut self) {
        self.renew();
        let peer = 1 - self.me;
        for index in 0..SLOTS {
            let (buf, len) = self.buffer(peer, index);
            fill(buf, len, 200);
            let (buf, len) = self.buffer(self.me, index);
            fill(buf, len, self.key(self.me, index));
        }
        let first = number(self.round, self.me, 60) as usize;
        for index in (0..SLOTS).map(|i| (i + first) % SLOTS) {
            let to = self.data(peer, index);
            self.m.post(self.slot(index), &to).unwrap();
        }
    }

    /// Whether a send is over after this step.
    fn send(&mut self, index: usize, begun: &mut bool) -> bool {
        let slot = self.slot(index);
        let delivery = match *begun {
            true => self.m.delivered(slot),
            false if self.m.offered(slot).is_none() => return false,
            false => {
                let from = self.data(self.me, index);
                self.m.deliver(slot, &from, 0).unwrap()
            }
        };
        *begun = true;
        match delivery {
            Delivery::Pending => false,
            Delivery::Done { .. } => {
                let (buf, len) = self.buffer(self.me, index);
                fill(buf, len, GIVEN_BACK);
                true
            }
            other => panic!("{other:?}"),
        }
    }

    /// Whether a receive is over.
    fn receive(&mut self, index: usize) -> bool {
        let peer = 1 - self.me;
        let (buf, len) = self.buffer(peer, index);
        match self.m.landed(self.slot(index)) {
            Landed::NotYet => false,
            Landed::Done { bytes, .. } => {
                assert_eq!(bytes as usize, len);
                assert!(holds(buf, len, self.key(peer, index)), "{len} bytes");
                fill(buf, len, GIVEN_BACK);
                true
            }
            other => panic!("{other:?}"),
        }
    }

    fn run(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        let late: Vec<bool> = (0..SLOTS as u64)
            .map(|i| number(self.round, self.me, 80 + i).is_multiple_of(2))
            .collect();
        let (mut begun, mut sent, mut got) = ([false; SLOTS], [false; SLOTS], [false; SLOTS]);
        while !(sent.iter().all(|&s| s) && got.iter().all(|&g| g)) {
            assert!(
                Instant::now() < until,
                "round {}: {sent:?} {got:?}",
                self.round
            );
            self.m.advance();
            // Some receives are looked at when everything else is over.
            let rest = sent.iter().all(|&s| s) && (0..SLOTS).all(|i| got[i] || late[i]);
            for i in 0..SLOTS {
                sent[i] = sent[i] || self.send(i, &mut begun[i]);
                got[i] = got[i] || ((rest || !late[i]) && self.receive(i));
            }
        }
    }

    /// Nothing is left, and nothing was written to what was given back.
    fn end(&mut self) {
        let peer = 1 - self.me;
        for index in 0..SLOTS {
            let (buf, len) = self.buffer(peer, index);
            assert!(holds(buf, len, GIVEN_BACK), "written late");
        }
        let link = &self.m.fabric().slots.links[peer as usize];
        assert!(link.split.is_none() && link.split_in.is_empty() && link.sink.is_none());
        assert!(link.flows.is_empty() && link.announced.is_empty() && link.ended.is_empty());
        assert!(self.m.next_failure().is_none());
    }
}

/// The other end would wait for ever for one that has panicked.
struct Both;

impl Drop for Both {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// One end. Of its copies one in `one_in` is refused, none if that is 0; each helps the other, or none does.
fn side((segment, file, me): (Segment, Sparse, u32), (one_in, helps): (u64, bool), gate: &Barrier) {
    let _both = Both;
    refusals::begin(one_in, one_in + u64::from(me));
    let mut shm = Shm::new(segment, Area::new(file, 2, me), me, vec![0, 1], 2);
    shm.choose(Choice::Direct);
    shm.mover = helps.then(|| Mover::new(me));
    let mut m = Matched::new(shm);
    m.open_slots(7, SLOTS as u32).unwrap();
    let mut own: Vec<Vec<u8>> = vec![vec![0; MOST]; 2 * SLOTS];
    let own = own.iter_mut().map(|v| UserBuf::of_array(v)).collect();
    let mapped = (0..2 * SLOTS).map(|_| m.alloc_mapped(MOST).unwrap());
    let buffers = [own, mapped.collect()];
    let mut end = End {
        m,
        me,
        buffers,
        round: 0,
    };
    gate.wait();
    for round in 0..ROUNDS {
        end.round = one_in * ROUNDS + round;
        end.begin();
        end.run();
        gate.wait();
        (0..20).for_each(|_| {
            end.m.advance();
        });
        gate.wait();
        end.end();
        gate.wait();
    }
}

#[test]
fn all_arrives_whatever_is_refused() {
    let word = 0x5eed;
    let at = (&raw const word).expose_provenance() as u64;
    if !Foreign::new(std::process::id() as i32).is_open(at, word) {
        return;
    }
    for how in [
        (0, true),
        (20, true),
        (4, true),
        (2, true),
        (6, false),
        (1, true),
    ] {
        let (fd, first) = Segment::create(2, "test").unwrap();
        let second = Segment::open(&fd, 2, "test").unwrap();
        let file = Sparse::create("test", 1 << 28).unwrap();
        let copy = Sparse::open(file.fd().try_clone_to_owned().unwrap()).unwrap();
        let gate = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| side((first, file, 0), how, &gate));
            side((second, copy, 1), how, &gate);
        });
    }
}
