//! The arguments of a constructor call, and the placement of parts that they describe.
//!
//! The arguments are kept once, in the form `MPI_Type_get_contents` gives them back; everything else
//! is read out of them when needed.

use std::rc::Rc;

use layout::Tree;
use types::{Result, consts};

use crate::bounds::{Bounds, plus, times};
use crate::{Datatype, array, refused};

/// What `MPI_Type_get_envelope` and `MPI_Type_get_contents` tell.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The constructor (`COMBINER_*`).
    pub combiner: i32,
    /// Arguments of type `int`.
    pub ints: Vec<i64>,
    /// Arguments of type `MPI_Aint`.
    pub aints: Vec<i64>,
    /// Arguments of type `MPI_Count`: a large-count constructor was called.
    pub counts: Vec<i64>,
    /// The datatypes it was made of.
    pub types: Vec<Rc<Datatype>>,
}

/// Where the parts lie. All lengths are in elements of the part, displacements in bytes.
#[derive(Debug)]
pub(crate) enum Recipe {
    /// The part itself.
    Same,
    /// `count` blocks of `len` elements, `stride` bytes apart.
    Strided { count: i64, len: i64, stride: i64 },
    /// Blocks, each a displacement and a length.
    Listed(Vec<(i64, i64)>),
    /// Blocks of `len` elements.
    Blocks { disps: Vec<i64>, len: i64 },
    /// Element `i` of the types, `len` times, at `disp`.
    Members(Vec<(i64, i64)>),
    /// A piece of an array.
    Array(array::Piece),
}

impl Recipe {
    /// Reads the recipe out of the arguments, which a constructor has checked.
    pub(crate) fn of(c: &Contents) -> Result<Recipe> {
        let large = !c.counts.is_empty();
        // Small-count constructors keep displacements of type MPI_Aint apart.
        let v = if large { &c.counts } else { &c.ints };
        let extent = c.types.first().map_or(0, |t| t.extent());
        let n = v.first().copied().unwrap_or(0) as usize;
        let far = |from: usize| {
            if large {
                &v[from..from + n]
            } else {
                &c.aints[..n]
            }
        };
        let by_extent = |d: &[i64]| {
            d.iter()
                .map(|&d| times(d, extent))
                .collect::<Result<Vec<_>>>()
        };
        let zip = |d: &[i64], l: &[i64]| d.iter().copied().zip(l.iter().copied()).collect();
        Ok(match c.combiner {
            consts::COMBINER_CONTIGUOUS => Recipe::Strided {
                count: 1,
                len: v[0],
                stride: 0,
            },
            consts::COMBINER_VECTOR => Recipe::Strided {
                count: v[0],
                len: v[1],
                stride: times(v[2], extent)?,
            },
            consts::COMBINER_HVECTOR => {
                let stride = if large { v[2] } else { c.aints[0] };
                Recipe::Strided {
                    count: v[0],
                    len: v[1],
                    stride,
                }
            }
            consts::COMBINER_INDEXED => {
                Recipe::Listed(zip(&by_extent(&v[1 + n..1 + 2 * n])?, &v[1..1 + n]))
            }
            consts::COMBINER_HINDEXED => Recipe::Listed(zip(far(1 + n), &v[1..1 + n])),
            consts::COMBINER_INDEXED_BLOCK => Recipe::Blocks {
                disps: by_extent(&v[2..2 + n])?,
                len: v[1],
            },
            consts::COMBINER_HINDEXED_BLOCK => Recipe::Blocks {
                disps: far(2).to_vec(),
                len: v[1],
            },
            consts::COMBINER_STRUCT => Recipe::Members(zip(far(1 + n), &v[1..1 + n])),
            consts::COMBINER_SUBARRAY => Recipe::Array(array::Piece::subarray(c, extent)?),
            consts::COMBINER_DARRAY => Recipe::Array(array::Piece::darray(c, extent)?),
            _ => Recipe::Same,
        })
    }

    /// The layout, given that of each part.
    pub(crate) fn tree<'a>(
        &self,
        types: &'a [Rc<Datatype>],
        part: impl Fn(&'a Datatype) -> &'a Tree,
    ) -> Result<Tree> {
        if let Recipe::Members(members) = self {
            return members_tree(members, types, part);
        }
        let Some(old) = types.first() else {
            return Ok(Tree::EMPTY);
        };
        let (tree, extent) = (part(old), old.extent());
        let tree = match self {
            Recipe::Same | Recipe::Members(_) => Ok(tree.clone()),
            Recipe::Strided { count, len, stride } => tree
                .repeat(*len as u64, extent)
                .and_then(|b| b.repeat(*count as u64, *stride)),
            Recipe::Listed(blocks) => return listed_tree(blocks, tree, extent),
            Recipe::Blocks { disps, len } => tree
                .repeat(*len as u64, extent)
                .and_then(|b| b.scatter(disps)),
            Recipe::Array(piece) => return piece.tree(tree),
        };
        tree.map_err(refused)
    }

