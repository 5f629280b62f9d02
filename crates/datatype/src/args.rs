//! The arguments of a constructor call, and the placement of parts that they describe.
//!
//! The arguments are kept once, in the order of the call; everything else is read out of them when needed: where the parts lie
//! ([`Recipe`]), and what `MPI_Type_get_contents` gives back ([`Contents`]). The arguments and the part of a constructor without lists take
//! no memory of their own, as programs make such types for one message each.

use std::rc::Rc;
use std::slice;

use layout::Tree;
use types::{List, Result, consts};

use crate::bounds::{Bounds, plus, times};
use crate::{Datatype, array, refused};

/// What `MPI_Type_get_envelope` and `MPI_Type_get_contents` tell.
#[derive(Clone, Debug)]
pub struct Contents<'a> {
    /// The constructor (`COMBINER_*`).
    pub combiner: i32,
    /// Arguments of type `int`.
    pub ints: Vec<i64>,
    /// Arguments of type `MPI_Aint`.
    pub aints: Vec<i64>,
    /// Arguments of type `MPI_Count`: a large-count constructor was called.
    pub counts: Vec<i64>,
    /// The datatypes it was made of.
    pub types: &'a [Rc<Datatype>],
}

/// What an argument is declared as.
#[derive(Clone, Copy)]
enum Class {
    /// `int` in both forms of the constructor.
    Int,
    /// `int` in the small-count form, `MPI_Count` in the large-count one.
    Count,
    /// `MPI_Aint` in the small-count form, `MPI_Count` in the large-count one.
    Address,
}

/// A constructor call.
#[derive(Debug)]
pub(crate) struct Call {
    /// The constructor (`COMBINER_*`).
    pub(crate) combiner: i32,
    /// Whether it was the large-count form.
    large: bool,
    args: List<3>,
    parts: Parts,
}

/// What a type is made of.
#[derive(Debug)]
pub(crate) enum Parts {
    One(Rc<Datatype>),
    Many(Vec<Rc<Datatype>>),
}

impl Parts {
    pub(crate) const NONE: Parts = Parts::Many(Vec::new());
}

impl Call {
    /// A call with the arguments in `lists`, which a constructor has checked, in the order of its C binding; where arrays have a count, it comes
    /// first.
    pub(crate) fn new(combiner: i32, large: bool, parts: Parts, lists: &[&[i64]]) -> Call {
        Call {
            combiner,
            large,
            args: List::concat(lists),
            parts,
        }
    }

    /// The arguments.
    pub(crate) fn args(&self) -> &[i64] {
        &self.args
    }

    /// The datatypes among them.
    pub(crate) fn parts(&self) -> &[Rc<Datatype>] {
        match &self.parts {
            Parts::One(part) => slice::from_ref(part),
            Parts::Many(parts) => parts,
        }
    }

    /// Lets go of the parts; those that nobody else has are appended to `last`.
    pub(crate) fn release_parts(&mut self, last: &mut Vec<Datatype>) {
        match std::mem::replace(&mut self.parts, Parts::NONE) {
            Parts::One(part) => last.extend(Rc::into_inner(part)),
            Parts::Many(parts) => last.extend(parts.into_iter().filter_map(Rc::into_inner)),
        }
    }

    /// How many elements there are of each member of a structure.
    pub(crate) fn member_lengths(&self) -> &[i64] {
        match self.combiner {
            consts::COMBINER_STRUCT => &self.args()[1..1 + self.parts().len()],
            _ => &[],
        }
    }

    /// The arguments by their types.
    pub(crate) fn contents(&self) -> Contents<'_> {
        let mut contents = Contents {
            combiner: self.combiner,
            ints: Vec::new(),
            aints: Vec::new(),
            counts: Vec::new(),
            types: self.parts(),
        };
        for (i, &value) in self.args().iter().enumerate() {
            let list = match (self.class(i), self.large) {
                (Class::Int, _) | (Class::Count, false) => &mut contents.ints,
                (Class::Address, false) => &mut contents.aints,
                (_, true) => &mut contents.counts,
            };
            list.push(value);
        }
        contents
    }

    /// What argument `i` is.
    fn class(&self, i: usize) -> Class {
        let v = self.args();
        match self.combiner {
            consts::COMBINER_HVECTOR | consts::COMBINER_HINDEXED_BLOCK if i >= 2 => Class::Address,
            consts::COMBINER_HINDEXED | consts::COMBINER_STRUCT if i > v[0] as usize => {
                Class::Address
            }
            consts::COMBINER_RESIZED => Class::Address,
            consts::COMBINER_SUBARRAY if i == 0 || i == v.len() - 1 => Class::Int,
            consts::COMBINER_DARRAY if !(3..3 + v[2] as usize).contains(&i) => Class::Int,
            _ => Class::Count,
        }
    }
}

