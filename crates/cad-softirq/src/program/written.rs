//! Byte code in the program's machine against the interpreter of crate `bytecode`: random programs, operands and orders, and codes that
//! nobody has verified.

#[path = "../../tests/scripts/mod.rs"]
mod scripts;

use super::simulation::{World, noise};
use crate::flat::Flat;
use crate::layout::{
    DATA_MAX, MISMATCH, NO_CODE, Op, SLOTS, STEPS_MAX, Type as Basic, WORDS_MAX, code, map, what,
    what_of_code,
};
use crate::model;
use bytecode::{Binary, Builder, Kind, Program, Side, Type, Unary, Value, Wide};
use proptest::prelude::*;
use scripts::{Line, folded, in_pairs, written};

/// Operands, of which many bytes and numbers are small or special.
fn operands(seed: &mut u64, ranks: usize, bytes: usize) -> Vec<Vec<u8>> {
    let of = |ty: Basic, seed: &mut u64| {
        let count = bytes.div_ceil(ty.bytes());
        let mut all = model::operand(&mut || noise(seed), ty, count);
        all.truncate(bytes);
        all
    };
    let any = |seed: &mut u64| {
        let ty = Basic::ALL[noise(seed) as usize % Basic::ALL.len()];
        of(ty, seed)
    };
    (0..ranks).map(|_| any(seed)).collect()
}

/// Where both have NaN, which one is left open: each byte code's floats are compared by what is stored of them, so such a program is left out.
fn computes_nan(program: &Program) -> bool {
    program.instructions().iter().any(|instruction| {
        matches!(
            instruction,
            bytecode::Instruction::Binary {
                op: Binary::Add | Binary::Sub | Binary::Mul,
                wide: Wide::F32 | Wide::F64,
                ..
            }
        )
    })
}

fn sum_of_i32(times: usize) -> Program {
    let mut builder = Builder::new(4);
    let [a, b] = [Side::In, Side::Inout].map(|side| builder.load(side, Type::I32, 0));
    let mut sum = b;
    for _ in 0..times {
        sum = builder.binary(Binary::Add, Wide::I64, sum, a);
    }
    builder.store(Type::I32, 0, sum);
    Program::verify(&builder.code().unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn results_are_the_interpreters(
        element in prop_oneof![Just(1u32), Just(4), Just(8), 1..80u32, Just(DATA_MAX as u32)],
        script in proptest::collection::vec(any::<Line>(), 1..60),
        ranks in 2..6usize,
        count in 1..40usize,
        slot in 0..SLOTS,
        mut seed in any::<u64>(),
    ) {
        let program = written(element, &script);
        let bytes = (element as usize * count).min(DATA_MAX / element as usize * element as usize);
        let flat = Flat::of(&program);
        prop_assume!(!program.instructions().is_empty());
        let flat = flat.expect("the machine has all these");
        prop_assume!(flat.fits(bytes));
        let mut world = World::new(&[ranks], 1);
        world.put(0, slot, &flat.entry());
        for _ in 0..3 {
            let parts = operands(&mut seed, ranks, bytes);
            let told = world.fold(&flat, slot, &parts);
            prop_assert_eq!(told.0, what_of_code(slot, flat.mark(), bytes));
            if !computes_nan(&program) {
                prop_assert_eq!(told.1, in_pairs(&program, parts), "{}", program);
            }
        }
    }

    #[test]
    fn whatever_words_there_are_they_end_and_reach_nothing_else(
        words in proptest::collection::vec(any::<u64>(), WORDS_MAX),
        count in any::<u32>(),
        element in prop_oneof![Just(0u32), 1..20u32, any::<u32>()],
        ranks in 2..4usize,
        mut seed in any::<u64>(),
    ) {
        let mut world = World::new(&[ranks], 1);
        let flat = Flat::of(&sum_of_i32(1)).unwrap();
        let mut entry = flat.entry();
        entry[code::WORDS as usize..][..4].copy_from_slice(&(count % 400).to_le_bytes());
        entry[code::ELEMENT as usize..][..4].copy_from_slice(&element.to_le_bytes());
        for (to, word) in entry[code::TEXT as usize..].chunks_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        world.put(0, 1, &entry);
        let parts = operands(&mut seed, ranks, 64);
        let told = world.fold(&flat, 1, &parts).0;
        prop_assert!(told == NO_CODE || told == what_of_code(1, flat.mark(), 64));
        // The next collective is not harmed.
        let some: Vec<_> = parts.iter().cloned().map(Some).collect();
        let right = (what(Op::Bxor, Basic::U8, 64), model::in_pairs(Op::Bxor, Basic::U8, parts));
        prop_assert_eq!(world.collective(Op::Bxor, Basic::U8, &some), right);
    }
}

/// Each operation on what is hard for it, all at once.
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
        1e-310,
        3e38,
        1e300,
        f64::NAN,
    ];
    for &wide in Wide::ALL {
        let mut parts = [Vec::new(), Vec::new()];
        for pair in 0..100 {
            for (part, which) in parts.iter_mut().zip([pair / 10, pair % 10]) {
                let bits = match wide {
                    Wide::F32 => u64::from((numbers[which] as f32).to_bits()),
                    Wide::F64 => numbers[which].to_bits(),
                    _ => integers[which] as u64,
                };
                part.extend(bits.to_ne_bytes());
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
            let program = Program::verify(&builder.code().unwrap()).unwrap();
            let Some(flat) = Flat::of(&program) else {
                return false;
            };
            let mut world = World::new(&[2], 1);
            world.put(0, 0, &flat.entry());
            let told = world.fold(&flat, 0, &parts).1;
            let right = in_pairs(&program, parts.to_vec());
            for (at, (told, right)) in told.chunks(8).zip(right.chunks(8)).enumerate() {
                let [told, right] =
                    [told, right].map(|x| u64::from_ne_bytes(x.try_into().unwrap()));
                let nan = |bits: u64| match kind {
                    Kind::Integer => false,
                    Kind::Float => f32::from_bits(bits as u32).is_nan(),
                    Kind::Double => f64::from_bits(bits).is_nan(),
                };
                let open = nan(told) && nan(right);
                assert!(
                    open || told == right,
                    "pair {at}: {told:#x}, {right:#x}\n{program}"
                );
            }
            true
        };
        let mut there = 0;
        for &op in Binary::ALL.iter().filter(|op| op.takes(wide)) {
            there += usize::from(check(&|to, a, b| {
                (to.binary(op, wide, a, b), op.gives(wide))
            }));
        }
        for &op in Unary::ALL.iter().filter(|op| op.takes(wide)) {
            there += usize::from(check(&|to, a, _| (to.unary(op, wide, a), wide.kind())));
        }
        for &ty in Type::ALL {
            there += usize::from(check(&|to, a, _| (to.convert(wide, ty, a), ty.kind())));
        }
        // All operations, conversions to 8 types; or those on floats that can be done.
        let wanted = match wide {
            Wide::I64 => 16 + 3 + 8,
            Wide::U64 => 16 + 2 + 8,
            _ => 9 + 2 + 1,
        };
        assert_eq!(there, wanted, "{wide:?}");
    }
}

