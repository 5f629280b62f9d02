//! The programs at the options of sockets that calculate in chains of io_uring ([`crate::calc`] says what is asked of them and how).
//!
//! [`set`] looks at options that are set. One of our level, at a socket that has cells, is a calculation: the option's value is an operand, its name says
//! what is done with it. The kernel proper sees nothing of it. What says a cell, an operation, a type or a length that does not exist is refused
//! (`EPERM`), and has changed nothing. [`get`] looks at options that are asked for, and gives what is in a cell. Everything else passes untouched: other levels
//! and names, and sockets without cells.
//!
//! Copies and operations on integers go by blocks, as each call of a callback takes longer than what it does with a word: measured, 5 µs
//! less for 1 KiB. Operations run on whole blocks, whatever is behind the data: that is the cell's own.
//!
//! Invariants: all lengths are bounded by [`DATA_MAX`](layout::DATA_MAX) and all numbers of words masked, so whatever is asked for, what is reached is the
//! socket's own storage; the kernel runs one program at a time on a socket (it holds the socket's lock), so one place for an operand that comes in, and one machine, are
//! enough. The first operand is the one that comes in, as MPI has the order (`inout = in op inout`).

use super::parts::STACK;
use super::{arithmetic, machine};
use crate::asm::{Alu, Asm, Code, Cond, Func, Helper, Kind, Label, Reg, Reg::*, Size};
use crate::calc::{CELLS, GIVE, LEVEL};
use crate::layout::{self, BYTECODE, DATA_MAX, Op, SLOTS, Type, cells, code};

/// Numbers of the maps.
pub(crate) mod map {
    /// What a socket calculates in.
    pub const CELLS: usize = 0;
    /// The byte code that it may run.
    pub const CODES: usize = 1;
}

/// Fields of `struct bpf_sockopt`.
const SOCKET: i16 = 0;
const VALUE: i16 = 8;
const END: i16 = 16;
const AT_LEVEL: i16 = 24;
const NAME: i16 = 28;
const LENGTH: i16 = 32;
const RESULT: i16 = 36;

const SOL_SOCKET: i32 = 1;
/// The length that has the kernel do nothing more.
const DONE: i32 = -1;

/// Bytes of a block.
const BLOCK: i32 = 64;

/// On the stack: the cell's address, the length, what is being done.
const CELL: i16 = -8;
const BYTES: i16 = -16;
const WHAT: i16 = -48;
/// What a callback that copies is given: the context, the memory, how many bytes are behind.
const GIVEN: i16 = STACK - 32;
const CONTEXT: i16 = 0;
const MEMORY: i16 = 8;
const BEHIND: i16 = 16;
/// What a callback that combines is given: both operands.
const FIRST: i16 = 0;
const SECOND: i16 = 8;

/// The program for options that are set.
pub(crate) fn set() -> Code {
    let mut asm = Asm::new();
    let asm = &mut asm;
    let main = asm.declare("main", Kind::Main);
    let step = asm.declare("step", Kind::Callback);
    let take = Copier::new(asm, "take");
    let parts = Parts::new(asm);
    asm.begin(main);
    let [pass, refuse, done, given] = std::array::from_fn(|_| asm.label());
    asm.mov(R6, R1);
    asm.load(Size::W, R2, R6, AT_LEVEL);
    asm.jump_if(Cond::Ne, R2, LEVEL as i32, pass);
    storage(asm, map::CELLS, R7, pass);
    asm.load(Size::W, R9, R6, LENGTH);
    length(asm, R9, refuse);
    asm.load(Size::W, R8, R6, NAME);
    cell(asm, R8, refuse);
    asm.mov(R1, R8);
    asm.alu(Alu::Rsh, R1, 24);
    asm.jump_if(Cond::Ne, R1, 0, refuse);
    asm.alu(Alu::Rsh, R8, 8);
    asm.store(Size::D, Fp, WHAT, R8);
    asm.alu(Alu::And, R8, 0xff);
    // What is loaded goes to the cell, an operand to its place.
    asm.load(Size::D, R2, Fp, CELL);
    asm.jump_if(Cond::Eq, R8, Op::Bcast as i32, given);
    asm.mov(R2, R7);
    asm.alu(Alu::Add, R2, i32::from(cells::OPERAND));
    asm.bind(given);
    take.call(asm, R2);
    asm.jump_if(Cond::Eq, R8, Op::Bcast as i32, done);
    asm.load(Size::D, R9, Fp, WHAT);
    asm.alu(Alu::Rsh, R9, 8);
    combine(asm, &parts, step, done, refuse);
    asm.bind(done);
    asm.mov(R1, DONE);
    asm.store(Size::W, R6, LENGTH, R1);
    asm.bind(pass);
    asm.give(1);
    asm.bind(refuse);
    asm.give(0);
    machine::step(asm, step);
    take.write(asm, |asm, size, at| {
        asm.load(size, R1, R5, at);
        asm.store(size, R4, at, R1);
    });
    parts.write(asm);
    std::mem::take(asm).finish()
}

