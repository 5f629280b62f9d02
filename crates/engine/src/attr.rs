//! Attribute caching: keyvals and the values that hang on communicators and datatypes.
//!
//! A keyval's integer stays valid until it was freed *and* no attribute uses it, as the standard
//! demands; only then is it given to another. Callbacks of the program run with nothing borrowed,
//! so they may set, delete and free what they like.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use boundary::UserFn;
use types::{Handle, Result, consts, fault};

use crate::errhandler::FIRST_ADDED_ERROR;
use crate::state::Engine;

/// What kind of object a keyval is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// `MPI_Comm_create_keyval`.
    Comm,
    /// `MPI_Type_create_keyval`.
    Type,
    /// `MPI_Win_create_keyval`.
    Win,
}

/// Integer of the first keyval a program creates; predefined ones are below.
pub const FIRST_KEYVAL: i32 = 1024;

/// Address of the standard's `NULL_COPY_FN` and `NULL_DELETE_FN`.
const NULL_FN: usize = 0;
/// Address of the standard's `DUP_FN`.
const DUP_FN: usize = 1;

/// A keyval with its callbacks. It lives until freed and no attribute uses it.
#[derive(Debug)]
pub struct Keyval {
    /// Its integer.
    pub id: i32,
    /// What it is for.
    pub kind: AttrKind,
    /// Copy callback, or a constant of the standard (0 = none copied, 1 = dup).
    pub copy: UserFn,
    /// Delete callback, or 0.
    pub delete: UserFn,
    /// Passed to both callbacks.
    pub extra_state: usize,
    /// Whether the program freed its handle.
    pub freed: Cell<bool>,
}

impl Keyval {
    /// Whether nothing but the table of keyvals knows it and the program freed it.
    fn is_gone(this: &Rc<Keyval>) -> bool {
        this.freed.get() && Rc::strong_count(this) == 1
    }
}

/// The attributes of one object, in the order they were set.
#[derive(Default)]
pub struct Attributes {
    /// Each keyval with its value.
    pub entries: RefCell<Vec<(Rc<Keyval>, usize)>>,
}

impl Attributes {
    /// The value stored for a keyval.
    pub fn get(&self, id: i32) -> Option<usize> {
        let entries = self.entries.borrow();
        entries.iter().find(|(k, _)| k.id == id).map(|&(_, v)| v)
    }

    fn put(&self, keyval: Rc<Keyval>, value: usize) {
        self.entries.borrow_mut().push((keyval, value));
    }

    fn remove(&self, id: i32) {
        self.entries.borrow_mut().retain(|(k, _)| k.id != id);
    }
}

impl Engine {
    /// Makes a keyval and gives its integer.
    pub(crate) fn new_keyval(
        &self,
        kind: AttrKind,
        copy: UserFn,
        delete: UserFn,
        extra_state: usize,
    ) -> i32 {
        let mut table = self.keyvals.borrow_mut();
        let free = table
            .iter()
            .position(|k| k.as_ref().is_none_or(Keyval::is_gone));
        let index = free.unwrap_or(table.len());
        let id = FIRST_KEYVAL + index as i32;
        let keyval = Rc::new(Keyval {
            id,
            kind,
            copy,
            delete,
            extra_state,
            freed: Cell::new(false),
        });
        match free {
            Some(index) => table[index] = Some(keyval),
            None => table.push(Some(keyval)),
        }
        id
    }

    /// The keyval of the program with this integer, which must be for objects of `kind`.
    pub(crate) fn keyval(&self, kind: AttrKind, id: i32) -> Result<Rc<Keyval>> {
        let table = self.keyvals.borrow();
        let index = id
            .checked_sub(FIRST_KEYVAL)
            .and_then(|i| usize::try_from(i).ok());
        let entry = index.and_then(|i| table.get(i)).and_then(Option::as_ref);
        let why = match entry {
            Some(k) if Keyval::is_gone(k) => "the attribute key was freed".to_string(),
            Some(k) if k.kind == kind => return Ok(k.clone()),
            Some(k) => format!("the attribute key is for a {:?} object", k.kind),
            None if id == consts::KEYVAL_INVALID => {
                "the attribute key is MPI_KEYVAL_INVALID".to_string()
            }
            None if is_predefined(id) => {
                "the attribute key is predefined and can't be changed".to_string()
            }
            None => format!("{id} is not an attribute key"),
        };
        Err(fault(consts::ERR_KEYVAL, why))
    }

    /// What a callback's return code amounts to.
    fn callback_result(&self, what: &str, id: i32, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let class = match (self.hooks.callback.error_back)(code) {
            class if self.knows_error(class) => class,
            _ => consts::ERR_OTHER,
        };
        Err(fault(
            class,
            format!("the {what} callback of attribute key {id} returned error {code}"),
        ))
    }

    fn call_delete(&self, keyval: &Keyval, object: Handle, value: usize) -> Result<()> {
        if keyval.delete.addr() == NULL_FN {
            return Ok(());
        }
        let object = (self.hooks.callback.handle)(object);
        let code = keyval
            .delete
            .call_attr_delete(object, keyval.id, value, keyval.extra_state);
        self.callback_result("delete", keyval.id, code)
    }
}

