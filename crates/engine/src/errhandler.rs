//! Error handlers, the texts of error classes and codes, and what happens when a call fails.
//!
//! Calls fail with an error *class*; codes exist only where the program adds them. The sentence
//! that says what went wrong travels with the fault and is shown when an error is fatal.

mod texts;

use std::cell::Cell;
use std::ffi::OsString;
use std::rc::Rc;

use boundary::UserFn;
use types::{Fault, Handle, Result, consts, fault};

use crate::attr::AttrKind;
use crate::comm::Comm;
use crate::state::{Engine, Guard, Phase, out_of_objects};

/// What to do about an error.
#[derive(Debug)]
pub enum Errhandler {
    /// `MPI_ERRORS_ARE_FATAL`, `MPI_ERRORS_ABORT` or `MPI_ERRORS_RETURN`.
    Predefined(Handle),
    /// The program's.
    User {
        /// The function.
        function: UserFn,
        /// What it is for.
        kind: AttrKind,
        /// The handle that the program holds, `ERRHANDLER_NULL` when it freed them all.
        handle: Cell<Handle>,
        /// How many times it must free that handle.
        references: Cell<u32>,
    },
}

impl Errhandler {
    /// The predefined handler of this handle.
    pub fn predefined(handle: Handle) -> Errhandler {
        Errhandler::Predefined(handle)
    }

    /// The program's handler, for objects of `kind`, without a handle yet.
    pub fn user(function: UserFn, kind: AttrKind) -> Errhandler {
        Errhandler::User {
            function,
            kind,
            handle: Cell::new(consts::ERRHANDLER_NULL),
            references: Cell::new(0),
        }
    }
}

/// Classes, codes and strings that the program added.
#[derive(Default)]
pub struct ErrorTexts {
    /// For each added class or code, in order: its class and its string. `None` once removed.
    pub added: Vec<Option<AddedError>>,
}

/// One added error class or code.
#[derive(Clone, Default)]
pub struct AddedError {
    /// The class it belongs to (itself for a class).
    pub class: i32,
    /// Whether it is a class.
    pub is_class: bool,
    /// What `MPI_Error_string` says.
    pub text: OsString,
}

/// The first class or code that a program adds.
pub const FIRST_ADDED_ERROR: i32 = consts::ERR_LASTCODE + 1;

impl Guard {
    /// Ends a call: success gives 0; a fault goes to the error handler of the object it names, of
    /// `on`, or of `MPI_COMM_SELF`, and its class is given back if the handler returns.
    #[inline]
    pub fn finish(&self, call: &'static str, on: Option<Handle>, result: Result<()>) -> i32 {
        match result {
            Ok(()) => consts::SUCCESS,
            Err(fault) => self.failed(call, on, fault),
        }
    }

    #[cold]
    #[inline(never)]
    fn failed(&self, call: &'static str, on: Option<Handle>, fault: Box<Fault>) -> i32 {
        let engine: &Engine = self;
        let class = fault.class;
        // The tool interface reports by code only, whether or not MPI runs.
        if call.starts_with("MPI_T_") {
            return class;
        }
        let has_handlers = match engine.phase.get() {
            Phase::Running => true,
            // What failed on MPI's way to its end.
            Phase::Finalized => fault.on.is_some(),
            _ => false,
        };
        if !has_handlers || engine.fork_mark.forked() {
            engine.die(call, &fault, false);
        }
        let object = fault.on.or(on);
        if object == Some(consts::FILE_NULL) {
            // Procedures on files are not built, so this still has its first handler, which is not that
            // of communicators: MPI_ERRORS_RETURN.
            return class;
        }
        if fault.on == Some(consts::COMM_NULL)
            && let Some(handler) = engine.handler_of_freed.take()
        {
            engine.handle(call, &handler, consts::COMM_NULL, &fault);
            return class;
        }
        let object = object
            .filter(|&h| engine.comm(h).is_ok())
            .unwrap_or_else(|| engine.handler_of_last_resort());
        engine.call_handler(call, object, &fault);
        class
    }
}

impl Engine {
    /// The handle of the communicator that an error is raised on. The program may have freed it, with the operation pending: its handler takes the
    /// error all the same, and is told `MPI_COMM_NULL`.
    pub(crate) fn raised_on(&self, comm: &Comm) -> Handle {
        let handle = comm.handle.get();
        if handle == consts::COMM_NULL {
            let handler = comm.errhandler.borrow().clone();
            self.handler_of_freed.replace(Some(handler));
        }
        handle
    }

    /// Whose handler takes an error that belongs to no object: `MPI_COMM_SELF`'s, as MPI-4.0 says,
    /// but `MPI_COMM_WORLD`'s, as MPI-3 said, for a program that only set that one.
    pub(crate) fn handler_of_last_resort(&self) -> Handle {
        let untouched = |handle| {
            let comm = self.comm(handle);
            comm.is_ok_and(|c| Rc::ptr_eq(&c.errhandler.borrow(), &self.errors_are_fatal))
        };
        match untouched(consts::COMM_SELF) {
            true => consts::COMM_WORLD,
            false => consts::COMM_SELF,
        }
    }

