//! How long byte code takes beside a compiled function that does the same, and beside a kernel: `cargo bench -p op --bench program`.

use boundary::UserBuf;
use bytecode::{Binary, Builder, Program, Side, Type, Wide};
use op::{Builtin, apply_program, kernel};
use std::hint::black_box;
use std::time::Instant;
use types::basic::Elem;

/// Best of many rounds, in nanoseconds.
fn time(count: usize, mut f: impl FnMut()) -> f64 {
    let repeat = (20_000 / count).max(1);
    let mut best = f64::MAX;
    for _ in 0..60 {
        let start = Instant::now();
        for _ in 0..repeat {
            f();
        }
        best = best.min(start.elapsed().as_secs_f64() / repeat as f64);
    }
    best * 1e9
}

/// Sum of numbers.
fn sum() -> Builder {
    let mut b = Builder::new(8);
    let (x, y) = (
        b.load(Side::In, Type::F64, 0),
        b.load(Side::Inout, Type::F64, 0),
    );
    let z = b.binary(Binary::Add, Wide::F64, x, y);
    b.store(Type::F64, 0, z);
    b
}

/// Product of complex numbers of integers.
fn product() -> Builder {
    let mut b = Builder::new(16);
    let [x, u] = [0, 8].map(|at| b.load(Side::In, Type::I64, at));
    let [y, v] = [0, 8].map(|at| b.load(Side::Inout, Type::I64, at));
    let two = |b: &mut Builder, op, x, y| b.binary(op, Wide::I64, x, y);
    let (xy, uv) = (
        two(&mut b, Binary::Mul, x, y),
        two(&mut b, Binary::Mul, u, v),
    );
    let re = two(&mut b, Binary::Sub, xy, uv);
    let (xv, uy) = (
        two(&mut b, Binary::Mul, x, v),
        two(&mut b, Binary::Mul, u, y),
    );
    let im = two(&mut b, Binary::Add, xv, uy);
    b.store(Type::I64, 0, re);
    b.store(Type::I64, 8, im);
    b
}

fn sum_compiled(a: &[f64], b: &mut [f64]) {
    for (a, b) in a.iter().zip(b) {
        *b += a;
    }
}

fn product_compiled(a: &[[i64; 2]], b: &mut [[i64; 2]]) {
    for (a, b) in a.iter().zip(b) {
        let re = a[0]
            .wrapping_mul(b[0])
            .wrapping_sub(a[1].wrapping_mul(b[1]));
        let im = a[0]
            .wrapping_mul(b[1])
            .wrapping_add(a[1].wrapping_mul(b[0]));
        *b = [re, im];
    }
}

fn main() {
    let program = |builder: Builder| Program::verify(&builder.code().unwrap()).unwrap();
    let (sum, product) = (program(sum()), program(product()));
    let kernel = kernel(Builtin::Sum, Elem::F64).expect("sums of doubles");
    for count in [1usize, 4, 15, 16, 128, 1024, 16384] {
        let (mut a, mut b) = (vec![0u8; count * 16], vec![0u8; count * 16]);
        let (x, y) = (UserBuf::of_array(&mut a), UserBuf::of_array(&mut b));
        let n = count as u64;
        let coded = time(count, || apply_program(&sum, black_box(x), black_box(y), n));
        let kernel = time(count, || kernel.apply(black_box(x), black_box(y), n));
        let complex = time(count, || {
            apply_program(&product, black_box(x), black_box(y), n)
        });
        let (c, mut d) = (vec![1.5; count], vec![2.5; count]);
        let function = time(count, || sum_compiled(black_box(&c), black_box(&mut d)));
        let (e, mut f) = (vec![[3, 4]; count], vec![[5, 6]; count]);
        let compiled = time(count, || product_compiled(black_box(&e), black_box(&mut f)));
        println!(
            "{count:>6} elements: sum {coded:9.1} ns, compiled {function:8.1}, kernel {kernel:8.1}; \
             complex product {complex:9.1} ns, compiled {compiled:8.1}"
        );
    }
}