/// The program for options that are asked for.
pub(crate) fn get() -> Code {
    let mut asm = Asm::new();
    let asm = &mut asm;
    let main = asm.declare("main", Kind::Main);
    let give = Copier::new(asm, "give");
    asm.begin(main);
    let pass = asm.label();
    asm.mov(R6, R1);
    asm.load(Size::W, R2, R6, AT_LEVEL);
    asm.jump_if(Cond::Ne, R2, SOL_SOCKET, pass);
    asm.load(Size::W, R8, R6, NAME);
    asm.mov(R1, R8);
    asm.alu(Alu::Rsh, R1, 8);
    asm.jump_if(Cond::Ne, R1, (GIVE >> 8) as i32, pass);
    storage(asm, map::CELLS, R7, pass);
    asm.load(Size::W, R9, R6, LENGTH);
    length(asm, R9, pass);
    cell(asm, R8, pass);
    asm.load(Size::D, R2, Fp, CELL);
    give.call(asm, R2);
    asm.mov(R1, 0);
    asm.store(Size::W, R6, RESULT, R1);
    asm.bind(pass);
    asm.give(1);
    give.write(asm, |asm, size, at| {
        asm.load(size, R1, R4, at);
        asm.store(size, R5, at, R1);
    });
    std::mem::take(asm).finish()
}

/// `to` = what the socket has in a map; goes to `none` if it is not one of ours.
fn storage(asm: &mut Asm, map: usize, to: Reg, none: Label) {
    asm.map(R1, map);
    asm.load(Size::D, R2, R6, SOCKET);
    asm.mov(R3, 0);
    asm.mov(R4, 0);
    asm.call(Helper::SocketStorage);
    asm.jump_if(Cond::Eq, R0, 0, none);
    asm.mov(to, R0);
}

/// Puts a length in `reg` on the stack; goes to `beyond` if it is none.
fn length(asm: &mut Asm, reg: Reg, beyond: Label) {
    asm.jump_if(Cond::Lt, reg, 1, beyond);
    asm.jump_if(Cond::Gt, reg, DATA_MAX as i32, beyond);
    asm.store(Size::D, Fp, BYTES, reg);
}

/// Puts the address of the cell that a name in `reg` means on the stack; goes to `none` if there is none.
fn cell(asm: &mut Asm, reg: Reg, none: Label) {
    asm.mov(R1, reg);
    asm.alu(Alu::And, R1, 0xff);
    asm.jump_if(Cond::Ge, R1, CELLS as i32, none);
    asm.alu(Alu::Mul, R1, DATA_MAX as i32);
    asm.alu(Alu::Add, R1, R7);
    asm.alu(Alu::Add, R1, i32::from(cells::FIRST));
    asm.store(Size::D, Fp, CELL, R1);
}

/// Combines the operand in `R7` with the cell, into the cell: by the operation in `R8`, on the type, or by the byte code, in `R9`.
fn combine(asm: &mut Asm, parts: &Parts, step: Func, done: Label, refuse: Label) {
    let code = asm.label();
    asm.jump_if(Cond::Eq, R8, i32::from(BYTECODE), code);
    asm.mov(R1, R7);
    asm.alu(Alu::Add, R1, i32::from(cells::OPERAND));
    asm.store(Size::D, Fp, GIVEN + FIRST, R1);
    asm.load(Size::D, R1, Fp, CELL);
    asm.store(Size::D, Fp, GIVEN + SECOND, R1);
    for op in Op::ALL {
        let other = asm.label();
        asm.jump_if(Cond::Ne, R8, op as i32, other);
        for part in parts.0.iter().filter(|part| part.op == op) {
            let (this, next) = (asm.label(), asm.label());
            for ty in part.types() {
                asm.jump_if(Cond::Eq, R9, ty as i32, this);
            }
            asm.jump(next);
            asm.bind(this);
            asm.load(Size::D, R1, Fp, BYTES);
            asm.alu(Alu::Add, R1, part.bytes() - 1);
            asm.alu(Alu::Rsh, R1, part.bytes().ilog2() as i32);
            each(asm, part.func);
            asm.jump(done);
            asm.bind(next);
        }
        asm.jump(refuse);
        asm.bind(other);
    }
    asm.jump(refuse);
    asm.bind(code);
    asm.jump_if(Cond::Ge, R9, SLOTS as i32, refuse);
    asm.mov(R8, R9);
    storage(asm, map::CODES, R9, refuse);
    asm.alu(Alu::Mul, R8, code::BYTES as i32);
    asm.alu(Alu::Add, R9, R8);
    asm.load(Size::D, R8, Fp, BYTES);
    let places = (cells::MACHINE, cells::OPERAND);
    machine::fold_at(asm, step, places, CELL, refuse);
    asm.jump(done);
}

/// A callback that combines elements.
struct Part {
    op: Op,
    /// The first of those types for which it does the same.
    like: Type,
    func: Func,
}

impl Part {
    /// Bytes that one call combines: where numbers are put together of bits, one word.
    fn bytes(&self) -> i32 {
        if self.like.is_float() { 8 } else { BLOCK }
    }

