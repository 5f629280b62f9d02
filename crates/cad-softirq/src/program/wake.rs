//! Who waits for a result, asleep, is sent a packet through the loopback interface when it is there.
//!
//! The packet is the one that the program looks at, from our port to the one that the process waits at. Where it came from another host it keeps that
//! one's address, and this host's: the kernel finds the way to a local process by these too ([`Waker`](crate::rank::Waker) listens at all
//! of the loopback interface), unless it is to look strictly where senders' addresses come from (`rp_filter`). That it comes is not certain: a
//! process that waits looks from time to time all the same.
//!
//! A packet's tag says nothing of its addresses, which anybody on the way may have changed: with others than the context has of that host nothing goes
//! to the loopback interface, where packets may be trusted more.

use super::{BASE, ENTRY, Functions, INTERFACE, IPV4, IPV6, LOOPBACK, PROTOCOL, ours};
use crate::asm::{Alu, Asm, Atomic, Cond, Helper, Label, Reg::*, Size};
use crate::layout::{
    CHILDREN_MAX, ETHERNET_BYTES, Kind, context, header, input, map, peer, scratch,
};

/// Where the callback finds the packet, where inputs begin, and where the packet's UDP header lies.
const PACKET: i16 = -40;
const INPUTS: i16 = PACKET + 8;
const UDP: i16 = PACKET + 16;
/// Where the callback has the two ports.
const PORTS: i16 = -8;
/// Where two addresses of the loopback interface's link are: all zeros.
const LINKS: i16 = -80;
const LINKS_BYTES: i32 = 12;
/// The UDP header's place in a packet of IPv4, and of IPv6.
const UDP_4: i32 = ETHERNET_BYTES as i32 + 20;
const UDP_6: i32 = ETHERNET_BYTES as i32 + 40;

/// `wake(packet, entry)`. `R6` is the packet, `R9` the context.
pub(super) fn wake(asm: &mut Asm, functions: &Functions) {
    asm.begin(functions.wake);
    let (none, four, local) = (asm.label(), asm.label(), asm.label());
    asm.mov(R6, R1);
    asm.store(Size::D, Fp, ENTRY, R2);
    super::lookup_at(asm, map::CONTEXTS, ENTRY, R9, none);
    asm.mov(R2, 0);
    asm.atomic(Atomic::Exchange, R9, context::WAITERS, R2);
    asm.jump_if(Cond::Eq, R2, 0, none);
    asm.load(Size::W, R2, R6, PROTOCOL);
    asm.mov(R3, UDP_4);
    asm.jump_if(Cond::Eq, R2, IPV4, four);
    asm.jump_if(Cond::Ne, R2, IPV6, none);
    asm.mov(R3, UDP_6);
    asm.bind(four);
    asm.store(Size::D, Fp, UDP, R3);
    asm.load(Size::W, R2, R6, INTERFACE);
    asm.jump_if(Cond::Eq, R2, LOOPBACK, local);
    addresses(asm, none);
    // What is for another link's address is not taken there.
    asm.store(Size::D, Fp, LINKS, 0);
    asm.store(Size::D, Fp, LINKS + 8, 0);
    asm.mov(R1, R6);
    asm.mov(R2, 0);
    asm.mov(R3, Fp);
    asm.alu(Alu::Add, R3, i32::from(LINKS));
    asm.mov(R4, LINKS_BYTES);
    asm.mov(R5, 0);
    asm.call(Helper::StoreBytes);
    asm.jump_if(Cond::Ne, R0, 0, none);
    asm.bind(local);
    asm.store(Size::D, Fp, PACKET, R6);
    asm.load(Size::W, R2, R9, context::BASE);
    asm.store(Size::D, Fp, INPUTS, R2);
    asm.load(Size::W, R1, R9, context::LOCAL);
    asm.function(R2, functions.wake_one);
    asm.mov(R3, Fp);
    asm.alu(Alu::Add, R3, i32::from(PACKET));
    asm.mov(R4, 0);
    asm.call(Helper::Loop);
    asm.bind(none);
    asm.give(0);
}

/// Goes to `none` unless the packet in the scratch, which another host sent, has its address and this host's, as the context in `R9` has them.
fn addresses(asm: &mut Asm, none: Label) {
    let (above, six, same) = (asm.label(), asm.label(), asm.label());
    super::lookup_scratch(asm, R8, none);
    asm.mov(R1, 0);
    asm.load(Size::B, R2, R8, ours(header::KIND));
    asm.jump_if(Cond::Eq, R2, Kind::Down as i32, above);
    // Inputs of hosts below follow those of processes, and these hosts the one above.
    asm.load(Size::W, R1, R8, ours(header::INPUT));
    asm.load(Size::W, R2, R9, context::LOCAL);
    asm.alu(Alu::Sub, R1, R2);
    asm.alu(Alu::Add, R1, 1);
    asm.bind(above);
    asm.jump_if(Cond::Gt, R1, CHILDREN_MAX as i32, none);
    asm.alu(Alu::Mul, R1, peer::BYTES as i32);
    asm.mov(R7, R9);
    asm.alu(Alu::Add, R7, i32::from(context::PEERS));
    asm.alu(Alu::Add, R7, R1);
    let is = |asm: &mut Asm, size, came: i16, known: i16| {
        asm.load(size, R1, R8, came);
        asm.load(size, R2, R7, peer::HEAD + known);
        asm.jump_if(Cond::Ne, R1, R2, none);
    };
    asm.load(Size::W, R2, R6, PROTOCOL);
    asm.jump_if(Cond::Eq, R2, IPV6, six);
    // What came from there is known as what goes there.
    let (from, to) = (scratch::IP + 12, scratch::IP + 16);
    is(asm, Size::W, from, to);
    is(asm, Size::W, to, from);
    asm.jump(same);
    asm.bind(six);
    let (from, to) = (scratch::IP_6 + 8, scratch::IP_6 + 24);
    for half in [0, 8] {
        is(asm, Size::D, from + half, to + half);
        is(asm, Size::D, to + half, from + half);
    }
    asm.bind(same);
}

/// The callback, for one input. `R6` is where the packet is, `R7` the input.
pub(super) fn wake_one(asm: &mut Asm, functions: &Functions, port: u16) {
    asm.begin(functions.wake_one);
    let none = asm.label();
    asm.mov(R6, R2);
    asm.load(Size::D, R2, R6, INPUTS - PACKET);
    asm.alu(Alu::Add, R2, R1);
    asm.store(Size::D, Fp, BASE, R2);
    super::lookup_at(asm, map::INPUTS, BASE, R7, none);
    asm.mov(R2, 0);
    asm.atomic(Atomic::Exchange, R7, input::PORT, R2);
    asm.jump_if(Cond::Eq, R2, 0, none);
    asm.store(Size::H, Fp, PORTS, i32::from(port.to_be()));
    asm.store(Size::H, Fp, PORTS + 2, R2);
    asm.load(Size::D, R1, R6, 0);
    asm.load(Size::D, R2, R6, UDP - PACKET);
    asm.mov(R3, Fp);
    asm.alu(Alu::Add, R3, i32::from(PORTS));
    asm.mov(R4, 4);
    asm.mov(R5, 0);
    asm.call(Helper::StoreBytes);
    asm.jump_if(Cond::Ne, R0, 0, none);
    asm.load(Size::D, R1, R6, 0);
    asm.mov(R2, LOOPBACK);
    asm.mov(R3, 0);
    asm.call(Helper::CloneRedirect);
    asm.bind(none);
    asm.give(0);
}
