//! The numbers of the encoding: opcodes, types, and where they stand in a word.
//!
//! `include/yamabiko.h` has the same numbers; a test compares them.

/// What the first word begins with: `YMBC` on a little-endian machine.
pub const MAGIC: u32 = 0x4342_4d59;
/// The version that this is.
pub const VERSION: u8 = 1;
/// Most bytes of an element: what a 16-bit offset reaches.
pub const ELEMENT_MAX: u32 = 1 << 16;
/// Most instructions of a program. Its time in the handler of a signal is bounded by it; a fold of a structure of 30 fields fits.
pub const INSTRUCTIONS_MAX: usize = 256;
/// Most bytes of a program that is accepted: all instructions constants.
pub const CODE_MAX: usize = 8 * (1 + 2 * INSTRUCTIONS_MAX);
/// Registers.
pub const REGISTERS: usize = 16;

/// Defines an enumeration with its numbers and its names.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$item_doc])* $item = $number,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$item,)*];

            /// The one with this number.
            pub fn of(number: u8) -> Option<$name> {
                match number {
                    $($number => Some($name::$item),)*
                    _ => None,
                }
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$item => $text,)*
                }
            }
        }
    };
}

numbered! {
    /// What an instruction does.
    Opcode {
        /// Loads a field of the element of `in`.
        LoadIn = 0x01 "load_in",
        /// Loads a field of the element of `inout`.
        LoadInout = 0x02 "load_inout",
        /// Stores a field of the element of `inout`.
        Store = 0x03 "store",
        /// The next word.
        Const = 0x04 "const",
        /// Sum.
        Add = 0x10 "add",
        /// Difference.
        Sub = 0x11 "sub",
        /// Product.
        Mul = 0x12 "mul",
        /// Quotient.
        Div = 0x13 "div",
        /// Remainder, with the sign of the dividend.
        Rem = 0x14 "rem",
        /// The lesser one.
        Min = 0x15 "min",
        /// The greater one.
        Max = 0x16 "max",
        /// Bits of both.
        And = 0x17 "and",
        /// Bits of either.
        Or = 0x18 "or",
        /// Bits of one of them.
        Xor = 0x19 "xor",
        /// Shifted towards the high bits.
        Shl = 0x1a "shl",
        /// Shifted towards the low bits.
        Shr = 0x1b "shr",
        /// Equal?
        Eq = 0x20 "eq",
        /// Not equal?
        Ne = 0x21 "ne",
        /// Less?
        Lt = 0x22 "lt",
        /// Less or equal?
        Le = 0x23 "le",
        /// Negated.
        Neg = 0x30 "neg",
        /// Absolute value.
        Abs = 0x31 "abs",
        /// Square root.
        Sqrt = 0x32 "sqrt",
        /// All bits turned.
        Not = 0x33 "not",
        /// One of two.
        Select = 0x40 "select",
        /// As another type.
        Convert = 0x41 "convert",
    }
}

numbered! {
    /// The type of a field, or how an instruction looks at its operands.
    Type {
        /// 8 bits with sign.
        I8 = 1 "i8",
        /// 16 bits with sign.
        I16 = 2 "i16",
        /// 32 bits with sign.
        I32 = 3 "i32",
        /// 64 bits with sign.
        I64 = 4 "i64",
        /// 8 bits.
        U8 = 5 "u8",
        /// 16 bits.
        U16 = 6 "u16",
        /// 32 bits.
        U32 = 7 "u32",
        /// 64 bits.
        U64 = 8 "u64",
        /// IEEE single precision.
        F32 = 9 "f32",
        /// IEEE double precision.
        F64 = 10 "f64",
    }
}

impl Type {
    /// Bytes of a field.
    pub fn bytes(self) -> u16 {
        match self {
            Type::I8 | Type::U8 => 1,
            Type::I16 | Type::U16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }

    /// What a register holds after a load of it.
    pub fn kind(self) -> Kind {
        match self {
            Type::F32 => Kind::Float,
            Type::F64 => Kind::Double,
            _ => Kind::Integer,
        }
    }

    /// The same as a type of operands.
    pub fn wide(self) -> Option<Wide> {
        Wide::ALL.iter().copied().find(|wide| wide.ty() == self)
    }
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer of 64 bits.
    Integer,
    /// A number in single precision, in the low half.
    Float,
    /// A number in double precision.
    Double,
}

impl Kind {
    /// Its name, with an article.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Integer => "an integer",
            Kind::Float => "an f32",
            Kind::Double => "an f64",
        }
    }
}

/// How an instruction looks at registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// As integers with sign.
    I64,
    /// As integers without sign.
    U64,
    /// As single precision.
    F32,
    /// As double precision.
    F64,
}

impl Wide {
    /// All of them.
    pub const ALL: &[Wide] = &[Wide::I64, Wide::U64, Wide::F32, Wide::F64];

    /// The type whose number it has.
    pub fn ty(self) -> Type {
        match self {
            Wide::I64 => Type::I64,
            Wide::U64 => Type::U64,
            Wide::F32 => Type::F32,
            Wide::F64 => Type::F64,
        }
    }

    /// What registers have to hold for that.
    pub fn kind(self) -> Kind {
        self.ty().kind()
    }

    fn is_integer(self) -> bool {
        self.kind() == Kind::Integer
    }
}

/// Which of the two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That of `in`.
    In,
    /// That of `inout`.
    Inout,
}

/// An opcode with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the opcode of its name")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
}

