//! The program in the kernel: it is verified, and does on a real loopback interface what it should.

mod scripts;
mod world;

use bytecode::{Binary, Builder, Program, Side, Type as Field, Wide};
use cad_softirq::flat::Flat;
use cad_softirq::kernel::{Map, Page, Shape};
use cad_softirq::layout::{DATA_MAX, Op, Type};
use cad_softirq::rank::{End, Member, NotStarted, Part, Waker};
use cad_softirq::tables::NotOpened;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::{PORT, World, apart, lossy, noise};

const AGAIN: Duration = Duration::from_millis(2);

/// Processes of each host, and how many hosts are below one.
fn shapes() -> Vec<(Vec<usize>, usize)> {
    let mut shapes: Vec<_> = [1, 2, 3, 4, 5, 7, 8].map(|n| (vec![n], 1)).into();
    for n in [2, 3, 5, 8] {
        shapes.push((vec![1; n], 2));
        shapes.push((vec![1; n], 7));
    }
    shapes.push((vec![3, 1, 2], 1));
    shapes.push((vec![33], 1));
    shapes.push((vec![1; 13], 3));
    shapes
}

/// Sums of 32-bit numbers, as the processor adds them.
fn sums(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![0u32; parts[0].len() / 4];
    for part in parts {
        for (sum, bytes) in all.iter_mut().zip(part.chunks(4)) {
            *sum = sum.wrapping_add(u32::from_le_bytes(bytes.try_into().unwrap()));
        }
    }
    all.iter().flat_map(|s| s.to_le_bytes()).collect()
}

fn random(seed: &mut u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| noise(seed) as u8).collect()
}

/// The kernel's verifier goes all ways through the program; a jump too many in the wrong place makes them forty times as many.
#[test]
fn the_verifier_has_little_to_do() {
    apart(|| {
        let world = World::new(&[1], 1);
        let verified = world.tables.verified().unwrap();
        assert!((5_000..60_000).contains(&verified), "{verified}");
    });
}

#[test]
fn collectives_are_right_for_any_number_of_ranks_and_hosts() {
    apart(|| {
        let mut seed = 1;
        for (processes, below) in shapes() {
            let mut world = World::new(&processes, below);
            let ranks = world.ranks.len();
            for bytes in [4, 64, DATA_MAX, 0] {
                let parts: Vec<_> = (0..ranks).map(|_| random(&mut seed, bytes)).collect();
                assert_eq!(world.reduce(Op::Sum, Type::U32, &parts), sums(&parts));
            }
            for root in 0..ranks {
                let data = random(&mut seed, 100 + root);
                let mut parts = vec![Part::Leaf(data.len()); ranks];
                parts[root] = Part::Root(&data);
                for told in world.collective(&parts, data.len(), AGAIN) {
                    assert_eq!(told, (End::Done, data.clone()));
                }
                for told in world.collective(&vec![Part::Nothing; ranks], 0, AGAIN) {
                    assert_eq!(told.0, End::Done);
                }
            }
        }
    });
}

#[test]
fn ranks_that_disagree_are_told_so() {
    apart(|| {
        let mut world = World::new(&[1, 2], 1);
        let data = [1; 8];
        let mut parts = [Part::Leaf(8); 3];
        parts[1] = Part::Nothing;
        for told in world.collective(&parts, 8, AGAIN) {
            assert_eq!(told.0, End::Mismatch);
        }
        // Nobody is the root.
        for told in world.collective(&[Part::Leaf(8); 3], 8, AGAIN) {
            assert_eq!(told.0, End::Mismatch);
        }
        let all = [Part::Reduce(Op::Sum, Type::U64, &data); 3];
        for told in world.collective(&all, 8, AGAIN) {
            assert_eq!(told, (End::Done, vec![3; 8]));
        }
    });
}

#[test]
fn ranks_start_nothing_that_does_not_fit() {
    apart(|| {
        let mut world = World::new(&[2], 1);
        let (long, odd) = ([0; DATA_MAX + 8], [0; 7]);
        for part in [
            Part::Root(&long),
            Part::Leaf(DATA_MAX + 1),
            Part::Reduce(Op::Sum, Type::U8, &long),
            Part::Reduce(Op::Sum, Type::U16, &odd),
            Part::Reduce(Op::Bcast, Type::U8, &odd),
            Part::Reduce(Op::Band, Type::F64, &long[..8]),
        ] {
            let refused = world.ranks[0].start(part);
            assert!(matches!(refused, Err(NotStarted::Unfit)), "{part:?}");
        }
        world.ranks[0].start(Part::Nothing).unwrap();
        let busy = world.ranks[0].start(Part::Nothing);
        assert!(matches!(busy, Err(NotStarted::Busy)));
        assert!(!world.ranks[1].is_over() || world.ranks[1].result(&mut []).is_some());
        world.ranks[1].start(Part::Nothing).unwrap();
        while !world.ranks.iter().all(Member::is_over) {}
    });
}

