//! The machine that runs byte code: two contributions are combined by words that were written into a map, element by element.
//!
//! The words are not trusted (`flat` made them of byte code that the daemon has verified, but they may be replaced while this runs): every
//! number in them is masked, so whatever they are, what they reach is the 16 registers and the two contributions, and the steps end
//! after [`STEPS_MAX`]. The registers are zeros at the beginning: nobody sees another's values.
//!
//! Invariant: `in` is the lower contribution and `inout` the upper one, as MPI has the order of operands; the machine works in the upper one, which goes to
//! the lower one's place in the end.

use super::parts::{self, Parts, STACK};
use super::{BASE, ENTRY, Functions, INPUT, WORDS, float};
use crate::asm::{Alu, Asm, Cond, Func, Label, Reg, Reg::*, Size};
use crate::flat::Step;
use crate::layout::{
    DATA, DATA_MAX, Op, SLOTS, STEPS_MAX, Type, WHAT, WORDS_MAX, code, input, machine, map,
};
use bytecode::{Binary, Side, Unary, Wide};

/// What `fold` keeps on its stack.
const LOWER: i16 = -8;
const UPPER: i16 = INPUT;
const SLOT: i16 = -40;
const STEPS: i16 = -48;
/// What the callback is given: the byte code, the two contributions' data, the machine.
const GIVEN: i16 = STACK - 32;
const CODE: i16 = 0;
const IN: i16 = 8;
const INOUT: i16 = 16;
const MACHINE: i16 = 24;
/// A register's place in a word, once that is shifted down to it.
const PLACE: i32 = 8 * (machine::COUNT as i32 - 1);

const _: () = assert!(input::BYTES == DATA as usize + DATA_MAX);

/// `fold(entry, lower, upper)`. `R6` and `R7` are the two, `R8` what they are, `R9` the byte code.
pub(super) fn fold(asm: &mut Asm, functions: &Functions, parts: &Parts) {
    asm.begin(functions.fold);
    let none = asm.label();
    for (at, reg) in [(ENTRY, R1), (LOWER, R2), (UPPER, R3)] {
        asm.store(Size::D, Fp, at, reg);
    }
    super::lookup_at(asm, map::INPUTS, LOWER, R6, none);
    super::lookup_at(asm, map::INPUTS, UPPER, R7, none);
    asm.load(Size::D, R8, R6, WHAT);
    asm.mov(R1, R8);
    asm.alu(Alu::Rsh, R1, 8);
    asm.alu(Alu::And, R1, 0xff);
    asm.jump_if(Cond::Ge, R1, SLOTS as i32, none);
    asm.load(Size::D, R2, Fp, ENTRY);
    asm.alu(Alu::Mul, R2, SLOTS as i32);
    asm.alu(Alu::Add, R2, R1);
    asm.store(Size::D, Fp, SLOT, R2);
    super::lookup_at(asm, map::CODES, SLOT, R9, none);
    asm.load(Size::D, R1, R9, code::MARK);
    asm.mov(R2, R8);
    asm.alu(Alu::Rsh, R2, 32);
    asm.jump_if(Cond::Ne, R1, R2, none);
    asm.alu(Alu::Rsh, R8, 16);
    asm.alu(Alu::And, R8, 0xffff);
    asm.store(Size::D, Fp, GIVEN + CODE, R9);
    for (at, reg) in [(IN, R6), (INOUT, R7)] {
        asm.mov(R1, reg);
        asm.alu(Alu::Add, R1, i32::from(DATA));
        asm.store(Size::D, Fp, GIVEN + at, R1);
    }
    steps(asm, none);
    asm.store(Size::D, Fp, BASE, 0);
    super::lookup_at(asm, map::MACHINE, BASE, R8, none);
    run(asm, functions.step);
    asm.load(Size::D, R2, R6, WHAT);
    parts::words_of(asm, R2, none);
    asm.store(Size::D, Fp, WORDS, R2);
    parts::each_word(asm, parts.copy, (R6, DATA), (R7, DATA), (Fp, WORDS));
    asm.give(1);
    asm.bind(none);
    asm.give(0);
}