#[test]
fn what_does_not_commute_is_done_in_the_order_of_ranks() {
    // in = (a, x^i), inout = (b, x^j) -> (a x^j + b, x^(i+j))
    let mut builder = Builder::new(8);
    let [a, i] = [0, 4].map(|at| builder.load(Side::In, Type::U32, at));
    let [b, j] = [0, 4].map(|at| builder.load(Side::Inout, Type::U32, at));
    let shifted = builder.binary(Binary::Mul, Wide::U64, a, j);
    let sum = builder.binary(Binary::Add, Wide::U64, shifted, b);
    let power = builder.binary(Binary::Mul, Wide::U64, i, j);
    builder.store(Type::U32, 0, sum);
    builder.store(Type::U32, 4, power);
    let program = Program::verify(&builder.code().unwrap()).unwrap();
    let flat = Flat::of(&program).unwrap();
    let mut seed = 11;
    for ranks in [2, 3, 4, 5, 8, 13] {
        let mut world = World::new(&[ranks], 1);
        world.put(0, 3, &flat.entry());
        let parts = operands(&mut seed, ranks, 64);
        let told = world.fold(&flat, 3, &parts).1;
        let mut all = parts.into_iter();
        let first = all.next().unwrap();
        let right = all.fold(first, |sum, part| folded(&program, &sum, &part));
        assert_eq!(told, right, "{ranks} ranks");
    }
}

#[test]
fn several_hosts_have_it_each() {
    let program = sum_of_i32(1);
    let flat = Flat::of(&program).unwrap();
    let mut world = World::new(&[2, 3, 1], 2);
    for host in 0..3 {
        world.put(host, 2, &flat.entry());
    }
    let (mut seed, ranks) = (12, 6);
    let parts = operands(&mut seed, ranks, 128);
    let told = world.fold(&flat, 2, &parts).1;
    assert_eq!(told, in_pairs(&program, parts));
    // One of them lacks it: all are told so.
    world.put(1, 2, &[0; code::BYTES]);
    let told = world.fold(&flat, 2, &operands(&mut seed, ranks, 128)).0;
    assert_eq!(told, NO_CODE);
}

