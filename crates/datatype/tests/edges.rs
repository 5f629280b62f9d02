//! Cases at the edges: huge counts, empty types, deep nesting, refused arguments, contents.

use std::rc::Rc;

use boundary::AlignedBuf;
use datatype::{Datatype, external, match_size, value_index};
use layout::Cursor;
use types::basic::basic;
use types::{Handle, Result, consts};

fn named(handle: Handle) -> Rc<Datatype> {
    Datatype::basic(basic(handle).unwrap())
}

fn class(made: Result<Rc<Datatype>>) -> i32 {
    made.map(|_| ()).unwrap_err().class
}

#[test]
fn huge_counts_are_cheap_and_overflow_is_an_error() {
    let byte = named(consts::BYTE);
    let n = 1i64 << 40;
    let v = Datatype::vector(true, n, 1, 3, &byte).unwrap();
    assert_eq!((v.size() as i64, v.extent()), (n, 3 * (n - 1) + 1));
    let program = v.commit().unwrap();
    let mut cursor = Cursor::new(program, 2);
    cursor.seek(n as u64 + 7);
    assert_eq!(cursor.next_run(5).unwrap().disp, v.extent() + 21);
    assert_eq!(v.elements_in(n as u64 - 1), Some(n as u64 - 1));

    let double = named(consts::DOUBLE);
    assert_eq!(
        class(Datatype::contiguous(true, i64::MAX / 4, &double)),
        consts::ERR_VALUE_TOO_LARGE
    );
    let far = i64::MAX - 3;
    assert_eq!(
        class(Datatype::hindexed(false, &[1], &[far], &double)),
        consts::ERR_VALUE_TOO_LARGE
    );
    let apart = Datatype::hindexed(false, &[1, 1], &[i64::MIN, i64::MAX - 8], &double);
    assert_eq!(class(apart), consts::ERR_VALUE_TOO_LARGE);
    assert_eq!(
        class(Datatype::resized(false, 1, i64::MAX, &byte)),
        consts::ERR_VALUE_TOO_LARGE
    );
}

#[test]
fn empty_types_have_no_say() {
    let empty = Datatype::contiguous(false, 0, &named(consts::DOUBLE)).unwrap();
    assert_eq!((empty.size(), empty.lb(), empty.extent()), (0, 0, 0));
    let huge = Datatype::contiguous(true, i64::MAX, &empty).unwrap();
    assert_eq!((huge.size(), huge.extent()), (0, 0));
    let int = named(consts::INT);
    let with = Datatype::structure(false, &[1, 1], &[500, 4], vec![empty.clone(), int]).unwrap();
    assert_eq!((with.lb(), with.ub(), with.true_lb()), (4, 8, 4));
    let spaced = Datatype::resized(false, -8, 24, &empty).unwrap();
    assert_eq!((spaced.extent(), spaced.true_extent()), (24, 0));
    assert_eq!((spaced.count_in(0), spaced.count_in(1)), (Some(0), None));
    assert_eq!(
        (spaced.elements_in(0), spaced.elements_in(3)),
        (Some(0), None)
    );
    assert_eq!(Cursor::new(spaced.commit().unwrap(), 1000).remaining(), 0);
}

#[test]
fn structures_are_padded_like_c() {
    let (int, double) = (named(consts::INT), named(consts::DOUBLE));
    let types = [double.clone(), int.clone()];
    let t = Datatype::structure(false, &[1, 1], &[0, 8], types.to_vec()).unwrap();
    assert_eq!((t.size(), t.extent(), t.true_extent()), (12, 16, 12));
    // Only constructors of structures pad.
    let h = Datatype::hindexed(false, &[1, 1], &[0, 9], &int).unwrap();
    assert_eq!(h.extent(), 13);
    // A zero block takes no part in the alignment.
    let t = Datatype::structure(false, &[0, 1], &[0, 1], types.to_vec()).unwrap();
    assert_eq!((t.lb(), t.extent()), (1, 4));
    let pair = named(consts::DOUBLE_INT);
    assert_eq!((pair.size(), pair.extent(), pair.elements()), (12, 16, 2));
}

#[test]
fn chains_of_any_depth() {
    let mut t = named(consts::INT);
    for i in 0..200_000 {
        t = match i % 3 {
            0 => Datatype::dup(&t),
            1 => Datatype::contiguous(false, 1, &t),
            _ => Datatype::resized(false, 0, 4, &t),
        }
        .unwrap();
    }
    assert_eq!((t.elements_in(4), t.bytes_of_elements(1)), (Some(1), 4));
    let mut memory = AlignedBuf::new(8).unwrap();
    memory.buf().write(&1i32.to_ne_bytes());
    external::pack(&t, 1, memory.buf(), memory.buf().offset(4)).unwrap();
    let mut out = [0; 4];
    memory.buf().offset(4).read(&mut out);
    assert_eq!(out, [0, 0, 0, 1]);
    let mut nested = named(consts::INT);
    for _ in 0..30 {
        nested = Datatype::vector(false, 2, 1, 3, &nested).unwrap();
    }
    assert_eq!(nested.size(), 4 << 30);
    assert!(nested.commit().unwrap().insns().len() < 100);
}

