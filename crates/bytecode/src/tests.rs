//! Programs against a plain reading of their words, and everything that a program is refused for.

use proptest::prelude::*;

use crate::code::head;
use crate::fuzzing::{agrees, filled};
use crate::{
    Binary, Builder, ELEMENT_MAX, INSTRUCTIONS_MAX, Kind, Opcode, Program, Reg, Side, Slices, Type,
    Unary, Value, Why, Wide, Word,
};

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn word(opcode: Opcode, ty: Type) -> Word {
    Word {
        opcode: opcode as u8,
        ty: ty as u8,
        ..Word::default()
    }
}

/// What a program of these words, on elements of 16 bytes, is refused for: the word and why.
fn refusal(words: &[Word]) -> (usize, Why) {
    let mut all = vec![head(16)];
    all.extend(words.iter().map(|word| word.word()));
    let wrong = Program::verify(&bytes(&all)).unwrap_err();
    (wrong.word, wrong.why)
}

/// A program out of random numbers: each makes one instruction on values that are there.
fn written(element: u32, script: &[(u8, u8, u8, u16, u64)]) -> Result<Vec<u8>, crate::Crowded> {
    let mut builder = Builder::new(element);
    let mut values: Vec<(Value, Kind)> = Vec::new();
    for &(what, ty, pick, offset, bits) in script {
        let ty = Type::ALL[usize::from(ty) % Type::ALL.len()];
        let wide = Wide::ALL[usize::from(pick) % Wide::ALL.len()];
        let room = element.saturating_sub(u32::from(ty.bytes()));
        let offset = (u32::from(offset) % (room + 1)) as u16;
        let fits = u32::from(ty.bytes()) <= element;
        // One of the last few values of a kind.
        let find = |kind: Kind, skip: u8| {
            let mut recent = values.iter().rev().take(8).filter(|value| value.1 == kind);
            recent.nth(usize::from(skip % 3)).map(|value| value.0)
        };
        let made = match what % 8 {
            0 if fits => Some((builder.load(Side::In, ty, offset), ty.kind())),
            1 if fits => Some((builder.load(Side::Inout, ty, offset), ty.kind())),
            2 if fits => {
                if let Some(value) = find(ty.kind(), what >> 3) {
                    builder.store(ty, offset, value);
                }
                None
            }
            3 => Some(match wide {
                Wide::F32 => (builder.single(f32::from_bits(bits as u32)), Kind::Float),
                Wide::F64 => (builder.double(bits as i32 as f64 / 16.0), Kind::Double),
                _ => (builder.integer(bits as i64 >> (pick % 64)), Kind::Integer),
            }),
            4 => {
                let op = Unary::ALL[usize::from(what >> 3) % Unary::ALL.len()];
                let a = find(wide.kind(), pick >> 2).filter(|_| op.takes(wide));
                a.map(|a| (builder.unary(op, wide, a), wide.kind()))
            }
            5 => {
                let which = find(Kind::Integer, pick >> 4);
                let (yes, no) = (find(wide.kind(), pick >> 2), find(wide.kind(), what >> 3));
                let all = which.zip(yes.zip(no));
                all.map(|(which, (yes, no))| (builder.select(wide, which, yes, no), wide.kind()))
            }
            6 => find(wide.kind(), pick >> 2).map(|a| (builder.convert(wide, ty, a), ty.kind())),
            _ => {
                let op = Binary::ALL[usize::from(what >> 3) % Binary::ALL.len()];
                let (a, b) = (find(wide.kind(), pick >> 2), find(wide.kind(), pick >> 4));
                let both = a.zip(b).filter(|_| op.takes(wide));
                both.map(|(a, b)| (builder.binary(op, wide, a, b), op.gives(wide)))
            }
        };
        values.extend(made);
    }
    builder.code()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn programs_do_what_their_words_say(
        element in prop_oneof![Just(1u32), Just(4), Just(8), 1..80u32],
        script in proptest::collection::vec(any::<(u8, u8, u8, u16, u64)>(), 0..120),
        count in 0..45usize,
        seed in any::<u32>(),
    ) {
        // As find() takes recent values only, registers suffice.
        let code = written(element, &script).unwrap();
        let program = Program::verify(&code).unwrap();
        let size = element as usize * count;
        agrees(&program, &code, &filled(size, seed.into()), &filled(size, u64::from(seed) + 7));
        prop_assert!(program.touches().end <= element);
        prop_assert_eq!(program.encoded(), code);
        prop_assert_eq!(program.to_string().lines().count(), program.instructions().len() + 1);
    }

    #[test]
    fn any_bytes_are_a_program_or_are_refused_in_words(
        code in proptest::collection::vec(any::<u8>(), 0..200),
        element in any::<u32>(),
        head_is_right in any::<bool>(),
    ) {
        let mut all = if head_is_right { bytes(&[head(element & 0x1ffff)]) } else { Vec::new() };
        all.extend(&code);
        if let Err(wrong) = Program::verify(&all) {
            prop_assert!(wrong.to_string().starts_with("word "));
            prop_assert!(wrong.word <= all.len() / 8);
        }
    }

    #[test]
    fn a_program_with_one_byte_changed_does_no_harm(
        script in proptest::collection::vec(any::<(u8, u8, u8, u16, u64)>(), 1..30),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut code = written(24, &script).unwrap();
        let at = at.index(code.len());
        code[at] = byte;
        crate::fuzzing::program(&[&[19, 3], code.as_slice()].concat());
    }
}

