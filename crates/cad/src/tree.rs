//! Rank arithmetic of the binomial tree, on ranks relative to its root.

/// `rank` relative to `root`.
pub(crate) fn relative(rank: u32, root: u32, size: u32) -> u32 {
    ((u64::from(rank) + u64::from(size) - u64::from(root)) % u64::from(size)) as u32
}

/// The rank that is `relative` to `root`.
pub(crate) fn absolute(relative: u32, root: u32, size: u32) -> u32 {
    ((u64::from(relative) + u64::from(root)) % u64::from(size)) as u32
}

/// The parent of a relative rank other than zero: its lowest bit cleared.
pub(crate) fn parent(relative: u32) -> u32 {
    relative & (relative - 1)
}

/// The distances to the children of a relative rank, ascending. The child at distance `m` heads
/// the relative ranks `[relative + m, relative + 2m)`, as far as they exist.
pub(crate) fn children(relative: u32, size: u32) -> impl DoubleEndedIterator<Item = u32> {
    let bits = if relative == 0 {
        32
    } else {
        relative.trailing_zeros()
    };
    let room = size - relative;
    let reach = 32 - (room - 1).leading_zeros();
    (0..bits.min(reach)).map(|k| 1u32 << k)
}

/// How many relative ranks the subtree of `relative` has; they are consecutive.
pub(crate) fn subtree(relative: u32, size: u32) -> u32 {
    if relative == 0 {
        size
    } else {
        (1 << relative.trailing_zeros()).min(size - relative)
    }
}

/// The same children in the order in which to send to them: who has more ranks below first, and of those with as many the nearest.
pub(crate) fn downward(relative: u32, size: u32) -> Vec<u32> {
    let mut order: Vec<u32> = children(relative, size).collect();
    order.sort_by_key(|m| std::cmp::Reverse(subtree(relative + m, size)));
    order
}

/// The largest power of two that is at most `n` (`n` > 0).
pub(crate) fn floor_pow2(n: u32) -> u32 {
    1 << (31 - n.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_subtree_comes_first() {
        for (size, order) in [
            (3, &[1, 2][..]),
            (5, &[2, 1, 4]),
            (6, &[2, 4, 1]),
            (8, &[4, 2, 1]),
        ] {
            assert_eq!(downward(0, size), order, "{size}");
        }
        assert_eq!(downward(4, 8), [2, 1]);
    }

    #[test]
    fn every_rank_is_the_child_of_its_parent_only() {
        for size in 1..70 {
            let mut heads = vec![0; size as usize];
            for r in 0..size {
                let sum: u32 = children(r, size).map(|m| subtree(r + m, size)).sum();
                assert_eq!(sum + 1, subtree(r, size), "rank {r} of {size}");
                for m in children(r, size) {
                    assert_eq!(parent(r + m), r);
                    heads[(r + m) as usize] += 1;
                }
            }
            assert!(heads[1..].iter().all(|&n| n == 1) && heads[0] == 0);
        }
    }
}
