//! Datatype objects: a description, its compiled layout program once committed, and what hangs on
//! it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use boundary::UserBuf;
use datatype::Datatype;
use layout::{Data, Program};
use types::basic::{BASICS, Basic};
use types::{Handle, consts};

use crate::attr::Attributes;

/// A datatype that has a handle.
pub struct TypeObj {
    /// Its handle; `DATATYPE_NULL` once freed while operations with it are pending.
    pub handle: Cell<Handle>,
    /// What it describes.
    pub datatype: Rc<Datatype>,
    /// Its name.
    pub name: RefCell<String>,
    /// Its cached attributes.
    pub attributes: Attributes,
    program: RefCell<Option<Rc<Program>>>,
    /// Bytes of one element, where the data is contiguous, starts at 0 and repeats at its size.
    dense: Cell<Option<u64>>,
}

impl TypeObj {
    /// An uncommitted datatype, its handle yet to be set.
    pub fn new(datatype: Rc<Datatype>) -> TypeObj {
        TypeObj {
            handle: Cell::new(consts::DATATYPE_NULL),
            datatype,
            name: RefCell::default(),
            attributes: Attributes::default(),
            program: RefCell::new(None),
            dense: Cell::new(None),
        }
    }

    /// Whether it may be used to communicate.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.dense.get().is_some() || self.program.borrow().is_some()
    }

    /// Compiles it for communication; a second time changes nothing.
    pub fn commit(&self) -> types::Result<()> {
        if self.is_committed() {
            return Ok(());
        }
        let program = self.datatype.commit()?;
        if program.is_contiguous() {
            self.dense.set(Some(program.size()));
        }
        *self.program.borrow_mut() = Some(program);
        Ok(())
    }

    /// The predefined type that it is, also under another handle (`MPI_Type_create_f90_real`).
    pub fn basic(&self) -> Option<&'static Basic> {
        self.datatype.basic_type()
    }

    /// `count` elements of it at `buf`, for communication. It must be committed.
    #[inline]
    pub fn data(&self, buf: UserBuf, count: u64) -> Data {
        match self.dense.get() {
            Some(size) => Data::bytes(buf, size * count),
            None => {
                let program = self.program.borrow();
                Data::typed(buf, program.as_ref().expect("committed before use"), count)
            }
        }
    }

    /// Whether `count` elements are `count * size` bytes from the buffer's address on.
    pub fn is_dense(&self) -> bool {
        self.dense.get().is_some()
    }

    /// Bytes of data in one element.
    #[inline]
    pub fn size(&self) -> u64 {
        self.datatype.size()
    }
}

/// The predefined datatypes of this platform, by the low byte of their handles.
pub struct Predefined {
    table: Vec<Option<Rc<TypeObj>>>,
    /// Bytes of an element of those whose elements lie side by side; 0 for others and for none.
    dense: [u8; 256],
}

impl Predefined {
    /// All of them, committed.
    pub fn new() -> Predefined {
        let mut table = vec![None; 256];
        let mut dense = [0; 256];
        for row in &BASICS {
            let object = predefined(row);
            let place = (row.handle.0 & 0xff) as usize;
            dense[place] = object.dense.get().map_or(0, |size| size as u8);
            table[place] = Some(Rc::new(object));
        }
        Predefined { table, dense }
    }

    /// Most elements of a message on the short path: more don't fit a cache line.
    pub(crate) const MOST_SHORT: u64 = 64;

    /// Bytes of an element of the predefined type with this handle, if its elements lie side by side.
    #[inline(always)]
    pub(crate) fn dense_size(&self, handle: Handle) -> Option<usize> {
        if handle.0 & !0xff != consts::DATATYPE_NULL.0 {
            return None;
        }
        match self.dense[(handle.0 & 0xff) as usize] {
            0 => None,
            size => Some(usize::from(size)),
        }
    }

    /// The one with this handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<Rc<TypeObj>> {
        if handle.0 & !0xff != consts::DATATYPE_NULL.0 {
            return None;
        }
        self.table[(handle.0 & 0xff) as usize].clone()
    }
}

fn predefined(row: &'static Basic) -> TypeObj {
    let object = TypeObj::new(Datatype::basic(row));
    object.handle.set(row.handle);
    object.name.replace(row.name.to_string());
    object.commit().expect("a basic type compiles");
    object
}