    /// Elements of each part: (index of the part, how many), in total.
    pub(crate) fn lengths(&self) -> Result<Vec<i64>> {
        match self {
            Recipe::Same => Ok(vec![1]),
            Recipe::Strided { count, len, .. } => Ok(vec![times(*count, *len)?]),
            Recipe::Listed(blocks) => Ok(vec![blocks.iter().try_fold(0, |n, b| plus(n, b.1))?]),
            Recipe::Blocks { disps, len } => Ok(vec![times(disps.len() as i64, *len)?]),
            Recipe::Members(members) => Ok(members.iter().map(|m| m.1).collect()),
            Recipe::Array(piece) => Ok(vec![piece.elements()?]),
        }
    }

    /// The bounds, given those of the parts; explicit ones (`MPI_Type_create_resized`, arrays) are
    /// the caller's business.
    pub(crate) fn bounds(&self, types: &[Rc<Datatype>], align: i64) -> Result<Bounds> {
        if let Recipe::Members(members) = self {
            let mut all = Bounds::EMPTY;
            for (&(disp, len), t) in members.iter().zip(types) {
                all = all.join(block_bounds(t, disp, len)?)?;
            }
            return all.padded(align);
        }
        let Some(old) = types.first() else {
            return Ok(Bounds::EMPTY);
        };
        match self {
            Recipe::Strided { count, len, stride } if *count > 0 && old.bounds.present => {
                let far = times(count - 1, *stride)?;
                block_bounds(old, 0, *len)?.spread(far.min(0), far.max(0))
            }
            Recipe::Strided { .. } => Ok(Bounds::EMPTY),
            Recipe::Listed(blocks) => {
                let mut all = Bounds::EMPTY;
                for &(disp, len) in blocks {
                    all = all.join(block_bounds(old, disp, len)?)?;
                }
                Ok(all)
            }
            Recipe::Blocks { disps, len } => {
                let one = block_bounds(old, 0, *len)?;
                let (Some(low), Some(high)) = (disps.iter().min(), disps.iter().max()) else {
                    return Ok(Bounds::EMPTY);
                };
                one.spread(*low, *high)
            }
            _ => Ok(old.bounds),
        }
    }
}

/// Bounds of `len` elements of `t` from `disp` on.
fn block_bounds(t: &Datatype, disp: i64, len: i64) -> Result<Bounds> {
    if len == 0 || !t.bounds.present {
        return Ok(Bounds::EMPTY);
    }
    let far = times(len - 1, t.extent())?;
    t.bounds
        .spread(plus(disp, far.min(0))?, plus(disp, far.max(0))?)
}

fn members_tree<'a>(
    members: &[(i64, i64)],
    types: &'a [Rc<Datatype>],
    part: impl Fn(&'a Datatype) -> &'a Tree,
) -> Result<Tree> {
    let mut trees = Vec::with_capacity(members.len());
    let mut next = 0;
    // Neighbouring members of one type and length are one indexed part.
    while next < members.len() {
        let (t, len) = (&types[next], members[next].1);
        let same = |i: usize| members[i].1 == len && Rc::ptr_eq(&types[i], t);
        let end = (next..members.len())
            .find(|&i| !same(i))
            .unwrap_or(members.len());
        let disps: Vec<i64> = members[next..end].iter().map(|m| m.0).collect();
        let block = part(t).repeat(len as u64, t.extent());
        trees.push(block.and_then(|b| b.scatter(&disps)).map_err(refused)?);
        next = end;
    }
    Tree::seq(&trees).map_err(refused)
}

fn listed_tree(blocks: &[(i64, i64)], tree: &Tree, extent: i64) -> Result<Tree> {
    if let Some((disp, len, kind)) = tree.as_block()
        && i64::try_from(len) == Ok(extent)
    {
        let spans = blocks
            .iter()
            .map(|&(d, n)| Ok((plus(d, disp)?, times(n, extent)? as u64)));
        let spans = spans.collect::<Result<Vec<_>>>()?;
        return Tree::blocks(spans, kind).map_err(refused);
    }
    if tree.size() == 0 {
        return Ok(Tree::EMPTY);
    }
    let used: Vec<_> = blocks.iter().copied().filter(|b| b.1 > 0).collect();
    let groups: Vec<&[(i64, i64)]> = used.chunk_by(|a, b| a.1 == b.1).collect();
    let elements = used.iter().try_fold(0i64, |n, b| n.checked_add(b.1));
    // Lengths that keep changing would cost a few instructions each: list the elements instead,
    // where that is not much longer.
    if elements.is_some_and(|n| n / 8 <= groups.len() as i64) && groups.len() > 1 {
        let mut disps = Vec::new();
        for &(disp, len) in &used {
            for i in 0..len {
                disps.push(plus(disp, times(i, extent)?)?);
            }
        }
        return tree.scatter(&disps).map_err(refused);
    }
    let mut trees = Vec::with_capacity(groups.len());
    for group in groups {
        let disps: Vec<i64> = group.iter().map(|b| b.0).collect();
        let block = tree.repeat(group[0].1 as u64, extent);
        trees.push(block.and_then(|b| b.scatter(&disps)).map_err(refused)?);
    }
    Tree::seq(&trees).map_err(refused)
}
