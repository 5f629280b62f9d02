//! Programs and instructions in words.

use std::fmt;

use crate::code::{Kind, Side};
use crate::program::{Instruction, Program, Reg};

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.index())
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Instruction::Load {
                from,
                ty,
                to,
                offset,
            } => {
                let side = match from {
                    Side::In => "in",
                    Side::Inout => "inout",
                };
                write!(f, "{to} = load {} {side}[{offset}]", ty.name())
            }
            Instruction::Store { ty, a, offset } => {
                write!(f, "store {} inout[{offset}] = {a}", ty.name())
            }
            Instruction::Const { kind, to, value } => match kind {
                Kind::Integer => write!(f, "{to} = const i64 {}", value as i64),
                Kind::Float => write!(f, "{to} = const f32 {:?}", f32::from_bits(value as u32)),
                Kind::Double => write!(f, "{to} = const f64 {:?}", f64::from_bits(value)),
            },
            Instruction::Binary { op, wide, to, a, b } => {
                let (op, ty) = (op.opcode().name(), wide.ty().name());
                write!(f, "{to} = {op} {ty} {a}, {b}")
            }
            Instruction::Unary { op, wide, to, a } => {
                let (op, ty) = (op.opcode().name(), wide.ty().name());
                write!(f, "{to} = {op} {ty} {a}")
            }
            Instruction::Select { wide, to, a, b, c } => {
                write!(f, "{to} = select {} {a} ? {b} : {c}", wide.ty().name())
            }
            Instruction::Convert { from, into, to, a } => {
                let (from, into) = (from.ty().name(), into.name());
                write!(f, "{to} = convert {from} {a} as {into}")
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "element of {} bytes", self.element())?;
        for instruction in self.instructions() {
            write!(f, "\n{instruction}")?;
        }
        Ok(())
    }
}
