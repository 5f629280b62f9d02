//! Messages out of and into mapped memory: the same rules, whoever copies.

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::Slots;
use mtmi::{Context, Endpoint, Outcome, SendMode, Source, TagSel, Transport};

use crate::common::{Rank, WORLD, check, data, filled, run, strided};

pub fn all() {
    run("mapped/all ways", 2, all_ways);
    run("mapped/truncation", 2, truncation);
    run("mapped/cancels", 2, cancels);
    run("mapped/many at once", 3, many);
    run("mapped/pieces", 2, pieces);
    absent_sender();
    run("mapped/a failed peer", 3, failed_peer);
}

/// Around the borders of what is offered, split and moved in one turn.
const SIZES: [usize; 8] = [
    100,
    40_000,
    131_072,
    131_073,
    200_001,
    1 << 20,
    (1 << 20) + 5,
    (4 << 20) + 77,
];

/// A buffer, mapped or not.
struct Memory {
    buf: UserBuf,
    len: usize,
    heap: Vec<u8>,
}

impl Memory {
    fn new(me: &mut Rank, mapped: bool, len: usize) -> Memory {
        let mut heap = Vec::new();
        let buf = match mapped {
            true => me.t.alloc_mapped(len).unwrap(),
            false => {
                heap = vec![0; len];
                data(&mut heap).buf
            }
        };
        Memory { buf, len, heap }
    }

    fn filled(me: &mut Rank, mapped: bool, (seed, len): (u64, usize)) -> Memory {
        let memory = Memory::new(me, mapped, len);
        memory.buf.write(&filled(seed, len));
        memory
    }

    fn data(&self) -> Data {
        Data::bytes(self.buf, self.len as u64)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.buf.read(&mut bytes);
        bytes
    }

    fn free(self, me: &mut Rank) {
        if self.heap.is_empty() && self.len > 0 {
            assert!(me.t.free_mapped(self.buf));
        }
    }
}

const ANY: TagSel = TagSel::Any;

fn from(rank: u32) -> Source {
    Source::From(Endpoint(rank))
}

/// Waits until a message is there unmatched.
fn find(me: &mut Rank) {
    while me.t.probe(Source::Any, WORLD, ANY).is_none() {
        me.poll();
    }
}

/// How the receive comes to its message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Posted,
    Unexpected,
    Probed,
}

fn all_ways(me: &mut Rank) {
    let mut seed = 0;
    for len in SIZES {
        for (out, back) in [(true, true), (true, false), (false, true)] {
            for order in [Order::Posted, Order::Unexpected, Order::Probed] {
                for mode in [SendMode::Standard, SendMode::Synchronous] {
                    seed += 1;
                    one_way(me, (seed, len), (out, back), order, mode);
                }
            }
        }
    }
}

fn one_way(
    me: &mut Rank,
    (seed, len): (u64, usize),
    (out, back): (bool, bool),
    order: Order,
    mode: SendMode,
) {
    if me.me == 0 {
        let memory = Memory::filled(me, out, (seed, len));
        if order == Order::Posted {
            me.barrier();
        }
        let c = me.isend(1, WORLD, 1, mode, memory.data());
        assert_eq!(me.wait(c).outcome, Outcome::Done);
        // It is the sender's again, whoever copied.
        memory.buf.write(&vec![0xff; len]);
        memory.free(me);
        return;
    }
    let memory = Memory::new(me, back, len + 64);
    let part = Data::bytes(memory.buf, len as u64);
    let c = match order {
        Order::Posted => {
            let c = me.irecv(Source::Any, WORLD, ANY, part);
            me.barrier();
            c
        }
        Order::Unexpected => {
            find(me);
            me.irecv(from(0), WORLD, TagSel::Exact(1), part)
        }
        Order::Probed => {
            find(me);
            let (id, envelope) = me.t.mprobe(Source::Any, WORLD, ANY).unwrap();
            assert_eq!(envelope.bytes, len as u64);
            me.imrecv(id, part)
        }
    };
    let end = me.wait(c);
    assert_eq!((end.outcome, end.bytes), (Outcome::Done, len as u64));
    let bytes = memory.bytes();
    check(seed, &bytes[..len]);
    assert!(bytes[len..].iter().all(|&b| b == 0));
    memory.free(me);
}

