//! Who waits for a result, asleep, is sent a packet through the loopback interface when it is there.
//!
//! The packet is the one that the program looks at, from our port to the one that the process waits at. That it comes is not certain: a
//! process that waits looks from time to time all the same.

use super::{BASE, ENTRY, Functions, INTERFACE, IPV4, LOOPBACK, PROTOCOL};
use crate::asm::{Alu, Asm, Atomic, Cond, Helper, Reg::*, Size};
use crate::layout::{ETHERNET_BYTES, context, input, map};

/// Where the callback finds the packet, and where inputs begin.
const PACKET: i16 = -40;
const INPUTS: i16 = PACKET + 8;
/// Where the callback has the two ports.
const PORTS: i16 = -8;
/// The UDP header's place in a packet.
const UDP: i32 = ETHERNET_BYTES as i32 + 20;

/// `wake(packet, entry)`. `R6` is the packet, `R9` the context.
pub(super) fn wake(asm: &mut Asm, functions: &Functions) {
    asm.begin(functions.wake);
    let none = asm.label();
    asm.mov(R6, R1);
    asm.store(Size::D, Fp, ENTRY, R2);
    // Between hosts no packet has a route to a process of this one.
    asm.load(Size::W, R2, R6, INTERFACE);
    asm.jump_if(Cond::Ne, R2, LOOPBACK, none);
    asm.load(Size::W, R2, R6, PROTOCOL);
    asm.jump_if(Cond::Ne, R2, IPV4, none);
    super::lookup_at(asm, map::CONTEXTS, ENTRY, R9, none);
    asm.mov(R2, 0);
    asm.atomic(Atomic::Exchange, R9, context::WAITERS, R2);
    asm.jump_if(Cond::Eq, R2, 0, none);
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
    asm.mov(R2, UDP);
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