#[test]
fn refused_arguments() {
    let int = named(consts::INT);
    assert_eq!(
        class(Datatype::contiguous(false, -1, &int)),
        consts::ERR_COUNT
    );
    assert_eq!(
        class(Datatype::vector(false, 1, -1, 1, &int)),
        consts::ERR_ARG
    );
    let sub = |sizes: &[i64], subs: &[i64], starts: &[i64], order| {
        class(Datatype::subarray(false, sizes, subs, starts, order, &int))
    };
    assert_eq!(sub(&[4], &[5], &[0], consts::ORDER_C), consts::ERR_ARG);
    assert_eq!(sub(&[4], &[2], &[3], consts::ORDER_C), consts::ERR_ARG);
    assert_eq!(sub(&[4], &[2], &[0], 0), consts::ERR_ARG);
    assert_eq!(sub(&[], &[], &[], consts::ORDER_C), consts::ERR_ARG);
    let block = [consts::DISTRIBUTE_BLOCK.into()];
    let grid = |size, dargs: &[i64], psizes: &[i64]| {
        class(Datatype::darray(
            false,
            size,
            0,
            &[10],
            &block,
            dargs,
            psizes,
            consts::ORDER_C,
            &int,
        ))
    };
    assert_eq!(
        grid(4, &[consts::DISTRIBUTE_DFLT_DARG.into()], &[3]),
        consts::ERR_ARG
    );
    assert_eq!(grid(3, &[2], &[3]), consts::ERR_ARG);
    assert_eq!(
        class(Datatype::f90_real(consts::UNDEFINED, consts::UNDEFINED)),
        consts::ERR_ARG
    );
    assert_eq!(class(Datatype::f90_integer(30)), consts::ERR_ARG);
}

#[test]
fn contents_give_the_arguments_back() {
    let int = named(consts::INT);
    let sorted = |t: Rc<Datatype>| {
        let c = t.contents();
        (c.combiner, c.ints, c.aints, c.counts)
    };
    let small = sorted(Datatype::hindexed(false, &[1, 2], &[8, 0], &int).unwrap());
    assert_eq!(
        small,
        (consts::COMBINER_HINDEXED, vec![2, 1, 2], vec![8, 0], vec![])
    );
    let large = sorted(Datatype::hindexed(true, &[1, 2], &[8, 0], &int).unwrap());
    assert_eq!(
        large,
        (
            consts::COMBINER_HINDEXED,
            vec![],
            vec![],
            vec![2, 1, 2, 8, 0]
        )
    );
    let order = consts::ORDER_FORTRAN;
    let sub =
        |large| sorted(Datatype::subarray(large, &[4, 5], &[2, 3], &[1, 0], order, &int).unwrap());
    let f = i64::from(order);
    assert_eq!(sub(false).1, [2, 4, 5, 2, 3, 1, 0, f]);
    assert_eq!(
        (sub(true).1, sub(true).3),
        (vec![2, f], vec![4, 5, 2, 3, 1, 0])
    );
    let real = Datatype::f90_real(10, consts::UNDEFINED).unwrap();
    assert!(real.is_predefined() && real.size() == 8);
    assert_eq!(
        sorted(real),
        (
            consts::COMBINER_F90_REAL,
            vec![10, consts::UNDEFINED.into()],
            vec![],
            vec![]
        )
    );
}

#[test]
fn external32_sizes_and_range() {
    let size = |h| external::size(&named(h), 1).unwrap();
    let sizes = [
        (consts::LONG, 4),
        (consts::UNSIGNED_LONG, 4),
        (consts::LONG_LONG, 8),
        (consts::WCHAR, 2),
        (consts::LONG_DOUBLE, 16),
        (consts::C_BOOL, 1),
        (consts::LOGICAL, 4),
        (consts::AINT, 8),
        (consts::LONG_INT, 8),
        (consts::SHORT_INT, 6),
        (consts::LONG_DOUBLE_INT, 20),
        (consts::C_LONG_DOUBLE_COMPLEX, 32),
    ];
    for (handle, bytes) in sizes {
        assert_eq!(size(handle), bytes, "{handle:?}");
    }
    let long = named(consts::LONG);
    let mut memory = AlignedBuf::new(64).unwrap();
    memory.buf().write(&(-5i64).to_ne_bytes());
    assert_eq!(
        external::pack(&long, 1, memory.buf(), memory.buf().offset(32)).unwrap(),
        4
    );
    external::unpack(&long, 1, memory.buf().offset(32), memory.buf().offset(8)).unwrap();
    let mut back = [0; 8];
    memory.buf().offset(8).read(&mut back);
    assert_eq!(i64::from_ne_bytes(back), -5);
    memory.buf().write(&(1i64 << 31).to_ne_bytes());
    let refused = external::pack(&long, 1, memory.buf(), memory.buf().offset(32)).unwrap_err();
    assert_eq!(refused.class, consts::ERR_CONVERSION);
}

#[test]
fn finding_predefined_types() {
    assert_eq!(
        match_size(consts::TYPECLASS_REAL, 8).unwrap(),
        consts::REAL8
    );
    assert!(match_size(consts::TYPECLASS_INTEGER, 3).is_err());
    assert!(match_size(0, 4).is_err());
    assert_eq!(value_index(consts::DOUBLE, consts::INT), consts::DOUBLE_INT);
    assert_eq!(value_index(consts::INT, consts::INT), consts::T_2INT);
    assert_eq!(
        value_index(consts::INT, consts::DOUBLE),
        consts::DATATYPE_NULL
    );
}