fn truncation(me: &mut Rank) {
    let len = 1 << 20;
    for (seed, room) in (0..).zip([0, 1, 1000, 40_000, 140_000, len - 1]) {
        for (out, back) in [(true, true), (true, false), (false, true)] {
            if me.me == 0 {
                let memory = Memory::filled(me, out, (seed, len));
                let c = me.isend(1, WORLD, 1, SendMode::Standard, memory.data());
                assert_eq!(me.wait(c).outcome, Outcome::Done);
                memory.free(me);
                continue;
            }
            let memory = Memory::new(me, back, len);
            let c = me.irecv(from(0), WORLD, ANY, Data::bytes(memory.buf, room as u64));
            let end = me.wait(c);
            let sent = len as u64;
            assert_eq!(end.outcome, Outcome::Truncated { sent });
            assert_eq!(end.bytes, room as u64);
            let bytes = memory.bytes();
            check(seed, &bytes[..room]);
            assert!(bytes[room..].iter().all(|&b| b == 0));
            memory.free(me);
        }
    }
}

fn cancels(me: &mut Rank) {
    let len = 1 << 20;
    let memory = Memory::filled(me, true, (1, len));
    if me.me == 0 {
        let c = me.isend(1, WORLD, 1, SendMode::Standard, memory.data());
        me.barrier();
        assert!(!me.t.cancel_send(c), "the receiver decides");
        assert_eq!(me.wait(c).outcome, Outcome::Cancelled);
        me.barrier();
        me.barrier();
        // One that is matched.
        let c = me.isend(1, WORLD, 2, SendMode::Standard, memory.data());
        me.barrier();
        me.t.cancel_send(c);
        assert_eq!(me.wait(c).outcome, Outcome::Done);
    } else {
        find(me);
        me.barrier();
        me.barrier();
        assert!(me.t.probe(Source::Any, WORLD, ANY).is_none());
        me.barrier();
        find(me);
        let (id, _) = me.t.mprobe(Source::Any, WORLD, ANY).unwrap();
        me.barrier();
        let c = me.imrecv(id, memory.data());
        assert_eq!(me.wait(c).outcome, Outcome::Done);
        check(1, &memory.bytes());
    }
    memory.free(me);
}

/// Everybody to everybody at once, mapped and not, long and short; received in the opposite order.
fn many(me: &mut Rank) {
    const EACH: u64 = 12;
    let len = |i: u64| [300_000, 1000, 1 << 20, 60_000][i as usize % 4] + i as usize;
    let seed = |from: u32, to: u32, i: u64| u64::from(from) << 40 | u64::from(to) << 20 | i;
    let context = |i: u64| Context(5 + i as u32 % 2);
    for round in 0..4 {
        let others: Vec<u32> = (0..me.ranks).filter(|&r| r != me.me).collect();
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for i in 0..EACH {
            for &to in &others {
                let memory = Memory::filled(me, i % 3 != 0, (seed(me.me, to, i), len(i)));
                let mode = match i % 5 {
                    0 => SendMode::Synchronous,
                    _ => SendMode::Standard,
                };
                let c = me.isend(to, context(i), i as i32, mode, memory.data());
                sends.push((c, memory));
            }
        }
        if round % 2 == 1 {
            me.poll();
        }
        for i in (0..EACH).rev() {
            for &peer in &others {
                let memory = Memory::new(me, i % 2 == 0, len(i));
                let tag = TagSel::Exact(i as i32);
                let c = me.irecv(from(peer), context(i), tag, memory.data());
                receives.push((c, peer, i, memory));
            }
        }
        for (c, peer, i, memory) in receives {
            assert_eq!(me.wait(c).bytes, len(i) as u64);
            check(seed(peer, me.me, i), &memory.bytes());
            memory.free(me);
        }
        for (c, memory) in sends {
            assert_eq!(me.wait(c).outcome, Outcome::Done);
            memory.free(me);
        }
    }
}

