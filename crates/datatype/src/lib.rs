//! Datatypes: what MPI's type constructors describe, before anything is moved.
//!
//! A [`Datatype`] is immutable and shared. A constructor checks its arguments, computes size, bounds
//! and the normalised layout from the parts' own (never walking a repeat count), and keeps its
//! arguments for `MPI_Type_get_contents`. [`Datatype::commit`] compiles the layout to a program;
//! that program moves bytes as they are. Conversion to the "external32" representation uses a
//! second program whose fragments keep their element kinds, made at first use ([`external`]).
//!
//! Invariants: a type's size, bounds and extent fit `i64`; parts are complete before the whole
//! exists, so types form a directed acyclic graph. Recursion over that graph is avoided: programs
//! build chains of any depth.
//!
//! Called by the engine, which gives datatypes handles, names and attributes.

#![forbid(unsafe_code)]

mod args;
mod array;
mod bounds;
mod construct;
mod elements;
pub mod external;
mod float;
mod matching;
mod pairs;

use std::cell::OnceCell;
use std::rc::Rc;

use layout::{Program, Tree};
use types::basic::Basic;
use types::{Result, consts, fault};

pub use args::Contents;
use args::{Call, Recipe};
use bounds::Bounds;
pub use matching::{match_size, value_index};

/// A datatype, predefined or derived.
#[derive(Debug)]
pub struct Datatype {
    call: Call,
    /// The predefined type that it is, or (made by `MPI_Type_create_f90_*`) that it equals.
    basic: Option<&'static Basic>,
    size: u64,
    bounds: Bounds,
    /// Strictest alignment of the basic types in it.
    align: i64,
    /// Basic elements in it.
    elements: u64,
    /// Bytes in the "external32" representation.
    external_size: u64,
    /// Its bytes, all opaque.
    tree: Tree,
    /// Its bytes with element kinds, for conversion.
    kinds: OnceCell<Box<Tree>>,
    program: OnceCell<Rc<Program>>,
    converter: OnceCell<Rc<Program>>,
}

impl Datatype {
    /// Bytes of data in one element.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Lower bound.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.bounds.lb
    }

    /// Upper bound.
    #[inline]
    pub fn ub(&self) -> i64 {
        self.bounds.ub
    }

    /// Upper bound less lower bound.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.bounds.extent()
    }

    /// Displacement of the lowest byte of data; 0 where there is none.
    #[inline]
    pub fn true_lb(&self) -> i64 {
        self.tree.lo()
    }

    /// Displacement after the highest byte of data; 0 where there is none.
    #[inline]
    pub fn true_ub(&self) -> i64 {
        self.tree.hi()
    }

    /// Bytes that the data span.
    #[inline]
    pub fn true_extent(&self) -> i64 {
        self.tree.hi() - self.tree.lo()
    }

    /// Basic elements in it (a complex number is one, a value-and-index pair two).
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The constructor that made it (`COMBINER_*`).
    pub fn combiner(&self) -> i32 {
        self.call.combiner
    }

    /// The constructor call that made it.
    pub fn contents(&self) -> Contents<'_> {
        self.call.contents()
    }

    /// The predefined type that it is, or, for one made by `MPI_Type_create_f90_*`, that has its
    /// representation.
    pub fn basic_type(&self) -> Option<&'static Basic> {
        self.basic
    }

    /// Whether it is predefined (named, or made by `MPI_Type_create_f90_*`) and can't be freed.
    pub fn is_predefined(&self) -> bool {
        self.basic.is_some()
    }

    /// If its data are contiguous, start at 0 and repeat at their size: that size.
    pub fn dense_size(&self) -> Option<u64> {
        let starts_at_0 = match self.tree.as_block() {
            Some((disp, _, _)) => disp == 0,
            None => self.size == 0,
        };
        (starts_at_0 && self.extent() == self.size as i64).then_some(self.size)
    }

    /// The program that moves its bytes, compiled at the first call.
    pub fn commit(&self) -> Result<&Rc<Program>> {
        compile(&self.program, &self.tree, self.bounds)
    }

    /// The same, if it was called before.
    #[inline]
    pub fn program(&self) -> Option<&Rc<Program>> {
        self.program.get()
    }

    /// The program whose fragments carry element kinds, for conversion.
    pub(crate) fn converter(&self) -> Result<&Rc<Program>> {
        compile(&self.converter, self.kinds()?, self.bounds)
    }

    /// The layout with element kinds. Parts come before wholes, on a stack of our own.
    fn kinds(&self) -> Result<&Tree> {
        let mut stack = vec![self];
        while let Some(&top) = stack.last() {
            let missing = top.call.parts().iter().find(|t| t.kinds.get().is_none());
            match missing {
                Some(part) if top.kinds.get().is_none() => stack.push(part),
                _ => {
                    if top.kinds.get().is_none() {
                        let tree = top.kinds_of_parts()?;
                        top.kinds.get_or_init(|| Box::new(tree));
                    }
                    stack.pop();
                }
            }
        }
        Ok(self.known_kinds())
    }

    /// The same, if it was asked for before.
    fn known_kinds(&self) -> &Tree {
        self.kinds.get().map_or(&Tree::EMPTY, |tree| tree)
    }

    fn kinds_of_parts(&self) -> Result<Tree> {
        if let Some(basic) = self.basic {
            return external::basic_tree(basic).map_err(refused);
        }
        let recipe = Recipe::of(&self.call)?;
        recipe.tree(self.call.parts(), |t| t.known_kinds())
    }
}

fn compile<'a>(
    cell: &'a OnceCell<Rc<Program>>,
    tree: &Tree,
    bounds: Bounds,
) -> Result<&'a Rc<Program>> {
    if let Some(program) = cell.get() {
        return Ok(program);
    }
    let bounds = layout::Bounds {
        lb: bounds.lb,
        extent: bounds.extent(),
    };
    let program = Rc::new(tree.compile(bounds).map_err(refused)?);
    Ok(cell.get_or_init(|| program))
}

/// A layout that can't be.
fn refused(error: layout::Error) -> Box<types::Fault> {
    fault(
        consts::ERR_VALUE_TOO_LARGE,
        format!("the datatype can't be described: {error}"),
    )
}

impl Drop for Datatype {
    /// Lets go of a long chain of types one by one instead of by recursion.
    fn drop(&mut self) {
        let mut last = Vec::new();
        self.call.release_parts(&mut last);
        while let Some(mut part) = last.pop() {
            part.call.release_parts(&mut last);
        }
    }
}
