//! Running a program over arrays of elements.
//!
//! Elements are taken in blocks of 16: each instruction is looked at once and done for the whole block, in loops of fixed length over
//! registers that are arrays, which the compiler vectorises; so what looking costs is shared by 16. What is left over goes in
//! blocks of 4 and of 1.
//!
//! Nothing here allocates, locks, or calls what it was not given; a run takes less than 3 KiB of the stack, most of it the
//! registers of a block, since a handler of a signal may have no more than 4 beside what the system needs.

use std::array::from_fn;

use crate::code::{Binary, REGISTERS, Side, Type, Unary, Wide};
use crate::program::{Instruction, Program, Reg};

/// Where the elements are. Elements of both sides lie one behind the other; a byte is named by its place behind the first
/// element's first.
pub trait Elements {
    /// `N` bytes of a side at this place.
    fn load<const N: usize>(&self, from: Side, at: usize) -> [u8; N];
    /// Puts `N` bytes at this place of `inout`.
    fn store<const N: usize>(&mut self, at: usize, bytes: [u8; N]);
    /// `L` times `N` bytes, one behind the other.
    fn load_run<const N: usize, const L: usize>(&self, from: Side, at: usize) -> [[u8; N]; L];
    /// Puts `L` times `N` bytes, one behind the other.
    fn store_run<const N: usize, const L: usize>(&mut self, at: usize, bytes: [[u8; N]; L]);
}

/// Elements in memory that is borrowed.
pub struct Slices<'a> {
    /// `in`.
    pub input: &'a [u8],
    /// `inout`.
    pub inout: &'a mut [u8],
}

impl Elements for Slices<'_> {
    #[inline(always)]
    fn load<const N: usize>(&self, from: Side, at: usize) -> [u8; N] {
        let side = match from {
            Side::In => self.input,
            Side::Inout => &*self.inout,
        };
        let mut bytes = [0; N];
        bytes.copy_from_slice(&side[at..at + N]);
        bytes
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.inout[at..at + N].copy_from_slice(&bytes);
    }

    #[inline(always)]
    fn load_run<const N: usize, const L: usize>(&self, from: Side, at: usize) -> [[u8; N]; L] {
        from_fn(|l| self.load(from, at + l * N))
    }

    #[inline(always)]
    fn store_run<const N: usize, const L: usize>(&mut self, at: usize, bytes: [[u8; N]; L]) {
        self.inout[at..at + N * L].copy_from_slice(bytes.as_flattened());
    }
}

/// The registers of `L` elements.
type File<const L: usize> = [[u64; L]; REGISTERS];

impl Program {
    /// `inout = in op inout` for `count` elements. Of each side only bytes below `count` times [`Program::element`] are touched.
    #[inline(always)]
    pub fn run(&self, elements: &mut impl Elements, count: usize) {
        let done = self.blocks::<16>(elements, 0, count);
        let done = self.blocks::<4>(elements, done, count);
        self.blocks::<1>(elements, done, count);
    }

    /// As many whole blocks as there are from an element on; the first element that is left.
    #[inline(always)]
    fn blocks<const L: usize>(
        &self,
        elements: &mut impl Elements,
        from: usize,
        count: usize,
    ) -> usize {
        if count - from < L {
            // Clearing registers takes as long as some elements do.
            return from;
        }
        let (mut done, mut file) = (from, [[0; L]; REGISTERS]);
        let size = self.element as usize;
        while count - done >= L {
            let mut block = Block {
                elements,
                at: done * size,
                size,
                file: &mut file,
            };
            for instruction in &self.code {
                block.step(instruction);
            }
            done += L;
        }
        done
    }
}

/// `L` elements on the way.
struct Block<'a, E, const L: usize> {
    elements: &'a mut E,
    /// Where the first one begins.
    at: usize,
    /// Bytes from one to the next.
    size: usize,
    file: &'a mut File<L>,
}

/// Floating-point numbers as a register has them.
trait Bits: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! bits {
    ($($t:ty: $bits:ident => $of:expr, $value:ident => $to:expr;)*) => { $(
        impl Bits for $t {
            #[inline(always)]
            fn of($bits: u64) -> $t { $of }
            #[inline(always)]
            fn bits(self) -> u64 { let $value = self; $to }
        }
    )* };
}
bits! {
    i64: bits => bits as i64, value => value as u64;
    u64: bits => bits, value => value;
    f32: bits => f32::from_bits(bits as u32), value => u64::from(value.to_bits());
    f64: bits => f64::from_bits(bits), value => value.to_bits();
}