#[test]
fn where_it_is_not_all_are_told_so() {
    let (flat, other) = (
        Flat::of(&sum_of_i32(1)).unwrap(),
        Flat::of(&sum_of_i32(2)).unwrap(),
    );
    let mut seed = 13;
    for ranks in [2, 3, 4, 5] {
        let mut world = World::new(&[ranks], 1);
        let parts = operands(&mut seed, ranks, 32);
        let told = |world: &mut World, slot| world.fold(&flat, slot, &parts).0;
        assert_eq!(told(&mut world, 0), NO_CODE, "an empty slot");
        world.put(0, 0, &other.entry());
        assert_eq!(told(&mut world, 0), NO_CODE, "another's");
        world.put(0, SLOTS, &flat.entry());
        assert_eq!(told(&mut world, SLOTS), NO_CODE, "another context's");
        assert_eq!(told(&mut world, 255), NO_CODE, "no slot");
        world.put(0, 1, &flat.entry());
        assert_eq!(told(&mut world, 1), what_of_code(1, flat.mark(), 32));
    }
}

#[test]
fn who_means_another_code_is_found_out() {
    let codes = [1, 2].map(|n| Flat::of(&sum_of_i32(n)).unwrap());
    let loopback = super::LOOPBACK as u32;
    let told = |whats: &[u64], there: bool| {
        let mut world = World::new(&[whats.len()], 1);
        if there {
            world.put(0, 0, &codes[0].entry());
        }
        world.at(1);
        for (process, &what) in whats.iter().enumerate() {
            let packet = world.start(0, process, what, Some(&[1; 8]));
            world.receive(0, loopback, &packet);
        }
        assert_eq!(world.hosts[0].number(), 1);
        world.hosts[0].result(0).0
    };
    let [one, two] = codes.each_ref().map(|flat| what_of_code(0, flat.mark(), 8));
    let sum = what(Op::Sum, Basic::U64, 8);
    assert_eq!(told(&[one, two], true), MISMATCH);
    assert_eq!(told(&[one, sum], true), MISMATCH);
    assert_eq!(
        told(&[one, what_of_code(1, codes[0].mark(), 8)], true),
        MISMATCH
    );
    // Those who disagree are told that rather than that there is no code, in any order.
    assert_eq!(told(&[one, two, one, one], false), MISMATCH);
    assert_eq!(told(&[one, one, one, two], false), MISMATCH);
    assert_eq!(told(&[one, one, one], false), NO_CODE);
    assert_eq!(told(&[one, one, one, one], false), NO_CODE);
}

#[test]
fn what_takes_too_long_is_not_begun() {
    let flat = Flat::of(&sum_of_i32(60)).unwrap();
    let mut world = World::new(&[2], 1);
    world.put(0, 0, &flat.entry());
    let words = u32::from_le_bytes(
        flat.entry()[code::WORDS as usize..][..4]
            .try_into()
            .unwrap(),
    );
    let most = (STEPS_MAX / words * 4) as usize;
    let mut seed = 14;
    let mut told = |bytes| world.fold(&flat, 0, &operands(&mut seed, 2, bytes)).0;
    assert_eq!(told(most), what_of_code(0, flat.mark(), most));
    assert_eq!(told(most + 4), NO_CODE);
    assert!(flat.fits(most) && !flat.fits(most + 4));
}

#[test]
fn nobody_sees_registers_of_others() {
    // Words that store a register that has no value: nobody verified them.
    let mut entry = Flat::of(&sum_of_i32(1)).unwrap().entry();
    let store = entry[code::TEXT as usize + 24..][..8].to_vec();
    let flat = Flat::of(&sum_of_i32(1)).unwrap();
    let mut world = World::new(&[2], 1);
    world.put(0, 0, &flat.entry());
    world.fold(&flat, 0, &[vec![0x77; 8], vec![0x66; 8]]);
    entry[code::TEXT as usize..][..8].copy_from_slice(&store);
    entry[code::WORDS as usize] = 1;
    world.put(0, 0, &entry);
    let told = world.fold(&flat, 0, &[vec![0x77; 8], vec![0x66; 8]]).1;
    assert_eq!(told, [0; 8]);
    let kept = world.hosts[0].machine.entry(map::MACHINE, 0);
    assert!(kept[..128].iter().all(|&byte| byte == 0));
}