/// How many steps the byte code in `R9` takes for data of so many bytes as `R8` says; goes to `none` if that is none, or too many.
fn steps(asm: &mut Asm, none: Label) {
    asm.load(Size::W, R3, R9, code::WORDS);
    asm.jump_if(Cond::Eq, R3, 0, none);
    asm.load(Size::W, R2, R9, code::ELEMENT);
    asm.alu(Alu::Div, R8, R2);
    asm.alu(Alu::Mul, R8, R3);
    asm.jump_if(Cond::Gt, R8, STEPS_MAX as i32, none);
    asm.store(Size::D, Fp, STEPS, R8);
}

/// Runs the machine in `R8`, from zeros on, for as many steps as there are.
fn run(asm: &mut Asm, step: Func) {
    for word in 0..machine::BYTES as i16 / 8 {
        asm.store(Size::D, R8, 8 * word, 0);
    }
    asm.store(Size::D, Fp, GIVEN + MACHINE, R8);
    asm.load(Size::D, R1, Fp, STEPS);
    asm.function(R2, step);
    asm.mov(R3, Fp);
    asm.alu(Alu::Add, R3, i32::from(GIVEN));
    asm.mov(R4, 0);
    asm.call(crate::asm::Helper::Loop);
}

/// Runs the byte code in `R9` on as many bytes as `R8` says, by a machine that lies in `R7` at `machine`: the contribution at the distance
/// `lower` from `R7` with that at the address in the stack at `upper`, where the result goes. If it is none, goes to `none`.
pub(super) fn fold_at(
    asm: &mut Asm,
    step: Func,
    (machine, lower): (i16, i16),
    upper: i16,
    none: Label,
) {
    steps(asm, none);
    asm.store(Size::D, Fp, GIVEN + CODE, R9);
    asm.mov(R1, R7);
    asm.alu(Alu::Add, R1, i32::from(lower));
    asm.store(Size::D, Fp, GIVEN + IN, R1);
    asm.load(Size::D, R1, Fp, upper);
    asm.store(Size::D, Fp, GIVEN + INOUT, R1);
    asm.mov(R8, R7);
    asm.alu(Alu::Add, R8, i32::from(machine));
    run(asm, step);
}

/// The callback: one word. `R1` and `R2` are the operands, `R3` is where the result goes, `R5` where the element lies, `R6` the machine, `R8` what was
/// given, `R9` the word. What does a step may use all but `R3`.
pub(super) fn step(asm: &mut Asm, step: Func) {
    asm.begin(step);
    let (same, store) = (asm.label(), asm.label());
    asm.mov(R8, R2);
    asm.load(Size::D, R7, R8, CODE);
    asm.load(Size::D, R6, R8, MACHINE);
    asm.load(Size::D, R0, R6, machine::NEXT);
    asm.alu(Alu::And, R0, WORDS_MAX as i32 - 1);
    asm.mov(R3, R0);
    asm.alu(Alu::Lsh, R3, 3);
    asm.alu(Alu::Add, R3, R7);
    asm.load(Size::D, R9, R3, code::TEXT);
    asm.load(Size::D, R5, R6, machine::AT);
    // After the last word comes the first one, for the next element.
    asm.alu(Alu::Add, R0, 1);
    asm.load(Size::W, R4, R7, code::WORDS);
    asm.jump_if(Cond::Lt, R0, R4, same);
    asm.load(Size::W, R1, R7, code::ELEMENT);
    asm.alu(Alu::Add, R1, R5);
    asm.store(Size::D, R6, machine::AT, R1);
    asm.mov(R0, 0);
    asm.bind(same);
    asm.store(Size::D, R6, machine::NEXT, R0);
    for (reg, at) in [(R3, 8), (R1, 16), (R2, 24)] {
        register(asm, reg, at);
    }
    asm.load(Size::D, R1, R1, 0);
    asm.load(Size::D, R2, R2, 0);
    asm.mov(R0, R9);
    asm.alu(Alu::And, R0, 0xff);
    let all: Vec<_> = Step::all().into_iter().map(|s| (s, asm.label())).collect();
    branch(asm, &all, 0);
    for &(step, label) in &all {
        asm.bind(label);
        one(asm, step, store);
    }
    asm.bind(store);
    asm.store(Size::D, R3, 0, R1);
    asm.give(0);
}

/// `reg` = where the register is that the word has `at` this bit.
fn register(asm: &mut Asm, reg: Reg, at: i32) {
    asm.mov(reg, R9);
    asm.alu(Alu::Rsh, reg, at);
    asm.alu(Alu::And, reg, PLACE);
    asm.alu(Alu::Add, reg, R6);
}

