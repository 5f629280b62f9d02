//! The program on simulated hosts does what it should, and nothing else.

use super::simulation::{PORT, World, envelope, noise};
use crate::layout::{DATA_MAX, MISMATCH, Op, Type, context, header, scratch, what};
use crate::model;
use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const DROP: u64 = super::DROP as u64;
const NEXT: u64 = super::NEXT as i64 as u64;
/// An interface that is none of those that packets come in through.
const ELSEWHERE: u32 = 99;

/// Shapes: processes of each host, and how many hosts are below one.
fn shapes() -> Vec<(Vec<usize>, usize)> {
    let mut shapes: Vec<_> = [1, 2, 3, 4, 5, 7, 8].map(|n| (vec![n], 1)).into();
    for n in [2, 3, 4, 5, 8] {
        shapes.push((vec![1; n], 2));
        shapes.push((vec![1; n], 1));
        shapes.push((vec![1; n], 7));
    }
    shapes.push((vec![3, 1, 2, 5], 2));
    shapes.push((vec![100], 1));
    shapes.push((vec![1; 17], 16));
    shapes
}

fn random(seed: &mut u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| noise(seed) as u8).collect()
}

/// What the processes' parts become: each host's own, then those of the hosts below, in pairs.
fn expected(op: Op, ty: Type, shape: &(Vec<usize>, usize), parts: &[Vec<u8>]) -> Vec<u8> {
    fn of(
        host: usize,
        shape: &(Vec<usize>, usize),
        own: &[&[Vec<u8>]],
        op: Op,
        ty: Type,
    ) -> Vec<u8> {
        let mut inputs = own[host].to_vec();
        let below = shape.1 * host + 1..=shape.1 * host + shape.1;
        for child in below.filter(|&c| c < own.len()) {
            inputs.push(of(child, shape, own, op, ty));
        }
        model::in_pairs(op, ty, inputs)
    }
    let mut rest = parts;
    let own: Vec<_> = shape
        .0
        .iter()
        .map(|&n| rest.split_off(..n).unwrap())
        .collect();
    of(0, shape, &own, op, ty)
}

#[test]
fn reductions_are_right_for_any_number() {
    let mut seed = 3;
    for shape in shapes() {
        let mut world = World::new(&shape.0, shape.1);
        let ranks: usize = shape.0.iter().sum();
        for op in Op::ALL {
            for ty in Type::ALL.into_iter().filter(|&ty| op.supports(ty)) {
                if matches!(op, Op::Barrier | Op::Bcast) {
                    continue;
                }
                let count = noise(&mut seed) as usize % 5;
                let parts: Vec<_> = (0..ranks)
                    .map(|_| model::operand(&mut || noise(&mut seed), ty, count))
                    .collect();
                let some: Vec<_> = parts.iter().cloned().map(Some).collect();
                let told = world.collective(op, ty, &some);
                let bytes = count * ty.bytes();
                let right = (what(op, ty, bytes), expected(op, ty, &shape, &parts));
                assert_eq!(told, right, "{op:?} of {ty:?} on {shape:?}: {parts:x?}");
            }
        }
    }
}

#[test]
fn floats_are_the_processors_bit_by_bit() {
    let mut seed = 9;
    let shape = (vec![2], 1);
    let mut world = World::new(&shape.0, shape.1);
    for ty in [Type::F32, Type::F64] {
        for round in 0..300 {
            let op = [Op::Sum, Op::Sum, Op::Prod, Op::Prod, Op::Min, Op::Max][round % 6];
            let operand =
                |seed: &mut u64| model::operand(&mut || noise(seed), ty, 1024 / ty.bytes());
            let parts = [operand(&mut seed), operand(&mut seed)];
            let told = world.collective(op, ty, &parts.clone().map(Some)).1;
            let right = expected(op, ty, &shape, &parts);
            for (i, n) in (0..1024).step_by(ty.bytes()).map(|i| (i, i + ty.bytes())) {
                let operands = parts.each_ref().map(|p| &p[i..n]);
                assert_eq!(told[i..n], right[i..n], "{op:?} of {operands:x?}");
            }
        }
    }
}

