//! Writing programs in Rust: values in place of registers.

use std::fmt;

use crate::code::{Binary, Opcode, REGISTERS, Side, Type, Unary, Wide, Word, head};

/// A value that a program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value(usize);

/// More values are needed at once than there are registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowded {
    /// The instruction, counted from 0, that finds no register.
    pub instruction: usize,
}

impl fmt::Display for Crowded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.instruction;
        write!(
            f,
            "instruction {at}: more than {REGISTERS} values are still needed"
        )
    }
}

impl std::error::Error for Crowded {}

/// One instruction on values.
struct Line {
    opcode: Opcode,
    ty: Type,
    to: Option<Value>,
    /// What the fields `a`, `b` and `c` read.
    from: [Option<Value>; 3],
    /// The type of a conversion's operand.
    of: Option<Type>,
    offset: u16,
    constant: Option<u64>,
}

/// A program being written. What it says is not checked here: the words are bytes like any others to [`Program::verify`].
///
/// [`Program::verify`]: crate::Program::verify
pub struct Builder {
    element: u32,
    lines: Vec<Line>,
    values: usize,
}

impl Builder {
    /// A program on elements of so many bytes.
    pub fn new(element: u32) -> Builder {
        Builder {
            element,
            lines: Vec::new(),
            values: 0,
        }
    }

    fn line(&mut self, opcode: Opcode, ty: Type, from: [Option<Value>; 3]) -> &mut Line {
        self.lines.push(Line {
            opcode,
            ty,
            to: None,
            from,
            of: None,
            offset: 0,
            constant: None,
        });
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }

    /// The value of the last line.
    fn value(&mut self) -> Value {
        let value = Value(self.values);
        self.values += 1;
        if let Some(line) = self.lines.last_mut() {
            line.to = Some(value);
        }
        value
    }

    /// A field.
    pub fn load(&mut self, side: Side, ty: Type, offset: u16) -> Value {
        let opcode = match side {
            Side::In => Opcode::LoadIn,
            Side::Inout => Opcode::LoadInout,
        };
        self.line(opcode, ty, [None; 3]).offset = offset;
        self.value()
    }

    /// Sets a field of `inout`.
    pub fn store(&mut self, ty: Type, offset: u16, value: Value) {
        let from = [Some(value), None, None];
        self.line(Opcode::Store, ty, from).offset = offset;
    }

    fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.line(Opcode::Const, ty, [None; 3]).constant = Some(bits);
        self.value()
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) -> Value {
        self.constant(Type::I64, value as u64)
    }

    /// A number in single precision.
    pub fn single(&mut self, value: f32) -> Value {
        self.constant(Type::F32, u64::from(value.to_bits()))
    }

    /// A number in double precision.
    pub fn double(&mut self, value: f64) -> Value {
        self.constant(Type::F64, value.to_bits())
    }

    /// `a` ∘ `b`.
    pub fn binary(&mut self, op: Binary, wide: Wide, a: Value, b: Value) -> Value {
        self.line(op.opcode(), wide.ty(), [Some(a), Some(b), None]);
        self.value()
    }

    /// An operation on `a`.
    pub fn unary(&mut self, op: Unary, wide: Wide, a: Value) -> Value {
        self.line(op.opcode(), wide.ty(), [Some(a), None, None]);
        self.value()
    }

    /// `which` ≠ 0 ? `yes` : `no`.
    pub fn select(&mut self, wide: Wide, which: Value, yes: Value, no: Value) -> Value {
        let from = [Some(which), Some(yes), Some(no)];
        self.line(Opcode::Select, wide.ty(), from);
        self.value()
    }

    /// `a`, looked at as `from`, as `into`.
    pub fn convert(&mut self, from: Wide, into: Type, a: Value) -> Value {
        self.line(Opcode::Convert, into, [Some(a), None, None]).of = Some(from.ty());
        self.value()
    }

    /// The program's words, as bytes. A value has a register until it is last used.
    ///
    /// # Errors
    /// If there are not enough registers.
    pub fn code(&self) -> Result<Vec<u8>, Crowded> {
        let mut last = vec![0; self.values];
        for (index, line) in self.lines.iter().enumerate() {
            for value in line.from.iter().chain([&line.to]).flatten() {
                last[value.0] = index;
            }
        }
        // Which value a register has, and which register a value has or had.
        let mut holds: [Option<Value>; REGISTERS] = [None; REGISTERS];
        let mut place = vec![0u8; self.values];
        let mut words = vec![head(self.element)];
        for (index, line) in self.lines.iter().enumerate() {
            let of = |value: Option<Value>| value.map_or(0, |value| place[value.0]);
            let [a, b, c] = line.from.map(of);
            for held in &mut holds {
                held.take_if(|value| last[value.0] <= index);
            }
            let mut to = 0;
            if let Some(value) = line.to {
                let free = holds.iter().position(Option::is_none);
                let free = free.ok_or(Crowded { instruction: index })?;
                holds[free] = Some(value);
                (place[value.0], to) = (free as u8, free as u8);
            }
            let word = Word {
                opcode: line.opcode as u8,
                ty: line.ty as u8,
                to,
                a,
                b: line.of.map_or(b, |ty| ty as u8),
                c,
                offset: line.offset,
            };
            words.push(word.word());
            words.extend(line.constant);
        }
        Ok(words.into_iter().flat_map(u64::to_ne_bytes).collect())
    }
}