/// Goes to the one of these whose number, counted from `first`, is in `R0`. Every number leads somewhere.
fn branch(asm: &mut Asm, steps: &[(Step, Label)], first: usize) {
    let (lower, upper) = steps.split_at(steps.len() / 2);
    if lower.is_empty() {
        if let [(_, label)] = upper {
            asm.jump(*label);
        }
        return;
    }
    let (label, middle) = (asm.label(), first + lower.len());
    asm.jump_if(Cond::Ge, R0, middle as i32, label);
    branch(asm, lower, first);
    asm.bind(label);
    branch(asm, upper, middle);
}

/// What a step does; goes to `store` with the result in `R1`.
fn one(asm: &mut Asm, step: Step, store: Label) {
    match step {
        Step::Load(side, bytes) => {
            field(asm, if side == Side::In { IN } else { INOUT }, bytes);
            asm.load(size(bytes), R1, R4, 0);
            asm.alu(Alu::Rsh, R9, 16);
            extend(asm, Alu::Arsh);
        }
        Step::Store(bytes) => {
            field(asm, INOUT, bytes);
            asm.store(size(bytes), R4, 0, R1);
            asm.give(0);
            return;
        }
        Step::Const => {
            asm.mov(R1, R9);
            asm.alu(Alu::Arsh, R1, 32);
        }
        Step::High => {
            for (reg, first, second) in [(R1, Alu::Lsh, Alu::Rsh), (R9, Alu::Rsh, Alu::Lsh)] {
                asm.alu(first, reg, 32);
                asm.alu(second, reg, 32);
            }
            asm.alu(Alu::Or, R1, R9);
        }
        Step::Select => {
            let first = asm.label();
            register(asm, R4, 32);
            asm.load(Size::D, R4, R4, 0);
            asm.jump_if(Cond::Ne, R1, 0, first);
            asm.mov(R1, R4);
            asm.jump(store);
            asm.bind(first);
            asm.mov(R1, R2);
        }
        Step::Extend(signed) => {
            asm.alu(Alu::Rsh, R9, 32);
            extend(asm, if signed { Alu::Arsh } else { Alu::Rsh });
        }
        Step::Binary(op, Wide::F32) => float(asm, op, Type::F32, store),
        Step::Binary(op, Wide::F64) => float(asm, op, Type::F64, store),
        Step::Binary(op, wide) => integer(asm, op, wide == Wide::I64, store),
        Step::Unary(op, wide) => unary(asm, op, wide, store),
    }
    asm.jump(store);
}

fn size(bytes: u16) -> Size {
    match bytes {
        1 => Size::B,
        2 => Size::H,
        4 => Size::W,
        _ => Size::D,
    }
}

/// `R4` = where the field of this length lies that the word means, in these data; `R9` = the word's upper half. The mask keeps it inside
/// [`DATA_MAX`] bytes, and aligned.
fn field(asm: &mut Asm, data: i16, bytes: u16) {
    asm.alu(Alu::Rsh, R9, 32);
    asm.alu(Alu::Add, R5, R9);
    asm.alu(Alu::And, R5, DATA_MAX as i32 - i32::from(bytes));
    asm.load(Size::D, R4, R8, data);
    asm.alu(Alu::Add, R4, R5);
}

/// Shifts `R1` up by what `R9` says, and back.
fn extend(asm: &mut Asm, back: Alu) {
    asm.alu(Alu::And, R9, 63);
    asm.alu(Alu::Lsh, R1, R9);
    asm.alu(back, R1, R9);
}

