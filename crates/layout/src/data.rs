//! A buffer and what of it is data: the argument of every transfer.

use std::rc::Rc;

use boundary::UserBuf;

use crate::{Cursor, Program};

/// Which bytes of a buffer are data.
#[derive(Clone, Debug)]
pub enum Shape {
    /// So many bytes from the buffer's address on.
    Bytes(u64),
    /// `count` repetitions of a layout.
    Typed {
        /// The layout.
        program: Rc<Program>,
        /// Repetitions.
        count: u64,
    },
}

/// A buffer and its shape.
#[derive(Clone, Debug)]
pub struct Data {
    /// The buffer; the layout's displacements count from here.
    pub buf: UserBuf,
    /// Which of its bytes are data.
    pub shape: Shape,
}

impl Data {
    /// No data.
    pub const EMPTY: Data = Data {
        buf: UserBuf::NULL,
        shape: Shape::Bytes(0),
    };

    /// `len` bytes at `buf`.
    #[inline]
    pub const fn bytes(buf: UserBuf, len: u64) -> Data {
        Data {
            buf,
            shape: Shape::Bytes(len),
        }
    }

    /// `count` repetitions of `program` at `buf`; plain bytes where they lie in one run.
    #[inline]
    pub fn typed(buf: UserBuf, program: &Rc<Program>, count: u64) -> Data {
        match program.run_start(count) {
            Some(start) => Data::bytes(buf.offset(start), program.size().saturating_mul(count)),
            None => Data {
                buf,
                shape: Shape::Typed {
                    program: program.clone(),
                    count,
                },
            },
        }
    }

