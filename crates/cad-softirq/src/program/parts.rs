//! Callbacks: what is done with one word of a vector.
//!
//! Invariant: a callback masks the word's number, so that it stays within [`DATA_MAX`](crate::layout::DATA_MAX) bytes
//! from where it was pointed to, which is how the kernel's verifier sees that. It is called with a number and with what [`each_word`]
//! left on the stack.

use super::{arithmetic, siphash};
use crate::asm::{Alu, Asm, Cond, Func, Helper, Kind, Reg, Reg::*, Size};
use crate::layout::{DATA_MAX, Op, Type};

/// Words of a vector at most.
const WORDS_MAX: i32 = DATA_MAX as i32 / 8;

/// Where [`each_word`] keeps the two addresses; what is below is the caller's.
const PLACES: i16 = -72;
/// Where the stack of its callers has to end.
pub(super) const STACK: i16 = PLACES;

/// All callbacks.
pub(super) struct Parts {
    /// Copies a word.
    pub copy: Func,
    /// Takes a word into a sum.
    pub siphash: Func,
    /// Combines the elements of a word.
    combine: Vec<(Op, Type, Func)>,
}

impl Parts {
    pub fn new(asm: &mut Asm) -> Parts {
        let mut combine: Vec<(Op, Type, Func)> = Vec::new();
        for op in Op::ALL {
            for ty in Type::ALL {
                if arithmetic::is_there(op, ty) && arithmetic::like(op, ty) == ty {
                    let name = format!("{op:?}_{ty:?}");
                    combine.push((op, ty, asm.declare(&name, Kind::Callback)));
                }
            }
        }
        Parts {
            copy: asm.declare("copy", Kind::Callback),
            siphash: asm.declare("siphash", Kind::Callback),
            combine,
        }
    }

    /// The callbacks of an operation, each with the types that it is for.
    pub fn of(&self, op: Op) -> Vec<(Func, Vec<Type>)> {
        let mine = self.combine.iter().filter(|c| c.0 == op);
        mine.map(|&(_, like, func)| {
            let same =
                |ty: &Type| arithmetic::is_there(op, *ty) && arithmetic::like(op, *ty) == like;
            (func, Type::ALL.into_iter().filter(same).collect())
        })
        .collect()
    }

    /// Writes them all.
    pub fn write(&self, asm: &mut Asm) {
        asm.begin(self.copy);
        places(asm);
        asm.load(Size::D, R1, R4, 0);
        asm.store(Size::D, R3, 0, R1);
        asm.give(0);
        asm.begin(self.siphash);
        siphash::word(asm);
        for &(op, ty, func) in &self.combine {
            asm.begin(func);
            places(asm);
            arithmetic::word(asm, op, ty);
            asm.give(0);
        }
    }
}

/// `R3` and `R4` = the two words that are meant, from `R1` and `R2` as a callback gets them.
fn places(asm: &mut Asm) {
    asm.alu(Alu::And, R1, WORDS_MAX - 1);
    asm.alu(Alu::Lsh, R1, 3);
    asm.load(Size::D, R3, R2, 0);
    asm.load(Size::D, R4, R2, 8);
    asm.alu(Alu::Add, R3, R1);
    asm.alu(Alu::Add, R4, R1);
}

/// Calls a callback for as many words as `count` says, beginning with those `dst + at` and `src + at`, where each has a distance of
/// its own. Destroys `R0` to `R5`.
pub(super) fn each_word(
    asm: &mut Asm,
    func: Func,
    dst: (Reg, i16),
    src: (Reg, i16),
    count: (Reg, i16),
) {
    for (place, (base, at)) in [(PLACES, dst), (PLACES + 8, src)] {
        asm.mov(R1, base);
        asm.alu(Alu::Add, R1, i32::from(at));
        asm.store(Size::D, Fp, place, R1);
    }
    asm.load(Size::D, R1, count.0, count.1);
    asm.function(R2, func);
    asm.mov(R3, Fp);
    asm.alu(Alu::Add, R3, i32::from(PLACES));
    asm.mov(R4, 0);
    asm.call(Helper::Loop);
}

/// `reg` = how many words the data have that a [`WHAT`](crate::layout::WHAT) in `reg` tells of, at most `WORDS_MAX`;
/// else goes to `beyond`.
pub(super) fn words_of(asm: &mut Asm, reg: Reg, beyond: crate::asm::Label) {
    asm.alu(Alu::Rsh, reg, 16);
    asm.alu(Alu::And, reg, 0xffff);
    asm.alu(Alu::Add, reg, 7);
    asm.alu(Alu::Rsh, reg, 3);
    asm.jump_if(Cond::Gt, reg, WORDS_MAX, beyond);
}