/// `R1 = R1 op R2`, of integers.
fn integer(asm: &mut Asm, op: Binary, signed: bool, store: Label) {
    let less = if signed { Cond::SLt } else { Cond::Lt };
    match op {
        Binary::Add => asm.alu(Alu::Add, R1, R2),
        Binary::Sub => asm.alu(Alu::Sub, R1, R2),
        Binary::Mul => asm.alu(Alu::Mul, R1, R2),
        Binary::And => asm.alu(Alu::And, R1, R2),
        Binary::Or => asm.alu(Alu::Or, R1, R2),
        Binary::Xor => asm.alu(Alu::Xor, R1, R2),
        Binary::Shl | Binary::Shr => {
            let alu = match (op, signed) {
                (Binary::Shl, _) => Alu::Lsh,
                (_, true) => Alu::Arsh,
                _ => Alu::Rsh,
            };
            asm.alu(Alu::And, R2, 63);
            asm.alu(alu, R1, R2);
        }
        Binary::Div if signed => divide(asm, Alu::Div, store),
        Binary::Rem if signed => divide(asm, Alu::Mod, store),
        Binary::Div => asm.alu(Alu::Div, R1, R2),
        Binary::Rem => asm.alu(Alu::Mod, R1, R2),
        Binary::Min | Binary::Max => {
            let greater = if signed { Cond::SGt } else { Cond::Gt };
            let cond = if op == Binary::Min { less } else { greater };
            asm.jump_if(cond, R1, R2, store);
            asm.mov(R1, R2);
        }
        Binary::Eq => truth(asm, Cond::Eq),
        Binary::Ne => truth(asm, Cond::Ne),
        Binary::Lt => truth(asm, less),
        Binary::Le if signed => truth(asm, Cond::SLe),
        Binary::Le => truth(asm, Cond::Le),
    }
}

/// `R1` = whether `R1 cond R2`.
fn truth(asm: &mut Asm, cond: Cond) {
    let holds = asm.label();
    asm.mov(R0, 1);
    asm.jump_if(cond, R1, R2, holds);
    asm.mov(R0, 0);
    asm.bind(holds);
    asm.mov(R1, R0);
}

/// A quotient or remainder with signs, of the magnitudes: the kernel's own has overflowed in some versions. A quotient is negative if one
/// of the two is, a remainder if the dividend is.
fn divide(asm: &mut Asm, alu: Alu, store: Label) {
    asm.mov(R0, R1);
    if alu == Alu::Div {
        asm.alu(Alu::Xor, R0, R2);
    }
    magnitude(asm, R1);
    magnitude(asm, R2);
    asm.alu(alu, R1, R2);
    asm.jump_if(Cond::SGe, R0, 0, store);
    negate(asm, R1);
}

/// `reg` = -`reg`. Uses `R4`.
fn negate(asm: &mut Asm, reg: Reg) {
    asm.mov(R4, 0);
    asm.alu(Alu::Sub, R4, reg);
    asm.mov(reg, R4);
}

fn magnitude(asm: &mut Asm, reg: Reg) {
    let positive = asm.label();
    asm.jump_if(Cond::SGe, reg, 0, positive);
    negate(asm, reg);
    asm.bind(positive);
}

/// `R1 = R1 op R2`, of floating-point numbers.
fn float(asm: &mut Asm, op: Binary, ty: Type, store: Label) {
    let cond = match op {
        Binary::Add => return float::element(asm, Op::Sum, ty),
        Binary::Sub => return float::difference(asm, ty),
        Binary::Mul => return float::element(asm, Op::Prod, ty),
        Binary::Min => return float::element(asm, Op::Min, ty),
        Binary::Max => return float::element(asm, Op::Max, ty),
        Binary::Lt => Cond::SLt,
        Binary::Le => Cond::SLe,
        _ => Cond::Eq,
    };
    let (holds, not) = (asm.label(), asm.label());
    float::compare(asm, ty, cond, holds, not);
    // NaN is not equal to anything.
    let differ = op == Binary::Ne;
    asm.bind(holds);
    asm.mov(R1, i32::from(!differ));
    asm.jump(store);
    asm.bind(not);
    asm.mov(R1, i32::from(differ));
}

/// `R1` = ∘ `R1`.
fn unary(asm: &mut Asm, op: Unary, wide: Wide, store: Label) {
    let float = match wide {
        Wide::F32 => Some(Type::F32),
        Wide::F64 => Some(Type::F64),
        _ => None,
    };
    match (op, float) {
        (Unary::Neg, Some(ty)) => float::negate(asm, ty, R1),
        (_, Some(ty)) => float::magnitude(asm, ty, R1),
        (Unary::Neg, None) => negate(asm, R1),
        (Unary::Not, None) => asm.alu(Alu::Xor, R1, -1),
        (_, None) => {
            asm.jump_if(Cond::SGe, R1, 0, store);
            negate(asm, R1);
        }
    }
}
