//! How predefined types are made of parts.

use types::basic::{Basic, Class, Elem};

/// One part of a basic type: its displacement, bytes and storage.
pub(crate) struct Part {
    pub(crate) disp: i64,
    pub(crate) size: u64,
    pub(crate) elem: Elem,
}

/// The parts of a basic type: one, or value and index of a pair.
pub(crate) fn parts(basic: &Basic) -> Vec<Part> {
    let part = |disp, size, elem| Part { disp, size, elem };
    match (basic.class, basic.elem) {
        (Class::Pair, Elem::F32Int) => vec![part(0, 4, Elem::F32), part(4, 4, Elem::I32)],
        (Class::Pair, Elem::F64Int) => vec![part(0, 8, Elem::F64), part(8, 4, Elem::I32)],
        (Class::Pair, Elem::I64Int) => vec![part(0, 8, Elem::I64), part(8, 4, Elem::I32)],
        (Class::Pair, Elem::I32Int) => vec![part(0, 4, Elem::I32), part(4, 4, Elem::I32)],
        (Class::Pair, Elem::I16Int) => vec![part(0, 2, Elem::I16), part(4, 4, Elem::I32)],
        (Class::Pair, Elem::F80Int) => vec![part(0, 16, Elem::F80), part(16, 4, Elem::I32)],
        (Class::Pair, Elem::F32x2) => vec![part(0, 4, Elem::F32), part(4, 4, Elem::F32)],
        (Class::Pair, Elem::F64x2) => vec![part(0, 8, Elem::F64), part(8, 8, Elem::F64)],
        (_, elem) => vec![part(0, basic.size as u64, elem)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::basic::BASICS;

    #[test]
    fn parts_add_up() {
        for b in &BASICS {
            let p = parts(b);
            assert_eq!(
                p.iter().map(|p| p.size).sum::<u64>(),
                b.size as u64,
                "{}",
                b.name
            );
            assert_eq!(
                p.len(),
                if b.class == Class::Pair { 2 } else { 1 },
                "{}",
                b.name
            );
        }
    }
}
