//! The type constructors: argument checks, and what a new type is.
//!
//! `large` says that the large-count form (`_c`) was called: it changes nothing but what
//! `MPI_Type_get_envelope` and `MPI_Type_get_contents` report.

use std::cell::OnceCell;
use std::rc::Rc;

use layout::{Kind, Tree};
use types::basic::{Basic, Class, basic};
use types::{Handle, Result, consts, fault};

use crate::args::{Call, Parts, Recipe};
use crate::bounds::Bounds;
use crate::{Datatype, external, pairs};

type Made = Result<Rc<Datatype>>;

fn count_of(count: i64) -> Result<()> {
    if count < 0 {
        return Err(fault(
            consts::ERR_COUNT,
            format!("the count {count} is negative"),
        ));
    }
    Ok(())
}

fn length(len: i64) -> Result<()> {
    if len < 0 {
        return Err(fault(
            consts::ERR_ARG,
            format!("the block length {len} is negative"),
        ));
    }
    Ok(())
}

fn equal(what: &str, have: usize, need: i64) -> Result<()> {
    if have as i64 != need {
        let why = format!("{have} {what} for a count of {need}");
        return Err(fault(consts::ERR_ARG, why));
    }
    Ok(())
}

impl Call {
    /// The type that the call describes.
    fn make(self) -> Made {
        let (recipe, types) = (Recipe::of(&self)?, self.parts());
        let totals = recipe.totals(types)?;
        let bounds = match (self.combiner, self.args()) {
            (consts::COMBINER_RESIZED, &[lb, extent]) => Bounds::explicit(lb, extent)?,
            _ => recipe.bounds(types, totals.align)?,
        };
        let tree = recipe.tree(types, |t| &t.tree)?;
        Ok(Rc::new(Datatype {
            basic: None,
            size: tree.size(),
            bounds,
            align: totals.align,
            elements: totals.elements,
            external_size: totals.external_size,
            tree,
            kinds: OnceCell::new(),
            program: OnceCell::new(),
            converter: OnceCell::new(),
            call: self,
        }))
    }
}

impl Datatype {
    /// The predefined type `basic`.
    pub fn basic(basic: &'static Basic) -> Rc<Datatype> {
        let call = Call::new(consts::COMBINER_NAMED, false, Parts::NONE, &[]);
        Rc::new(Datatype::like(basic, call))
    }

    /// A type represented as `basic`, made by `call`.
    fn like(basic: &'static Basic, call: Call) -> Datatype {
        let parts = pairs::parts(basic);
        let elements = if basic.class == Class::Pair { 2 } else { 1 };
        let blocks = parts.iter().map(|p| (p.disp, p.size)).collect();
        // A basic type's few small blocks can't overflow.
        let tree = Tree::blocks(blocks, Kind::OPAQUE).unwrap_or(Tree::EMPTY);
        Datatype {
            basic: Some(basic),
            size: basic.size as u64,
            bounds: Bounds::natural(basic.extent() as i64),
            align: basic.align as i64,
            elements,
            external_size: external::basic_size(basic),
            tree,
            kinds: OnceCell::new(),
            program: OnceCell::new(),
            converter: OnceCell::new(),
            call,
        }
    }

    /// A type made of one other.
    fn made_of(old: &Rc<Datatype>, combiner: i32, large: bool, lists: &[&[i64]]) -> Made {
        Call::new(combiner, large, Parts::One(old.clone()), lists).make()
    }

    /// `MPI_Type_dup`.
    pub fn dup(old: &Rc<Datatype>) -> Made {
        Datatype::made_of(old, consts::COMBINER_DUP, false, &[])
    }

    /// `MPI_Type_contiguous`.
    pub fn contiguous(large: bool, count: i64, old: &Rc<Datatype>) -> Made {
        count_of(count)?;
        Datatype::made_of(old, consts::COMBINER_CONTIGUOUS, large, &[&[count]])
    }

    /// `MPI_Type_vector`.
    pub fn vector(large: bool, count: i64, len: i64, stride: i64, old: &Rc<Datatype>) -> Made {
        count_of(count)?;
        length(len)?;
        Datatype::made_of(
            old,
            consts::COMBINER_VECTOR,
            large,
            &[&[count, len, stride]],
        )
    }