impl Binary {
    /// All of them.
    pub const ALL: &[Binary] = &[
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Rem,
        Binary::Min,
        Binary::Max,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::Shl,
        Binary::Shr,
        Binary::Eq,
        Binary::Ne,
        Binary::Lt,
        Binary::Le,
    ];

    /// Its opcode.
    pub fn opcode(self) -> Opcode {
        match self {
            Binary::Add => Opcode::Add,
            Binary::Sub => Opcode::Sub,
            Binary::Mul => Opcode::Mul,
            Binary::Div => Opcode::Div,
            Binary::Rem => Opcode::Rem,
            Binary::Min => Opcode::Min,
            Binary::Max => Opcode::Max,
            Binary::And => Opcode::And,
            Binary::Or => Opcode::Or,
            Binary::Xor => Opcode::Xor,
            Binary::Shl => Opcode::Shl,
            Binary::Shr => Opcode::Shr,
            Binary::Eq => Opcode::Eq,
            Binary::Ne => Opcode::Ne,
            Binary::Lt => Opcode::Lt,
            Binary::Le => Opcode::Le,
        }
    }

    /// That of an opcode.
    pub fn of(opcode: Opcode) -> Option<Binary> {
        let mut all = Binary::ALL.iter().copied();
        all.find(|binary| binary.opcode() == opcode)
    }

    /// Whether it is defined on operands looked at like this.
    pub fn takes(self, wide: Wide) -> bool {
        use Binary::{And, Or, Rem, Shl, Shr, Xor};
        !matches!(self, Rem | And | Or | Xor | Shl | Shr) || wide.is_integer()
    }

    /// What comes out.
    pub fn gives(self, wide: Wide) -> Kind {
        match self {
            Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le => Kind::Integer,
            _ => wide.kind(),
        }
    }
}

/// An opcode with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the opcode of its name")]
pub enum Unary {
    Neg,
    Abs,
    Sqrt,
    Not,
}

impl Unary {
    /// All of them.
    pub const ALL: &[Unary] = &[Unary::Neg, Unary::Abs, Unary::Sqrt, Unary::Not];

    /// Its opcode.
    pub fn opcode(self) -> Opcode {
        match self {
            Unary::Neg => Opcode::Neg,
            Unary::Abs => Opcode::Abs,
            Unary::Sqrt => Opcode::Sqrt,
            Unary::Not => Opcode::Not,
        }
    }

    /// That of an opcode.
    pub fn of(opcode: Opcode) -> Option<Unary> {
        let mut all = Unary::ALL.iter().copied();
        all.find(|unary| unary.opcode() == opcode)
    }

    /// Whether it is defined on an operand looked at like this.
    pub fn takes(self, wide: Wide) -> bool {
        match self {
            Unary::Neg => true,
            Unary::Abs => wide != Wide::U64,
            Unary::Sqrt => !wide.is_integer(),
            Unary::Not => wide.is_integer(),
        }
    }
}

/// The fields of an instruction's word, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the crate's documentation has them in a table")]
pub struct Word {
    pub opcode: u8,
    pub ty: u8,
    pub to: u8,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    pub offset: u16,
}

impl Word {
    /// The fields of a word.
    pub fn of(word: u64) -> Word {
        let [opcode, ty, to, a, b, c, low, high] = word.to_le_bytes();
        Word {
            opcode,
            ty,
            to,
            a,
            b,
            c,
            offset: u16::from_le_bytes([low, high]),
        }
    }

    /// The word.
    pub fn word(self) -> u64 {
        let [low, high] = self.offset.to_le_bytes();
        u64::from_le_bytes([
            self.opcode,
            self.ty,
            self.to,
            self.a,
            self.b,
            self.c,
            low,
            high,
        ])
    }
}

/// The first word of a program on elements of so many bytes.
pub(crate) fn head(element: u32) -> u64 {
    u64::from(MAGIC) | u64::from(VERSION) << 32 | u64::from(element) << 40
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The numbers that a C program writes.
    #[test]
    fn the_header_has_the_same_numbers() {
        let header = include_str!("../../../include/yamabiko.h");
        let defined: HashMap<_, _> = header.lines().filter_map(definition).collect();
        let of = |name: &str| {
            let name = format!("YAMABIKO_BC_{name}");
            *defined
                .get(name.as_str())
                .unwrap_or_else(|| panic!("no {name}"))
        };
        for op in Opcode::ALL {
            let name = format!("OP_{}", op.name().to_uppercase());
            assert_eq!(of(&name), *op as u64, "{name}");
        }
        for ty in Type::ALL {
            assert_eq!(of(&ty.name().to_uppercase()), *ty as u64);
        }
        assert_eq!(of("MAGIC"), u64::from(MAGIC));
        assert_eq!(of("VERSION"), u64::from(VERSION));
        assert_eq!(of("REGISTERS"), REGISTERS as u64);
        assert_eq!(of("INSTRUCTIONS_MAX"), INSTRUCTIONS_MAX as u64);
        assert_eq!(of("ELEMENT_MAX"), u64::from(ELEMENT_MAX));
    }

    /// The name and the number of a line that defines a number.
    fn definition(line: &str) -> Option<(&str, u64)> {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        let (name, number) = (words.next()?, words.next()?.trim_end_matches(['u', 'U']));
        let number = match number.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => number.parse(),
        };
        Some((name, number.ok()?))
    }

    #[test]
    fn words_keep_their_fields() {
        let word = Word {
            opcode: 1,
            ty: 2,
            to: 3,
            a: 4,
            b: 5,
            c: 6,
            offset: 0x0807,
        };
        assert_eq!(word.word(), 0x0807_0605_0403_0201);
        assert_eq!(Word::of(word.word()), word);
    }
}
