//! The "external32" representation: big-endian, with the standard's sizes.
//!
//! It differs from this platform's in byte order; `long` has 4 bytes, `wchar_t` 2, and `long double`
//! is IEEE binary128. Data is converted run by run of a program whose fragments keep their element
//! kinds, so a run holds whole elements of one kind.

use boundary::UserBuf;
use layout::{Cursor, Kind, Tree, swap};
use types::basic::{Basic, Elem};
use types::{Result, consts, fault};

use crate::{Datatype, float, pairs};

/// `long`: signed, 8 bytes here, 4 there.
const LONG: Kind = Kind(Kind::HOST.0);
/// `unsigned long`: 8 bytes here, 4 there.
const UNSIGNED_LONG: Kind = Kind(Kind::HOST.0 + 1);
/// `wchar_t`: 4 bytes here, 2 there.
const WCHAR: Kind = Kind(Kind::HOST.0 + 2);
/// `long double`: x87 extended in 16 bytes here, binary128 there.
const LONG_DOUBLE: Kind = Kind(Kind::HOST.0 + 3);

/// Bytes converted at a time: whole elements of every kind.
const CHUNK: usize = 4096;

/// Kind of one part of `basic`.
fn kind(basic: &Basic, elem: Elem) -> Kind {
    match (basic.handle, elem) {
        (consts::LONG, _) | (consts::LONG_INT, Elem::I64) => LONG,
        (consts::UNSIGNED_LONG, _) => UNSIGNED_LONG,
        (consts::WCHAR, _) => WCHAR,
        (_, Elem::F80 | Elem::C80) => LONG_DOUBLE,
        (_, Elem::U8 | Elem::I8 | Elem::Bool | Elem::L8) => Kind::OPAQUE,
        (_, Elem::I16 | Elem::U16 | Elem::F16 | Elem::C16 | Elem::L16) => Kind::SWAP2,
        (_, Elem::I32 | Elem::U32 | Elem::F32 | Elem::C32 | Elem::L32) => Kind::SWAP4,
        (_, Elem::I64 | Elem::U64 | Elem::F64 | Elem::C64 | Elem::L64) => Kind::SWAP8,
        (_, Elem::F128 | Elem::C128) => Kind::SWAP16,
        // Pairs come in parts, none of which is a pair.
        _ => Kind::OPAQUE,
    }
}

/// Bytes here and there of an element of `kind`.
fn widths(kind: Kind) -> (usize, usize) {
    match kind {
        LONG | UNSIGNED_LONG => (8, 4),
        WCHAR => (4, 2),
        _ => (1, 1),
    }
}

/// Bytes of `basic` in this representation.
pub(crate) fn basic_size(basic: &Basic) -> u64 {
    let part = |p: &pairs::Part| {
        let (here, there) = widths(kind(basic, p.elem));
        p.size / here as u64 * there as u64
    };
    pairs::parts(basic).iter().map(part).sum()
}

/// The layout of `basic` with element kinds.
pub(crate) fn basic_tree(basic: &Basic) -> std::result::Result<Tree, layout::Error> {
    let parts = pairs::parts(basic);
    let blocks = parts
        .iter()
        .map(|p| Tree::block(p.disp, p.size, kind(basic, p.elem)));
    Tree::seq(&blocks.collect::<std::result::Result<Vec<_>, _>>()?)
}

/// Bytes of `count` elements of `t` in this representation, or `None` where that overflows.
pub fn size(t: &Datatype, count: u64) -> Option<u64> {
    t.external_size.checked_mul(count)
}

/// Converts `count` elements of `t` at `from` and puts them at `to`, which has room for [`size`]
/// bytes. Returns how many bytes were written.
pub fn pack(t: &Datatype, count: u64, from: UserBuf, to: UserBuf) -> Result<u64> {
    let mut cursor = Cursor::new(t.converter()?, count);
    let (mut native, mut foreign) = ([0; CHUNK], [0; CHUNK]);
    let mut done = 0;
    while let Some(run) = cursor.next_run(CHUNK) {
        let native = &mut native[..run.len];
        from.offset(run.disp).read(native);
        let n = encode(run.kind, native, &mut foreign)?;
        to.offset(done as i64).write(&foreign[..n]);
        done += n as u64;
    }
    Ok(done)
}