#[test]
fn a_link_that_loses_and_repeats_packets_is_enough() {
    apart(|| {
        let mut seed = 2;
        let mut world = World::new(&[1, 2, 1, 1, 3], 2);
        let _lossy = lossy();
        for _ in 0..300 {
            let parts: Vec<_> = (0..8).map(|_| random(&mut seed, 64)).collect();
            assert_eq!(world.reduce(Op::Sum, Type::U32, &parts), sums(&parts));
        }
        let counts = world
            .places
            .iter()
            .map(|p| world.tables.counts(*p).unwrap());
        let counts: Vec<_> = counts.collect();
        assert!(
            counts
                .iter()
                .all(|c| c.done == 300 && c.forged == 0 && c.unsent == 0)
        );
        assert!(counts.iter().any(|c| c.repeated > 0), "{counts:?}");
    });
}

#[test]
fn foreign_packets_pass() {
    apart(|| {
        let _world = World::new(&[1], 1);
        for port in [PORT, PORT + 1] {
            let receiver = UdpSocket::bind(("127.0.0.1", port)).unwrap();
            receiver.set_read_timeout(Some(world::LIMIT)).unwrap();
            let sender = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
            for bytes in [0, 10, 48, 200, 1200, 30_000] {
                let data = vec![7; bytes];
                sender.send_to(&data, ("127.0.0.1", port)).unwrap();
                let mut got = vec![0; 40_000];
                assert_eq!(receiver.recv(&mut got).unwrap(), bytes);
                assert_eq!(got[..bytes], data);
            }
        }
    });
}

#[test]
fn who_is_at_a_packet_of_a_context_that_is_closed_finds_all_but_its_id() {
    apart(|| {
        let mut world = World::new(&[2], 1);
        let parts = vec![vec![1; 8]; 2];
        world.reduce(Op::Sum, Type::U32, &parts);
        let place = world.places[0];
        let counts = world.tables.counts(place).unwrap();
        assert_eq!((counts.gathered, counts.done), (1, 1));
        world.tables.release(place).unwrap();
        assert_eq!(world.tables.counts(place).unwrap(), counts);
    });
}

#[test]
fn results_can_not_be_written_by_who_reads_them() {
    apart(|| {
        let world = World::new(&[1], 1);
        let page = world.tables.page(world.places[0]).unwrap();
        assert!(Page::new(page, 8).is_ok());
        assert!(Page::new(page, 8192).is_err(), "longer than it is");
        let flags = rustix::mm::MapFlags::SHARED;
        for protect in [
            rustix::mm::ProtFlags::WRITE,
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
        ] {
            // SAFETY: a mapping of its own, at an address that the kernel picks.
            let map =
                unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, protect, flags, page, 0) };
            assert!(map.is_err());
        }
        // Nor by a call, not even who made it.
        let map = Map::new(Shape::Mapped, 64, 1, None).unwrap();
        assert!(map.set(0, &[1; 64]).is_err());
        let mut bytes = [1; 64];
        map.get(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 64]);
    });
}

#[test]
fn nothing_outlives_the_tables() {
    apart(|| {
        let mut world = World::new(&[1], 1);
        let mut rank = world.ranks.remove(0);
        rank.start(Part::Nothing).unwrap();
        while !rank.is_over() {}
        drop(world);
        // Nobody takes the packet any more: the system says so at one of the next ones.
        let _ = rank.start(Part::Nothing);
        let begin = Instant::now();
        while rank.again().is_ok() {
            assert!(begin.elapsed() < world::LIMIT, "somebody takes it");
        }
        assert!(!rank.is_over());
        cad_softirq::usable().unwrap();
    });
}