    /// The types that it is for.
    fn types(&self) -> impl Iterator<Item = Type> {
        let same = |ty: &Type| {
            arithmetic::is_there(self.op, *ty) && arithmetic::like(self.op, *ty) == self.like
        };
        Type::ALL.into_iter().filter(same)
    }
}

/// All of them.
struct Parts(Vec<Part>);

impl Parts {
    fn new(asm: &mut Asm) -> Parts {
        let pairs = Op::ALL
            .into_iter()
            .flat_map(|op| Type::ALL.map(|ty| (op, ty)));
        let first = pairs
            .filter(|&(op, ty)| arithmetic::is_there(op, ty) && arithmetic::like(op, ty) == ty);
        let part = |(op, like)| Part {
            op,
            like,
            func: asm.declare(&format!("{op:?}_{like:?}"), Kind::Callback),
        };
        Parts(first.map(part).collect())
    }

    fn write(&self, asm: &mut Asm) {
        for part in &self.0 {
            asm.begin(part.func);
            let bytes = part.bytes();
            asm.alu(Alu::And, R1, DATA_MAX as i32 / bytes - 1);
            asm.alu(Alu::Lsh, R1, bytes.ilog2() as i32);
            asm.load(Size::D, R3, R2, FIRST);
            asm.load(Size::D, R4, R2, SECOND);
            asm.alu(Alu::Add, R3, R1);
            asm.alu(Alu::Add, R4, R1);
            arithmetic::elements(asm, part.op, part.like, bytes as usize, R4);
            asm.give(0);
        }
    }
}

/// Callbacks that copy between memory and an option's value: blocks, words behind them, and bytes behind these.
struct Copier([(Func, i32); 3]);

impl Copier {
    fn new(asm: &mut Asm, name: &str) -> Copier {
        let pieces = [BLOCK, 8, 1];
        Copier(pieces.map(|bytes| {
            (
                asm.declare(&format!("{name}_{bytes}"), Kind::Callback),
                bytes,
            )
        }))
    }

    /// Copies as many bytes as there are; the context is in `R6`, the memory at `memory`.
    fn call(&self, asm: &mut Asm, memory: Reg) {
        asm.store(Size::D, Fp, GIVEN + MEMORY, memory);
        asm.store(Size::D, Fp, GIVEN + CONTEXT, R6);
        asm.store(Size::D, Fp, GIVEN + BEHIND, 0);
        for (i, (func, bytes)) in self.0.into_iter().enumerate() {
            let none = asm.label();
            asm.load(Size::D, R1, Fp, BYTES);
            if let Some((_, before)) = i.checked_sub(1).map(|before| self.0[before]) {
                asm.mov(R2, R1);
                asm.alu(Alu::And, R2, -before);
                asm.store(Size::D, Fp, GIVEN + BEHIND, R2);
                asm.alu(Alu::And, R1, before - 1);
            }
            asm.alu(Alu::Rsh, R1, bytes.ilog2() as i32);
            asm.jump_if(Cond::Eq, R1, 0, none);
            each(asm, func);
            asm.bind(none);
        }
    }

    /// Writes them, by what copies between the memory at `R4` and the value at `R5`, at a distance.
    fn write(&self, asm: &mut Asm, copy: impl Fn(&mut Asm, Size, i16)) {
        for (func, bytes) in self.0 {
            asm.begin(func);
            let stop = asm.label();
            asm.alu(Alu::Lsh, R1, bytes.ilog2() as i32);
            asm.load(Size::D, R3, R2, BEHIND);
            asm.alu(Alu::Add, R1, R3);
            asm.alu(Alu::And, R1, DATA_MAX as i32 - bytes);
            asm.load(Size::D, R3, R2, CONTEXT);
            asm.load(Size::D, R4, R2, MEMORY);
            asm.load(Size::D, R5, R3, VALUE);
            asm.load(Size::D, R0, R3, END);
            asm.alu(Alu::Add, R4, R1);
            asm.alu(Alu::Add, R5, R1);
            asm.mov(R3, R5);
            asm.alu(Alu::Add, R3, bytes);
            asm.jump_if(Cond::Gt, R3, R0, stop);
            let (size, step) = if bytes == 1 {
                (Size::B, 1)
            } else {
                (Size::D, 8)
            };
            for at in (0..bytes as i16).step_by(step) {
                copy(asm, size, at);
            }
            asm.give(0);
            asm.bind(stop);
            asm.give(1);
        }
    }
}

/// Calls a callback as often as `R1` says.
fn each(asm: &mut Asm, func: Func) {
    asm.function(R2, func);
    asm.mov(R3, Fp);
    asm.alu(Alu::Add, R3, i32::from(GIVEN));
    asm.mov(R4, 0);
    asm.call(Helper::Loop);
}

const _: () = assert!(
    CELLS <= 0xff
        && DATA_MAX.is_power_of_two()
        && (BLOCK as u32).is_multiple_of(8)
        && cells::MACHINE as usize + layout::machine::BYTES <= cells::FIRST as usize
);