#[test]
fn the_longest_vectors_are_right() {
    let mut seed = 4;
    let shape = (vec![2, 1, 1], 2);
    let mut world = World::new(&shape.0, shape.1);
    for bytes in [DATA_MAX, DATA_MAX - 1, DATA_MAX - 7, 9, 1] {
        let parts: Vec<_> = (0..4).map(|_| random(&mut seed, bytes)).collect();
        let some: Vec<_> = parts.iter().cloned().map(Some).collect();
        for (op, ty) in [(Op::Max, Type::I8), (Op::Bxor, Type::U8)] {
            let told = world.collective(op, ty, &some).1;
            assert_eq!(told, expected(op, ty, &shape, &parts));
        }
    }
}

#[test]
fn broadcasts_come_from_any_root_and_barriers_end() {
    let mut seed = 5;
    for shape in shapes() {
        let mut world = World::new(&shape.0, shape.1);
        let ranks: usize = shape.0.iter().sum();
        for root in 0..ranks {
            let mut parts = vec![None; ranks];
            let data = random(&mut seed, 1 + root * 10);
            parts[root] = Some(data.clone());
            let told = world.collective(Op::Bcast, Type::U8, &parts);
            assert_eq!(told, (what(Op::Bcast, Type::U8, data.len()), data));
            let told = world.collective(Op::Barrier, Type::U8, &vec![None; ranks]);
            assert_eq!(told, (0x100, Vec::new()));
        }
    }
}

#[test]
fn who_disagrees_is_found_out() {
    for shape in shapes()
        .into_iter()
        .filter(|s| s.0.iter().sum::<usize>() > 1)
    {
        let mut world = World::new(&shape.0, shape.1);
        let ranks: usize = shape.0.iter().sum();
        // Two roots.
        let told = world.collective(Op::Bcast, Type::U8, &vec![Some(vec![1; 8]); ranks]);
        assert_eq!(told.0, MISMATCH);
        // The next one is not harmed.
        let told = world.collective(Op::Sum, Type::U8, &vec![Some(vec![1; 8]); ranks]);
        assert_eq!(told.1, vec![ranks as u8; 8]);
    }
    // Operations that do not exist, and different lengths.
    let mut world = World::new(&[2], 1);
    world.at(1);
    let odd = what(Op::Sum, Type::U8, 8) | 0x20;
    for (process, what) in [(0, odd), (1, odd)] {
        let packet = world.start(0, process, what, Some(&[0; 8]));
        world.receive(0, super::LOOPBACK as u32, &packet);
    }
    assert_eq!(world.hosts[0].result(0), (MISMATCH, Vec::new()));
    world.at(2);
    for (process, bytes) in [(0, 8), (1, 16)] {
        let packet = world.start(0, process, what(Op::Sum, Type::U8, bytes), Some(&[0; 8]));
        world.receive(0, super::LOOPBACK as u32, &packet);
    }
    assert_eq!(world.hosts[0].number(), 2);
    assert_eq!(world.hosts[0].result(0), (MISMATCH, Vec::new()));
}

#[test]
fn lost_and_repeated_packets_change_nothing() {
    let mut seed = 6;
    for (lossy, shape) in (3..).zip(shapes()) {
        let mut world = World::new(&shape.0, shape.1);
        (world.lossy, world.seed) = (lossy, seed);
        let ranks: usize = shape.0.iter().sum();
        for _ in 0..30 {
            let parts: Vec<_> = (0..ranks).map(|_| random(&mut seed, 16)).collect();
            let some: Vec<_> = parts.iter().cloned().map(Some).collect();
            let told = world.collective(Op::Sum, Type::U32, &some).1;
            assert_eq!(told, expected(Op::Sum, Type::U32, &shape, &parts));
        }
    }
}