/// Sets an attribute of `object`; the delete callback of a value it had runs first.
pub(crate) fn set(
    e: &Engine,
    attributes: &Attributes,
    object: Handle,
    keyval: Rc<Keyval>,
    value: usize,
) -> Result<()> {
    delete(e, attributes, object, &keyval)?;
    attributes.put(keyval, value);
    Ok(())
}

/// Deletes an attribute of `object` if it is set, after its delete callback agreed.
pub(crate) fn delete(
    e: &Engine,
    attributes: &Attributes,
    object: Handle,
    keyval: &Keyval,
) -> Result<()> {
    if let Some(value) = attributes.get(keyval.id) {
        e.call_delete(keyval, object, value)?;
        attributes.remove(keyval.id);
    }
    Ok(())
}

/// Deletes all attributes of `object`, last set first; stops where a callback fails.
pub(crate) fn delete_all(e: &Engine, attributes: &Attributes, object: Handle) -> Result<()> {
    loop {
        let last = attributes.entries.borrow().last().cloned();
        let Some((keyval, value)) = last else {
            return Ok(());
        };
        e.call_delete(&keyval, object, value)?;
        attributes.remove(keyval.id);
    }
}

/// Deletes all attributes of `object`, last set first, also those whose callbacks fail: the first such failure.
pub(crate) fn clear(e: &Engine, attributes: &Attributes, object: Handle) -> Result<()> {
    let mut first = Ok(());
    loop {
        let last = attributes.entries.borrow().last().cloned();
        let Some((keyval, value)) = last else {
            return first;
        };
        first = first.and(e.call_delete(&keyval, object, value));
        attributes.remove(keyval.id);
    }
}

/// The attributes that a duplicate of `object` gets, as the copy callbacks decide. Where one fails, what others have copied is deleted
/// again, as of an object that is `none`: nobody else could free it.
pub(crate) fn copy_all(
    e: &Engine,
    from: &Attributes,
    object: Handle,
    none: Handle,
) -> Result<Attributes> {
    let copied = Attributes::default();
    let entries = from.entries.borrow().clone();
    for (keyval, value) in entries {
        match copy(e, &keyval, object, value) {
            Ok(Some(value)) => copied.put(keyval, value),
            Ok(None) => {}
            Err(why) => {
                // What the copy callback says is told, not what those say who clean up behind it.
                let _ = clear(e, &copied, none);
                return Err(why);
            }
        }
    }
    Ok(copied)
}

/// The value that a duplicate of `object` gets, if any.
fn copy(e: &Engine, keyval: &Keyval, object: Handle, value: usize) -> Result<Option<usize>> {
    match keyval.copy.addr() {
        NULL_FN => Ok(None),
        DUP_FN => Ok(Some(value)),
        _ => {
            let old = (e.hooks.callback.handle)(object);
            let (code, value, wanted) =
                keyval
                    .copy
                    .call_attr_copy(old, keyval.id, keyval.extra_state, value);
            e.callback_result("copy", keyval.id, code)?;
            Ok(wanted.then_some(value))
        }
    }
}

/// What the predefined attributes' values point to. They must stay readable as long as the
/// process, since programs keep the pointer.
static PREDEFINED: [AtomicI32; 7] = [const { AtomicI32::new(0) }; 7];

fn is_predefined(id: i32) -> bool {
    (consts::TAG_UB..=consts::UNIVERSE_SIZE).contains(&id)
}

/// The address of a predefined attribute's int, in the ABI's terms: `None` for a key that isn't
/// predefined, `Some(None)` where the value isn't known.
pub(crate) fn predefined(e: &Engine, id: i32) -> Option<Option<usize>> {
    if !is_predefined(id) {
        return None;
    }
    Some(predefined_value(e, id).map(|value| {
        let place = &PREDEFINED[(id - consts::TAG_UB) as usize];
        place.store(value, Relaxed);
        place.as_ptr() as usize
    }))
}

fn predefined_value(e: &Engine, id: i32) -> Option<i32> {
    match id {
        consts::TAG_UB => Some(i32::MAX),
        consts::IO => Some((e.hooks.rank)(consts::ANY_SOURCE)),
        consts::HOST => Some((e.hooks.rank)(consts::PROC_NULL)),
        // Processes of one machine read the same clock.
        consts::WTIME_IS_GLOBAL => Some(i32::from(e.transport(|m| m.fabric().on_one_machine()))),
        consts::LASTUSEDCODE => {
            let added = e.error_texts.borrow().added.len() as i32;
            Some((e.hooks.callback.error)(FIRST_ADDED_ERROR - 1 + added))
        }
        consts::APPNUM => job(e, |job| job.appnum()),
        _ => job(e, |job| job.universe_size()),
    }
}

fn job(e: &Engine, read: impl FnOnce(&wireup::Job) -> Option<u32>) -> Option<i32> {
    let world = e.world.borrow();
    read(&world.as_ref()?.job).map(|n| n as i32)
}
