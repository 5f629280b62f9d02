//! Topologies: along which tree a broadcast runs down and a combine up.
//!
//! Processes of a scope are counted from the root on: `r = (index - root) mod n`, so the root is 0. Each
//! topology is a spanning tree of `0..n`.

use crate::{Error, Options};

/// How messages of a broadcast or combine flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// What is best here: ` `.
    Best,
    /// Chains that start at the root, of successive processes: `I` (one), `M` (as many as was set), `F` (each process
    /// its own). Backwards where the number is negative: `D`.
    Chains(i32),
    /// One chain forwards and one backwards: `S`.
    Split,
    /// A tree with this many branches, two or more, for which a process is a digit of its number: `T`, `1` to `9`.
    Branches(u32),
    /// The hypercube: `H`; broadcasts use the tree with two branches, combines for all an exchange.
    Hypercube,
}

/// What a topology says to one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Whom a broadcast comes from; none at the root.
    pub parent: Option<u32>,
    /// Whom it goes to, those with the longest way behind them first.
    pub children: Vec<u32>,
}

impl Topology {
    /// Of a broadcast.
    pub fn of_broadcast(letter: u8, options: &Options) -> Result<Topology, Error> {
        Topology::of(letter, options.broadcast_rings, options.broadcast_branches)
    }

    /// Of a combine. The hypercube gives all processes the same answer in the same order of operations only up to
    /// the sides of each sum, so it is a tree where coherence was asked for.
    pub fn of_combine(letter: u8, options: &Options) -> Result<Topology, Error> {
        let topology = Topology::of(letter, options.combine_rings, options.combine_branches)?;
        match topology {
            Topology::Hypercube if options.coherent => Ok(Topology::Branches(2)),
            _ => Ok(topology),
        }
    }

    fn of(letter: u8, rings: i32, branches: i32) -> Result<Topology, Error> {
        Ok(match letter.to_ascii_lowercase() {
            b' ' => Topology::Best,
            b'i' => Topology::Chains(1),
            b'd' => Topology::Chains(-1),
            b's' => Topology::Split,
            b'm' => Topology::Chains(rings),
            b'f' => Topology::Chains(i32::MAX),
            b'h' => Topology::Hypercube,
            b't' => Topology::Branches(branches.max(1).unsigned_abs() + 1),
            digit @ b'1'..=b'9' => Topology::Branches(u32::from(digit - b'0') + 1),
            _ => return Err(Error::Topology(letter)),
        })
    }

    /// The tree of `n` processes at process `r`.
    pub fn tree(self, n: u32, r: u32) -> Tree {
        let parent = self.parent(n, r);
        let mut children = Vec::new();
        match self {
            Topology::Chains(_) if r == 0 => {
                children.extend((1..n).filter(|&child| self.parent(n, child) == Some(0)));
            }
            Topology::Chains(_) | Topology::Split => {
                let mut near = [(r + 1) % n, (r + n - 1) % n];
                near.sort_unstable();
                let child = |&one: &u32| self.parent(n, one) == Some(r);
                children.extend(near.into_iter().filter(child));
                children.dedup();
            }
            _ => children = branches(self.base(), n, r),
        }
        Tree { parent, children }
    }

    fn base(self) -> u32 {
        match self {
            Topology::Branches(base) => base.max(2),
            _ => 2,
        }
    }

    fn parent(self, n: u32, r: u32) -> Option<u32> {
        if r == 0 {
            return None;
        }
        Some(match self {
            Topology::Chains(count) => {
                let chains = count.unsigned_abs().clamp(1, n - 1);
                let length = (n - 1).div_ceil(chains);
                // Backwards is forwards in a mirror.
                let mirrored = if count < 0 { n - r } else { r };
                match (mirrored - 1) % length {
                    0 => 0,
                    _ if count < 0 => r + 1,
                    _ => r - 1,
                }
            }
            Topology::Split if r <= n / 2 => r - 1,
            Topology::Split => (r + 1) % n,
            _ => {
                let base = self.base();
                let mut power = 1;
                while (r / power).is_multiple_of(base) {
                    power *= base;
                }
                r - r / power % base * power
            }
        })
    }
}

/// Children in the tree in which the parent of a process is it without its lowest digit that isn't 0, to
/// this base.
fn branches(base: u32, n: u32, r: u32) -> Vec<u32> {
    let (base, n, r) = (u64::from(base), u64::from(n), u64::from(r));
    let mut children = Vec::new();
    let mut power = 1;
    while power < n && r % (power * base) == 0 {
        let digits = (1..base).map(|digit| r + digit * power);
        children.extend(digits.take_while(|&child| child < n));
        power *= base;
    }
    children.reverse();
    children.into_iter().map(|child| child as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Topology> {
        let mut all = vec![Topology::Best, Topology::Split, Topology::Hypercube];
        all.extend([1, 2, 3, 4, 7, i32::MAX, -1, -2, -3, i32::MIN].map(Topology::Chains));
        all.extend([2, 3, 4, 10, 33, u32::MAX].map(Topology::Branches));
        all
    }

    #[test]
    fn spanning_trees() {
        for topology in all() {
            for n in 1..40 {
                let mut seen = 0;
                for r in 0..n {
                    let tree = topology.tree(n, r);
                    assert_eq!(tree.parent.is_none(), r == 0);
                    for &child in &tree.children {
                        assert_eq!(topology.tree(n, child).parent, Some(r), "{topology:?} {n}");
                        seen += 1;
                    }
                    let (mut at, mut steps) = (r, 0);
                    while let Some(parent) = topology.tree(n, at).parent {
                        (at, steps) = (parent, steps + 1);
                        assert!(steps < n, "{topology:?} {n} {r}");
                    }
                }
                assert_eq!(seen, n - 1, "{topology:?} {n}");
            }
        }
    }

    #[test]
    fn shapes() {
        let children = |topology: Topology, n, r| topology.tree(n, r).children;
        assert_eq!(children(Topology::Chains(1), 5, 0), [1]);
        assert_eq!(children(Topology::Chains(-1), 5, 0), [4]);
        assert_eq!(children(Topology::Chains(2), 5, 0), [1, 3]);
        assert_eq!(children(Topology::Chains(i32::MAX), 5, 0), [1, 2, 3, 4]);
        assert_eq!(children(Topology::Split, 5, 0), [1, 4]);
        assert_eq!(children(Topology::Branches(2), 8, 0), [4, 2, 1]);
        assert_eq!(children(Topology::Branches(3), 9, 3), [5, 4]);
    }

    #[test]
    fn letters() {
        let options = Options::default();
        let of = |letter| Topology::of_broadcast(letter, &options);
        assert_eq!(of(b'1'), Ok(Topology::Branches(2)));
        assert_eq!(of(b'9'), Ok(Topology::Branches(10)));
        assert_eq!(of(b'T'), Ok(Topology::Branches(2)));
        assert_eq!(of(b'M'), Ok(Topology::Chains(1)));
        assert_eq!(of(b'0'), Err(Error::Topology(b'0')));
        let coherent = Options {
            coherent: true,
            ..options
        };
        let of = |options| Topology::of_combine(b'h', options);
        assert_eq!(of(&coherent), Ok(Topology::Branches(2)));
        assert_eq!(of(&Options::default()), Ok(Topology::Hypercube));
    }
}
