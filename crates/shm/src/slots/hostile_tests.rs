//! A peer that writes anything into its lines, its pipe, its directory and the ring: nothing panics, no memory but that of
//! posted receives is written, and everything still ends.

use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotTable, Slots};
use mtmi::{Endpoint, Matched, Transport};

use super::line::{Header, INLINE, LONGEST, Landing, Way};
use super::table::Receiving;
use super::tests::ends;
use crate::Shm;
use crate::direct::Choice;
use crate::foreign::Foreign;
use crate::lane::{ChunkHeader, Whose};
use crate::places::Mover;
use crate::split::SPLIT;
use crate::wire::Kind;

const COUNT: u32 = 4;
const COMMON: Whose = Whose::Common {
    area: 0,
    last: true,
};
/// The receives' memory, and what is around each and must not change.
const ROOM: usize = 600_000;
const EDGE: usize = 4096;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0xb);
        (self.0 >> 33) % n
    }

    /// Small numbers, plausible ones and extremes.
    fn word(&mut self) -> u64 {
        match self.below(9) {
            0 => u64::MAX - self.below(3),
            1 => 1 << self.below(64),
            2 => self.below(ROOM as u64 * 2),
            3 => SPLIT + self.below(40_000),
            4 => self.below(1 << 31) << 32 | self.below(COUNT.into()),
            5 => 4096 * self.below(1000),
            _ => self.below(6),
        }
    }

    fn way(&mut self) -> Way {
        [Way::Inline, Way::Direct, Way::Pipe, Way::Split, Way::Lent][self.below(5) as usize]
    }
}

fn slot(peer: u32, index: u64) -> Slot {
    Slot {
        table: SlotTable(0),
        peer: Endpoint(peer),
        index: index as u32,
    }
}

/// One act of the liar, process 1, through memory that it may write.
fn lie(r: &mut Random, liar: &mut Shm) {
    let index = r.below(COUNT.into()) as u32;
    let Some(pair) = liar.slots.pair(0, 0) else {
        return;
    };
    let Some(lines) = &pair.mine else {
        return;
    };
    let line = lines.line(index);
    let generation = match r.below(4) {
        0 => r.word() as u32,
        _ => r.below(8) as u32,
    };
    match r.below(8) {
        0 | 1 => {
            line.set_header(Header {
                segment: r.word() as u32,
                offset: r.word(),
                length: r.word(),
            });
            line.offer(generation);
        }
        2 | 3 => {
            let landing = Landing {
                way: r.way(),
                sent: r.word() & LONGEST,
                immediate: 0,
            };
            line.land(generation, landing, [r.word(), r.word(), r.word()]);
        }
        4 => {
            let kinds = [
                Kind::SlotStream,
                Kind::SlotAgain,
                Kind::SlotWithdraw,
                Kind::SlotReturned,
            ];
            let about = [r.word() & 0xf, r.below(6), r.below(8), 0];
            let streams = [7 << 32 | r.below(6), r.below(8), 0, 0];
            match kinds[r.below(4) as usize] {
                kind @ (Kind::SlotStream | Kind::SlotAgain) => liar.control(0, kind, streams),
                kind => liar.control(0, kind, about),
            }
        }
        5 => {
            let Ok(pipes) = liar.outward_pipes(0) else {
                return;
            };
            let header = ChunkHeader {
                start: [0, 100, r.word() as usize][r.below(3) as usize],
                len: [r.word() as usize, 4096, 32_768][r.below(3) as usize],
                target: 7 << 32 | r.below(COUNT as u64 + 1),
                whose: [Whose::Own, COMMON][r.below(2) as usize],
            };
            pipes.out.publish_chunk(pipes.space.next(), header);
            pipes.space.take(0, 1);
        }
        6 => {
            if let Ok(pipes) = liar.outward_pipes(0) {
                pipes.inward.set_drained(r.word() as u32);
                let words = pipes.inward.split();
                words.set_copied(r.below(4) as u32, r.word() as u32, false);
                words.begin(r.below(4) as u32);
                pipes.out.turn(r.below(2) as usize).begin(r.below(4) as u32);
                pipes
                    .inward
                    .turn(r.below(2) as usize)
                    .begin(r.below(4) as u32);
            }
        }
        _ => {
            if let Ok(pipes) = liar.outward_pipes(0) {
                let words = pipes.out.split();
                words.begin(r.below(4) as u32);
                words.set_copied(r.below(4) as u32, r.word() as u32, true);
            }
        }
    }
}

