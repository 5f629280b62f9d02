//! The inputs of a context come together: in pairs, pairs of pairs and so on, of neighbours, so that the order
//! is always the same.
//!
//! Input `p` is combined with `p + 1`, what comes of that with `p + 2` and what came of `p + 3`, and so on; where there is nobody,
//! nothing is done. Each pair has a count, to which either half adds one when it is there. Whoever makes the count even was the second:
//! both halves are there, and nobody else is at them. It combines them and goes on with the next pair; the first one is done.

use super::parts::{self, Parts};
use super::{ENTRY, Functions, INPUT};
use crate::asm::{Alu, Asm, Atomic, Cond, Reg::*, Size};
use crate::layout::{
    BYTECODE, DATA, HAVE, LEVELS, MISMATCH, NO_CODE, Op, WHAT, context, input, map,
};

/// Where the next two functions keep numbers of inputs.
const LOWER: i16 = -8;
const UPPER: i16 = INPUT;
/// The count of words.
const WORDS: i16 = -32;

/// `gather(entry, input)`. `R6` is how many inputs there are, `R7` where they begin, `R8` which is there.
pub(super) fn gather(asm: &mut Asm, functions: &Functions) {
    asm.begin(functions.gather);
    let (not_yet, complete) = (asm.label(), asm.label());
    asm.store(Size::D, Fp, ENTRY, R1);
    asm.mov(R8, R2);
    super::lookup_at(asm, map::CONTEXTS, ENTRY, R9, not_yet);
    asm.load(Size::W, R6, R9, context::INPUTS);
    asm.load(Size::W, R7, R9, context::BASE);
    for level in 0..LEVELS {
        let next = asm.label();
        let bit = 1 << level;
        asm.jump_if(Cond::Le, R6, bit, complete);
        asm.alu(Alu::And, R8, !bit);
        asm.mov(R9, R8);
        asm.alu(Alu::Or, R9, bit);
        // Without an upper half, what is there is the pair.
        asm.jump_if(Cond::Ge, R9, R6, next);
        asm.mov(R1, R8);
        asm.alu(Alu::Add, R1, R7);
        asm.store(Size::D, Fp, LOWER, R1);
        super::lookup_at(asm, map::INPUTS, LOWER, R0, not_yet);
        asm.mov(R2, 1);
        let count = input::COUNTS + 8 * level as i16;
        asm.atomic(Atomic::Add, R0, count, R2);
        asm.alu(Alu::And, R2, 1);
        asm.jump_if(Cond::Eq, R2, 0, not_yet);
        asm.load(Size::D, R1, Fp, LOWER);
        asm.mov(R2, R9);
        asm.alu(Alu::Add, R2, R7);
        asm.load(Size::D, R3, Fp, ENTRY);
        asm.call_function(functions.combine);
        asm.bind(next);
    }
    asm.bind(complete);
    asm.give(1);
    asm.bind(not_yet);
    asm.give(0);
}

/// `combine(lower, upper, entry)`. `R6` and `R7` are the two.
pub(super) fn combine(asm: &mut Asm, functions: &Functions, parts: &Parts) {
    asm.begin(functions.combine);
    let [done, differ, mismatch, absent, broadcast, code] = std::array::from_fn(|_| asm.label());
    for (at, reg) in [(LOWER, R1), (UPPER, R2), (ENTRY, R3)] {
        asm.store(Size::D, Fp, at, reg);
    }
    super::lookup_at(asm, map::INPUTS, LOWER, R6, done);
    super::lookup_at(asm, map::INPUTS, UPPER, R7, done);
    asm.load(Size::D, R8, R6, WHAT);
    asm.load(Size::D, R2, R7, WHAT);
    asm.jump_if(Cond::Ne, R8, R2, differ);
    asm.mov(R2, R8);
    parts::words_of(asm, R2, mismatch);
    asm.store(Size::D, Fp, WORDS, R2);
    asm.mov(R9, R8);
    asm.alu(Alu::Rsh, R9, 8);
    asm.alu(Alu::And, R9, 0xff);
    asm.alu(Alu::And, R8, 0xff);
    asm.jump_if(Cond::Eq, R8, Op::Barrier as i32, done);
    asm.jump_if(Cond::Eq, R8, Op::Bcast as i32, broadcast);
    asm.jump_if(Cond::Eq, R8, i32::from(BYTECODE), code);
    asm.jump_if(Cond::Eq, R8, NO_CODE as i32, absent);
    let (lower, upper, words) = ((R6, DATA), (R7, DATA), (Fp, WORDS));
    for op in Op::ALL {
        let other = asm.label();
        asm.jump_if(Cond::Ne, R8, op as i32, other);
        for func in parts.of(op) {
            let (this, next) = (asm.label(), asm.label());
            for ty in func.1 {
                asm.jump_if(Cond::Eq, R9, ty as i32, this);
            }
            asm.jump(next);
            asm.bind(this);
            parts::each_word(asm, func.0, lower, upper, words);
            asm.jump(done);
            asm.bind(next);
        }
        asm.jump(mismatch);
        asm.bind(other);
    }
    asm.bind(mismatch);
    asm.store(Size::D, R6, WHAT, MISMATCH as i32);
    asm.bind(done);
    asm.give(0);
    // Not that of another pair either, unless they disagreed there.
    asm.bind(differ);
    for reg in [R8, R2] {
        asm.jump_if(Cond::Eq, reg, MISMATCH as i32, mismatch);
    }
    asm.jump_if(Cond::Eq, R8, NO_CODE as i32, done);
    asm.jump_if(Cond::Ne, R2, NO_CODE as i32, mismatch);
    asm.bind(absent);
    asm.store(Size::D, R6, WHAT, NO_CODE as i32);
    asm.jump(done);
    asm.bind(code);
    asm.load(Size::D, R1, Fp, ENTRY);
    asm.load(Size::D, R2, Fp, LOWER);
    asm.load(Size::D, R3, Fp, UPPER);
    asm.call_function(functions.fold);
    asm.jump_if(Cond::Eq, R0, 0, absent);
    asm.jump(done);
    // Of both at most one has something to tell.
    asm.bind(broadcast);
    asm.load(Size::D, R2, R7, HAVE);
    asm.jump_if(Cond::Eq, R2, 0, done);
    asm.load(Size::D, R2, R6, HAVE);
    asm.jump_if(Cond::Ne, R2, 0, mismatch);
    asm.store(Size::D, R6, HAVE, 1);
    parts::each_word(asm, parts.copy, lower, upper, words);
    asm.jump(done);
}
