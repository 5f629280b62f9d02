//! Random byte code that the kernel's program has all for, and what it does by crate `bytecode`'s interpreter. The tests of the simulated
//! program use it, and those of the kernel's.

use bytecode::{Binary, Builder, Kind, Program, Side, Slices, Type, Unary, Value, Wide};

/// One line of a script.
pub type Line = (u8, u8, u8, u8, u64);

/// A program out of random numbers, of instructions that the machine has: each makes one of values that are there.
pub fn written(element: u32, script: &[Line]) -> Program {
    let mut builder = Builder::new(element);
    let mut values: Vec<(Value, Kind)> = Vec::new();
    for &(what, ty, first, second, bits) in script {
        let fitting: Vec<_> = Type::ALL
            .iter()
            .filter(|ty| element.is_multiple_of(u32::from(ty.bytes())))
            .collect();
        let ty = *fitting[usize::from(ty) % fitting.len()];
        let wide = Wide::ALL[usize::from(first) % Wide::ALL.len()];
        let fields = element / u32::from(ty.bytes());
        let offset = (bits as u32 % fields) as u16 * ty.bytes();
        // One of the last few values of a kind.
        let find = |kind: Kind, skip: u8| {
            let mut recent = values.iter().rev().take(8).filter(|value| value.1 == kind);
            recent.nth(usize::from(skip % 3)).map(|value| value.0)
        };
        let (a, b) = (find(wide.kind(), first >> 2), find(wide.kind(), second));
        let made = match what % 9 {
            0 => Some((builder.load(Side::In, ty, offset), ty.kind())),
            1 => Some((builder.load(Side::Inout, ty, offset), ty.kind())),
            2 | 3 => {
                if let Some(value) = find(ty.kind(), second) {
                    builder.store(ty, offset, value);
                }
                None
            }
            4 => Some(match wide {
                Wide::F32 => (builder.single(f32::from_bits(bits as u32)), Kind::Float),
                Wide::F64 => (builder.double(f64::from_bits(bits)), Kind::Double),
                _ => (builder.integer(bits as i64 >> (second % 64)), Kind::Integer),
            }),
            5 => {
                let all = [Unary::Neg, Unary::Abs, Unary::Not];
                let op = all[usize::from(second) % all.len()];
                let a = a.filter(|_| op.takes(wide));
                a.map(|a| (builder.unary(op, wide, a), wide.kind()))
            }
            6 => {
                let which = find(Kind::Integer, what >> 4);
                let all = which.zip(a.zip(b));
                all.map(|(which, (yes, no))| (builder.select(wide, which, yes, no), wide.kind()))
            }
            7 if wide.kind() == Kind::Integer => {
                let whole = ty.kind() == Kind::Integer;
                let a = a.filter(|_| whole);
                a.map(|a| (builder.convert(wide, ty, a), ty.kind()))
            }
            _ => {
                let op = Binary::ALL[usize::from(what >> 3) % Binary::ALL.len()];
                let exact = wide.kind() == Kind::Integer || op != Binary::Div;
                let both = a.zip(b).filter(|_| op.takes(wide) && exact);
                both.map(|(a, b)| (builder.binary(op, wide, a, b), op.gives(wide)))
            }
        };
        values.extend(made);
    }
    Program::verify(&builder.code().unwrap()).unwrap()
}

/// `lower op upper`, by the interpreter.
pub fn folded(program: &Program, lower: &[u8], upper: &[u8]) -> Vec<u8> {
    let mut inout = upper.to_vec();
    let mut elements = Slices {
        input: lower,
        inout: &mut inout,
    };
    program.run(&mut elements, upper.len() / program.element() as usize);
    inout
}

/// Operands combined in pairs of neighbours, then pairs of pairs.
pub fn in_pairs(program: &Program, mut inputs: Vec<Vec<u8>>) -> Vec<u8> {
    while inputs.len() > 1 {
        let pair = |p: &[Vec<u8>]| match p {
            [a, b] => folded(program, a, b),
            _ => p[0].clone(),
        };
        inputs = inputs.chunks(2).map(pair).collect();
    }
    inputs.remove(0)
}
