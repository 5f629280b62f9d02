//! How fast the sum of doubles is, beside memcpy of as many bytes: `cargo bench -p op`.

use boundary::UserBuf;
use op::{Builtin, kernel};
use std::hint::black_box;
use std::time::Instant;
use types::basic::Elem;

/// Best of many rounds, in GB/s of the vector's length.
fn rate(bytes: usize, mut f: impl FnMut()) -> f64 {
    let repeat = ((1 << 24) / bytes).max(1);
    let mut best = f64::MAX;
    for _ in 0..30 {
        let start = Instant::now();
        for _ in 0..repeat {
            f();
        }
        best = best.min(start.elapsed().as_secs_f64() / repeat as f64);
    }
    bytes as f64 / best / 1e9
}

fn main() {
    for bytes in [64, 1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20] {
        let (mut a, mut b) = (vec![0u8; bytes + 64], vec![0u8; bytes + 64]);
        let (x, y) = (UserBuf::of_array(&mut a), UserBuf::of_array(&mut b));
        let speed = |op, elem, size| {
            let kernel = kernel(op, elem).expect("a kernel of a supported operation");
            rate(bytes, || {
                kernel.apply(black_box(x), black_box(y), (bytes / size) as u64)
            })
        };
        let copy = rate(bytes, || black_box(y).copy_from(black_box(x), bytes));
        println!(
            "{bytes:>9} B: memcpy {copy:6.1}  f64 sum {:6.1}  f32 max {:6.1}  i32 sum {:6.1}  c64 prod {:6.1}  f80 sum {:6.1}  i8 land {:6.1}  u16 max {:6.1}  f64int maxloc {:6.1} GB/s",
            speed(Builtin::Sum, Elem::F64, 8),
            speed(Builtin::Max, Elem::F32, 4),
            speed(Builtin::Sum, Elem::I32, 4),
            speed(Builtin::Prod, Elem::C64, 16),
            speed(Builtin::Sum, Elem::F80, 16),
            speed(Builtin::Land, Elem::I8, 1),
            speed(Builtin::Max, Elem::U16, 2),
            speed(Builtin::Maxloc, Elem::F64Int, 16),
        );
    }
}