/// Layouts of several pieces in mapped memory, on either side.
fn pieces(me: &mut Rank) {
    const BLOCKS: usize = 50_000;
    let program = strided(7, 11, 1);
    let packed = filled(3, 7 * BLOCKS);
    let mut spread = vec![0xee; 11 * BLOCKS];
    for (to, from) in spread.chunks_mut(11).zip(packed.chunks(7)) {
        to[..7].copy_from_slice(from);
    }
    for (sender, receiver) in [(true, false), (false, true), (true, true)] {
        let typed = if me.me == 0 { sender } else { receiver };
        let len = if typed { spread.len() } else { packed.len() };
        let memory = Memory::new(me, true, len);
        let whole = match typed {
            true => Data::typed(memory.buf, &program, BLOCKS as u64),
            false => memory.data(),
        };
        let want = if typed { &spread } else { &packed };
        let c = if me.me == 0 {
            memory.buf.write(want);
            me.isend(1, WORLD, 1, SendMode::Standard, whole)
        } else {
            memory.buf.write(&vec![0xee; len]);
            me.irecv(from(0), WORLD, ANY, whole)
        };
        assert_eq!(me.wait(c).outcome, Outcome::Done);
        if me.me == 1 {
            assert!(memory.bytes() == *want);
        }
        memory.free(me);
    }
}

/// A sender that makes no progress holds up no receive.
fn absent_sender() {
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    for back in [true, false] {
        run("mapped/an absent sender", 2, |me| {
            let len = 1 << 20;
            let memory = Memory::filled(me, back || me.me == 0, (me.me.into(), len));
            let mut byte = [1u8];
            if me.me == 0 {
                let c = me.isend(1, WORLD, 1, SendMode::Standard, memory.data());
                // SAFETY: one byte of ours; blocks until the receive is over.
                let got = unsafe { libc::read(pipe[0], byte.as_mut_ptr().cast(), 1) };
                assert_eq!(got, 1);
                assert_eq!(me.wait(c).outcome, Outcome::Done);
            } else {
                let c = me.irecv(from(0), WORLD, ANY, memory.data());
                assert_eq!(me.wait(c).outcome, Outcome::Done);
                check(0, &memory.bytes());
                // SAFETY: one byte of ours.
                let put = unsafe { libc::write(pipe[1], byte.as_ptr().cast(), 1) };
                assert_eq!(put, 1);
            }
            memory.free(me);
        });
    }
    for end in pipe {
        // SAFETY: ours, and not used any more.
        unsafe { libc::close(end) };
    }
}

fn failed_peer(me: &mut Rank) {
    let memory = Memory::filled(me, true, (1, 1 << 20));
    if me.me == 2 {
        me.isend(0, WORLD, 1, SendMode::Standard, memory.data());
        me.barrier();
        std::process::exit(0);
    }
    me.barrier();
    if me.me == 0 {
        let send = me.isend(2, WORLD, 3, SendMode::Standard, memory.data());
        me.t.peer_failed(Endpoint(2));
        assert_eq!(me.wait(send).outcome, Outcome::PeerFailed);
        let c = me.irecv(from(2), WORLD, ANY, memory.data());
        assert_eq!(me.wait(c).outcome, Outcome::PeerFailed);
        // The others go on.
        let c = me.irecv(from(1), WORLD, ANY, memory.data());
        assert_eq!(me.wait(c).outcome, Outcome::Done);
    } else {
        let c = me.isend(0, WORLD, 7, SendMode::Standard, memory.data());
        assert_eq!(me.wait(c).outcome, Outcome::Done);
    }
    // Not `finish`, whose barrier needs everybody.
    std::process::exit(0);
}