/// Memory of receives with edges that tell when something was written beside it.
struct Guarded {
    memory: Vec<u8>,
    whole: Data,
}

impl Guarded {
    fn new(shm: &mut Matched<Shm>, mapped: bool) -> Guarded {
        let mut memory = Vec::new();
        let whole = match mapped {
            true => Data::bytes(
                shm.alloc_mapped(ROOM + 2 * EDGE).unwrap(),
                (ROOM + 2 * EDGE) as u64,
            ),
            false => {
                memory = vec![0; ROOM + 2 * EDGE];
                let buf = boundary::UserBuf::of_array(&mut memory);
                Data::bytes(buf, memory.len() as u64)
            }
        };
        whole.writer().write(&vec![0xee; ROOM + 2 * EDGE]);
        Guarded { memory, whole }
    }

    fn data(&self, len: u64) -> Data {
        Data::bytes(self.whole.buf.offset(EDGE as i64), len.min(ROOM as u64))
    }

    /// The last bytes of the memory.
    fn last(&self, len: usize) -> (boundary::UserBuf, usize) {
        (self.whole.buf.offset((EDGE + ROOM - len) as i64), len)
    }

    fn check(&self) {
        let mut edge = vec![0; EDGE];
        self.whole.buf.read(&mut edge);
        assert!(edge.iter().all(|&b| b == 0xee), "written before the memory");
        self.whole.buf.offset((ROOM + EDGE) as i64).read(&mut edge);
        assert!(edge.iter().all(|&b| b == 0xee), "written behind the memory");
        assert!(self.memory.is_empty() || self.memory.len() == ROOM + 2 * EDGE);
    }
}

fn attack(seed: u64) {
    let mut r = Random(seed);
    let (victim, mut liar) = ends(1 << 27);
    let mut shm = Matched::new(victim);
    liar.open_slots(7, COUNT).unwrap();
    shm.open_slots(7, COUNT).unwrap();
    let memory = [false, true].map(|mapped| Guarded::new(&mut shm, mapped));
    // The liar has lines and mapped memory as others do.
    let theirs = liar.alloc_mapped(1 << 20).unwrap();
    let _ = liar.post(slot(0, 0), &Data::bytes(theirs, 1 << 20));
    if seed.is_multiple_of(2) {
        // What the kernel is to copy it refuses.
        let fabric = shm.fabric();
        fabric.choose(Choice::Direct);
        fabric.peers[1].direct.believe(Foreign::new(i32::MAX));
        fabric.mover = Some(Mover::new(0));
        liar.wish(0, u32::MAX);
    }
    let ports = shm.fabric().slot_ports(SlotTable(0), COUNT).unwrap();
    let port = &ports.of(0..2).unwrap()[1];
    for _ in 0..120 {
        let data = memory[r.below(2) as usize].data(r.word());
        let at = slot(1, r.below(COUNT.into()));
        match r.below(12) {
            0 | 1 => {
                let _ = shm.post(at, &data);
            }
            6 => {
                let (buf, len) = memory[0].last(r.below(30) as usize);
                port.post(at.index, buf, len);
            }
            7 => {
                let _ = port.take(at.index, 1);
            }
            8 => {
                shm.set_clear(at, r.below(4) > 0);
                let (buf, len) = memory[1].last(r.below(30) as usize);
                port.deliver(at.index, buf, len);
            }
            2 => {
                let _ = shm.landed(at);
            }
            3 => {
                if shm.offered(at).is_some() {
                    let _ = shm.deliver(at, &data, 1);
                }
            }
            4 => {
                let _ = shm.withdraw(at);
                let _ = shm.delivered(at);
            }
            5 => {
                shm.advance();
            }
            _ => lie(&mut r, &mut liar),
        }
    }
    for guarded in &memory {
        guarded.check();
    }
    shm.advance();
    shm.peer_failed(Endpoint(1));
    shm.advance();
    for index in 0..COUNT.into() {
        assert_ne!(shm.landed(slot(1, index)), Landed::NotYet);
        assert_eq!(shm.landed(slot(1, index)), Landed::Idle);
        assert_ne!(shm.delivered(slot(1, index)), Delivery::Pending);
    }
    assert!(shm.flushed());
}

#[test]
fn any_lines_are_survived() {
    for seed in 0..500 {
        attack(seed);
    }
}

