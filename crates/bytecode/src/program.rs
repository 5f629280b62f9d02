//! A program that was checked, as it is run.

use std::ops::Range;

use crate::code::{Binary, Kind, Opcode, REGISTERS, Side, Type, Unary, Wide, Word, head};

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

    /// Its word, and that of a constant behind it.
    fn words(&self) -> (Word, Option<u64>) {
        let word = |opcode: Opcode, ty: Type| Word {
            opcode: opcode as u8,
            ty: ty as u8,
            ..Word::default()
        };
        match *self {
            Instruction::Load {
                from,
                ty,
                to: Reg(to),
                offset,
            } => {
                let opcode = match from {
                    Side::In => Opcode::LoadIn,
                    Side::Inout => Opcode::LoadInout,
                };
                let word = word(opcode, ty);
                (Word { to, offset, ..word }, None)
            }
            Instruction::Store {
                ty,
                a: Reg(a),
                offset,
            } => {
                let word = word(Opcode::Store, ty);
                (Word { a, offset, ..word }, None)
            }
            Instruction::Const {
                kind,
                to: Reg(to),
                value,
            } => {
                let ty = match kind {
                    Kind::Integer => Type::I64,
                    Kind::Float => Type::F32,
                    Kind::Double => Type::F64,
                };
                let word = word(Opcode::Const, ty);
                (Word { to, ..word }, Some(value))
            }
            Instruction::Binary {
                op,
                wide,
                to: Reg(to),
                a: Reg(a),
                b: Reg(b),
            } => {
                let word = word(op.opcode(), wide.ty());
                (Word { to, a, b, ..word }, None)
            }
            Instruction::Unary {
                op,
                wide,
                to: Reg(to),
                a: Reg(a),
            } => {
                let word = word(op.opcode(), wide.ty());
                (Word { to, a, ..word }, None)
            }
            Instruction::Select {
                wide,
                to: Reg(to),
                a: Reg(a),
                b: Reg(b),
                c: Reg(c),
            } => {
                let word = word(Opcode::Select, wide.ty());
                (
                    Word {
                        to,
                        a,
                        b,
                        c,
                        ..word
                    },
                    None,
                )
            }
            Instruction::Convert {
                from,
                into,
                to: Reg(to),
                a: Reg(a),
            } => {
                let (word, b) = (word(Opcode::Convert, into), from.ty() as u8);
                (Word { to, a, b, ..word }, None)
            }
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

    /// The bytes that it was made of, for whoever has to check it himself.
    pub fn encoded(&self) -> Vec<u8> {
        let mut words = vec![head(self.element)];
        for instruction in &self.code {
            let (word, value) = instruction.words();
            words.push(word.word());
            words.extend(value);
        }
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    /// From the first to the last byte of an element that it touches; empty if it touches none.
    pub fn touches(&self) -> Range<u32> {
        let fields = || self.code.iter().filter_map(Instruction::field);
        let start = fields().map(|field| field.start).min().unwrap_or(0);
        start..fields().map(|field| field.end).max().unwrap_or(0)
    }
}