/// A packet from a host below to the one above, on its way.
fn upward() -> (World, Vec<u8>) {
    let mut world = World::new(&[1, 1], 1);
    world.at(1);
    let packet = world.start(1, 0, what(Op::Sum, Type::U64, 16), Some(&[5; 16]));
    assert_eq!(world.receive(1, super::LOOPBACK as u32, &packet), DROP);
    let packet = world.flying().remove(0);
    (world, packet)
}

const OURS: usize = (scratch::OURS - scratch::ETHERNET) as usize;

#[test]
fn what_was_changed_on_the_way_is_not_taken() {
    let (mut world, packet) = upward();
    for at in OURS..packet.len() {
        for bit in [1, 0x80] {
            let mut changed = packet.clone();
            changed[at] ^= bit;
            let given = world.receive(0, ELSEWHERE, &changed);
            // Without our magic number it isn't ours, nor in a context that isn't here.
            let names = |field: i16, bytes: usize| {
                let begin = OURS + field as usize;
                (begin..begin + bytes).contains(&at)
            };
            let foreign =
                names(header::MAGIC_AT, 4) || names(header::ENTRY, 4) || names(header::ID, 8);
            assert_eq!(given, if foreign { NEXT } else { DROP }, "byte {at}");
            assert_eq!(world.flying(), Vec::<Vec<u8>>::new());
        }
    }
    assert!(world.hosts[0].state(context::FORGED) > 0);
    for cut in 1..packet.len() - OURS - 4 {
        let short = &packet[..packet.len() - cut];
        world.receive(0, ELSEWHERE, short);
    }
    // Nothing of this counted: the contribution is still taken, once.
    let start = world.start(0, 0, what(Op::Sum, Type::U64, 16), Some(&[7; 16]));
    world.receive(0, super::LOOPBACK as u32, &start);
    assert_eq!(world.hosts[0].number(), 0);
    world.receive(0, ELSEWHERE, &packet);
    assert_eq!(world.hosts[0].number(), 1);
    assert_eq!(world.hosts[0].result(16).1, [12; 16]);
}

#[test]
fn the_tag_is_siphash() {
    let (_, packet) = upward();
    let mut message = packet[OURS..].to_vec();
    let at = header::TAG as usize;
    let tag = u64::from_le_bytes(message[at..at + 8].try_into().unwrap());
    message[at..at + 8].fill(0);
    let key: Vec<u8> = (0..16).collect();
    let key = key.try_into().unwrap();
    let mut hasher = siphasher::sip::SipHasher24::new_with_key(&key);
    hasher.write(&message);
    assert_eq!(tag, hasher.finish());
}

#[test]
fn a_packet_is_for_one_host_only() {
    let mut world = World::new(&[1, 1, 1], 1);
    world.at(1);
    let start = world.start(2, 0, what(Op::Sum, Type::U64, 8), Some(&[1; 8]));
    world.receive(2, super::LOOPBACK as u32, &start);
    let packet = world.flying().remove(0);
    // Host 0 has the same entry, input and key, and another id.
    assert_eq!(world.receive(0, ELSEWHERE, &packet), NEXT);
    let start = world.start(0, 0, what(Op::Sum, Type::U64, 8), Some(&[1; 8]));
    world.receive(0, super::LOOPBACK as u32, &start);
    assert_eq!(world.hosts[0].state(context::GATHERED), 0);
}