/// Each of these is something that no correct peer does: the liar has failed afterwards.
#[test]
fn lies_are_found_out() {
    type Lie = (&'static str, fn(&mut Shm));
    let lies: [Lie; 6] = [
        ("a way that doesn't exist", |liar| {
            let lines = liar.slots.pair(0, 0).unwrap().mine.as_ref().unwrap();
            let landing = Landing {
                way: Way::Split,
                sent: 300_000,
                immediate: 0,
            };
            // Both sides can't copy to memory that isn't mapped.
            lines.line(0).land(1, landing, [0; 3]);
        }),
        ("a direct landing in memory that it can't reach", |liar| {
            let lines = liar.slots.pair(0, 0).unwrap().mine.as_ref().unwrap();
            let landing = Landing {
                way: Way::Direct,
                sent: 8,
                immediate: 0,
            };
            lines.line(0).land(1, landing, [0; 3]);
        }),
        ("more in a landing than fits", |liar| {
            let lines = liar.slots.pair(0, 0).unwrap().mine.as_ref().unwrap();
            let landing = Landing {
                way: Way::Inline,
                sent: INLINE as u64 + 1,
                immediate: 0,
            };
            lines.line(0).land(1, landing, [0; 3]);
        }),
        ("a stream of nothing", |liar| {
            let pipes = liar.outward_pipes(0).unwrap();
            let header = ChunkHeader {
                start: 0,
                len: 10,
                target: 7 << 32 | 1,
                whose: Whose::Own,
            };
            pipes.out.publish_chunk(0, header);
            let lines = liar.slots.pair(0, 0).unwrap().mine.as_ref().unwrap();
            let landing = Landing {
                way: Way::Pipe,
                sent: 100,
                immediate: 0,
            };
            lines.line(0).land(1, landing, [0; 3]);
        }),
        ("back what was never asked for", |liar| {
            liar.control(0, Kind::SlotReturned, [7, 0, 1, 0]);
        }),
        ("a question about a receive to come", |liar| {
            liar.control(0, Kind::SlotWithdraw, [7, 0, 5, 0]);
        }),
    ];
    for (what, lie) in lies {
        let (victim, mut liar) = ends(1 << 27);
        let mut shm = Matched::new(victim);
        shm.open_slots(7, COUNT).unwrap();
        liar.open_slots(7, COUNT).unwrap();
        let mut memory = vec![0; 400_000];
        let data = Data::bytes(boundary::UserBuf::of_array(&mut memory), 400_000);
        liar.post(slot(0, 3), &data).unwrap();
        shm.post(slot(1, 0), &data).unwrap();
        let receive = shm
            .fabric()
            .slots
            .receive(super::table::Place { table: 0, index: 0 }, 1);
        assert_eq!(receive.unwrap().0.state, Receiving::Posted);
        lie(&mut liar);
        for _ in 0..3 {
            assert_ne!(shm.landed(slot(1, 0)), Landed::Idle, "{what}");
            shm.advance();
            if shm.has_landed(slot(1, 0)) {
                break;
            }
        }
        assert_eq!(shm.landed(slot(1, 0)), Landed::PeerFailed, "{what}");
        assert_eq!(shm.next_failure(), Some(Endpoint(1)), "{what}");
    }
}

/// A header that points outside of the arena is not followed.
#[test]
fn headers_are_checked() {
    let (mut victim, mut liar) = ends(1 << 27);
    victim.open_slots(7, COUNT).unwrap();
    liar.open_slots(7, COUNT).unwrap();
    let mut memory = vec![1; 100_000];
    let data = Data::bytes(boundary::UserBuf::of_array(&mut memory), 100_000);
    liar.post(slot(0, 0), &data).unwrap();
    assert_eq!(victim.offered(slot(1, 0)), Some(100_000));
    let outside = [
        (3, 0, 100_000),
        (u32::MAX, 0, 100_000),
        (1, u64::MAX - 5, 100_000),
        (1, 1 << 26, 100_000),
        (1, 0, u64::MAX),
    ];
    for (segment, offset, length) in outside {
        let lines = liar.slots.pair(0, 0).unwrap().mine.as_ref().unwrap();
        lines.line(0).set_header(Header {
            segment,
            offset,
            length,
        });
        assert!(victim.deliver(slot(1, 0), &data, 0).is_err(), "{offset}");
    }
}
