//! SipHash-2-4 (Aumasson and Bernstein, 2012) of whole words: the tag that shows who made a packet.

use super::parts::{Parts, STACK};
use super::{ENTRY, Functions, WORDS};
use crate::asm::{Alu, Asm, Helper, Reg, Reg::*, Size};
use crate::layout::{context, map, scratch};

/// The state's four words, and where the message is.
const STATE: i16 = STACK - 40;
/// The state's words where they are worked on.
const V: [Reg; 4] = [R6, R7, R8, R9];
/// What they begin with.
const BEGIN: [u64; 4] = [
    0x736f_6d65_7073_6575,
    0x646f_7261_6e64_6f6d,
    0x6c79_6765_6e65_7261,
    0x7465_6462_7974_6573,
];

/// `tag(entry, words)`: of the packet in the scratch, from our header on; 0 if there is no such entry.
pub(super) fn tag(asm: &mut Asm, functions: &Functions, parts: &Parts) {
    asm.begin(functions.tag);
    let none = asm.label();
    asm.store(Size::D, Fp, ENTRY, R1);
    asm.store(Size::D, Fp, WORDS, R2);
    super::lookup_at(asm, map::CONTEXTS, ENTRY, R6, none);
    super::lookup_scratch(asm, R7, none);
    for (i, begin) in BEGIN.into_iter().enumerate() {
        asm.wide(R1, begin);
        asm.load(Size::D, R2, R6, context::KEY + 8 * (i as i16 % 2));
        asm.alu(Alu::Xor, R1, R2);
        asm.store(Size::D, Fp, STATE + 8 * i as i16, R1);
    }
    asm.alu(Alu::Add, R7, i32::from(scratch::OURS));
    asm.store(Size::D, Fp, STATE + 32, R7);
    asm.load(Size::D, R1, Fp, WORDS);
    asm.function(R2, parts.siphash);
    asm.mov(R3, Fp);
    asm.alu(Alu::Add, R3, i32::from(STATE));
    asm.mov(R4, 0);
    asm.call(Helper::Loop);
    // The last word: nothing but the length.
    for (i, reg) in V.into_iter().enumerate() {
        asm.load(Size::D, reg, Fp, STATE + 8 * i as i16);
    }
    asm.load(Size::D, R1, Fp, WORDS);
    asm.alu(Alu::Lsh, R1, 3 + 56);
    take(asm);
    asm.alu(Alu::Xor, V[2], 0xff);
    for _ in 0..4 {
        round(asm);
    }
    asm.mov(R0, V[0]);
    for reg in &V[1..] {
        asm.alu(Alu::Xor, R0, *reg);
    }
    asm.exit();
    asm.bind(none);
    asm.give(0);
}

/// The callback for a word.
pub(super) fn word(asm: &mut Asm) {
    for (i, reg) in V.into_iter().enumerate() {
        asm.load(Size::D, reg, R2, 8 * i as i16);
    }
    asm.load(Size::D, R3, R2, 32);
    asm.alu(Alu::And, R1, 0xff);
    asm.alu(Alu::Lsh, R1, 3);
    asm.alu(Alu::Add, R3, R1);
    asm.load(Size::D, R1, R3, 0);
    take(asm);
    for (i, reg) in V.into_iter().enumerate() {
        asm.store(Size::D, R2, 8 * i as i16, reg);
    }
    asm.give(0);
}

/// Takes the word in `R1`.
fn take(asm: &mut Asm) {
    asm.alu(Alu::Xor, V[3], R1);
    round(asm);
    round(asm);
    asm.alu(Alu::Xor, V[0], R1);
}

/// A round; uses `R0`.
fn round(asm: &mut Asm) {
    let mix = |asm: &mut Asm, a: usize, b: usize, by: i32| {
        asm.alu(Alu::Add, V[a], V[b]);
        rotate(asm, V[b], by);
        asm.alu(Alu::Xor, V[b], V[a]);
    };
    mix(asm, 0, 1, 13);
    rotate(asm, V[0], 32);
    mix(asm, 2, 3, 16);
    mix(asm, 0, 3, 21);
    mix(asm, 2, 1, 17);
    rotate(asm, V[2], 32);
}

fn rotate(asm: &mut Asm, reg: Reg, by: i32) {
    asm.mov(R0, reg);
    asm.alu(Alu::Lsh, reg, by);
    asm.alu(Alu::Rsh, R0, 64 - by);
    asm.alu(Alu::Or, reg, R0);
}
