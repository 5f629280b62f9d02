//! Results are made public, and packets sent to other hosts.

use super::parts::{self, Parts};
use super::{CHILD, ENTRY, Functions, INPUT, KIND, NUMBER, WORDS, ours};
use crate::asm::{Alu, Asm, Atomic, Cond, Helper, Reg, Reg::*, Size};
use crate::layout::{
    CHILDREN_MAX, DATA, HAVE, Kind, UDP_BYTES, WHAT, context, header, map, peer, result, scratch,
};

/// `publish(entry, number, input)`. `R6` is the page, `R7` where the result comes from. A context that is closed meanwhile loses its id before
/// its place gets another page, so who still sees the id has the right page; the exchange keeps the processor from looking in another order.
pub(super) fn publish(asm: &mut Asm, functions: &Functions, parts: &Parts) {
    asm.begin(functions.publish);
    let (none, packet, written) = (asm.label(), asm.label(), asm.label());
    for (at, reg) in [(ENTRY, R1), (NUMBER, R2), (INPUT, R3)] {
        asm.store(Size::D, Fp, at, reg);
    }
    super::lookup_result(asm, ENTRY, R6, none);
    super::lookup_at(asm, map::CONTEXTS, ENTRY, R1, none);
    asm.mov(R0, 0);
    asm.mov(R2, 0);
    asm.atomic(Atomic::CompareExchange, R1, context::ID, R2);
    asm.jump_if(Cond::Eq, R0, 0, none);
    asm.load(Size::D, R2, Fp, INPUT);
    asm.jump_if(Cond::Eq, R2, -1, packet);
    super::lookup_at(asm, map::INPUTS, INPUT, R7, none);
    let places = [(Size::D, WHAT), (Size::D, HAVE)];
    from(asm, parts, places, DATA, none);
    asm.jump(written);
    asm.bind(packet);
    super::lookup_scratch(asm, R7, none);
    let places = [(Size::D, ours(header::WHAT)), (Size::B, ours(header::HAVE))];
    from(asm, parts, places, scratch::DATA, none);
    asm.bind(written);
    asm.call(Helper::Ktime);
    asm.store(Size::D, R6, result::WHEN, R0);
    asm.load(Size::D, R2, Fp, NUMBER);
    asm.atomic(Atomic::Exchange, R6, result::NUMBER, R2);
    asm.bind(none);
    asm.give(0);
}

/// Copies what is in `R7`, at these places, to the page in `R6`.
fn from(
    asm: &mut Asm,
    parts: &Parts,
    places: [(Size, i16); 2],
    data: i16,
    none: crate::asm::Label,
) {
    let [(_, what), (size, have)] = places;
    asm.load(size, R2, R7, have);
    asm.store(Size::D, R6, HAVE, R2);
    asm.load(Size::D, R2, R7, what);
    asm.store(Size::D, R6, WHAT, R2);
    parts::words_of(asm, R2, none);
    asm.store(Size::D, Fp, WORDS, R2);
    parts::each_word(asm, parts.copy, (R6, DATA), (R7, data), (Fp, WORDS));
}

/// `send(packet, entry, peer, kind and hops, number)`. `R6` is the packet, `R7` first what is sent and then the peer, `R8` the scratch, `R9` the context.
pub(super) fn send(asm: &mut Asm, functions: &Functions, parts: &Parts) {
    asm.begin(functions.send);
    let (none, down, source) = (asm.label(), asm.label(), asm.label());
    asm.mov(R6, R1);
    for (at, reg) in [(ENTRY, R2), (CHILD, R3), (KIND, R4), (NUMBER, R5)] {
        asm.store(Size::D, Fp, at, reg);
    }
    super::lookup_at(asm, map::CONTEXTS, ENTRY, R9, none);
    super::lookup_scratch(asm, R8, none);
    asm.load(Size::B, R1, Fp, KIND);
    asm.jump_if(Cond::Ne, R1, Kind::Up as i32, down);
    asm.mov(R1, 0);
    super::lookup_input(asm, R7, none);
    asm.jump(source);
    asm.bind(down);
    super::lookup_result(asm, ENTRY, R7, none);
    asm.bind(source);
    asm.load(Size::D, R2, R7, HAVE);
    asm.store(Size::B, R8, ours(header::HAVE), R2);
    asm.load(Size::D, R2, R7, WHAT);
    asm.store(Size::D, R8, ours(header::WHAT), R2);
    parts::words_of(asm, R2, none);
    asm.store(Size::D, Fp, WORDS, R2);
    let (to, from) = ((R8, scratch::DATA), (R7, DATA));
    parts::each_word(asm, parts.copy, to, from, (Fp, WORDS));
    headers(asm, none);
    asm.load(Size::D, R1, Fp, ENTRY);
    asm.load(Size::D, R2, Fp, WORDS);
    asm.alu(Alu::Add, R2, i32::from(header::BYTES) / 8);
    asm.call_function(functions.tag);
    asm.store(Size::D, R8, ours(header::TAG), R0);
    leave(asm);
    asm.bind(none);
    asm.give(0);
}