impl<E: Elements, const L: usize> Block<'_, E, L> {
    #[inline(always)]
    fn reg(&self, reg: Reg) -> &[u64; L] {
        // The mask tells the compiler what a register's number is.
        &self.file[reg.index() & (REGISTERS - 1)]
    }

    #[inline(always)]
    fn set(&mut self, reg: Reg, values: [u64; L]) {
        self.file[reg.index() & (REGISTERS - 1)] = values;
    }

    #[inline(always)]
    fn step(&mut self, instruction: &Instruction) {
        match *instruction {
            Instruction::Load {
                from,
                ty,
                to,
                offset,
            } => self.load(from, ty, to, offset),
            Instruction::Store { ty, a, offset } => self.store(ty, a, offset),
            Instruction::Const { to, value, .. } => self.set(to, [value; L]),
            Instruction::Binary { op, wide, to, a, b } => match wide {
                Wide::I64 => self.signed(op, to, a, b),
                Wide::U64 => self.unsigned(op, to, a, b),
                Wide::F32 => self.single(op, to, a, b),
                Wide::F64 => self.double(op, to, a, b),
            },
            Instruction::Unary { op, wide, to, a } => self.unary(op, wide, to, a),
            Instruction::Select { to, a, b, c, .. } => self.select(to, a, b, c),
            Instruction::Convert { from, into, to, a } => self.convert(from, into, to, a),
        }
    }

    /// One field of all elements.
    #[inline(always)]
    fn get<const N: usize>(
        &mut self,
        from: Side,
        to: Reg,
        offset: u16,
        of: impl Fn([u8; N]) -> u64,
    ) {
        let at = self.at + usize::from(offset);
        let values = &mut self.file[to.index() & (REGISTERS - 1)];
        if self.size == N {
            // Elements are nothing but the field.
            let fields = self.elements.load_run::<N, L>(from, at);
            for (value, field) in values.iter_mut().zip(fields) {
                *value = of(field);
            }
            return;
        }
        for (l, value) in values.iter_mut().enumerate() {
            *value = of(self.elements.load(from, at + l * self.size));
        }
    }

    #[inline(always)]
    fn load(&mut self, from: Side, ty: Type, to: Reg, offset: u16) {
        macro_rules! load {
            ($t:ty) => {
                self.get(from, to, offset, |bytes| <$t>::from_ne_bytes(bytes) as u64)
            };
        }
        match ty {
            Type::I8 => load!(i8),
            Type::I16 => load!(i16),
            Type::I32 => load!(i32),
            Type::U8 => load!(u8),
            Type::U16 => load!(u16),
            Type::U32 | Type::F32 => load!(u32),
            Type::I64 | Type::U64 | Type::F64 => load!(u64),
        }
    }

    #[inline(always)]
    fn store(&mut self, ty: Type, a: Reg, offset: u16) {
        match ty.bytes() {
            1 => self.put(a, offset, |value| (value as u8).to_ne_bytes()),
            2 => self.put(a, offset, |value| (value as u16).to_ne_bytes()),
            4 => self.put(a, offset, |value| (value as u32).to_ne_bytes()),
            _ => self.put(a, offset, u64::to_ne_bytes),
        }
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, a: Reg, offset: u16, of: impl Fn(u64) -> [u8; N]) {
        let at = self.at + usize::from(offset);
        let values = &self.file[a.index() & (REGISTERS - 1)];
        if self.size == N {
            let mut fields = [[0; N]; L];
            for (field, value) in fields.iter_mut().zip(values) {
                *field = of(*value);
            }
            self.elements.store_run(at, fields);
            return;
        }
        for (l, value) in values.iter().enumerate() {
            self.elements.store(at + l * self.size, of(*value));
        }
    }

    #[inline(always)]
    fn two<T: Bits, R: Bits>(&mut self, to: Reg, a: Reg, b: Reg, f: impl Fn(T, T) -> R) {
        // Copies, so that the compiler need not ask whether the registers are the same; it makes none.
        let (a, mut b) = (*self.reg(a), *self.reg(b));
        for l in 0..L {
            b[l] = f(T::of(a[l]), T::of(b[l])).bits();
        }
        self.set(to, b);
    }

    #[inline(always)]
    fn select(&mut self, to: Reg, a: Reg, b: Reg, c: Reg) {
        let (which, yes, mut no) = (*self.reg(a), *self.reg(b), *self.reg(c));
        for l in 0..L {
            let mask = u64::from(which[l] == 0).wrapping_sub(1);
            no[l] = yes[l] & mask | no[l] & !mask;
        }
        self.set(to, no);
    }

    #[inline(always)]
    fn one<T: Bits, R: Bits>(&mut self, to: Reg, a: Reg, f: impl Fn(T) -> R) {
        let mut values = *self.reg(a);
        for value in &mut values {
            *value = f(T::of(*value)).bits();
        }
        self.set(to, values);
    }

    #[inline(always)]
    fn signed(&mut self, op: Binary, to: Reg, a: Reg, b: Reg) {
        type T = i64;
        match op {
            Binary::Add => self.two(to, a, b, T::wrapping_add),
            Binary::Sub => self.two(to, a, b, T::wrapping_sub),
            Binary::Mul => self.two(to, a, b, T::wrapping_mul),
            Binary::Div => self.two(to, a, b, |a: T, b| match b {
                0 => 0,
                _ => a.wrapping_div(b),
            }),
            Binary::Rem => self.two(to, a, b, |a: T, b| match b {
                0 => a,
                _ => a.wrapping_rem(b),
            }),
            Binary::Shr => self.two(to, a, b, |a: T, b| a >> (b & 63)),
            Binary::Min => self.two(to, a, b, |a: T, b| if a < b { a } else { b }),
            Binary::Max => self.two(to, a, b, |a: T, b| if a > b { a } else { b }),
            Binary::Lt => self.two(to, a, b, |a: T, b: T| u64::from(a < b)),
            Binary::Le => self.two(to, a, b, |a: T, b: T| u64::from(a <= b)),
            _ => self.unsigned(op, to, a, b),
        }
    }

    #[inline(always)]
    fn unsigned(&mut self, op: Binary, to: Reg, a: Reg, b: Reg) {
        type T = u64;
        match op {
            Binary::Add => self.two(to, a, b, T::wrapping_add),
            Binary::Sub => self.two(to, a, b, T::wrapping_sub),
            Binary::Mul => self.two(to, a, b, T::wrapping_mul),
            Binary::Div => self.two(to, a, b, |a: T, b| a.checked_div(b).unwrap_or(0)),
            Binary::Rem => self.two(to, a, b, |a: T, b| a.checked_rem(b).unwrap_or(a)),
            Binary::And => self.two(to, a, b, |a: T, b| a & b),
            Binary::Or => self.two(to, a, b, |a: T, b| a | b),
            Binary::Xor => self.two(to, a, b, |a: T, b| a ^ b),
            Binary::Shl => self.two(to, a, b, |a: T, b| a << (b & 63)),
            Binary::Shr => self.two(to, a, b, |a: T, b| a >> (b & 63)),
            Binary::Min => self.two(to, a, b, |a: T, b| if a < b { a } else { b }),
            Binary::Max => self.two(to, a, b, |a: T, b| if a > b { a } else { b }),
            Binary::Eq => self.two(to, a, b, |a: T, b: T| u64::from(a == b)),
            Binary::Ne => self.two(to, a, b, |a: T, b: T| u64::from(a != b)),
            Binary::Lt => self.two(to, a, b, |a: T, b: T| u64::from(a < b)),
            Binary::Le => self.two(to, a, b, |a: T, b: T| u64::from(a <= b)),
        }
    }
}

