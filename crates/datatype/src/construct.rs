//! The type constructors: argument checks, and what a new type is.
//!
//! `large` says that the large-count form (`_c`) was called: it changes nothing but what
//! `MPI_Type_get_envelope` and `MPI_Type_get_contents` report.

use std::cell::OnceCell;
use std::rc::Rc;
use std::slice;

use layout::{Kind, Tree};
use types::basic::{Basic, Class, basic};
use types::{Handle, Result, consts, fault};

use crate::args::{Contents, Recipe};
use crate::bounds::{Bounds, plus, times};
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

/// The arguments of one call, sorted as the envelope wants them.
struct Call {
    large: bool,
    contents: Contents,
}

impl Call {
    fn new(combiner: i32, large: bool, types: &[Rc<Datatype>]) -> Call {
        let contents = Contents {
            combiner,
            ints: Vec::new(),
            aints: Vec::new(),
            counts: Vec::new(),
            types: types.to_vec(),
        };
        Call { large, contents }
    }

    /// Arguments that are `int` in the small-count form and `MPI_Count` in the large-count one.
    fn counts(mut self, values: &[i64]) -> Call {
        let c = &mut self.contents;
        if self.large {
            &mut c.counts
        } else {
            &mut c.ints
        }
        .extend_from_slice(values);
        self
    }

    /// Arguments that are `MPI_Aint` in the small-count form.
    fn far(mut self, values: &[i64]) -> Call {
        let c = &mut self.contents;
        if self.large {
            &mut c.counts
        } else {
            &mut c.aints
        }
        .extend_from_slice(values);
        self
    }

    /// Arguments that are `int` in both forms.
    fn ints(mut self, values: &[i64]) -> Call {
        self.contents.ints.extend_from_slice(values);
        self
    }

    /// The type that the call describes, with bounds by the standard's rules.
    fn make(self) -> Made {
        let recipe = Recipe::of(&self.contents)?;
        let bounds = match &recipe {
            Recipe::Array(piece) => piece.bounds()?,
            _ => recipe.bounds(&self.contents.types, self.align(&recipe)?)?,
        };
        self.with_bounds(&recipe, bounds)
    }

    /// Strictest alignment of the parts that occur.
    fn align(&self, recipe: &Recipe) -> Result<i64> {
        let lengths = recipe.lengths()?;
        let used = self
            .contents
            .types
            .iter()
            .zip(lengths)
            .filter(|(t, n)| *n > 0 && t.size > 0);
        Ok(used.map(|(t, _)| t.align).max().unwrap_or(1))
    }

    fn with_bounds(self, recipe: &Recipe, bounds: Bounds) -> Made {
        let types = &self.contents.types;
        let tree = recipe.tree(types, |t| &t.tree)?;
        let (mut elements, mut external_size) = (0, 0);
        for (t, n) in types.iter().zip(recipe.lengths()?) {
            elements = plus(elements, times(t.elements as i64, n)?)?;
            external_size = plus(external_size, times(t.external_size as i64, n)?)?;
        }
        let align = self.align(recipe)?;
        Ok(Rc::new(Datatype {
            basic: None,
            size: tree.size(),
            bounds,
            align,
            elements: elements as u64,
            external_size: external_size as u64,
            tree,
            kinds: OnceCell::new(),
            program: OnceCell::new(),
            converter: OnceCell::new(),
            contents: self.contents,
        }))
    }
}

impl Datatype {
    /// The predefined type `basic`.
    pub fn basic(basic: &'static Basic) -> Rc<Datatype> {
        let call = Call::new(consts::COMBINER_NAMED, false, &[]);
        Rc::new(Datatype::like(basic, call.contents))
    }

