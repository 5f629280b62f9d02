//! What makes a [`Program`] of bytes that anybody may have written.

use std::fmt;

use crate::code::{
    Binary, ELEMENT_MAX, INSTRUCTIONS_MAX, Kind, MAGIC, Opcode, REGISTERS, Side, Type, Unary,
    VERSION, Wide, Word, head,
};
use crate::program::{Instruction, Program, Reg};

/// Why a program is refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The index of the word.
    pub word: usize,
    /// Its opcode, if it is an instruction with one.
    pub opcode: Option<Opcode>,
    /// What is wrong with it.
    pub why: Why,
}

/// What is wrong with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The code ends inside the word.
    Ragged,
    /// It is not a program's first word.
    Magic,
    /// The program is of another version.
    Version(u8),
    /// Elements can't have so many bytes.
    Element(u32),
    /// There are more instructions than may be.
    Long,
    /// There is no such opcode.
    Opcode(u8),
    /// There is no such type.
    Type(u8),
    /// The instruction is not defined on the type.
    Undefined(Type),
    /// There is no such register.
    Register(u8),
    /// The register has no value yet.
    Empty(Reg),
    /// The register holds something else than the instruction takes.
    Holds {
        /// The register.
        reg: Reg,
        /// What it holds.
        holds: Kind,
        /// What it should hold.
        wants: Kind,
    },
    /// The field does not lie inside the element.
    Outside {
        /// Its first byte.
        offset: u16,
        /// Its bytes.
        bytes: u16,
        /// The element's.
        element: u32,
    },
    /// A field that the instruction does not use is not zero.
    Unused(&'static str),
    /// The program ends where the value of a constant should be.
    NoValue,
    /// The upper half of the word is not zero, and the constant is an `f32`.
    Half,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.opcode {
            Some(opcode) => write!(f, "word {} ({}): {}", self.word, opcode.name(), self.why),
            None => write!(f, "word {}: {}", self.word, self.why),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Why::Ragged => write!(f, "the code ends in the middle of it; words have 8 bytes"),
            Why::Magic => write!(f, "this is not the first word of a program"),
            Why::Version(version) => write!(f, "version {version} is not known, only {VERSION} is"),
            Why::Element(bytes) => {
                write!(
                    f,
                    "an element of {bytes} bytes; it can have 1 to {ELEMENT_MAX}"
                )
            }
            Why::Long => write!(f, "a program has at most {INSTRUCTIONS_MAX} instructions"),
            Why::Opcode(number) => write!(f, "there is no opcode {number:#04x}"),
            Why::Type(number) => write!(f, "there is no type {number}"),
            Why::Undefined(ty) => write!(f, "it is not defined on {}", ty.name()),
            Why::Register(number) => {
                write!(
                    f,
                    "there is no register {number}, only 0 to {}",
                    REGISTERS - 1
                )
            }
            Why::Empty(reg) => write!(f, "register {} has no value yet", reg.index()),
            Why::Holds { reg, holds, wants } => {
                let (reg, holds, wants) = (reg.index(), holds.name(), wants.name());
                write!(f, "register {reg} holds {holds}, and it takes {wants}")
            }
            Why::Outside {
                offset,
                bytes,
                element,
            } => write!(
                f,
                "{bytes} bytes at offset {offset} are not inside an element of {element} bytes"
            ),
            Why::Unused(field) => {
                write!(f, "it does not use the field `{field}`, which is not zero")
            }
            Why::NoValue => write!(f, "the value of the constant is missing"),
            Why::Half => write!(
                f,
                "an f32 has its bits in the lower half, and the upper half is not zero"
            ),
        }
    }
}

impl std::error::Error for Wrong {}

/// What is known on the way through the code.
struct Walk {
    element: u32,
    /// What each register holds, if it has a value.
    holds: [Option<Kind>; REGISTERS],
}

impl Walk {
    /// The register of a number, which has to hold this.
    fn read(&self, number: u8, wants: Kind) -> Result<Reg, Why> {
        let reg = register(number)?;
        match self.holds[reg.index()] {
            None => Err(Why::Empty(reg)),
            Some(holds) if holds != wants => Err(Why::Holds { reg, holds, wants }),
            Some(_) => Ok(reg),
        }
    }

    /// The register of a number, which gets this.
    fn write(&mut self, number: u8, kind: Kind) -> Result<Reg, Why> {
        let reg = register(number)?;
        self.holds[reg.index()] = Some(kind);
        Ok(reg)
    }

    fn field(&self, offset: u16, ty: Type) -> Result<(), Why> {
        let (element, bytes) = (self.element, ty.bytes());
        if u32::from(offset) + u32::from(bytes) <= element {
            return Ok(());
        }
        Err(Why::Outside {
            offset,
            bytes,
            element,
        })
    }