    /// One more reference to an error handler for the program: the same handle each time.
    pub(crate) fn errhandler_handle(&self, handler: &Rc<Errhandler>) -> Result<Handle> {
        match &**handler {
            Errhandler::Predefined(handle) => Ok(*handle),
            Errhandler::User {
                handle, references, ..
            } => {
                if references.get() == 0 {
                    let made = self.errhandlers.insert(handler.clone());
                    handle.set(Handle(made.ok_or_else(out_of_objects)?));
                }
                references.set(references.get() + 1);
                Ok(handle.get())
            }
        }
    }

    /// Drops one of the program's references to an error handler.
    pub(crate) fn release_errhandler(&self, handler: &Errhandler) {
        let Errhandler::User {
            handle, references, ..
        } = handler
        else {
            return;
        };
        references.set(references.get() - 1);
        if references.get() == 0 {
            let old = handle.replace(consts::ERRHANDLER_NULL);
            self.errhandlers.remove(old.0);
        }
    }

    /// The error handler that `handle` names, which must be usable on objects of `kind`.
    pub(crate) fn errhandler_for(&self, kind: AttrKind, handle: Handle) -> Result<Rc<Errhandler>> {
        let handler = self.errhandler(handle)?;
        match &*handler {
            Errhandler::User { kind: other, .. } if *other != kind => Err(fault(
                consts::ERR_ERRHANDLER,
                format!("the error handler is for a {other:?} object"),
            )),
            _ => Ok(handler),
        }
    }

    /// Whether a class or code is the standard's, or added by the program.
    pub(crate) fn knows_error(&self, code: i32) -> bool {
        texts::of_class(code).is_some() || self.added_error(code).is_some()
    }

    /// What the program said of a class or code that it added.
    pub(crate) fn added_error(&self, code: i32) -> Option<AddedError> {
        let index = usize::try_from(code.checked_sub(FIRST_ADDED_ERROR)?).ok()?;
        self.error_texts.borrow().added.get(index)?.clone()
    }

    /// The text of an error class or code.
    pub fn error_string(&self, code: i32) -> OsString {
        match (texts::of_class(code), self.added_error(code)) {
            (Some(text), _) => text.into(),
            (None, Some(added)) => added.text,
            (None, None) => format!("{code} is no error class or code").into(),
        }
    }

    fn call_handler(&self, call: &'static str, object: Handle, fault: &Fault) {
        let Ok(comm) = self.comm(object) else {
            self.die(call, fault, false)
        };
        let handler = comm.errhandler.borrow().clone();
        self.handle(call, &handler, object, fault);
    }

    /// What a handler does about an error.
    fn handle(&self, call: &'static str, handler: &Errhandler, object: Handle, fault: &Fault) {
        match handler {
            Errhandler::Predefined(consts::ERRORS_RETURN) => {}
            Errhandler::Predefined(h) => self.die(call, fault, *h == consts::ERRORS_ABORT),
            Errhandler::User { function, .. } => self.run_handler(*function, object, fault.class),
        }
    }

    /// Runs the program's error handler on `object`.
    pub(crate) fn run_handler(&self, function: UserFn, object: Handle, class: i32) {
        let callback = &self.hooks.callback;
        function.call_errhandler((callback.handle)(object), (callback.error)(class));
    }

    /// Says what went wrong and ends the job (or, `alone`, only this process's communicator, which
    /// inside one job amounts to the same until sessions exist).
    pub(crate) fn die(&self, call: &'static str, fault: &Fault, alone: bool) -> ! {
        let rank = self.comm_world.borrow().as_ref().map(|c| c.rank);
        let who = rank.map_or_else(unnamed, |rank| format!("rank {rank}"));
        let class = fault.of_request.unwrap_or(fault.class);
        let scope = if alone { " (MPI_ERRORS_ABORT)" } else { "" };
        let text = format!(
            "{who}: {call} failed{scope}: {}. [{}]",
            fault.text,
            self.error_string(class).display()
        );
        if class == consts::ERR_PROC_ABORTED {
            self.note_bereft();
        }
        self.abort_job(1, &text)
    }

    /// Calls an error handler for `MPI_Comm_call_errhandler`.
    pub(crate) fn invoke(
        &self,
        call: &'static str,
        object: Handle,
        handler: Rc<Errhandler>,
        class: i32,
    ) {
        let text = format!("the program raised error {class}");
        let fault = Fault {
            class,
            text,
            on: None,
            of_request: None,
        };
        self.handle(call, &handler, object, &fault);
    }
}

/// What to call this process before it knows its rank: as `ps` shows it, and as the launcher has numbered it.
fn unnamed() -> String {
    let pid = std::process::id();
    match wireup::expected_rank() {
        Some(rank) => format!("process {pid} (PMI_RANK {rank})"),
        None => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_errors_start_past_the_standard() {
        assert_eq!(FIRST_ADDED_ERROR, 0x4000);
        assert!(texts::of_class(FIRST_ADDED_ERROR).is_none());
    }
}
