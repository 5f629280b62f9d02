//! The tool information interface: performance variables, which are counters and a time ([`crate::counters`]). Control variables are in
//! [`super::tool_control`]; there are no categories or events, and it says so.
//!
//! All are read-only and always run, and belong to no object, so a handle is a number and a session a set of them. Both are kept
//! here, as a tool may outlive MPI, or come before it.

use std::cell::{Cell, RefCell};

use boundary::{Text, TextOut, UserBuf};
use types::{Handle, Result, consts, fault};

use crate::counters::{COUNTERS, Counter};
use crate::state::{Engine, Phase};

/// `MPI_T_PVAR_ALL_HANDLES`; handles of ours are above.
const ALL_HANDLES: usize = 1;
/// What is added to a place in a table, so that no handle is null or [`ALL_HANDLES`].
const FIRST: usize = 2;
/// Sessions, and handles, that there may be at a time.
const MOST: usize = 1 << 16;

/// Slots that are numbered from [`FIRST`] on.
pub(super) struct Table<T>(RefCell<Vec<Option<T>>>);

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table(RefCell::default())
    }
}

impl<T: Copy> Table<T> {
    /// The number of a new one; `None`: there are too many.
    pub(super) fn add(&self, value: T) -> Option<usize> {
        let mut all = self.0.borrow_mut();
        let place = all.iter().position(Option::is_none).unwrap_or(all.len());
        if place == MOST {
            return None;
        }
        if place == all.len() {
            all.push(None);
        }
        all[place] = Some(value);
        Some(place + FIRST)
    }

    pub(super) fn get(&self, number: usize) -> Option<T> {
        let place = number.checked_sub(FIRST)?;
        self.0.borrow().get(place).copied().flatten()
    }

    pub(super) fn remove(&self, number: usize) {
        let place = number.wrapping_sub(FIRST);
        if let Some(slot) = self.0.borrow_mut().get_mut(place) {
            *slot = None;
        }
    }

    /// Removes those of which this says so.
    fn remove_where(&self, gone: impl Fn(T) -> bool) {
        for slot in self.0.borrow_mut().iter_mut() {
            if slot.is_some_and(&gone) {
                *slot = None;
            }
        }
    }
}

/// What the interface has in use.
#[derive(Default)]
pub struct Tools {
    /// How often it was initialised more than finalized.
    users: Cell<u32>,
    /// Whether several threads may be inside, as one asked for before MPI ran. It stays so.
    threaded: Cell<bool>,
    sessions: Table<()>,
    /// The session and the counter of each handle.
    handles: Table<(usize, usize)>,
    /// The place of the control variable of each handle.
    pub(super) controls: Table<usize>,
}

/// What the calls below need of it.
pub(super) fn tools(e: &Engine) -> Result<&Tools> {
    match e.tools.users.get() {
        0 => Err(fault(
            consts::T_ERR_NOT_INITIALIZED,
            "call MPI_T_init_thread first",
        )),
        _ => Ok(&e.tools),
    }
}

pub(super) fn invalid_index(what: &str, index: i32) -> Box<types::Fault> {
    fault(
        consts::T_ERR_INVALID_INDEX,
        format!("there is no {what} {index}"),
    )
}

/// The counter of an index.
fn counter(index: i32) -> Result<(usize, &'static Counter)> {
    let place = usize::try_from(index).ok();
    let found = place.and_then(|place| Some((place, COUNTERS.get(place)?)));
    found.ok_or_else(|| invalid_index("performance variable", index))
}

fn session(e: &Engine, number: usize) -> Result<&Tools> {
    let tools = tools(e)?;
    match tools.sessions.get(number) {
        Some(()) => Ok(tools),
        None => Err(fault(
            consts::T_ERR_INVALID_SESSION,
            "this is no session of performance variables",
        )),
    }
}

/// The counter of a session's handle.
fn of_handle(e: &Engine, number: usize, handle: usize) -> Result<&'static Counter> {
    let found = session(e, number)?.handles.get(handle);
    match found.filter(|&(owner, _)| owner == number) {
        Some((_, counter)) => Ok(&COUNTERS[counter]),
        None => Err(fault(
            consts::T_ERR_INVALID_HANDLE,
            "this is no handle of the session",
        )),
    }
}

/// Refuses with `class` what can't be done to a counter. Of all handles of a session those are meant to which it can be done: none.
fn refuse(e: &Engine, number: usize, handle: usize, class: i32, why: &str) -> Result<()> {
    if handle == ALL_HANDLES {
        return session(e, number).map(drop);
    }
    let counter = of_handle(e, number, handle)?;
    Err(fault(class, format!("{} {why}", counter.name)))
}

