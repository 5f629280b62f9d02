//! What a fuzzer calls: any bytes as a program, which, if it is accepted, has to do what a plain reading of its words says. The
//! tests use the same reading.

use crate::code::{Binary, Opcode, Type, Unary, Word};
use crate::{Program, Slices};

/// Bytes of elements that a fuzzer's program is run on at most.
const BYTES_MAX: usize = 1 << 16;

/// The first byte says how many elements, the second what is in them, the others are the code.
pub fn program(script: &[u8]) {
    let Some(([count, seed], code)) = script.split_first_chunk() else {
        return;
    };
    let Ok(program) = Program::verify(code) else {
        return;
    };
    assert!(program.touches().end <= program.element(), "{program}");
    let size = program.element() as usize;
    let count = (usize::from(*count) % 40).min(BYTES_MAX / size);
    let input = filled(count * size, u64::from(*seed));
    let before = filled(count * size, u64::from(*seed) + 256);
    agrees(&program, code, &input, &before);
}

/// Runs a program and compares each element with what [`element`] says.
pub(crate) fn agrees(program: &Program, code: &[u8], input: &[u8], before: &[u8]) {
    let size = program.element() as usize;
    let mut after = before.to_vec();
    let mut elements = Slices {
        input,
        inout: &mut after,
    };
    program.run(&mut elements, input.len() / size);
    for (index, got) in after.chunks_exact(size).enumerate() {
        let place = index * size..(index + 1) * size;
        let mut wanted = before[place.clone()].to_vec();
        if element(code, &input[place], &mut wanted).is_some() {
            assert_eq!(got, wanted, "element {index} of\n{program}");
        }
    }
}

/// Bytes that look random; some runs of them are zeros and small numbers, so that comparisons are of both kinds.
pub(crate) fn filled(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let high = state >> 33;
        if high & 7 < 3 {
            // As bytes, the number -2 to 1.
            ((high >> 3 & 3) as i64 - 2) as u64
        } else {
            state ^ high
        }
    };
    let mut all: Vec<u8> = (0..bytes.div_ceil(8))
        .flat_map(|_| next().to_ne_bytes())
        .collect();
    all.truncate(bytes);
    all
}

/// What a register holds.
#[derive(Clone, Copy)]
enum Held {
    Integer(u64),
    Float(f32),
    Double(f64),
}

impl Held {
    fn bits(self) -> u64 {
        match self {
            Held::Integer(bits) => bits,
            Held::Float(value) => u64::from(value.to_bits()),
            Held::Double(value) => value.to_bits(),
        }
    }

    /// An integer as a number, with the sign that a type has.
    fn number(self, ty: Type) -> i128 {
        match (self, ty) {
            (Held::Integer(bits), Type::I64) => i128::from(bits as i64),
            (Held::Integer(bits), _) => i128::from(bits),
            _ => panic!("an integer was checked for"),
        }
    }
}

/// One element, word by word. `None` if a NaN is computed: which one is left open.
fn element(code: &[u8], input: &[u8], inout: &mut [u8]) -> Option<()> {
    let words: Vec<_> = code
        .chunks(8)
        .map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
        .collect();
    let mut regs = [None; 256];
    let mut words = words.into_iter().skip(1);
    while let Some(word) = words.next() {
        let Word {
            opcode,
            ty,
            to,
            a,
            b,
            c,
            offset,
        } = Word::of(word);
        let (opcode, ty) = (Opcode::of(opcode).unwrap(), Type::of(ty).unwrap());
        let reg = |number: u8| regs[usize::from(number)].unwrap();
        let from = usize::from(offset);
        let field = from..from + usize::from(ty.bytes());
        let result = match opcode {
            Opcode::LoadIn => loaded(ty, &input[field]),
            Opcode::LoadInout => loaded(ty, &inout[field]),
            Opcode::Store => {
                let bits: u64 = Held::bits(reg(a));
                let narrow = match ty.bytes() {
                    1 => (bits as u8).to_ne_bytes().to_vec(),
                    2 => (bits as u16).to_ne_bytes().to_vec(),
                    4 => (bits as u32).to_ne_bytes().to_vec(),
                    _ => bits.to_ne_bytes().to_vec(),
                };
                inout[field].copy_from_slice(&narrow);
                continue;
            }
            Opcode::Const => of_bits(ty, words.next().unwrap()),
            Opcode::Select if reg(a).number(Type::I64) != 0 => reg(b),
            Opcode::Select => reg(c),
            Opcode::Convert => computed(converted(reg(a), Type::of(b).unwrap(), ty))?,
            _ => match (Binary::of(opcode), Unary::of(opcode)) {
                (Some(op), _) => {
                    let same = matches!(op, Binary::Min | Binary::Max);
                    let result = binary(op, ty, reg(a), reg(b));
                    if same { result } else { computed(result)? }
                }
                (_, Some(op)) => computed(unary(op, ty, reg(a)))?,
                _ => panic!("an opcode without a meaning"),
            },
        };
        regs[usize::from(to)] = Some(result);
    }
    Some(())
}

fn computed(held: Held) -> Option<Held> {
    let nan = match held {
        Held::Integer(_) => false,
        Held::Float(value) => value.is_nan(),
        Held::Double(value) => value.is_nan(),
    };
    (!nan).then_some(held)
}