/// Where the parts lie. All lengths are in elements of the part.
#[derive(Debug)]
pub(crate) enum Recipe<'a> {
    /// The part itself.
    Same,
    /// `count` blocks of `len` elements, `stride` bytes apart.
    Strided { count: i64, len: i64, stride: i64 },
    /// Blocks, each with a displacement in `unit`s of bytes and a length.
    Listed {
        disps: &'a [i64],
        unit: i64,
        lens: &'a [i64],
    },
    /// Blocks of `len` elements, at displacements in `unit`s of bytes.
    Blocks {
        disps: &'a [i64],
        unit: i64,
        len: i64,
    },
    /// Element `i` of the types, `len` times, at a displacement in bytes.
    Members { disps: &'a [i64], lens: &'a [i64] },
    /// A piece of an array.
    Array(array::Piece),
}

/// What the parts come to.
pub(crate) struct Totals {
    /// Strictest alignment of those that occur.
    pub(crate) align: i64,
    /// Basic elements.
    pub(crate) elements: u64,
    /// Bytes in the "external32" representation.
    pub(crate) external_size: u64,
}

impl<'a> Recipe<'a> {
    /// Reads the recipe out of the arguments.
    pub(crate) fn of(call: &'a Call) -> Result<Recipe<'a>> {
        let v = call.args();
        let extent = call.parts().first().map_or(0, |t| t.extent());
        // The displacements and lengths of a constructor with lists of both.
        let lists = || {
            let (lens, disps) = v[1..].split_at(v[0] as usize);
            (disps, lens)
        };
        Ok(match call.combiner {
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
            consts::COMBINER_HVECTOR => Recipe::Strided {
                count: v[0],
                len: v[1],
                stride: v[2],
            },
            consts::COMBINER_INDEXED | consts::COMBINER_HINDEXED => {
                let (disps, lens) = lists();
                let in_bytes = call.combiner == consts::COMBINER_HINDEXED;
                let unit = if in_bytes { 1 } else { extent };
                Recipe::Listed { disps, unit, lens }
            }
            consts::COMBINER_INDEXED_BLOCK => Recipe::Blocks {
                disps: &v[2..],
                unit: extent,
                len: v[1],
            },
            consts::COMBINER_HINDEXED_BLOCK => Recipe::Blocks {
                disps: &v[2..],
                unit: 1,
                len: v[1],
            },
            consts::COMBINER_STRUCT => {
                let (disps, lens) = lists();
                Recipe::Members { disps, lens }
            }
            consts::COMBINER_SUBARRAY => Recipe::Array(array::Piece::subarray(v, extent)),
            consts::COMBINER_DARRAY => Recipe::Array(array::Piece::darray(v, extent)?),
            _ => Recipe::Same,
        })
    }

    /// The layout, given that of each part.
    pub(crate) fn tree<'b>(
        &self,
        types: &'b [Rc<Datatype>],
        part: impl Fn(&'b Datatype) -> &'b Tree,
    ) -> Result<Tree> {
        if let Recipe::Members { disps, lens } = self {
            return members_tree(disps, lens, types, part);
        }
        let Some(old) = types.first() else {
            return Ok(Tree::EMPTY);
        };
        let (tree, extent) = (part(old), old.extent());
        let tree = match self {
            Recipe::Same | Recipe::Members { .. } => Ok(tree.clone()),
            Recipe::Strided { count, len, stride } => tree
                .repeat(*len as u64, extent)
                .and_then(|b| b.repeat(*count as u64, *stride)),
            Recipe::Listed { disps, unit, lens } => {
                return listed_tree(blocks(disps, *unit, lens), tree, extent);
            }
            Recipe::Blocks { disps, unit, len } => {
                let disps = disps.iter().map(|&d| times(d, *unit));
                let disps = disps.collect::<Result<Vec<_>>>()?;
                tree.repeat(*len as u64, extent)
                    .and_then(|b| b.scatter(&disps))
            }
            Recipe::Array(piece) => return piece.tree(tree),
        };
        tree.map_err(refused)
    }

    /// What the parts come to.
    pub(crate) fn totals(&self, types: &[Rc<Datatype>]) -> Result<Totals> {
        let one;
        let lens = match self {
            Recipe::Members { lens, .. } => *lens,
            _ => {
                one = [self.length()?];
                &one
            }
        };
        let (mut align, mut elements, mut external_size) = (1, 0, 0);
        for (t, &n) in types.iter().zip(lens) {
            if n > 0 && t.size > 0 {
                align = t.align.max(align);
            }
            elements = plus(elements, times(t.elements as i64, n)?)?;
            external_size = plus(external_size, times(t.external_size as i64, n)?)?;
        }
        Ok(Totals {
            align,
            elements: elements as u64,
            external_size: external_size as u64,
        })
    }

    /// Elements of the only part.
    fn length(&self) -> Result<i64> {
        match self {
            Recipe::Strided { count, len, .. } => times(*count, *len),
            Recipe::Listed { lens, .. } => lens.iter().try_fold(0, |sum, &n| plus(sum, n)),
            Recipe::Blocks { disps, len, .. } => times(disps.len() as i64, *len),
            Recipe::Array(piece) => piece.elements(),
            Recipe::Same | Recipe::Members { .. } => Ok(1),
        }
    }

    /// The bounds by the standard's rules, given those of the parts and the strictest alignment of these.
    pub(crate) fn bounds(&self, types: &[Rc<Datatype>], align: i64) -> Result<Bounds> {
        if let Recipe::Members { disps, lens } = self {
            let mut all = Bounds::EMPTY;
            for (block, t) in blocks(disps, 1, lens).zip(types) {
                let (disp, len) = block?;
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
            Recipe::Listed { disps, unit, lens } => {
                let mut all = Bounds::EMPTY;
                for block in blocks(disps, *unit, lens) {
                    let (disp, len) = block?;
                    all = all.join(block_bounds(old, disp, len)?)?;
                }
                Ok(all)
            }
            Recipe::Blocks { disps, unit, len } => {
                let one = block_bounds(old, 0, *len)?;
                let (Some(low), Some(high)) = (disps.iter().min(), disps.iter().max()) else {
                    return Ok(Bounds::EMPTY);
                };
                let (a, b) = (times(*low, *unit)?, times(*high, *unit)?);
                one.spread(a.min(b), a.max(b))
            }
            Recipe::Array(piece) => piece.bounds(),
            Recipe::Same | Recipe::Members { .. } => Ok(old.bounds),
        }
    }
}

/// Blocks, each a displacement in bytes and a length.
fn blocks(disps: &[i64], unit: i64, lens: &[i64]) -> impl Iterator<Item = Result<(i64, i64)>> {
    let both = disps.iter().zip(lens);
    both.map(move |(&disp, &len)| Ok((times(disp, unit)?, len)))
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
    disps: &[i64],
    lens: &[i64],
    types: &'a [Rc<Datatype>],
    part: impl Fn(&'a Datatype) -> &'a Tree,
) -> Result<Tree> {
    let mut trees = Vec::with_capacity(lens.len());
    let mut next = 0;
    // Neighbouring members of one type and length are one indexed part.
    while next < lens.len() {
        let (t, len) = (&types[next], lens[next]);
        let same = |i: usize| lens[i] == len && Rc::ptr_eq(&types[i], t);
        let end = (next..lens.len()).find(|&i| !same(i)).unwrap_or(lens.len());
        let block = part(t).repeat(len as u64, t.extent());
        let scattered = block.and_then(|b| b.scatter(&disps[next..end]));
        trees.push(scattered.map_err(refused)?);
        next = end;
    }
    Tree::seq(&trees).map_err(refused)
}

fn listed_tree(
    blocks: impl Iterator<Item = Result<(i64, i64)>>,
    tree: &Tree,
    extent: i64,
) -> Result<Tree> {
    if let Some((disp, len, kind)) = tree.as_block()
        && i64::try_from(len) == Ok(extent)
    {
        let spans = blocks.map(|block| {
            let (d, n) = block?;
            Ok((plus(d, disp)?, times(n, extent)? as u64))
        });
        let spans = spans.collect::<Result<Vec<_>>>()?;
        return Tree::blocks(spans, kind).map_err(refused);
    }
    if tree.size() == 0 {
        return Ok(Tree::EMPTY);
    }
    let mut used = blocks.collect::<Result<Vec<_>>>()?;
    used.retain(|block| block.1 > 0);
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