    /// Packed bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.shape {
            Shape::Bytes(n) => *n,
            Shape::Typed { program, count } => program.size().saturating_mul(*count),
        }
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// If the data lie in one run: its address and length.
    #[inline(always)]
    pub fn contiguous(&self) -> Option<(UserBuf, u64)> {
        match &self.shape {
            Shape::Bytes(n) => Some((self.buf, *n)),
            Shape::Typed { program, count } => self.run_of(program, *count),
        }
    }

    /// Where typed data lie, if that is one run.
    fn run_of(&self, program: &Program, count: u64) -> Option<(UserBuf, u64)> {
        let start = program.run_start(count)?;
        Some((self.buf.offset(start), self.len()))
    }

    /// Reads the data as a stream of packed bytes.
    #[inline]
    pub fn reader(&self) -> Reader {
        Reader(self.stream())
    }

    /// Writes the data from a stream of packed bytes.
    #[inline]
    pub fn writer(&self) -> Writer {
        Writer(self.stream())
    }

    #[inline]
    fn stream(&self) -> Stream {
        match (&self.shape, self.contiguous()) {
            (Shape::Typed { program, count }, None) => Stream::Typed {
                buf: self.buf,
                cursor: Cursor::new(program, *count),
            },
            (_, run) => {
                let (buf, len) = run.unwrap_or((self.buf, 0));
                Stream::Bytes { buf, done: 0, len }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Stream {
    Bytes { buf: UserBuf, done: u64, len: u64 },
    Typed { buf: UserBuf, cursor: Cursor },
}

impl Stream {
    #[inline]
    fn position(&self) -> u64 {
        match self {
            Stream::Bytes { done, .. } => *done,
            Stream::Typed { cursor, .. } => cursor.position(),
        }
    }

    #[inline]
    fn remaining(&self) -> u64 {
        match self {
            Stream::Bytes { done, len, .. } => len - done,
            Stream::Typed { cursor, .. } => cursor.remaining(),
        }
    }

    fn seek(&mut self, offset: u64) {
        match self {
            Stream::Bytes { done, len, .. } => *done = offset.min(*len),
            Stream::Typed { cursor, .. } => cursor.seek(offset),
        }
    }

    #[inline]
    fn contiguous(&self) -> Option<(UserBuf, u64)> {
        match self {
            Stream::Bytes { buf, done, len } => Some((buf.offset(*done as i64), len - done)),
            Stream::Typed { .. } => None,
        }
    }

    fn next_run(&mut self, max: usize) -> Option<(UserBuf, usize)> {
        match self {
            Stream::Bytes { buf, done, len } => {
                let n = (*len - *done).min(max as u64) as usize;
                let at = buf.offset(*done as i64);
                *done += n as u64;
                (n > 0).then_some((at, n))
            }
            Stream::Typed { buf, cursor } => cursor
                .next_run(max)
                .map(|run| (buf.offset(run.disp), run.len)),
        }
    }
}

macro_rules! stream_methods {
    ($name:ident) => {
        impl $name {
            /// Packed bytes passed.
            #[inline]
            pub fn position(&self) -> u64 {
                self.0.position()
            }

            /// Packed bytes to come.
            #[inline]
            pub fn remaining(&self) -> u64 {
                self.0.remaining()
            }

            /// Moves to packed byte `offset` (at most the data's length).
            pub fn seek(&mut self, offset: u64) {
                self.0.seek(offset)
            }

            /// If the rest lies in one run: its address and length.
            #[inline]
            pub fn contiguous(&self) -> Option<(UserBuf, u64)> {
                self.0.contiguous()
            }

            /// The next stretch of at most `max` bytes that lie together, and moves past it;
            /// `None` at the end.
            pub fn next_run(&mut self, max: usize) -> Option<(UserBuf, usize)> {
                self.0.next_run(max)
            }
        }
    };
}

/// Reads data as a stream of packed bytes; resumable.
#[derive(Clone, Debug)]
pub struct Reader(Stream);

/// Writes data from a stream of packed bytes; resumable.
#[derive(Clone, Debug)]
pub struct Writer(Stream);

stream_methods!(Reader);
stream_methods!(Writer);

impl Reader {
    /// Copies the next bytes into `out`; returns how many: `out.len()`, or fewer at the end.
    #[inline]
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        match &mut self.0 {
            Stream::Bytes { buf, done, len } => {
                let n = (*len - *done).min(out.len() as u64) as usize;
                buf.offset(*done as i64).read(&mut out[..n]);
                *done += n as u64;
                n
            }
            Stream::Typed { buf, cursor } => cursor.pack(*buf, out),
        }
    }
}

impl Writer {
    /// Copies `input` to the next bytes; returns how many: `input.len()`, or fewer at the end.
    #[inline]
    pub fn write(&mut self, input: &[u8]) -> usize {
        match &mut self.0 {
            Stream::Bytes { buf, done, len } => {
                let n = (*len - *done).min(input.len() as u64) as usize;
                buf.offset(*done as i64).write(&input[..n]);
                *done += n as u64;
                n
            }
            Stream::Typed { buf, cursor } => cursor.unpack(*buf, input),
        }
    }
}

/// Copies as much of `from` as fits into `to`, in packed order; returns how many bytes. The two
/// buffers may only overlap where both are contiguous.
pub fn transfer(from: &Data, to: &Data) -> u64 {
    let total = from.len().min(to.len());
    let n = usize::try_from(total).unwrap_or(usize::MAX);
    match (from.stream(), to.stream()) {
        (Stream::Bytes { buf: source, .. }, Stream::Bytes { buf: target, .. }) => {
            target.copy_from(source, n);
        }
        (Stream::Typed { buf, mut cursor }, Stream::Bytes { buf: target, .. }) => {
            cursor.gather(buf, target, n);
        }
        (Stream::Bytes { buf: source, .. }, Stream::Typed { buf, mut cursor }) => {
            cursor.scatter(buf, source, n);
        }
        (from, to) => bounce(Reader(from), Writer(to), total),
    }
    total
}

/// Copies `left` bytes in pieces.
fn bounce(mut reader: Reader, mut writer: Writer, mut left: u64) {
    // Fits the first-level cache beside the fragments themselves.
    let mut bounce = [0; 8192];
    while left > 0 {
        let n = left.min(bounce.len() as u64) as usize;
        let n = reader.read(&mut bounce[..n]);
        writer.write(&bounce[..n]);
        left -= n as u64;
    }
}
