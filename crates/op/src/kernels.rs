//! The kernels written in Rust: one loop, generic over type and operation, which LLVM vectorises;
//! once for the baseline instruction set and once for AVX2.

use crate::half::Half;
use crate::{Builtin, Raw};
use types::basic::Elem;

/// One operation on one type.
trait Binary<T> {
    /// Whether the baseline loop is the faster one on every processor.
    const BASELINE: bool = false;
    /// `a op b`.
    fn of(a: T, b: T) -> T;
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $($(#[$doc])* struct $name;)* };
}
operations!(
    Max, Min, Sum, Prod, Land, Lor, Lxor, Band, Bor, Bxor, Maxloc, Minloc
);

/// Implements operations for types: `rule!(Types; Operation, a, b => expression)`.
macro_rules! rule {
    ($($t:ty),+; $op:ident, $a:ident, $b:ident => $result:expr) => {
        $(impl Binary<$t> for $op {
            #[inline(always)]
            fn of($a: $t, $b: $t) -> $t {
                $result
            }
        })+
    };
}

macro_rules! integers {
    ($($t:ty),+) => {
        rule!($($t),+; Max, a, b => if a > b { a } else { b });
        rule!($($t),+; Min, a, b => if a < b { a } else { b });
        rule!($($t),+; Sum, a, b => a.wrapping_add(b));
        rule!($($t),+; Prod, a, b => a.wrapping_mul(b));
        rule!($($t),+; Land, a, b => ((a != 0) & (b != 0)).into());
        rule!($($t),+; Lor, a, b => ((a != 0) | (b != 0)).into());
        rule!($($t),+; Lxor, a, b => ((a != 0) ^ (b != 0)).into());
        rule!($($t),+; Band, a, b => a & b);
        rule!($($t),+; Bor, a, b => a | b);
        rule!($($t),+; Bxor, a, b => a ^ b);
    };
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! float_extremes {
    ($($t:ty),+; $op:ident, $better:tt) => {
        $(impl Binary<$t> for $op {
            // For AVX2 LLVM makes a masked store of "store a where it is better", seven times
            // slower than SSE's maxps, which is this very comparison.
            const BASELINE: bool = true;
            #[inline(always)]
            fn of(a: $t, b: $t) -> $t {
                if a $better b { a } else { b }
            }
        })+
    };
}
float_extremes!(f32, f64; Max, >);
float_extremes!(f32, f64; Min, <);
rule!(f32, f64; Sum, a, b => a + b);
rule!(f32, f64; Prod, a, b => a * b);

// A sum or product in single precision, rounded again, is the correctly rounded half: a single's 24
// bits are twice a half's 11 and two more.
rule!(Half; Max, a, b => if a.single() > b.single() { a } else { b });
rule!(Half; Min, a, b => if a.single() < b.single() { a } else { b });
rule!(Half; Sum, a, b => Half::nearest(a.single() + b.single()));
rule!(Half; Prod, a, b => Half::nearest(a.single() * b.single()));

/// Two numbers; a sum of them is a sum of twice as many numbers, so only the product is here.
#[derive(Clone, Copy)]
#[repr(C)]
struct Complex<T>(T, T);

rule!(Complex<f32>, Complex<f64>; Prod, a, b =>
    Complex(a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0));
rule!(Complex<Half>; Prod, a, b => {
    let single = |c: Complex<Half>| Complex(c.0.single(), c.1.single());
    let Complex(real, imaginary) = <Prod as Binary<Complex<f32>>>::of(single(a), single(b));
    Complex(Half::nearest(real), Half::nearest(imaginary))
});

/// A value and its location, laid out as C lays out the structure.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<V, L>(V, L);

type Pairs = (
    Pair<f32, i32>,
    Pair<f64, i32>,
    Pair<i64, i32>,
    Pair<i32, i32>,
    Pair<i16, i32>,
);
const _: () = assert!(size_of::<Pairs>() == 8 + 16 + 16 + 8 + 8);

macro_rules! locate {
    ($op:ident, $better:tt) => {
        impl<V: PartialOrd, L: PartialOrd> Binary<Pair<V, L>> for $op {
            #[inline(always)]
            fn of(a: Pair<V, L>, b: Pair<V, L>) -> Pair<V, L> {
                if a.0 $better b.0 || (a.0 == b.0 && a.1 < b.1) { a } else { b }
            }
        }
    };
}
locate!(Maxloc, >);
locate!(Minloc, <);

/// Elements that are loaded, combined and stored together: enough for LLVM to vectorise the body of
/// the loop without having to prove that the two arrays don't overlap.
const CHUNK: usize = 16;

/// The loop.
///
/// # Safety
/// As for [`Raw`].
#[inline(always)]
unsafe fn each<T: Copy, O: Binary<T>>(a: *const u8, b: *const u8, to: *mut u8, n: usize) {
    let (a, b, to) = (a.cast::<T>(), b.cast::<T>(), to.cast::<T>());
    let whole = n - n % CHUNK;
    let mut i = 0;
    while i < whole {
        // SAFETY: `i + CHUNK <= n`, and the caller vouches for `n` elements at all addresses. All
        // bit patterns of the element types are values.
        unsafe {
            let x = a.add(i).cast::<[T; CHUNK]>().read_unaligned();
            let mut y = b.add(i).cast::<[T; CHUNK]>().read_unaligned();
            for k in 0..CHUNK {
                y[k] = O::of(x[k], y[k]);
            }
            to.add(i).cast::<[T; CHUNK]>().write_unaligned(y);
        }
        i += CHUNK;
    }
    while i < n {
        // SAFETY: `i < n`; else as above.
        unsafe {
            let result = O::of(a.add(i).read_unaligned(), b.add(i).read_unaligned());
            to.add(i).write_unaligned(result);
        }
        i += 1;
    }
}

unsafe fn baseline<T: Copy, O: Binary<T>>(a: *const u8, b: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's promise is the same.
    unsafe { each::<T, O>(a, b, to, n) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<T: Copy, O: Binary<T>>(a: *const u8, b: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's promise is the same.
    unsafe { each::<T, O>(a, b, to, n) }
}

/// The loop for this processor.
fn pick<T: Copy, O: Binary<T>>() -> Raw {
    #[cfg(target_arch = "x86_64")]
    if !O::BASELINE && std::arch::is_x86_feature_detected!("avx2") {
        return avx2::<T, O>;
    }
    baseline::<T, O>
}

/// `to = a`, `n` bytes.
///
/// # Safety
/// As for [`Raw`], of bytes.
unsafe fn copy(a: *const u8, _: *const u8, to: *mut u8, n: usize) {
    // SAFETY: as promised; `copy` allows overlap.
    unsafe { std::ptr::copy(a, to, n) }
}

/// The kernel of `MPI_REPLACE`, on bytes.
pub(crate) const COPY: Raw = copy;

fn logical<T: Copy>(op: Builtin) -> Option<Raw>
where
    Land: Binary<T>,
    Lor: Binary<T>,
    Lxor: Binary<T>,
{
    Some(match op {
        Builtin::Land => pick::<T, Land>(),
        Builtin::Lor => pick::<T, Lor>(),
        Builtin::Lxor => pick::<T, Lxor>(),
        _ => return None,
    })
}

fn arithmetic<T: Copy>(op: Builtin) -> Option<Raw>
where
    Max: Binary<T>,
    Min: Binary<T>,
    Sum: Binary<T>,
    Prod: Binary<T>,
{
    Some(match op {
        Builtin::Max => pick::<T, Max>(),
        Builtin::Min => pick::<T, Min>(),
        Builtin::Sum => pick::<T, Sum>(),
        Builtin::Prod => pick::<T, Prod>(),
        _ => return None,
    })
}

/// A type that has all operations but those on pairs.
trait Integer: Copy {
    fn find(op: Builtin) -> Option<Raw>;
}

macro_rules! find_integer {
    ($($t:ty),+) => {
        $(impl Integer for $t {
            fn find(op: Builtin) -> Option<Raw> {
                match op {
                    Builtin::Band => Some(pick::<$t, Band>()),
                    Builtin::Bor => Some(pick::<$t, Bor>()),
                    Builtin::Bxor => Some(pick::<$t, Bxor>()),
                    _ => arithmetic::<$t>(op).or_else(|| logical::<$t>(op)),
                }
            }
        })+
    };
}
find_integer!(i8, u8, i16, u16, i32, u32, i64, u64);

fn located<V: PartialOrd + Copy, L: PartialOrd + Copy>(op: Builtin) -> Option<Raw> {
    match op {
        Builtin::Maxloc => Some(pick::<Pair<V, L>, Maxloc>()),
        Builtin::Minloc => Some(pick::<Pair<V, L>, Minloc>()),
        _ => None,
    }
}

fn product<T: Copy>(op: Builtin) -> Option<Raw>
where
    Prod: Binary<T>,
{
    (op == Builtin::Prod).then(pick::<T, Prod>)
}

/// The kernel of `op` on `elem`; `None` where there is none, or it is not written in Rust.
pub(crate) fn find(op: Builtin, elem: Elem) -> Option<Raw> {
    match elem {
        Elem::I8 => i8::find(op),
        Elem::U8 => u8::find(op),
        Elem::I16 => i16::find(op),
        Elem::U16 => u16::find(op),
        Elem::I32 => i32::find(op),
        Elem::U32 => u32::find(op),
        Elem::I64 => i64::find(op),
        Elem::U64 => u64::find(op),
        Elem::Bool | Elem::L8 => logical::<u8>(op),
        Elem::L16 => logical::<u16>(op),
        Elem::L32 => logical::<u32>(op),
        Elem::L64 => logical::<u64>(op),
        Elem::F16 => arithmetic::<Half>(op),
        Elem::F32 => arithmetic::<f32>(op),
        Elem::F64 => arithmetic::<f64>(op),
        Elem::C16 => product::<Complex<Half>>(op),
        Elem::C32 => product::<Complex<f32>>(op),
        Elem::C64 => product::<Complex<f64>>(op),
        Elem::F32Int => located::<f32, i32>(op),
        Elem::F64Int => located::<f64, i32>(op),
        Elem::I64Int => located::<i64, i32>(op),
        Elem::I32Int => located::<i32, i32>(op),
        Elem::I16Int => located::<i16, i32>(op),
        Elem::F32x2 => located::<f32, f32>(op),
        Elem::F64x2 => located::<f64, f64>(op),
        Elem::F80 | Elem::C80 | Elem::F80Int | Elem::F128 | Elem::C128 => None,
    }
}