    /// A type represented as `basic` that says `contents` of itself.
    fn like(basic: &'static Basic, contents: Contents) -> Datatype {
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
            contents,
        }
    }

    /// `MPI_Type_dup`.
    pub fn dup(old: &Rc<Datatype>) -> Made {
        Call::new(consts::COMBINER_DUP, false, slice::from_ref(old)).make()
    }

    /// `MPI_Type_contiguous`.
    pub fn contiguous(large: bool, count: i64, old: &Rc<Datatype>) -> Made {
        count_of(count)?;
        Call::new(consts::COMBINER_CONTIGUOUS, large, slice::from_ref(old))
            .counts(&[count])
            .make()
    }

    /// `MPI_Type_vector`.
    pub fn vector(large: bool, count: i64, len: i64, stride: i64, old: &Rc<Datatype>) -> Made {
        count_of(count)?;
        length(len)?;
        let call = Call::new(consts::COMBINER_VECTOR, large, slice::from_ref(old));
        call.counts(&[count, len, stride]).make()
    }

    /// `MPI_Type_create_hvector`.
    pub fn hvector(large: bool, count: i64, len: i64, stride: i64, old: &Rc<Datatype>) -> Made {
        count_of(count)?;
        length(len)?;
        let call = Call::new(consts::COMBINER_HVECTOR, large, slice::from_ref(old));
        call.counts(&[count, len]).far(&[stride]).make()
    }

    /// `MPI_Type_indexed`; as many displacements as lengths.
    pub fn indexed(large: bool, lens: &[i64], disps: &[i64], old: &Rc<Datatype>) -> Made {
        equal("displacements", disps.len(), lens.len() as i64)?;
        lens.iter().try_for_each(|&n| length(n))?;
        let call = Call::new(consts::COMBINER_INDEXED, large, slice::from_ref(old));
        call.counts(&[lens.len() as i64])
            .counts(lens)
            .counts(disps)
            .make()
    }

    /// `MPI_Type_create_hindexed`; as many displacements as lengths.
    pub fn hindexed(large: bool, lens: &[i64], disps: &[i64], old: &Rc<Datatype>) -> Made {
        equal("displacements", disps.len(), lens.len() as i64)?;
        lens.iter().try_for_each(|&n| length(n))?;
        let call = Call::new(consts::COMBINER_HINDEXED, large, slice::from_ref(old));
        call.counts(&[lens.len() as i64])
            .counts(lens)
            .far(disps)
            .make()
    }

    /// `MPI_Type_create_indexed_block`.
    pub fn indexed_block(large: bool, len: i64, disps: &[i64], old: &Rc<Datatype>) -> Made {
        length(len)?;
        let call = Call::new(consts::COMBINER_INDEXED_BLOCK, large, slice::from_ref(old));
        call.counts(&[disps.len() as i64, len]).counts(disps).make()
    }

    /// `MPI_Type_create_hindexed_block`.
    pub fn hindexed_block(large: bool, len: i64, disps: &[i64], old: &Rc<Datatype>) -> Made {
        length(len)?;
        let call = Call::new(consts::COMBINER_HINDEXED_BLOCK, large, slice::from_ref(old));
        call.counts(&[disps.len() as i64, len]).far(disps).make()
    }

    /// `MPI_Type_create_struct`; as many lengths and displacements as types.
    pub fn structure(large: bool, lens: &[i64], disps: &[i64], types: &[Rc<Datatype>]) -> Made {
        let count = types.len() as i64;
        equal("block lengths", lens.len(), count)?;
        equal("displacements", disps.len(), count)?;
        lens.iter().try_for_each(|&n| length(n))?;
        let call = Call::new(consts::COMBINER_STRUCT, large, types);
        call.counts(&[count]).counts(lens).far(disps).make()
    }

    /// `MPI_Type_create_resized`.
    pub fn resized(large: bool, lb: i64, extent: i64, old: &Rc<Datatype>) -> Made {
        let call = Call::new(consts::COMBINER_RESIZED, large, slice::from_ref(old));
        call.far(&[lb, extent])
            .with_bounds(&Recipe::Same, Bounds::explicit(lb, extent)?)
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
        let call = Call::new(consts::COMBINER_SUBARRAY, large, slice::from_ref(old));
        let call = call
            .ints(&[n])
            .counts(sizes)
            .counts(subsizes)
            .counts(starts);
        call.ints(&[order.into()]).make()
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
        let call = Call::new(consts::COMBINER_DARRAY, large, slice::from_ref(old));
        let call = call.ints(&[size, rank, n]).counts(gsizes).ints(distribs);
        call.ints(dargs).ints(psizes).ints(&[order.into()]).make()
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
        let call = Call::new(combiner, false, &[]).ints(&args);
        Ok(Rc::new(Datatype::like(row, call.contents)))
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