/// Fills the headers for the peer, which comes into `R7`.
fn headers(asm: &mut Asm, none: crate::asm::Label) {
    asm.load(Size::D, R1, Fp, CHILD);
    asm.jump_if(Cond::Gt, R1, CHILDREN_MAX as i32, none);
    asm.alu(Alu::Mul, R1, peer::BYTES as i32);
    asm.mov(R7, R9);
    asm.alu(Alu::Add, R7, i32::from(context::PEERS));
    asm.alu(Alu::Add, R7, R1);
    for word in 0..scratch::OURS / 8 {
        asm.load(Size::D, R1, R7, peer::HEAD + 8 * word);
        asm.store(Size::D, R8, 8 * word, R1);
    }
    asm.store(Size::W, R8, ours(header::MAGIC_AT), header::MAGIC as i32);
    asm.load(Size::D, R1, Fp, KIND);
    asm.store(Size::B, R8, ours(header::KIND), R1);
    asm.alu(Alu::Rsh, R1, 8);
    asm.store(Size::B, R8, ours(header::HOPS), R1);
    asm.store(Size::B, R8, ours(header::HAVE) + 1, 0);
    for (size, from, to) in [
        (Size::W, peer::ENTRY, header::ENTRY),
        (Size::W, peer::INPUT, header::INPUT),
        (Size::D, peer::ID, header::ID),
    ] {
        asm.load(size, R1, R7, from);
        asm.store(size, R8, ours(to), R1);
    }
    asm.load(Size::D, R1, Fp, NUMBER);
    asm.store(Size::D, R8, ours(header::NUMBER), R1);
    asm.store(Size::D, R8, ours(header::TAG), 0);
    lengths(asm);
}

/// Fills in the lengths, and IPv4's sum. UDP goes without one, as IPv4 allows, and IPv6 for what has a sum of its own inside (RFC 6935): the tag is
/// better, and nobody but our program takes it.
fn lengths(asm: &mut Asm) {
    let (six, udp) = (asm.label(), asm.label());
    asm.load(Size::D, R1, Fp, WORDS);
    asm.alu(Alu::Lsh, R1, 3);
    asm.alu(Alu::Add, R1, UDP_BYTES as i32 + i32::from(header::BYTES));
    asm.mov(R2, R1);
    asm.big_endian_16(R1);
    asm.load(Size::W, R3, R7, peer::START);
    asm.jump_if(Cond::Eq, R3, i32::from(scratch::ETHERNET_6), six);
    asm.alu(Alu::Add, R2, i32::from(scratch::UDP - scratch::IP));
    asm.big_endian_16(R2);
    asm.store(Size::H, R8, scratch::IP + 2, R2);
    asm.load(Size::W, R3, R7, peer::SUM);
    asm.alu(Alu::Add, R3, R2);
    for _ in 0..2 {
        asm.mov(R4, R3);
        asm.alu(Alu::Rsh, R4, 16);
        asm.alu(Alu::And, R3, 0xffff);
        asm.alu(Alu::Add, R3, R4);
    }
    asm.alu(Alu::Xor, R3, 0xffff);
    asm.store(Size::H, R8, scratch::IP + 10, R3);
    asm.jump(udp);
    asm.bind(six);
    asm.store(Size::H, R8, scratch::IP_6 + 4, R1);
    asm.bind(udp);
    asm.store(Size::H, R8, scratch::UDP + 4, R1);
}

/// `reg` = where the packet begins in the scratch, of the peer in `R7`.
fn start(asm: &mut Asm, reg: Reg) {
    asm.load(Size::W, reg, R7, peer::START);
    asm.alu(Alu::And, reg, scratch::START_MAX);
}

/// Makes the packet in the scratch of the one that came, and has it sent.
fn leave(asm: &mut Asm) {
    let (unsent, end) = (asm.label(), asm.label());
    let length = |asm: &mut Asm, reg| {
        asm.load(Size::D, reg, Fp, WORDS);
        asm.alu(Alu::Lsh, reg, 3);
        asm.alu(Alu::Add, reg, i32::from(scratch::DATA));
        start(asm, R5);
        asm.alu(Alu::Sub, reg, R5);
    };
    asm.mov(R1, R6);
    length(asm, R2);
    asm.mov(R3, 0);
    asm.call(Helper::ChangeTail);
    asm.jump_if(Cond::Ne, R0, 0, unsent);
    asm.mov(R1, R6);
    asm.mov(R2, 0);
    length(asm, R4);
    // From where that leaves it.
    asm.mov(R3, R8);
    asm.alu(Alu::Add, R3, R5);
    asm.mov(R5, 0);
    asm.call(Helper::StoreBytes);
    asm.jump_if(Cond::Ne, R0, 0, unsent);
    asm.mov(R1, R6);
    asm.load(Size::W, R2, R7, peer::INTERFACE);
    asm.mov(R3, 0);
    asm.call(Helper::CloneRedirect);
    asm.jump_if(Cond::Ne, R0, 0, unsent);
    super::count(asm, R9, context::SENT);
    asm.jump(end);
    asm.bind(unsent);
    super::count(asm, R9, context::UNSENT);
    asm.bind(end);
}