    /// `MPI_Type_create_hvector`.
    pub fn hvector(large: bool, count: i64, len: i64, stride: i64, old: &Rc<Datatype>) -> Made {
        count_of(count)?;
        length(len)?;
        Datatype::made_of(
            old,
            consts::COMBINER_HVECTOR,
            large,
            &[&[count, len, stride]],
        )
    }

    /// `MPI_Type_indexed`; as many displacements as lengths.
    pub fn indexed(large: bool, lens: &[i64], disps: &[i64], old: &Rc<Datatype>) -> Made {
        Datatype::listed(old, consts::COMBINER_INDEXED, large, lens, disps)
    }

    /// `MPI_Type_create_hindexed`; as many displacements as lengths.
    pub fn hindexed(large: bool, lens: &[i64], disps: &[i64], old: &Rc<Datatype>) -> Made {
        Datatype::listed(old, consts::COMBINER_HINDEXED, large, lens, disps)
    }

    fn listed(old: &Rc<Datatype>, combiner: i32, large: bool, lens: &[i64], disps: &[i64]) -> Made {
        equal("displacements", disps.len(), lens.len() as i64)?;
        lens.iter().try_for_each(|&n| length(n))?;
        Datatype::made_of(old, combiner, large, &[&[lens.len() as i64], lens, disps])
    }

    /// `MPI_Type_create_indexed_block`.
    pub fn indexed_block(large: bool, len: i64, disps: &[i64], old: &Rc<Datatype>) -> Made {
        length(len)?;
        let lists: [&[i64]; 2] = [&[disps.len() as i64, len], disps];
        Datatype::made_of(old, consts::COMBINER_INDEXED_BLOCK, large, &lists)
    }

    /// `MPI_Type_create_hindexed_block`.
    pub fn hindexed_block(large: bool, len: i64, disps: &[i64], old: &Rc<Datatype>) -> Made {
        length(len)?;
        let lists: [&[i64]; 2] = [&[disps.len() as i64, len], disps];
        Datatype::made_of(old, consts::COMBINER_HINDEXED_BLOCK, large, &lists)
    }

    /// `MPI_Type_create_struct`; as many lengths and displacements as types.
    pub fn structure(large: bool, lens: &[i64], disps: &[i64], types: Vec<Rc<Datatype>>) -> Made {
        let count = types.len() as i64;
        equal("block lengths", lens.len(), count)?;
        equal("displacements", disps.len(), count)?;
        lens.iter().try_for_each(|&n| length(n))?;
        Call::new(
            consts::COMBINER_STRUCT,
            large,
            Parts::Many(types),
            &[&[count], lens, disps],
        )
        .make()
    }

    /// `MPI_Type_create_resized`.
    pub fn resized(large: bool, lb: i64, extent: i64, old: &Rc<Datatype>) -> Made {
        Datatype::made_of(old, consts::COMBINER_RESIZED, large, &[&[lb, extent]])
    }

    /// `MPI_Type_create_subarray`.
    pub fn subarray(
        large: bool,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: i32,
        old: &Rc<Datatype>,
    ) -> Made {
        let n = dimensions(sizes.len(), order)?;
        equal("subsizes", subsizes.len(), n)?;
        equal("starts", starts.len(), n)?;
        for d in 0..sizes.len() {
            let (size, sub, start) = (sizes[d], subsizes[d], starts[d]);
            if sub < 1 || sub > size || start < 0 || start > size - sub {
                let why = format!(
                    "in dimension {d}, {sub} elements from {start} on do not lie in an array of {size}"
                );
                return Err(fault(consts::ERR_ARG, why));
            }
        }
        let lists = [&[n], sizes, subsizes, starts, &[order.into()]];
        Datatype::made_of(old, consts::COMBINER_SUBARRAY, large, &lists)
    }

