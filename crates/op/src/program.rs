//! Byte code on buffers: operations of the application's that may run anywhere, like the kernels here.

use boundary::UserBuf;
use bytecode::{Elements, Program, Side};

/// Arrays of elements, as long as the program's run needs.
struct Buffers {
    input: UserBuf,
    inout: UserBuf,
}

impl Elements for Buffers {
    #[inline(always)]
    fn load<const N: usize>(&self, from: Side, at: usize) -> [u8; N] {
        let side = match from {
            Side::In => self.input,
            Side::Inout => self.inout,
        };
        // SAFETY: only `apply` makes these, and has `Program::run` alone use them, which stays within the elements it is told of;
        // the makers of the buffers promised that these are there. Bytes need no alignment.
        unsafe { side.as_mut_ptr().add(at).cast::<[u8; N]>().read_unaligned() }
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        let to = self.inout.as_mut_ptr();
        // SAFETY: as above; `inout` is writable.
        unsafe { to.add(at).cast::<[u8; N]>().write_unaligned(bytes) }
    }
}

/// `inout[i] = input[i] op inout[i]` for `count` elements of [`Program::element`] bytes each, of which only [`Program::touches`] has
/// to be there. The two arrays do not overlap. Nothing is allocated, locked or called: it may run in the handler of a signal.
pub fn apply_program(program: &Program, input: UserBuf, inout: UserBuf, count: u64) {
    program.run(&mut Buffers { input, inout }, count as usize);
}