#[test]
fn places_are_given_back() {
    apart(|| {
        let mut world = World::new(&[2, 3], 1);
        let (first, second) = (world.places[0], world.places[1]);
        let contexts = world.contexts.clone();
        assert!(
            world.tables.open(first, &contexts[1]).is_err(),
            "it is open"
        );
        assert!(world.tables.reserve(254).is_err());
        world.tables.release(first).unwrap();
        assert!(world.tables.page(first).is_none());
        assert!(world.tables.open(first, &contexts[0]).is_err());
        let small = world.tables.reserve(3).unwrap();
        let mut none = contexts[0].clone();
        none.tickets.clear();
        assert!(world.tables.open(small, &none).is_err());
        world.tables.open(small, &contexts[0]).unwrap();
        // More often than there are contexts, and with most of the inputs each time.
        for round in 0..40 {
            let large = world.tables.reserve(247).unwrap();
            assert!(large != small && large != second, "{round}");
            let full = world.tables.reserve(4);
            assert!(matches!(full, Err(NotOpened::Full)), "{round}");
            world.tables.release(large).unwrap();
            assert!(world.tables.page(large).is_none());
        }
        let all: Vec<_> = (0..14).map(|_| world.tables.reserve(1).unwrap()).collect();
        assert!(matches!(world.tables.reserve(1), Err(NotOpened::Full)));
        for place in all {
            world.tables.release(place).unwrap();
            world.tables.release(place).unwrap();
        }
        // Between the others' inputs.
        world.tables.reserve(247).unwrap();
    });
}

#[test]
fn processes_that_are_not_there_are_waited_for() {
    apart(|| {
        let mut world = World::new(&[2, 1], 1);
        world.ranks[0].start(Part::Nothing).unwrap();
        world.ranks[2].start(Part::Nothing).unwrap();
        for _ in 0..20 {
            world.ranks[0].again().unwrap();
            world.ranks[2].again().unwrap();
        }
        assert!(
            world
                .ranks
                .iter()
                .all(|r| r.result(&mut [0; 8]).is_none() || r.when() == 0)
        );
        assert!(!world.ranks[0].is_over() && !world.ranks[2].is_over());
        world.ranks[1].start(Part::Nothing).unwrap();
        while !world.ranks.iter().all(Member::is_over) {}
        // What was said again came after that, perhaps.
        let (counts, begin) = (
            || world.tables.counts(world.places[0]).unwrap(),
            Instant::now(),
        );
        while counts().repeated < 20 {
            assert!(begin.elapsed() < world::LIMIT, "{:?}", counts());
        }
        assert!(counts().done == 1 && counts().forged == 0);
    });
}

/// Nanoseconds of the clock that the kernel's time stamps are of.
fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn the_kernel_says_when_it_had_the_result() {
    apart(|| {
        let mut world = World::new(&[2, 1], 1);
        assert!(world.ranks.iter().all(|r| r.when() == 0));
        for _ in 0..20 {
            world.ranks[0].start(Part::Nothing).unwrap();
            world.ranks[2].start(Part::Nothing).unwrap();
            // The last one comes late, and is what the others' end is the time of.
            std::thread::sleep(Duration::from_millis(1));
            let last = monotonic();
            world.ranks[1].start(Part::Nothing).unwrap();
            while !world.ranks.iter().all(Member::is_over) {}
            let seen = monotonic();
            std::thread::sleep(Duration::from_millis(1));
            let told: Vec<_> = world.ranks.iter().map(Member::when).collect();
            assert!(
                told.iter().all(|when| (last..=seen).contains(when)),
                "{last} {told:?} {seen}"
            );
            // Those of one host have one page.
            assert_eq!(told[0], told[1]);
        }
    });
}

#[test]
fn floats_are_the_processors_bit_by_bit() {
    apart(|| {
        let (mut seed, mut world) = (3, World::new(&[1, 1], 1));
        for round in 0..200 {
            // Exponents near each other, and any; numbers that cancel.
            let parts: [Vec<f64>; 2] = std::array::from_fn(|_| {
                let number = |_| {
                    let bits = noise(&mut seed);
                    match round % 3 {
                        0 => f64::from_bits(bits),
                        1 => f64::from_bits(bits & !(0x7c << 56) | 0x3c << 56),
                        _ => (bits as i8) as f64 * 0.1,
                    }
                };
                (0..DATA_MAX / 8).map(number).collect()
            });
            let bytes = parts.each_ref().map(|p| {
                let numbers = p.iter().flat_map(|x| x.to_le_bytes());
                numbers.collect::<Vec<_>>()
            });
            for op in [Op::Sum, Op::Prod, Op::Min, Op::Max] {
                let told = world.reduce(op, Type::F64, &bytes);
                for (i, told) in told.chunks(8).enumerate() {
                    let told = f64::from_le_bytes(told.try_into().unwrap());
                    let (a, b) = (parts[0][i], parts[1][i]);
                    let right = match op {
                        Op::Min if a < b => a,
                        Op::Max if a > b => a,
                        Op::Sum => a + b,
                        Op::Prod => a * b,
                        _ => b,
                    };
                    let both = told.is_nan() && right.is_nan();
                    assert!(
                        both || told.to_bits() == right.to_bits(),
                        "{op:?} of {a:e} and {b:e}"
                    );
                }
            }
        }
    });
}