/// Converts `count` elements of `t`, [`size`] bytes at `from`, and puts them at `to`. Returns how
/// many bytes were read.
pub fn unpack(t: &Datatype, count: u64, from: UserBuf, to: UserBuf) -> Result<u64> {
    let mut cursor = Cursor::new(t.converter()?, count);
    let (mut native, mut foreign) = ([0; CHUNK], [0; CHUNK]);
    let mut done = 0;
    while let Some(run) = cursor.next_run(CHUNK) {
        let (here, there) = widths(run.kind);
        let n = run.len / here * there;
        from.offset(done as i64).read(&mut foreign[..n]);
        decode(run.kind, &mut foreign[..n], &mut native[..run.len]);
        to.offset(run.disp).write(&native[..run.len]);
        done += n as u64;
    }
    Ok(done)
}

fn out_of_range(what: &str, value: impl std::fmt::Display) -> Box<types::Fault> {
    fault(
        consts::ERR_CONVERSION,
        format!("the {what} {value} does not fit its external32 form"),
    )
}

/// Converts `native` (which may be changed) into `foreign`; returns how many bytes it gave.
fn encode(kind: Kind, native: &mut [u8], foreign: &mut [u8]) -> Result<usize> {
    let (here, there) = widths(kind);
    let n = native.len() / here * there;
    let foreign = &mut foreign[..n];
    match kind {
        LONG => {
            for (x, y) in native.as_chunks().0.iter().zip(foreign.as_chunks_mut().0) {
                let x = i64::from_ne_bytes(*x);
                *y = i32::try_from(x)
                    .map_err(|_| out_of_range("long", x))?
                    .to_be_bytes();
            }
        }
        UNSIGNED_LONG => {
            for (x, y) in native.as_chunks().0.iter().zip(foreign.as_chunks_mut().0) {
                let x = u64::from_ne_bytes(*x);
                *y = u32::try_from(x)
                    .map_err(|_| out_of_range("unsigned long", x))?
                    .to_be_bytes();
            }
        }
        WCHAR => {
            for (x, y) in native.as_chunks().0.iter().zip(foreign.as_chunks_mut().0) {
                let x = u32::from_ne_bytes(*x);
                *y = u16::try_from(x)
                    .map_err(|_| out_of_range("wide character", x))?
                    .to_be_bytes();
            }
        }
        LONG_DOUBLE => {
            for (x, y) in native.as_chunks().0.iter().zip(foreign.as_chunks_mut().0) {
                *y = float::widen(*x).to_be_bytes();
            }
        }
        _ => {
            swap(kind, native);
            foreign.copy_from_slice(native);
        }
    }
    Ok(n)
}

/// Converts `foreign` (which may be changed) into `native`.
fn decode(kind: Kind, foreign: &mut [u8], native: &mut [u8]) {
    match kind {
        LONG => {
            for (x, y) in foreign.as_chunks().0.iter().zip(native.as_chunks_mut().0) {
                *y = i64::from(i32::from_be_bytes(*x)).to_ne_bytes();
            }
        }
        UNSIGNED_LONG => {
            for (x, y) in foreign.as_chunks().0.iter().zip(native.as_chunks_mut().0) {
                *y = u64::from(u32::from_be_bytes(*x)).to_ne_bytes();
            }
        }
        WCHAR => {
            for (x, y) in foreign.as_chunks().0.iter().zip(native.as_chunks_mut().0) {
                *y = u32::from(u16::from_be_bytes(*x)).to_ne_bytes();
            }
        }
        LONG_DOUBLE => {
            for (x, y) in foreign.as_chunks().0.iter().zip(native.as_chunks_mut().0) {
                *y = float::narrow(u128::from_be_bytes(*x));
            }
        }
        _ => {
            swap(kind, foreign);
            native.copy_from_slice(foreign);
        }
    }
}
