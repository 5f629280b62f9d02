//! A program that was checked, as it is run.

use std::ops::Range;

use crate::code::{Binary, Kind, REGISTERS, Side, Type, Unary, Wide};

/// The number of a register, below [`REGISTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(u8);

impl Reg {
    /// The register of this number, if there is one.
    pub fn new(number: u8) -> Option<Reg> {
        (usize::from(number) < REGISTERS).then_some(Reg(number))
    }

    /// Its number.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the crate's documentation has the instructions and their operands"
)]
pub enum Instruction {
    Load {
        from: Side,
        ty: Type,
        to: Reg,
        offset: u16,
    },
    Store {
        ty: Type,
        a: Reg,
        offset: u16,
    },
    Const {
        kind: Kind,
        to: Reg,
        value: u64,
    },
    Binary {
        op: Binary,
        wide: Wide,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Unary {
        op: Unary,
        wide: Wide,
        to: Reg,
        a: Reg,
    },
    Select {
        wide: Wide,
        to: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Convert {
        from: Wide,
        into: Type,
        to: Reg,
        a: Reg,
    },
}

impl Instruction {
    /// The bytes of the element that it touches.
    fn field(&self) -> Option<Range<u32>> {
        match *self {
            Instruction::Load { ty, offset, .. } | Instruction::Store { ty, offset, .. } => {
                let start = u32::from(offset);
                Some(start..start + u32::from(ty.bytes()))
            }
            _ => None,
        }
    }
}

/// A program that was checked: nothing can go wrong when it runs.
///
/// Invariants: registers have the values and kinds that instructions take for granted, and every field lies inside the element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub(crate) element: u32,
    pub(crate) code: Box<[Instruction]>,
}

impl Program {
    /// Bytes from one element to the next.
    pub fn element(&self) -> u32 {
        self.element
    }

    /// Its instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.code
    }

    /// From the first to the last byte of an element that it touches; empty if it touches none.
    pub fn touches(&self) -> Range<u32> {
        let fields = || self.code.iter().filter_map(Instruction::field);
        let start = fields().map(|field| field.start).min().unwrap_or(0);
        start..fields().map(|field| field.end).max().unwrap_or(0)
    }
}
