//! Byte code on buffers: operations of the application's that may run anywhere, like the kernels here.

use boundary::UserBuf;
use bytecode::{Elements, Program, Side};

/// Arrays of elements, as long as the program's run needs.
struct Buffers {
    input: UserBuf,
    inout: UserBuf,
}

impl Buffers {
    /// A `T`, which is bytes, at this place of a side.
    #[inline(always)]
    fn read<T: Copy>(&self, from: Side, at: usize) -> T {
        let side = match from {
            Side::In => self.input,
            Side::Inout => self.inout,
        };
        // SAFETY: only `apply_program` makes these, and has `Program::run` alone use them, which stays within the elements it is
        // told of; the makers of the buffers promised that these are there. Bytes have any values and need no alignment.
        unsafe { side.as_mut_ptr().add(at).cast::<T>().read_unaligned() }
    }

    /// Puts a `T`, which is bytes, at this place of `inout`.
    #[inline(always)]
    fn write<T: Copy>(&mut self, at: usize, bytes: T) {
        let to = self.inout.as_mut_ptr();
        // SAFETY: as above; `inout` is writable.
        unsafe { to.add(at).cast::<T>().write_unaligned(bytes) }
    }
}

impl Elements for Buffers {
    #[inline(always)]
    fn load<const N: usize>(&self, from: Side, at: usize) -> [u8; N] {
        self.read(from, at)
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.write(at, bytes);
    }

    #[inline(always)]
    fn load_run<const N: usize, const L: usize>(&self, from: Side, at: usize) -> [[u8; N]; L] {
        self.read(from, at)
    }

    #[inline(always)]
    fn store_run<const N: usize, const L: usize>(&mut self, at: usize, bytes: [[u8; N]; L]) {
        self.write(at, bytes);
    }
}

/// `inout[i] = input[i] op inout[i]` for `count` elements of [`Program::element`] bytes each, of which only [`Program::touches`] has
/// to be there. The two arrays do not overlap. Nothing is allocated, locked or called: it may run in the handler of a signal.
pub fn apply_program(program: &Program, input: UserBuf, inout: UserBuf, count: u64) {
    let (mut buffers, count) = (Buffers { input, inout }, count as usize);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { run_avx2(program, &mut buffers, count) };
    }
    run_baseline(program, &mut buffers, count);
}

/// Not inlined: the registers of both are on the stack otherwise, which in the handler of a signal is short.
#[inline(never)]
fn run_baseline(program: &Program, buffers: &mut Buffers, count: usize) {
    program.run(buffers, count);
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn run_avx2(program: &Program, buffers: &mut Buffers, count: usize) {
    program.run(buffers, count);
}
