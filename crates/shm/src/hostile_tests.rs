//! A peer that writes anything: nothing panics, and every operation still ends.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::Slots;
use mtmi::{
    Completion, Context, Cookie, Endpoint, Matched, SendMode, Source, Submit, TagSel, Transport,
};

use crate::Shm;
use crate::lane::{ChunkHeader, Lane, Whose};
use crate::pipe::EARLY;
use crate::ring::{At, RingMemory, STEP};
use crate::segment::Segment;
use crate::slots::Area;
use crate::wire::{Header, Kind, encode};
use sys::sparse::Sparse;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0xb);
        (self.0 >> 33) % n
    }

    /// Small numbers, names as they occur, and extremes.
    fn word(&mut self) -> u64 {
        match self.below(8) {
            0 => u64::MAX,
            1 => self.below(1 << 31) << 32 | self.below(4),
            2 => self.below(300_000),
            3 => u64::MAX - self.below(3),
            4 => 1 << self.below(64),
            _ => self.below(4),
        }
    }
}

fn whose(r: &mut Random) -> Whose {
    match r.below(3) as usize {
        2 => Whose::Own,
        area => Whose::Common {
            area,
            last: r.below(2) == 0,
        },
    }
}

/// One malicious (or, by chance, plausible) act of rank 1 towards rank 0.
fn act(r: &mut Random, segment: &Segment, lane: &mut Lane, next: &mut u32, chunk: &mut u32) {
    match r.below(13) {
        12 => {
            let area = r.below(2) as usize;
            segment.lane(0, 1).turn(area).set(r.below(4) as u32);
        }
        10 => {
            let from = r.below(2) as u32;
            let (number, copied) = (r.word() as u32, r.word() as u32);
            let lane = segment.lane(from, 1 - from);
            lane.split().set_copied(number, copied, r.below(2) == 0);
        }
        11 => {
            let from = r.below(2) as u32;
            segment.lane(from, 1 - from).split().begin(r.word() as u32);
        }
        0 => segment.lane(0, 1).set_credit(r.word() as u32),
        1 => match r.below(2) {
            0 => segment.lane(0, 1).set_drained(r.word() as u32),
            _ => segment.lane(0, 1).set_lines_returned(r.word() as u32),
        },
        2 => {
            segment.senders(0)[0].store(r.word() | 2, Ordering::Release);
        }
        3..5 => {
            let header = ChunkHeader {
                start: [0, 100, r.word() as usize][r.below(3) as usize],
                len: [r.word() as usize, 32_768, 100][r.below(3) as usize],
                target: [r.word(), EARLY][r.below(2) as usize],
                whose: whose(r),
            };
            lane.publish_chunk(*chunk, header);
            *chunk = chunk.wrapping_add(1);
        }
        _ => {
            let kinds = [
                Kind::Eager,
                Kind::Synchronous,
                Kind::Announce,
                Kind::Clear,
                Kind::Matched,
                Kind::Cancel,
                Kind::Cancelled,
                Kind::Kept,
                Kind::SlotStream,
                Kind::SlotWithdraw,
                Kind::SlotReturned,
                Kind::SlotAgain,
                Kind::Offer,
                Kind::Join,
                Kind::Lend,
                Kind::Help,
                Kind::Introduce,
                Kind::Introduced,
                Kind::Sheet,
                Kind::Shelved,
            ];
            let kind = kinds[r.below(20) as usize];
            let len = match r.below(6) {
                0 => r.below(0x1_0000) as usize,
                1 => r.below(2049) as usize,
                2 => r.below(48) as usize,
                _ => 32,
            };
            let header = Header {
                kind,
                len,
                line: [0, 0, r.below(1 << 11) as u32][r.below(3) as usize],
                tag: r.below(3) as i32,
                context: r.below(2) as u32,
            };
            let at = [At::of(*next), At::BOX][usize::from(r.below(4) == 0)];
            lane.write_header(at, &header);
            let first = match kind {
                Kind::Sheet if r.below(8) > 0 => r.below(13_000) << 32 | r.below(140_000),
                _ => r.word(),
            };
            let words = match kind {
                Kind::Shelved if r.below(8) > 0 => {
                    [r.below(32), r.below(65_537), r.below(1 << 20), 0]
                }
                _ => [first, r.word(), r.word(), r.word()],
            };
            let words = encode(words);
            for (to, from) in lane.inline_mut(at, 32).iter_mut().zip(words) {
                *to = from;
            }
            lane.set_sequence(at, *next);
            *next = next.wrapping_add(STEP);
        }
    }
}

/// The file of mapped memory, or none.
fn area(mapped: bool) -> std::io::Result<Area> {
    match mapped {
        true => Area::new(Sparse::create("test", 1 << 27)?, 2, 0),
        false => Err(std::io::ErrorKind::OutOfMemory.into()),
    }
}

fn attack(seed: u64, mapped: bool) {
    let mut r = Random(seed);
    let (fd, mine) = Segment::create(2, "test").unwrap();
    let theirs = Segment::open(&fd, 2, "test").unwrap();
    theirs.senders(0)[0].fetch_or(2, Ordering::SeqCst);
    let mut shm = Matched::new(Shm::new(mine, area(mapped), 0, vec![0, 1], 2));
    let (mut lane, mut next, mut chunk) = (theirs.lane(1, 0), 1, 0);
    let mut buffer = vec![0u8; 300_000];
    // SAFETY: the buffer outlives the fabric's use of it in this function.
    let heap = unsafe { UserBuf::new(buffer.as_mut_ptr() as usize) };
    let at = match mapped {
        true => shm.alloc_mapped(300_000).unwrap(),
        false => heap,
    };
    let mut pending = HashSet::new();
    let mut done: Vec<Completion> = Vec::new();
    for id in 0..200 {
        let cookie = Cookie(id);
        let len = [0, 40, 2000, 5000, 300_000][r.below(5) as usize];
        let data = Data::bytes(at, len);
        let (context, tag) = (Context(r.below(2) as u32), r.below(3) as i32);
        let submit = match r.below(6) {
            0 => shm.isend(
                Endpoint(1),
                context,
                tag,
                SendMode::Synchronous,
                data,
                cookie,
            ),
            1 => shm.isend(Endpoint(1), context, tag, SendMode::Standard, data, cookie),
            2 => {
                let from = Source::From(Endpoint(1));
                shm.irecv(from, context, TagSel::Exact(tag), data, cookie)
            }
            3 => match shm.mprobe(Source::Any, context, TagSel::Any) {
                Some((message, _)) => shm.imrecv(message, data, cookie),
                None => continue,
            },
            4 => {
                let some = Cookie(r.below(200));
                shm.cancel_send(some);
                shm.cancel_recv(some);
                continue;
            }
            _ => {
                act(&mut r, &theirs, &mut lane, &mut next, &mut chunk);
                shm.progress(&mut done);
                continue;
            }
        };
        match submit {
            Submit::Complete(c) => assert_eq!(c.cookie, cookie),
            Submit::Pending => assert!(pending.insert(cookie.0)),
        }
    }
    shm.progress(&mut done);
    shm.peer_failed(Endpoint(1));
    shm.progress(&mut done);
    for c in done {
        assert!(pending.remove(&c.cookie.0), "{c:?} was not pending");
        assert!(c.bytes <= 300_000);
    }
    assert!(pending.is_empty(), "{pending:?} never ended");
    assert!(shm.flushed());
}

#[test]
fn any_bytes_are_survived() {
    for seed in 0..3000 {
        attack(seed, false);
    }
    for seed in 0..500 {
        attack(seed, true);
    }
}