#[test]
fn nonsense_to_our_port_harms_nobody() {
    apart(|| {
        let mut seed = 4;
        let mut world = World::new(&[2, 1], 1);
        let sender = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let mut good = vec![0; 48 + 16];
        good[..4].copy_from_slice(b"ymb\x01");
        good[16..24].copy_from_slice(&1000_u64.to_le_bytes());
        good[24] = 1;
        good[34] = 16;
        let mut sent = 0;
        for round in 0..20_000_u64 {
            let mut packet = good.clone();
            packet[4] = 1 + (round % 3) as u8;
            // A few bytes are wrong: where it is to go, what it is of, how long it is.
            for _ in 0..noise(&mut seed) % 4 {
                let at = 4 + noise(&mut seed) as usize % (packet.len() - 4);
                packet[at] = noise(&mut seed) as u8 & 0x1f;
            }
            // The tag is not guessed.
            packet[47] = 0xff;
            if noise(&mut seed) & 7 == 0 {
                packet.truncate(4 + noise(&mut seed) as usize % 60);
            }
            // Nobody takes what is too short to be ours, as the sender is told now and then.
            sent += u32::from(sender.send_to(&packet, ("127.0.0.1", PORT)).is_ok());
        }
        assert!(sent > 10_000);
        let counts = world
            .places
            .iter()
            .map(|p| world.tables.counts(*p).unwrap());
        let counts: Vec<_> = counts.collect();
        assert!(counts.iter().any(|c| c.forged > 1000), "{counts:?}");
        assert!(
            counts.iter().all(|c| c.done == 0 && c.sent == 0),
            "{counts:?}"
        );
        let parts: Vec<_> = (0..3).map(|_| random(&mut seed, 64)).collect();
        assert_eq!(world.reduce(Op::Sum, Type::U32, &parts), sums(&parts));
    });
}

/// Sums of 64-bit numbers, of so many terms.
fn adds(times: usize) -> Program {
    let mut builder = Builder::new(8);
    let [a, mut b] = [Side::In, Side::Inout].map(|side| builder.load(side, Field::I64, 0));
    for _ in 0..times {
        b = builder.binary(Binary::Add, Wide::I64, b, a);
    }
    builder.store(Field::I64, 0, b);
    Program::verify(&builder.code().unwrap()).unwrap()
}

/// Whether a program computes what may be NaN, whose bits are left open.
fn computes_floats(program: &Program) -> bool {
    let text = program.to_string();
    ["add f", "sub f", "mul f"]
        .iter()
        .any(|op| text.contains(op))
}

#[test]
fn byte_code_does_what_the_interpreter_does() {
    apart(|| {
        let mut seed = 7;
        let mut compared = 0;
        for ranks in [2, 3, 4, 5, 9] {
            let mut world = World::new(&[ranks], 1);
            for _ in 0..150 {
                let element = [1, 4, 8, 8, 16, 24][noise(&mut seed) as usize % 6];
                let lines = 1 + noise(&mut seed) % 60;
                let script: Vec<_> = (0..lines)
                    .map(|_| {
                        let bits = noise(&mut seed);
                        let [what, ty, first, second, ..] = noise(&mut seed).to_le_bytes();
                        (what, ty, first, second, bits)
                    })
                    .collect();
                let program = scripts::written(element, &script);
                let bytes = element as usize * (1 + noise(&mut seed) as usize % 20);
                let flat = Flat::of(&program).filter(|flat| flat.fits(bytes));
                let Some(flat) = flat.map(Arc::new) else {
                    continue;
                };
                let small = noise(&mut seed) & 1 == 0;
                let parts: Vec<Vec<u8>> = (0..ranks)
                    .map(|_| match small {
                        true => (0..bytes).map(|_| noise(&mut seed) as u8 & 3).collect(),
                        false => random(&mut seed, bytes),
                    })
                    .collect();
                let told = world.fold(&flat, &parts);
                assert!(told.iter().all(|one| *one == told[0]));
                assert_eq!(told[0].0, End::Done, "{program}");
                if !computes_floats(&program) {
                    compared += 1;
                    let right = scripts::in_pairs(&program, parts);
                    assert_eq!(told[0].1, right, "{program}");
                }
            }
        }
        assert!(compared > 200, "{compared}");
    });
}