/// Writes a string as the interface has it: at most `length` bytes with the NUL, and how many all of it takes.
pub(super) fn tell(to: TextOut, length: &mut i32, text: &str) {
    to.set(text);
    *length = text.len() as i32 + 1;
}

impl Tools {
    /// Whether the tool's threads may call at the same time, whatever MPI's may.
    pub(crate) fn are_threaded(&self) -> bool {
        self.threaded.get()
    }
}

/// `MPI_T_init_thread`. What is asked for before MPI runs is given, since MPI then starts with it; later it is what MPI started with.
pub fn t_init_thread(e: &Engine, required: i32, provided: &mut i32) -> Result<()> {
    e.tools.users.set(e.tools.users.get().saturating_add(1));
    if e.phase.get() == Phase::Before && required > consts::THREAD_SERIALIZED {
        e.tools.threaded.set(true);
    }
    *provided = match e.phase.get() {
        _ if e.tools.are_threaded() => consts::THREAD_MULTIPLE,
        Phase::Before => required.clamp(consts::THREAD_SINGLE, consts::THREAD_SERIALIZED),
        Phase::Running => e.thread_level.get(),
        Phase::Finalized => consts::THREAD_SINGLE,
    };
    Ok(())
}

/// `MPI_T_finalize`.
pub fn t_finalize(e: &Engine) -> Result<()> {
    let tools = tools(e)?;
    tools.users.set(tools.users.get() - 1);
    if tools.users.get() == 0 {
        tools.sessions.remove_where(|()| true);
        tools.handles.remove_where(|_| true);
        tools.controls.remove_where(|_| true);
    }
    Ok(())
}

/// `MPI_T_category_get_index`.
pub fn t_category_get_index(e: &Engine, _name: Text, _cat_index: &mut i32) -> Result<()> {
    no_name(e, "categories")
}

/// `MPI_T_event_get_index`.
pub fn t_event_get_index(e: &Engine, _name: Text, _event_index: &mut i32) -> Result<()> {
    no_name(e, "events")
}

/// There are none of these, so none of any name.
fn no_name(e: &Engine, what: &str) -> Result<()> {
    tools(e)?;
    let text = format!("there are no {what}");
    Err(fault(consts::T_ERR_INVALID_NAME, text))
}

/// `MPI_T_category_get_num`.
pub fn t_category_get_num(e: &Engine, num_cat: &mut i32) -> Result<()> {
    *num_cat = 0;
    tools(e).map(drop)
}

/// `MPI_T_event_get_num`.
pub fn t_event_get_num(e: &Engine, num_events: &mut i32) -> Result<()> {
    *num_events = 0;
    tools(e).map(drop)
}

/// `MPI_T_source_get_num`.
pub fn t_source_get_num(e: &Engine, num_sources: &mut i32) -> Result<()> {
    *num_sources = 0;
    tools(e).map(drop)
}

/// `MPI_T_pvar_get_num`.
pub fn t_pvar_get_num(e: &Engine, num_pvar: &mut i32) -> Result<()> {
    *num_pvar = COUNTERS.len() as i32;
    tools(e).map(drop)
}

/// `MPI_T_pvar_get_info`.
#[expect(clippy::too_many_arguments, reason = "the standard's parameter list")]
pub fn t_pvar_get_info(
    e: &Engine,
    pvar_index: i32,
    name: TextOut,
    name_len: &mut i32,
    verbosity: &mut i32,
    var_class: &mut i32,
    datatype: &mut Handle,
    enumtype: &mut usize,
    desc: TextOut,
    desc_len: &mut i32,
    bind: &mut i32,
    readonly: &mut bool,
    continuous: &mut bool,
    atomic: &mut bool,
) -> Result<()> {
    tools(e)?;
    let (_, counter) = counter(pvar_index)?;
    tell(name, name_len, counter.name);
    tell(desc, desc_len, counter.text);
    *verbosity = consts::T_VERBOSITY_USER_BASIC;
    *var_class = counter.class;
    *datatype = consts::UNSIGNED_LONG_LONG;
    // MPI_T_ENUM_NULL.
    *enumtype = 0;
    *bind = consts::T_BIND_NO_OBJECT;
    (*readonly, *continuous, *atomic) = (true, true, false);
    Ok(())
}

/// `MPI_T_pvar_get_index`.
pub fn t_pvar_get_index(
    e: &Engine,
    name: Text,
    var_class: i32,
    pvar_index: &mut i32,
) -> Result<()> {
    tools(e)?;
    let found = COUNTERS
        .iter()
        .position(|c| c.class == var_class && c.name.as_bytes() == name.bytes());
    let found = found.ok_or_else(|| {
        let text = "there is no performance variable of this name and class";
        fault(consts::T_ERR_INVALID_NAME, text)
    })?;
    *pvar_index = found as i32;
    Ok(())
}