#[test]
fn each_operation_is_right_on_what_is_hard() {
    let integers = [0, 1, -1, 2, 63, 64, i64::MIN, i64::MAX, -7, 1 << 32];
    let numbers = [
        0.0,
        -0.0,
        1.5,
        -2.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-310,
        3e38,
        1e300,
    ];
    for &wide in Wide::ALL {
        let (mut input, mut inout) = (Vec::new(), Vec::new());
        for a in 0..10 {
            for b in 0..10 {
                let bits = |i: usize| match wide {
                    Wide::F32 => u64::from((numbers[i] as f32).to_bits()),
                    Wide::F64 => numbers[i].to_bits(),
                    _ => integers[i] as u64,
                };
                input.extend(bits(a).to_ne_bytes());
                inout.extend(bits(b).to_ne_bytes());
            }
        }
        let check = |compute: &dyn Fn(&mut Builder, Value, Value) -> (Value, Kind)| {
            let mut builder = Builder::new(8);
            let a = builder.load(Side::In, wide.ty(), 0);
            let b = builder.load(Side::Inout, wide.ty(), 0);
            let (value, kind) = compute(&mut builder, a, b);
            let ty = match kind {
                Kind::Integer => Type::I64,
                Kind::Float => Type::F32,
                Kind::Double => Type::F64,
            };
            builder.store(ty, 0, value);
            let code = builder.code().unwrap();
            agrees(&Program::verify(&code).unwrap(), &code, &input, &inout);
        };
        for &op in Binary::ALL.iter().filter(|op| op.takes(wide)) {
            check(&|to, a, b| (to.binary(op, wide, a, b), op.gives(wide)));
        }
        for &op in Unary::ALL.iter().filter(|op| op.takes(wide)) {
            check(&|to, a, _| (to.unary(op, wide, a), wide.kind()));
        }
        for &ty in Type::ALL {
            check(&|to, a, _| (to.convert(wide, ty, a), ty.kind()));
        }
    }
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let load = word(Opcode::LoadIn, Type::F64);
    let reg = |number| Reg::new(number).unwrap();
    let why = |words: &[Word]| refusal(words);
    let holds = |reg, holds, wants| Why::Holds { reg, holds, wants };
    assert_eq!(why(&[Word { opcode: 0, ..load }]), (1, Why::Opcode(0)));
    assert_eq!(why(&[load, Word { ty: 11, ..load }]), (2, Why::Type(11)));
    assert_eq!(why(&[Word { to: 16, ..load }]), (1, Why::Register(16)));
    let outside = Why::Outside {
        offset: 9,
        bytes: 8,
        element: 16,
    };
    assert_eq!(why(&[Word { offset: 9, ..load }]), (1, outside));
    assert_eq!(why(&[Word { b: 1, ..load }]), (1, Why::Unused("b")));
    let store = word(Opcode::Store, Type::F64);
    assert_eq!(why(&[store]), (1, Why::Empty(reg(0))));
    let float = Word { ty: 9, ..store };
    assert_eq!(
        why(&[load, float]),
        (2, holds(reg(0), Kind::Double, Kind::Float))
    );
    let and = word(Opcode::And, Type::F64);
    assert_eq!(why(&[load, and]), (2, Why::Undefined(Type::F64)));
    let narrow = word(Opcode::Add, Type::I32);
    assert_eq!(why(&[narrow]), (1, Why::Undefined(Type::I32)));
    let select = word(Opcode::Select, Type::F64);
    assert_eq!(
        why(&[load, select]),
        (2, holds(reg(0), Kind::Double, Kind::Integer))
    );
    let convert = word(Opcode::Convert, Type::I8);
    assert_eq!(why(&[load, convert]), (2, Why::Type(0)));
    assert_eq!(why(&[word(Opcode::Const, Type::F64)]), (1, Why::NoValue));
    let long = vec![load; INSTRUCTIONS_MAX + 1];
    assert_eq!(why(&long), (INSTRUCTIONS_MAX + 1, Why::Long));
}