/// What floating-point types share.
macro_rules! floating {
    ($($name:ident: $t:ty),+) => {
        impl<E: Elements, const L: usize> Block<'_, E, L> { $(
            #[inline(always)]
            fn $name(&mut self, op: Binary, to: Reg, a: Reg, b: Reg) {
                type T = $t;
                match op {
                    Binary::Add => self.two(to, a, b, |a: T, b: T| a + b),
                    Binary::Sub => self.two(to, a, b, |a: T, b: T| a - b),
                    Binary::Mul => self.two(to, a, b, |a: T, b: T| a * b),
                    Binary::Div => self.two(to, a, b, |a: T, b: T| a / b),
                    Binary::Min => self.two(to, a, b, |a: T, b: T| if a < b { a } else { b }),
                    Binary::Max => self.two(to, a, b, |a: T, b: T| if a > b { a } else { b }),
                    Binary::Eq => self.two(to, a, b, |a: T, b: T| u64::from(a == b)),
                    Binary::Ne => self.two(to, a, b, |a: T, b: T| u64::from(a != b)),
                    Binary::Lt => self.two(to, a, b, |a: T, b: T| u64::from(a < b)),
                    Binary::Le => self.two(to, a, b, |a: T, b: T| u64::from(a <= b)),
                    // No program that was checked has others.
                    Binary::Rem | Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => {}
                }
            }
        )+ }
    };
}
floating!(single: f32, double: f64);

