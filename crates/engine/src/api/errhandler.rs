//! Error handlers, error classes, codes and strings (chapter 9).

use std::ffi::OsString;
use std::rc::Rc;

use boundary::{Text, TextOut, UserFn};
use types::{Handle, Result, consts, fault};

use crate::attr::AttrKind;
use crate::errhandler::{AddedError, Errhandler, FIRST_ADDED_ERROR};
use crate::state::Engine;

/// `MPI_Comm_create_errhandler`.
pub fn comm_create_errhandler(e: &Engine, function: UserFn, errhandler: &mut Handle) -> Result<()> {
    let handler = Rc::new(Errhandler::user(function, AttrKind::Comm));
    *errhandler = e.errhandler_handle(&handler)?;
    Ok(())
}

/// `MPI_Comm_set_errhandler`.
pub fn comm_set_errhandler(e: &Engine, comm: Handle, errhandler: Handle) -> Result<()> {
    let comm = e.comm(comm)?;
    comm.errhandler
        .replace(e.errhandler_for(AttrKind::Comm, errhandler)?);
    Ok(())
}

/// `MPI_Comm_get_errhandler`.
pub fn comm_get_errhandler(e: &Engine, comm: Handle, errhandler: &mut Handle) -> Result<()> {
    let handler = e.comm(comm)?.errhandler.borrow().clone();
    *errhandler = e.errhandler_handle(&handler)?;
    Ok(())
}

/// `MPI_Errhandler_free`. Predefined handlers may be freed too, since `MPI_Comm_get_errhandler`
/// gives them.
pub fn errhandler_free(e: &Engine, errhandler: &mut Handle) -> Result<()> {
    let handler = e.errhandler(*errhandler)?;
    e.release_errhandler(&handler);
    *errhandler = consts::ERRHANDLER_NULL;
    Ok(())
}

/// `MPI_Comm_call_errhandler`.
pub fn comm_call_errhandler(e: &Engine, comm: Handle, errorcode: i32) -> Result<()> {
    let handler = e.comm(comm)?.errhandler.borrow().clone();
    e.invoke("MPI_Comm_call_errhandler", comm, handler, errorcode);
    Ok(())
}

/// `MPI_Error_class`. A number that is no error code has the class `MPI_ERR_UNKNOWN`.
pub fn error_class(e: &Engine, errorcode: i32, errorclass: &mut i32) -> Result<()> {
    *errorclass = match e.added_error(errorcode) {
        Some(added) => added.class,
        None if e.knows_error(errorcode) => errorcode,
        None => consts::ERR_UNKNOWN,
    };
    Ok(())
}

/// `MPI_Error_string`.
pub fn error_string(
    e: &Engine,
    errorcode: i32,
    string: TextOut,
    resultlen: &mut i32,
) -> Result<()> {
    *resultlen = string.set(e.error_string(errorcode)) as i32;
    Ok(())
}

/// `MPI_Add_error_class`.
pub fn add_error_class(e: &Engine, errorclass: &mut i32) -> Result<()> {
    let mut texts = e.error_texts.borrow_mut();
    let class = FIRST_ADDED_ERROR + texts.added.len() as i32;
    texts.added.push(Some(AddedError {
        class,
        is_class: true,
        text: OsString::new(),
    }));
    *errorclass = class;
    Ok(())
}

/// `MPI_Add_error_code`.
pub fn add_error_code(e: &Engine, errorclass: i32, errorcode: &mut i32) -> Result<()> {
    let is_class = match e.added_error(errorclass) {
        Some(added) => added.is_class,
        None => e.knows_error(errorclass),
    };
    if !is_class {
        return Err(fault(
            consts::ERR_ARG,
            format!("{errorclass} is not an error class"),
        ));
    }
    let mut texts = e.error_texts.borrow_mut();
    *errorcode = FIRST_ADDED_ERROR + texts.added.len() as i32;
    texts.added.push(Some(AddedError {
        class: errorclass,
        is_class: false,
        text: OsString::new(),
    }));
    Ok(())
}

/// `MPI_Add_error_string`.
pub fn add_error_string(e: &Engine, errorcode: i32, string: Text) -> Result<()> {
    let text = string.to_os().to_os_string();
    if text.len() >= consts::MAX_ERROR_STRING as usize {
        return Err(fault(
            consts::ERR_ARG,
            format!(
                "the error string has {} bytes; at most {} are allowed",
                text.len(),
                consts::MAX_ERROR_STRING - 1
            ),
        ));
    }
    change(e, errorcode, |added| {
        added.text = text;
        Ok(())
    })
}

/// `MPI_Remove_error_class`. The class must have no string and no codes any more.
pub fn remove_error_class(e: &Engine, errorclass: i32) -> Result<()> {
    let texts = e.error_texts.borrow();
    let others = texts.added.iter().flatten();
    let codes = others
        .filter(|a| a.class == errorclass && !a.is_class)
        .count();
    drop(texts);
    remove(e, errorclass, true, codes)
}

/// `MPI_Remove_error_code`. The code must have no string any more.
pub fn remove_error_code(e: &Engine, errorcode: i32) -> Result<()> {
    remove(e, errorcode, false, 0)
}

/// `MPI_Remove_error_string`.
pub fn remove_error_string(e: &Engine, errorcode: i32) -> Result<()> {
    change(e, errorcode, |added| {
        if added.text.is_empty() {
            return Err(fault(
                consts::ERR_ARG,
                format!("error {errorcode} has no string"),
            ));
        }
        added.text.clear();
        Ok(())
    })
}

/// Changes an error that the program added.
fn change(e: &Engine, code: i32, how: impl FnOnce(&mut AddedError) -> Result<()>) -> Result<()> {
    let mut texts = e.error_texts.borrow_mut();
    let index = code
        .checked_sub(FIRST_ADDED_ERROR)
        .and_then(|i| usize::try_from(i).ok());
    let entry = index
        .and_then(|i| texts.added.get_mut(i))
        .and_then(Option::as_mut);
    how(entry.ok_or_else(|| not_added(code))?)
}

fn remove(e: &Engine, code: i32, class: bool, codes: usize) -> Result<()> {
    let added = e.added_error(code).filter(|a| a.is_class == class);
    let added = added.ok_or_else(|| not_added(code))?;
    if codes > 0 || !added.text.is_empty() {
        let what = if codes > 0 { "codes" } else { "a string" };
        return Err(fault(
            consts::ERR_ARG,
            format!("error {code} still has {what}, to be removed first"),
        ));
    }
    let index = (code - FIRST_ADDED_ERROR) as usize;
    e.error_texts.borrow_mut().added[index] = None;
    Ok(())
}

fn not_added(code: i32) -> Box<types::Fault> {
    fault(
        consts::ERR_ARG,
        format!("{code} is not an error class or code that the program added"),
    )
}