fn of_bits(ty: Type, bits: u64) -> Held {
    match ty {
        Type::F32 => Held::Float(f32::from_bits(bits as u32)),
        Type::F64 => Held::Double(f64::from_bits(bits)),
        _ => Held::Integer(bits),
    }
}

fn loaded(ty: Type, bytes: &[u8]) -> Held {
    macro_rules! load {
        ($t:ty) => {
            <$t>::from_ne_bytes(bytes.try_into().unwrap()) as i64 as u64
        };
    }
    let bits = match ty {
        Type::I8 => load!(i8),
        Type::I16 => load!(i16),
        Type::I32 => load!(i32),
        Type::U8 => load!(u8),
        Type::U16 => load!(u16),
        Type::U32 | Type::F32 => load!(u32),
        Type::I64 | Type::U64 | Type::F64 => load!(u64),
    };
    of_bits(ty, bits)
}

fn converted(held: Held, from: Type, into: Type) -> Held {
    macro_rules! number {
        ($value:expr) => {
            match into {
                Type::I8 => Held::Integer($value as i8 as u64),
                Type::I16 => Held::Integer($value as i16 as u64),
                Type::I32 => Held::Integer($value as i32 as u64),
                Type::I64 => Held::Integer($value as i64 as u64),
                Type::U8 => Held::Integer($value as u8 as u64),
                Type::U16 => Held::Integer($value as u16 as u64),
                Type::U32 => Held::Integer($value as u32 as u64),
                Type::U64 => Held::Integer($value as u64),
                Type::F32 => Held::Float($value as f32),
                Type::F64 => Held::Double($value as f64),
            }
        };
    }
    match held {
        Held::Integer(_) => number!(held.number(from)),
        Held::Float(value) => number!(value),
        Held::Double(value) => number!(value),
    }
}

fn unary(op: Unary, ty: Type, held: Held) -> Held {
    match (op, held) {
        (Unary::Neg, Held::Integer(bits)) => Held::Integer(0u64.wrapping_sub(bits)),
        (Unary::Neg, Held::Float(value)) => Held::Float(-value),
        (Unary::Neg, Held::Double(value)) => Held::Double(-value),
        (Unary::Abs, Held::Integer(_)) => Held::Integer(held.number(ty).unsigned_abs() as u64),
        (Unary::Abs, Held::Float(value)) => Held::Float(value.abs()),
        (Unary::Abs, Held::Double(value)) => Held::Double(value.abs()),
        (Unary::Sqrt, Held::Float(value)) => Held::Float(value.sqrt()),
        (Unary::Sqrt, Held::Double(value)) => Held::Double(value.sqrt()),
        (Unary::Not, Held::Integer(bits)) => Held::Integer(u64::MAX ^ bits),
        _ => panic!("an operand was checked for"),
    }
}

/// Operations that are written alike on numbers and on integers as numbers.
macro_rules! arithmetic {
    ($op:expr, $a:expr, $b:expr, $made:expr) => {
        match $op {
            Binary::Add => Some($made($a + $b)),
            Binary::Sub => Some($made($a - $b)),
            Binary::Min => Some($made(if $a < $b { $a } else { $b })),
            Binary::Max => Some($made(if $a > $b { $a } else { $b })),
            Binary::Eq => Some(Held::Integer(u64::from($a == $b))),
            Binary::Ne => Some(Held::Integer(u64::from($a != $b))),
            Binary::Lt => Some(Held::Integer(u64::from($a < $b))),
            Binary::Le => Some(Held::Integer(u64::from($a <= $b))),
            _ => None,
        }
    };
}

fn binary(op: Binary, ty: Type, a: Held, b: Held) -> Held {
    match (a, b) {
        (Held::Float(a), Held::Float(b)) => {
            arithmetic!(op, a, b, Held::Float).unwrap_or(Held::Float(match op {
                Binary::Mul => a * b,
                _ => a / b,
            }))
        }
        (Held::Double(a), Held::Double(b)) => {
            arithmetic!(op, a, b, Held::Double).unwrap_or(Held::Double(match op {
                Binary::Mul => a * b,
                _ => a / b,
            }))
        }
        _ => {
            let (x, y) = (a.number(ty), b.number(ty));
            let made = |number: i128| Held::Integer(number as u64);
            let shift = (y & 63) as u32;
            arithmetic!(op, x, y, made).unwrap_or_else(|| {
                made(match op {
                    Binary::Mul => x.wrapping_mul(y),
                    Binary::Div if y == 0 => 0,
                    Binary::Div => x / y,
                    Binary::Rem if y == 0 => x,
                    Binary::Rem => x % y,
                    Binary::And => x & y,
                    Binary::Or => x | y,
                    Binary::Xor => x ^ y,
                    Binary::Shl => x << shift,
                    _ => x >> shift,
                })
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_corpus_does_no_harm() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/program");
        let files: Vec<_> = std::fs::read_dir(corpus).unwrap().collect();
        assert!(!files.is_empty(), "there is a corpus");
        for file in files {
            super::program(&std::fs::read(file.unwrap().path()).unwrap());
        }
    }
}