    /// One instruction; `next` gives the word behind it, if it is asked for.
    fn instruction(
        &mut self,
        opcode: Opcode,
        word: Word,
        next: impl FnOnce() -> Result<u64, Why>,
    ) -> Result<Instruction, Why> {
        let ty = Type::of(word.ty).ok_or(Why::Type(word.ty))?;
        unused(opcode, word)?;
        match opcode {
            Opcode::LoadIn | Opcode::LoadInout => {
                self.field(word.offset, ty)?;
                let from = match opcode {
                    Opcode::LoadIn => Side::In,
                    _ => Side::Inout,
                };
                let to = self.write(word.to, ty.kind())?;
                let offset = word.offset;
                Ok(Instruction::Load {
                    from,
                    ty,
                    to,
                    offset,
                })
            }
            Opcode::Store => {
                self.field(word.offset, ty)?;
                let a = self.read(word.a, ty.kind())?;
                let offset = word.offset;
                Ok(Instruction::Store { ty, a, offset })
            }
            Opcode::Const => {
                let wide = ty.wide().filter(|&wide| wide != Wide::U64);
                let kind = wide.ok_or(Why::Undefined(ty))?.kind();
                let to = self.write(word.to, kind)?;
                let value = next()?;
                Ok(Instruction::Const { kind, to, value })
            }
            Opcode::Convert => {
                let from = Type::of(word.b).ok_or(Why::Type(word.b))?;
                let from = from.wide().ok_or(Why::Undefined(from))?;
                let a = self.read(word.a, from.kind())?;
                let to = self.write(word.to, ty.kind())?;
                let into = ty;
                Ok(Instruction::Convert { from, into, to, a })
            }
            _ => self.operation(opcode, ty, word),
        }
    }

    /// One that computes on operands of one type.
    fn operation(&mut self, opcode: Opcode, ty: Type, word: Word) -> Result<Instruction, Why> {
        let wide = ty.wide().ok_or(Why::Undefined(ty))?;
        if let Some(op) = Binary::of(opcode) {
            if !op.takes(wide) {
                return Err(Why::Undefined(ty));
            }
            let a = self.read(word.a, wide.kind())?;
            let b = self.read(word.b, wide.kind())?;
            let to = self.write(word.to, op.gives(wide))?;
            return Ok(Instruction::Binary { op, wide, to, a, b });
        }
        if let Some(op) = Unary::of(opcode) {
            if !op.takes(wide) {
                return Err(Why::Undefined(ty));
            }
            let a = self.read(word.a, wide.kind())?;
            let to = self.write(word.to, wide.kind())?;
            return Ok(Instruction::Unary { op, wide, to, a });
        }
        let a = self.read(word.a, Kind::Integer)?;
        let b = self.read(word.b, wide.kind())?;
        let c = self.read(word.c, wide.kind())?;
        let to = self.write(word.to, wide.kind())?;
        Ok(Instruction::Select { wide, to, a, b, c })
    }
}

fn register(number: u8) -> Result<Reg, Why> {
    Reg::new(number).ok_or(Why::Register(number))
}

/// Refuses what stands in fields that an instruction does not use.
fn unused(opcode: Opcode, word: Word) -> Result<(), Why> {
    let (to, a, b, c, offset) = match opcode {
        Opcode::LoadIn | Opcode::LoadInout => (true, false, false, false, true),
        Opcode::Store => (false, true, false, false, true),
        Opcode::Const => (true, false, false, false, false),
        Opcode::Select => (true, true, true, true, false),
        Opcode::Neg | Opcode::Abs | Opcode::Sqrt | Opcode::Not => (true, true, false, false, false),
        _ => (true, true, true, false, false),
    };
    let fields = [
        ("to", to, u16::from(word.to)),
        ("a", a, u16::from(word.a)),
        ("b", b, u16::from(word.b)),
        ("c", c, u16::from(word.c)),
        ("offset", offset, word.offset),
    ];
    let mut fields = fields.iter();
    let wrong = fields.find(|(_, used, value)| !used && *value != 0);
    wrong.map_or(Ok(()), |(name, ..)| Err(Why::Unused(name)))
}

/// What the first word says: bytes of an element.
fn element(word: u64) -> Result<u32, Why> {
    if word as u32 != MAGIC {
        return Err(Why::Magic);
    }
    let (version, element) = ((word >> 32) as u8, (word >> 40) as u32);
    if version != VERSION {
        return Err(Why::Version(version));
    }
    debug_assert_eq!(word, head(element), "nothing else is in the word");
    match element {
        1..=ELEMENT_MAX => Ok(element),
        _ => Err(Why::Element(element)),
    }
}

impl Program {
    /// Checks bytes and makes a program of them.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(code: &[u8]) -> Result<Program, Wrong> {
        let at = |word, opcode| move |why| Wrong { word, opcode, why };
        let (words, rest) = code.as_chunks::<8>();
        let word = |index: usize| words.get(index).map(|bytes| u64::from_ne_bytes(*bytes));
        if !rest.is_empty() {
            return Err(at(words.len(), None)(Why::Ragged));
        }
        let element = word(0).ok_or(Why::Magic).and_then(element);
        let element = element.map_err(at(0, None))?;
        let mut walk = Walk {
            element,
            holds: [None; REGISTERS],
        };
        let (mut made, mut index) = (Vec::new(), 1);
        while let Some(found) = word(index) {
            let fields = Word::of(found);
            let opcode = Opcode::of(fields.opcode).ok_or(Why::Opcode(fields.opcode));
            let opcode = opcode.map_err(at(index, None))?;
            let wrong = at(index, Some(opcode));
            if made.len() == INSTRUCTIONS_MAX {
                return Err(wrong(Why::Long));
            }
            let next = || word(index + 1).ok_or(Why::NoValue);
            let instruction = walk.instruction(opcode, fields, next).map_err(wrong)?;
            index += 1;
            if let Instruction::Const { kind, value, .. } = instruction {
                if kind == Kind::Float && value >> 32 != 0 {
                    return Err(at(index, None)(Why::Half));
                }
                index += 1;
            }
            made.push(instruction);
        }
        Ok(Program {
            element,
            code: made.into(),
        })
    }
}
