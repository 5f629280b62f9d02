//! Datatype objects: a description, what communication needs to know of it once it is committed, and what hangs on
//! it.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::rc::Rc;

use boundary::UserBuf;
use datatype::Datatype;
use layout::Data;
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
    pub name: RefCell<OsString>,
    /// Its cached attributes.
    pub attributes: Attributes,
    form: Cell<Form>,
}

/// How its data are communicated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Not at all: it is not committed.
    Uncommitted,
    /// As so many bytes for each element: the data are contiguous, start at 0 and repeat at their size. That takes no layout program.
    Dense(u64),
    /// By the description's layout program.
    Program,
}

impl TypeObj {
    /// An uncommitted datatype, its handle yet to be set.
    pub fn new(datatype: Rc<Datatype>) -> TypeObj {
        TypeObj {
            handle: Cell::new(consts::DATATYPE_NULL),
            datatype,
            name: RefCell::default(),
            attributes: Attributes::default(),
            form: Cell::new(Form::Uncommitted),
        }
    }

    /// Whether it may be used to communicate.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.form.get() != Form::Uncommitted
    }

    /// Makes it ready for communication; a second time changes nothing.
    pub fn commit(&self) -> types::Result<()> {
        self.form.set(match self.datatype.dense_size() {
            Some(size) => Form::Dense(size),
            None => {
                self.datatype.commit()?;
                Form::Program
            }
        });
        Ok(())
    }

    /// The predefined type that it is, also under another handle (`MPI_Type_create_f90_real`).
    pub fn basic(&self) -> Option<&'static Basic> {
        self.datatype.basic_type()
    }

    /// `count` elements of it at `buf`, for communication. It must be committed.
    #[inline]
    pub fn data(&self, buf: UserBuf, count: u64) -> Data {
        match self.form.get() {
            Form::Dense(size) => Data::bytes(buf, size * count),
            _ => {
                let program = self.datatype.program();
                Data::typed(buf, program.expect("committed before use"), count)
            }
        }
    }

    /// If `count` elements are `count` times so many bytes from the buffer's address on, and it is committed: their number.
    #[inline]
    pub fn dense_size(&self) -> Option<u64> {
        match self.form.get() {
            Form::Dense(size) => Some(size),
            _ => None,
        }
    }

    /// Whether that is so.
    pub fn is_dense(&self) -> bool {
        self.dense_size().is_some()
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
            dense[place] = object.dense_size().map_or(0, |size| size as u8);
            table[place] = Some(Rc::new(object));
        }
        Predefined { table, dense }
    }

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
    object.name.replace(row.name.into());
    object.commit().expect("a basic type compiles");
    object
}