#[test]
fn starts_come_from_processes_of_the_host() {
    let mut world = World::new(&[2], 1);
    world.at(1);
    let mut good = Vec::new();
    for process in 0..2 {
        good.push(world.start(0, process, what(Op::Barrier, Type::U8, 0), None));
    }
    // Through another interface, with another's ticket, of a process that does not exist.
    let mut other = good[0].clone();
    other[OURS + header::INPUT as usize] = 1;
    let absent = world.start(0, 2, what(Op::Barrier, Type::U8, 0), None);
    for (interface, packet) in [(ELSEWHERE, &good[1]), (1, &other), (1, &absent)] {
        assert_eq!(world.receive(0, interface, packet), DROP);
    }
    world.receive(0, 1, &good[0]);
    world.receive(0, 1, &good[0]);
    assert_eq!(world.hosts[0].number(), 0);
    world.receive(0, 1, &good[1]);
    assert_eq!(world.hosts[0].number(), 1);
    assert_eq!(world.hosts[0].state(context::FORGED), 1);
    assert_eq!(world.hosts[0].state(context::REPEATED), 1);
    // What is early, late or in another context.
    for number in [0, 1, 3, u64::MAX] {
        world.at(number);
        for process in 0..2 {
            let packet = world.start(0, process, what(Op::Barrier, Type::U8, 0), None);
            assert_eq!(world.receive(0, 1, &packet), DROP);
        }
    }
    assert_eq!(world.hosts[0].number(), 1);
}

#[test]
fn packets_are_not_passed_on_for_ever() {
    let (mut world, mut packet) = upward();
    assert_eq!(packet[OURS + header::HOPS as usize], 1);
    packet[OURS + header::HOPS as usize] = crate::layout::HOPS_MAX + 1;
    assert_eq!(world.receive(0, ELSEWHERE, &packet), DROP);
    // It is dropped for its hops: its tag was not looked at.
    assert_eq!(world.hosts[0].state(context::FORGED), 0);
}

#[test]
fn foreign_packets_pass() {
    let mut world = World::new(&[1], 1);
    world.at(1);
    let good = world.start(0, 0, what(Op::Barrier, Type::U8, 0), None);
    assert_eq!(world.receive(0, 1, &good), DROP);
    let change = |at: i16, byte: u8| {
        let mut packet = good.clone();
        packet[(at - scratch::ETHERNET) as usize] = byte;
        packet
    };
    for (what, packet) in [
        ("not IPv4", change(scratch::IP - 2, 0x86)),
        ("with options", change(scratch::IP, 0x46)),
        ("a first fragment", change(scratch::IP + 6, 0x20)),
        ("a last fragment", change(scratch::IP + 7, 1)),
        ("TCP", change(scratch::IP + 9, 6)),
        ("another port", change(scratch::UDP + 2, 0)),
        ("other contents", change(scratch::OURS + 3, 2)),
        ("short", good[..good.len() - 1].to_vec()),
        ("long", envelope(DATA_MAX + 8)),
    ] {
        assert_eq!(world.receive(0, 1, &packet), NEXT, "{what}");
    }
    // That it may not be cut into fragments is no matter.
    assert_eq!(world.receive(0, 1, &change(scratch::IP + 6, 0x40)), DROP);
}

#[test]
fn headers_of_the_network_are_right() {
    let (_, packet) = upward();
    let word = |at: usize| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    assert_eq!(word(12), 0x0800);
    assert_eq!(word(16) as usize, packet.len() - 14);
    assert_eq!(word(38) as usize, packet.len() - 34);
    let sum: u32 = (14..34).step_by(2).map(word).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "IP's sum");
}

const SIX: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x1234));

