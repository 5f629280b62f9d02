//! Byte-order conversion of packed bytes.

use crate::Kind;

fn reverse<const N: usize>(bytes: &mut [u8]) {
    for element in bytes.as_chunks_mut::<N>().0 {
        element.reverse();
    }
}

/// Reverses the byte order of each element in `bytes`, whole elements of `kind`. Kinds that are not
/// byte swaps are left alone.
pub fn swap(kind: Kind, bytes: &mut [u8]) {
    match kind {
        Kind::SWAP2 => reverse::<2>(bytes),
        Kind::SWAP4 => reverse::<4>(bytes),
        Kind::SWAP8 => reverse::<8>(bytes),
        Kind::SWAP16 => reverse::<16>(bytes),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_elements_are_reversed() {
        let mut b = [1, 2, 3, 4, 5, 6, 7, 8];
        swap(Kind::SWAP4, &mut b);
        assert_eq!(b, [4, 3, 2, 1, 8, 7, 6, 5]);
        swap(Kind::SWAP8, &mut b);
        assert_eq!(b, [5, 6, 7, 8, 1, 2, 3, 4]);
        swap(Kind::OPAQUE, &mut b);
        assert_eq!(b, [5, 6, 7, 8, 1, 2, 3, 4]);
    }
}