/// `MPI_T_pvar_session_create`.
pub fn t_pvar_session_create(e: &Engine, pe_session: &mut usize) -> Result<()> {
    let made = tools(e)?.sessions.add(());
    *pe_session = made.ok_or_else(|| {
        fault(
            consts::T_ERR_OUT_OF_SESSIONS,
            "there are too many sessions of performance variables",
        )
    })?;
    Ok(())
}

/// `MPI_T_pvar_session_free`.
pub fn t_pvar_session_free(e: &Engine, pe_session: &mut usize) -> Result<()> {
    let number = *pe_session;
    let tools = session(e, number)?;
    tools.handles.remove_where(|(owner, _)| owner == number);
    tools.sessions.remove(number);
    *pe_session = 0;
    Ok(())
}

/// `MPI_T_pvar_handle_alloc`.
pub fn t_pvar_handle_alloc(
    e: &Engine,
    pe_session: usize,
    pvar_index: i32,
    _obj_handle: usize,
    handle: &mut usize,
    count: &mut i32,
) -> Result<()> {
    let tools = session(e, pe_session)?;
    let (place, _) = counter(pvar_index)?;
    let made = tools.handles.add((pe_session, place));
    *handle = made.ok_or_else(|| {
        fault(
            consts::T_ERR_OUT_OF_HANDLES,
            "there are too many handles of performance variables",
        )
    })?;
    *count = 1;
    Ok(())
}

/// `MPI_T_pvar_handle_free`.
pub fn t_pvar_handle_free(e: &Engine, pe_session: usize, handle: &mut usize) -> Result<()> {
    of_handle(e, pe_session, *handle)?;
    e.tools.handles.remove(*handle);
    *handle = 0;
    Ok(())
}

/// `MPI_T_pvar_start`.
pub fn t_pvar_start(e: &Engine, pe_session: usize, handle: usize) -> Result<()> {
    let class = consts::T_ERR_PVAR_NO_STARTSTOP;
    refuse(e, pe_session, handle, class, "always runs")
}

/// `MPI_T_pvar_stop`.
pub fn t_pvar_stop(e: &Engine, pe_session: usize, handle: usize) -> Result<()> {
    let class = consts::T_ERR_PVAR_NO_STARTSTOP;
    refuse(e, pe_session, handle, class, "always runs")
}

/// `MPI_T_pvar_read`.
pub fn t_pvar_read(e: &Engine, pe_session: usize, handle: usize, buf: UserBuf) -> Result<()> {
    let value = of_handle(e, pe_session, handle)?.value(e);
    if buf.is_null() {
        return Err(fault(consts::T_ERR_INVALID, "buf is NULL"));
    }
    buf.write(&value.to_ne_bytes());
    Ok(())
}

/// `MPI_T_pvar_readreset`.
pub fn t_pvar_readreset(e: &Engine, pe_session: usize, handle: usize, _buf: UserBuf) -> Result<()> {
    of_handle(e, pe_session, handle)?;
    let class = consts::T_ERR_PVAR_NO_ATOMIC;
    refuse(
        e,
        pe_session,
        handle,
        class,
        "can't be read and reset at once",
    )
}

/// `MPI_T_pvar_reset`.
pub fn t_pvar_reset(e: &Engine, pe_session: usize, handle: usize) -> Result<()> {
    let class = consts::T_ERR_PVAR_NO_WRITE;
    refuse(e, pe_session, handle, class, "can't be reset")
}

/// `MPI_T_pvar_write`.
pub fn t_pvar_write(e: &Engine, pe_session: usize, handle: usize, _buf: UserBuf) -> Result<()> {
    of_handle(e, pe_session, handle)?;
    let class = consts::T_ERR_PVAR_NO_WRITE;
    refuse(e, pe_session, handle, class, "can't be written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_give_numbers_again() {
        let table = Table::default();
        let (a, b) = (table.add('a').unwrap(), table.add('b').unwrap());
        assert!(a >= FIRST && a != b && a != ALL_HANDLES);
        assert_eq!((table.get(a), table.get(b)), (Some('a'), Some('b')));
        table.remove(a);
        assert_eq!((table.get(a), table.get(b)), (None, Some('b')));
        assert_eq!(table.add('c'), Some(a));
        for number in [0, ALL_HANDLES, b + 1, usize::MAX] {
            assert_eq!(table.get(number), None);
            table.remove(number);
        }
        table.remove_where(|value| value == 'b');
        assert_eq!((table.get(a), table.get(b)), (Some('c'), None));
    }

    #[test]
    fn counters_have_different_names() {
        let mut names: Vec<_> = COUNTERS.iter().map(|c| c.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNTERS.len());
    }
}