#[test]
fn headers_of_ipv6_are_right() {
    let mut world = World::over(SIX, &[1, 1], 1);
    world.at(1);
    let packet = world.start(1, 0, what(Op::Sum, Type::U64, 16), Some(&[5; 16]));
    world.receive(1, super::LOOPBACK as u32, &packet);
    let packet = world.flying().remove(0);
    let word = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    assert_eq!((word(12), packet[14], packet[20]), (0x86dd, 0x60, 17));
    assert_eq!(packet[21], 1, "no router passes it on");
    for at in [22, 38] {
        assert_eq!((word(at), word(at + 14)), (0xfd77, 0x1234));
    }
    assert_eq!(packet.len(), 14 + 40 + 8 + 48 + 16);
    assert_eq!((word(18), word(58)), (packet.len() - 54, packet.len() - 54));
    assert_eq!(word(56), usize::from(PORT));
    // It is taken, and what is not ours passes.
    for (what, at, byte) in [
        ("another version", 14, 0x50),
        ("an extension", 20, 44),
        ("another port", 57, 0),
        ("other contents", 62, 0),
    ] {
        let mut changed = packet.clone();
        changed[at] = byte;
        assert_eq!(world.receive(0, ELSEWHERE, &changed), NEXT, "{what}");
    }
    let short = &packet[..14 + 40 + 8 + 47];
    assert_eq!(world.receive(0, ELSEWHERE, short), NEXT);
    let mut forged = packet.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(world.receive(0, ELSEWHERE, &forged), DROP);
    assert_eq!(world.hosts[0].state(context::FORGED), 1);
    let start = world.start(0, 0, what(Op::Sum, Type::U64, 16), Some(&[7; 16]));
    world.receive(0, super::LOOPBACK as u32, &start);
    world.receive(0, ELSEWHERE, &packet);
    assert_eq!(world.hosts[0].result(16).1, [12; 16]);
    // The answer is one too.
    let packet = world.flying().remove(0);
    assert_eq!(world.receive(1, ELSEWHERE, &packet), DROP);
    assert_eq!(world.hosts[1].result(16).1, [12; 16]);
}

#[test]
fn collectives_over_ipv6_are_right() {
    let mut seed = 8;
    for (lossy, shape) in (3..).zip(shapes()) {
        let mut world = World::over(SIX, &shape.0, shape.1);
        (world.lossy, world.seed) = (lossy, seed);
        let ranks: usize = shape.0.iter().sum();
        for bytes in [0, 8, 64, DATA_MAX] {
            let parts: Vec<_> = (0..ranks).map(|_| random(&mut seed, bytes)).collect();
            let some: Vec<_> = parts.iter().cloned().map(Some).collect();
            let told = world.collective(Op::Sum, Type::U32, &some).1;
            assert_eq!(told, expected(Op::Sum, Type::U32, &shape, &parts));
        }
    }
}

#[test]
fn what_is_for_another_host_passes() {
    let (mut world, packet) = upward();
    world.hosts[0].machine.whom = 3;
    assert_eq!(world.receive(0, ELSEWHERE, &packet), NEXT);
    world.hosts[0].machine.whom = 0;
    assert_eq!(world.receive(0, ELSEWHERE, &packet), DROP);
}

#[test]
fn a_packet_that_comes_again_is_counted_and_not_taken() {
    let (mut world, packet) = upward();
    let start = world.start(0, 0, what(Op::Sum, Type::U64, 16), Some(&[7; 16]));
    world.receive(0, super::LOOPBACK as u32, &start);
    world.receive(0, ELSEWHERE, &packet);
    let down = world.flying().remove(0);
    world.receive(1, ELSEWHERE, &down);
    world.at(2);
    for host in 0..2 {
        let start = world.start(host, 0, what(Op::Sum, Type::U64, 16), Some(&[1; 16]));
        world.receive(host, super::LOOPBACK as u32, &start);
    }
    let second = world.flying().remove(0);
    // All that was ever said, many times.
    for _ in 0..3 {
        assert_eq!(world.receive(0, ELSEWHERE, &packet), DROP);
        assert_eq!(world.receive(1, ELSEWHERE, &down), DROP);
    }
    let state = |world: &mut World, host: usize, at| world.hosts[host].state(at);
    assert_eq!(state(&mut world, 0, context::REPEATED), 3);
    assert_eq!(state(&mut world, 1, context::REPEATED), 3);
    assert_eq!((world.hosts[0].number(), world.hosts[1].number()), (1, 1));
    world.receive(0, ELSEWHERE, &second);
    assert_eq!(world.hosts[0].result(16).1, [2; 16]);
}