#[test]
fn the_first_word_is_checked() {
    let why = |code: &[u8]| Program::verify(code).unwrap_err().why;
    let refused = |head: u64| why(&bytes(&[head]));
    assert_eq!(why(&[]), Why::Magic);
    assert_eq!(why(&[0; 9]), Why::Ragged);
    assert_eq!(refused(head(8) ^ 1), Why::Magic);
    assert_eq!(refused(head(8) ^ 1 << 32), Why::Version(0));
    assert_eq!(refused(head(0)), Why::Element(0));
    assert_eq!(
        refused(head(ELEMENT_MAX + 1)),
        Why::Element(ELEMENT_MAX + 1)
    );
    assert!(Program::verify(&bytes(&[head(ELEMENT_MAX)])).is_ok());
    let half = [head(8), word(Opcode::Const, Type::F32).word(), 1 << 32];
    assert_eq!(why(&bytes(&half)), Why::Half);
}

#[test]
fn a_refusal_reads_well() {
    let mut builder = Builder::new(16);
    let a = builder.load(Side::In, Type::I32, 12);
    let b = builder.load(Side::Inout, Type::F64, 0);
    builder.binary(Binary::Add, Wide::F64, b, a);
    let wrong = Program::verify(&builder.code().unwrap()).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "word 3 (add): register 0 holds an integer, and it takes an f64"
    );
}

#[test]
fn a_program_reads_well() {
    let mut builder = Builder::new(16);
    let (a, b) = (
        builder.load(Side::In, Type::I32, 12),
        builder.load(Side::Inout, Type::I32, 12),
    );
    let ten = builder.integer(10);
    let sum = builder.binary(Binary::Add, Wide::I64, a, b);
    let less = builder.binary(Binary::Lt, Wide::I64, sum, ten);
    let kept = builder.select(Wide::I64, less, sum, ten);
    builder.store(Type::I32, 12, kept);
    let half = builder.single(0.5);
    let more = builder.unary(Unary::Sqrt, Wide::F32, half);
    let more = builder.convert(Wide::F32, Type::F64, more);
    builder.store(Type::F64, 0, more);
    let program = Program::verify(&builder.code().unwrap()).unwrap();
    let text = "element of 16 bytes\n\
                r0 = load i32 in[12]\n\
                r1 = load i32 inout[12]\n\
                r2 = const i64 10\n\
                r0 = add i64 r0, r1\n\
                r1 = lt i64 r0, r2\n\
                r0 = select i64 r1 ? r0 : r2\n\
                store i32 inout[12] = r0\n\
                r0 = const f32 0.5\n\
                r0 = sqrt f32 r0\n\
                r0 = convert f32 r0 as f64\n\
                store f64 inout[0] = r0";
    assert_eq!(program.to_string(), text);
    assert_eq!(program.touches(), 0..16);
    let mut inout = [0; 16];
    let mut elements = Slices {
        input: &[1; 16],
        inout: &mut inout,
    };
    program.run(&mut elements, 1);
    assert_eq!(inout[12..], 10i32.to_ne_bytes());
    assert_eq!(inout[..8], f64::from(0.5f32.sqrt()).to_ne_bytes());
}

#[test]
fn too_many_values_are_said_so() {
    let mut builder = Builder::new(8);
    let all: Vec<_> = (0..17).map(|i| builder.integer(i)).collect();
    for &value in &all {
        builder.store(Type::I64, 0, value);
    }
    assert_eq!(builder.code().unwrap_err().instruction, 16);
}