impl<E: Elements, const L: usize> Block<'_, E, L> {
    #[inline(always)]
    fn unary(&mut self, op: Unary, wide: Wide, to: Reg, a: Reg) {
        match (op, wide) {
            (Unary::Neg, Wide::I64 | Wide::U64) => self.one(to, a, u64::wrapping_neg),
            (Unary::Neg, Wide::F32) => self.one(to, a, |a: f32| -a),
            (Unary::Neg, Wide::F64) => self.one(to, a, |a: f64| -a),
            (Unary::Abs, Wide::I64 | Wide::U64) => self.one(to, a, i64::wrapping_abs),
            (Unary::Abs, Wide::F32) => self.one(to, a, f32::abs),
            (Unary::Abs, Wide::F64) => self.one(to, a, f64::abs),
            (Unary::Sqrt, Wide::F32) => self.one(to, a, f32::sqrt),
            (Unary::Sqrt, Wide::F64) => self.one(to, a, f64::sqrt),
            (Unary::Not, _) => self.one(to, a, |a: u64| !a),
            // No program that was checked has this.
            (Unary::Sqrt, Wide::I64 | Wide::U64) => {}
        }
    }

    #[inline(always)]
    fn convert(&mut self, from: Wide, into: Type, to: Reg, a: Reg) {
        match from {
            // Integers into integers: the sign of the register makes no difference.
            Wide::I64 => self.convert_from(into, to, a, |a: i64| a as f32, |a: i64| a as f64),
            Wide::U64 => self.convert_from(into, to, a, |a: u64| a as f32, |a: u64| a as f64),
            Wide::F32 => self.convert_float::<f32>(into, to, a),
            Wide::F64 => self.convert_float::<f64>(into, to, a),
        }
    }

    #[inline(always)]
    fn convert_from<T: Bits>(
        &mut self,
        into: Type,
        to: Reg,
        a: Reg,
        single: impl Fn(T) -> f32,
        double: impl Fn(T) -> f64,
    ) {
        match into {
            Type::I8 => self.one(to, a, |a: u64| a as i8 as u64),
            Type::I16 => self.one(to, a, |a: u64| a as i16 as u64),
            Type::I32 => self.one(to, a, |a: u64| a as i32 as u64),
            Type::U8 => self.one(to, a, |a: u64| u64::from(a as u8)),
            Type::U16 => self.one(to, a, |a: u64| u64::from(a as u16)),
            Type::U32 => self.one(to, a, |a: u64| u64::from(a as u32)),
            Type::I64 | Type::U64 => self.one(to, a, |a: u64| a),
            Type::F32 => self.one(to, a, single),
            Type::F64 => self.one(to, a, double),
        }
    }

    #[inline(always)]
    fn convert_float<T: Bits + Float>(&mut self, into: Type, to: Reg, a: Reg) {
        match into {
            Type::I8 => self.one(to, a, |a: T| a.double() as i8 as u64),
            Type::I16 => self.one(to, a, |a: T| a.double() as i16 as u64),
            Type::I32 => self.one(to, a, |a: T| a.double() as i32 as u64),
            Type::I64 => self.one(to, a, |a: T| a.double() as i64),
            Type::U8 => self.one(to, a, |a: T| u64::from(a.double() as u8)),
            Type::U16 => self.one(to, a, |a: T| u64::from(a.double() as u16)),
            Type::U32 => self.one(to, a, |a: T| u64::from(a.double() as u32)),
            Type::U64 => self.one(to, a, |a: T| a.double() as u64),
            Type::F32 => self.one(to, a, T::single),
            Type::F64 => self.one(to, a, T::double),
        }
    }
}

/// A floating-point number as either of the two. Double precision has each single exactly.
trait Float {
    fn single(self) -> f32;
    fn double(self) -> f64;
}

impl Float for f32 {
    #[inline(always)]
    fn single(self) -> f32 {
        self
    }

    #[inline(always)]
    fn double(self) -> f64 {
        f64::from(self)
    }
}

impl Float for f64 {
    #[inline(always)]
    fn single(self) -> f32 {
        self as f32
    }

    #[inline(always)]
    fn double(self) -> f64 {
        self
    }
}