    /// `MPI_Type_create_darray`.
    #[allow(clippy::too_many_arguments)] // The standard's own list.
    pub fn darray(
        large: bool,
        size: i64,
        rank: i64,
        gsizes: &[i64],
        distribs: &[i64],
        dargs: &[i64],
        psizes: &[i64],
        order: i32,
        old: &Rc<Datatype>,
    ) -> Made {
        let n = dimensions(gsizes.len(), order)?;
        equal("distributions", distribs.len(), n)?;
        equal("distribution arguments", dargs.len(), n)?;
        equal("process grid sizes", psizes.len(), n)?;
        if size < 1 || rank < 0 || rank >= size {
            return Err(fault(
                consts::ERR_ARG,
                format!("rank {rank} of {size} processes"),
            ));
        }
        if let Some(bad) = gsizes.iter().chain(psizes).find(|&&x| x < 1) {
            let why = format!("an array or process grid size of {bad} is not positive");
            return Err(fault(consts::ERR_ARG, why));
        }
        let grid = psizes.iter().try_fold(1i64, |n, &p| n.checked_mul(p));
        if grid != Some(size) {
            let why = format!("the process grid {psizes:?} does not have {size} processes");
            return Err(fault(consts::ERR_ARG, why));
        }
        let lists: [&[i64]; 6] = [
            &[size, rank, n],
            gsizes,
            distribs,
            dargs,
            psizes,
            &[order.into()],
        ];
        Datatype::made_of(old, consts::COMBINER_DARRAY, large, &lists)
    }

    /// `MPI_Type_create_f90_real`: the type for `selected_real_kind(p, r)`.
    pub fn f90_real(precision: i32, range: i32) -> Made {
        let handle = match float_kind(precision, range)? {
            4 => consts::REAL4,
            8 => consts::REAL8,
            10 => consts::LONG_DOUBLE,
            _ => consts::REAL16,
        };
        Datatype::f90(consts::COMBINER_F90_REAL, &[precision, range], handle)
    }

    /// `MPI_Type_create_f90_complex`: the complex type for `selected_real_kind(p, r)`.
    pub fn f90_complex(precision: i32, range: i32) -> Made {
        let handle = match float_kind(precision, range)? {
            4 => consts::COMPLEX8,
            8 => consts::COMPLEX16,
            10 => consts::C_LONG_DOUBLE_COMPLEX,
            _ => consts::COMPLEX32,
        };
        Datatype::f90(consts::COMBINER_F90_COMPLEX, &[precision, range], handle)
    }

    /// `MPI_Type_create_f90_integer`: the type for `selected_int_kind(r)`.
    pub fn f90_integer(range: i32) -> Made {
        let handle = match range {
            ..=2 => consts::INTEGER1,
            3..=4 => consts::INTEGER2,
            5..=9 => consts::INTEGER4,
            10..=18 => consts::INTEGER8,
            _ => {
                let why = format!("no integer kind has a decimal range of {range}");
                return Err(fault(consts::ERR_ARG, why));
            }
        };
        Datatype::f90(consts::COMBINER_F90_INTEGER, &[range], handle)
    }

    fn f90(combiner: i32, args: &[i32], handle: Handle) -> Made {
        let Some(row) = basic(handle) else {
            return Err(fault(consts::ERR_ARG, "this platform lacks the type"));
        };
        let args: Vec<i64> = args.iter().map(|&x| x.into()).collect();
        let call = Call::new(combiner, false, Parts::NONE, &[&args]);
        Ok(Rc::new(Datatype::like(row, call)))
    }
}

/// The number of dimensions as an argument, if the array arguments make sense at all.
fn dimensions(n: usize, order: i32) -> Result<i64> {
    if n == 0 {
        return Err(fault(
            consts::ERR_ARG,
            "the number of dimensions is not positive",
        ));
    }
    if order != consts::ORDER_C && order != consts::ORDER_FORTRAN {
        let why = format!("the order {order} is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN");
        return Err(fault(consts::ERR_ARG, why));
    }
    Ok(n as i64)
}

/// The kind that Fortran's `selected_real_kind` gives on this platform (as gfortran has it: kind 10
/// is x87 extended). Either argument may be `MPI_UNDEFINED`, not both.
fn float_kind(precision: i32, range: i32) -> Result<u8> {
    if precision == consts::UNDEFINED && range == consts::UNDEFINED {
        let why = "precision and range are both MPI_UNDEFINED";
        return Err(fault(consts::ERR_ARG, why));
    }
    // MPI_UNDEFINED is negative, so it is below every limit.
    match (precision, range) {
        (..=6, ..=37) => Ok(4),
        (..=15, ..=307) => Ok(8),
        (..=18, ..=4931) => Ok(10),
        (..=33, ..=4931) => Ok(16),
        _ => {
            let why = format!("no real kind has {precision} digits and a range of {range}");
            Err(fault(consts::ERR_ARG, why))
        }
    }
}