#[test]
fn byte_code_has_all_it_may_have() {
    apart(|| {
        let (mut seed, mut world) = (8, World::new(&[3], 1));
        // The most data, and the most words.
        for (times, bytes) in [(1, DATA_MAX), (29, DATA_MAX), (250, 128)] {
            let program = adds(times);
            let flat = Arc::new(Flat::of(&program).unwrap());
            assert!(flat.fits(bytes));
            let parts: Vec<_> = (0..3).map(|_| random(&mut seed, bytes)).collect();
            let told = world.fold(&flat, &parts);
            assert_eq!(
                told[0],
                (End::Done, scripts::in_pairs(&program, parts)),
                "{times}"
            );
        }
        // What is too much is not begun.
        let flat = Arc::new(Flat::of(&adds(250)).unwrap());
        let data = [0; 136];
        let refused = world.ranks[0].start(Part::Fold(&flat, &data));
        assert!(matches!(refused, Err(NotStarted::Unfit)));
    });
}

#[test]
fn byte_code_changes_slots_and_is_missed_where_it_is_not() {
    apart(|| {
        let mut world = World::new(&[5], 1);
        let codes: Vec<_> = (1..8)
            .map(|n| Arc::new(Flat::of(&adds(n)).unwrap()))
            .collect();
        let parts: Vec<_> = (0..5_u64).map(|n| n.to_le_bytes().to_vec()).collect();
        for round in 0..4 {
            for (n, flat) in (1..).zip(&codes) {
                let right = scripts::in_pairs(&adds(n), parts.clone());
                for told in world.fold(flat, &parts) {
                    assert_eq!(told, (End::Done, right.clone()), "{n} in round {round}");
                }
            }
        }
        // Nobody has put it there, although all believe so.
        let absent = Arc::new(Flat::of(&adds(9)).unwrap());
        for rank in &mut world.ranks {
            rank.hold(&absent, |_, _| true);
        }
        for told in world.fold(&absent, &parts) {
            assert_eq!(told.0, End::NoCode);
        }
        // The next one is not harmed; nor are those that were not held begun.
        let unknown = Arc::new(Flat::of(&adds(10)).unwrap());
        let refused = world.ranks[0].start(Part::Fold(&unknown, &parts[0]));
        assert!(matches!(refused, Err(NotStarted::Unfit)));
        let told = world.fold(&codes[6], &parts);
        assert!(told.iter().all(|told| told.0 == End::Done));
        // Only where one is open.
        let (place, context) = (world.places[0], world.contexts[0].clone());
        assert!(world.tables.put(place, 4, &codes[0]).is_err(), "no slot");
        world.tables.release(place).unwrap();
        assert!(world.tables.put(place, 0, &codes[0]).is_err(), "no place");
        let place = world.tables.reserve(5).unwrap();
        assert!(world.tables.put(place, 0, &codes[0]).is_err(), "not open");
        world.tables.open(place, &context).unwrap();
        world.tables.put(place, 0, &codes[0]).unwrap();
    });
}

/// Whether something has come to a waker, soon or at all.
fn woken(waker: &Waker) -> bool {
    let mut fds = [PollFd::new(waker, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: world::LIMIT.as_secs() as i64,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&limit)).unwrap() > 0
}

#[test]
fn who_sleeps_is_woken_when_it_is_over() {
    apart(|| {
        for processes in [2, 5, 40] {
            let mut world = World::new(&[processes], 1);
            let wakers: Vec<_> = (0..processes).map(|_| Waker::new().unwrap()).collect();
            for _ in 0..3 {
                let last = processes - 1;
                for (rank, waker) in world.ranks[..last].iter_mut().zip(&wakers) {
                    rank.start(Part::Nothing).unwrap();
                    waker.ask(rank).unwrap();
                }
                assert!(wakers.iter().all(|waker| waker.drain() == 0), "too early");
                world.ranks[last].start(Part::Nothing).unwrap();
                for waker in &wakers[..last] {
                    assert!(woken(waker), "nothing came");
                    assert_eq!(waker.drain(), 1);
                }
                assert!(world.ranks.iter().all(Member::is_over));
                // Who asks when it is over is told at once.
                wakers[last].ask(&world.ranks[last]).unwrap();
                assert!(woken(&wakers[last]), "nothing came late");
                assert_eq!(wakers[last].drain(), 1);
            }
        }
    });
}