#[test]
fn who_waits_is_woken_once() {
    let mut world = World::new(&[3], 1);
    let loopback = super::LOOPBACK as u32;
    world.at(1);
    let barrier = what(Op::Barrier, Type::U8, 0);
    let starts: Vec<_> = (0..3).map(|p| world.start(0, p, barrier, None)).collect();
    let waits: Vec<_> = (0..3).map(|p| world.wait(0, p, 500 + p as u16)).collect();
    for packet in [&starts[0], &waits[0], &starts[1], &waits[1], &waits[1]] {
        assert_eq!(world.receive(0, loopback, packet), super::DROP as u64);
    }
    assert!(world.woken.is_empty(), "it is not over");
    world.receive(0, loopback, &starts[2]);
    assert_eq!(world.woken, [(0, 500), (0, 501)]);
    world.receive(0, loopback, &starts[2]);
    assert_eq!(world.woken.len(), 2);
    // Who comes late is woken at once.
    world.receive(0, loopback, &waits[2]);
    assert_eq!(world.woken[2..], [(0, 502)]);
    // Only who has the ticket, and only through the loopback interface.
    world.receive(0, loopback + 1, &waits[0]);
    let mut forged = waits[0].clone();
    let at = forged.len() - (header::BYTES - header::TAG) as usize;
    forged[at] ^= 1;
    world.receive(0, loopback, &forged);
    assert_eq!(world.woken.len(), 3);
}

#[test]
fn nobody_waits_where_the_program_looks() {
    let mut world = World::new(&[1], 1);
    let loopback = super::LOOPBACK as u32;
    // For what is over before it began.
    let waits = world.wait(0, 0, 500);
    world.receive(0, loopback, &waits);
    assert_eq!(world.woken, [(0, 500)]);
    let waits = world.wait(0, 0, PORT);
    assert_eq!(world.receive(0, loopback, &waits), DROP);
    assert_eq!(world.woken.len(), 1, "it would be woken for ever");
}

#[test]
fn who_waits_is_woken_by_another_hosts_packet() {
    let six = Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2).into();
    for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), six] {
        let mut world = World::over(ip, &[2, 1], 1);
        let loopback = super::LOOPBACK as u32;
        world.at(1);
        let barrier = what(Op::Barrier, Type::U8, 0);
        for (host, process, port) in [(0, 0, 500), (0, 1, 501), (1, 0, 600)] {
            let start = world.start(host, process, barrier, None);
            world.receive(host, loopback, &start);
            let wait = world.wait(host, process, port);
            world.receive(host, loopback, &wait);
        }
        assert!(world.woken.is_empty());
        world.settle();
        assert_eq!(world.woken, [(0, 500), (0, 501), (1, 600)], "{ip}");
    }
}

#[test]
fn nothing_with_other_addresses_comes_to_the_loopback_interface() {
    let six = Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2).into();
    let four: IpAddr = Ipv4Addr::new(10, 0, 0, 1).into();
    // The last byte of either address.
    for (ip, places) in [(four, [29, 33]), (six, [37, 53])] {
        for place in places {
            let mut world = World::over(ip, &[1, 1], 1);
            let loopback = super::LOOPBACK as u32;
            world.at(1);
            let barrier = what(Op::Barrier, Type::U8, 0);
            for host in [0, 1] {
                let start = world.start(host, 0, barrier, None);
                world.receive(host, loopback, &start);
                let wait = world.wait(host, 0, 500);
                world.receive(host, loopback, &wait);
            }
            for host in [0, 1] {
                let mut flying = world.flying();
                assert_eq!(flying.len(), 1);
                flying[0][place] ^= 1;
                world.receive(host, ELSEWHERE, &flying[0]);
                assert_eq!(world.hosts[host].number(), 1, "its tag is good");
            }
            assert!(world.woken.is_empty(), "{ip}, byte {place}");
        }
    }
}

#[test]
fn what_lies_behind_the_data_does_not_count() {
    let mut world = World::new(&[2], 1);
    world.at(1);
    let sum = what(Op::Sum, Type::U64, 8);
    for process in 0..2 {
        let mut packet = world.start(0, process, sum, Some(&[7; 8]));
        packet.extend([0xee; 16]);
        world.receive(0, super::LOOPBACK as u32, &packet);
    }
    assert_eq!(world.hosts[0].result(8), (sum, vec![14; 8]));
}
