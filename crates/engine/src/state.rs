//! The process's one engine: its lock, its phases and its slabs of objects.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use boundary::CallbackAbi;
use sys::blank::Blank;
use sys::lock::BigLock;
use sys::slab::{Pool, Slab};
use types::{Handle, Result, consts, fault};

use crate::attr::Keyval;
use crate::comm::{Comm, ContextIds};
use crate::errhandler::{Errhandler, ErrorTexts};
use crate::failure::Failures;
use crate::graphs::Graphs;
use crate::group::Group;
use crate::info::Info;
use crate::ops::{Op, PredefinedOps};
use crate::request::Request;
use crate::short::Known;
use crate::typeobj::{Predefined, TypeObj};
use crate::world::World;

/// What differs between the two libraries that share this engine.
pub struct AbiHooks {
    /// Name of the library, for messages: `libmpi_abi.so.1` or `libmpi.so.12`.
    pub library: &'static str,
    /// A rank or its sentinel in the ABI's form, for attributes that programs read themselves.
    pub rank: fn(i32) -> i32,
    /// How callbacks of the program take handles and error codes.
    pub callback: CallbackAbi,
    /// Bytes of an `MPI_Status`; at most 64.
    pub status_size: usize,
    /// A neutral status in the ABI's form, for a generalised request's query function.
    pub write_status: fn(&types::Status, &mut [u8; 64]),
    /// The neutral form of a status that the program filled.
    pub read_status: fn(&[u8; 64]) -> types::Status,
    /// Datatypes that the ABI's header still has and the standard removed: handle and name.
    pub removed_types: &'static [(Handle, &'static str)],
}

/// Where the process stands between start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `MPI_Init` has not been called.
    Before,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running,
    /// After `MPI_Finalize`.
    Finalized,
}

/// When a procedure may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Only between `MPI_Init` and `MPI_Finalize`.
    Running,
    /// At any time.
    Always,
}

/// All state of MPI in this process.
pub struct Engine {
    pub(crate) hooks: &'static AbiHooks,
    pub(crate) phase: Cell<Phase>,
    pub(crate) thread_level: Cell<i32>,
    pub(crate) main_thread: Cell<u64>,
    pub(crate) fork_mark: sys::process::ForkMark,
    pub(crate) world: RefCell<Option<World>>,
    pub(crate) comm_world: RefCell<Option<Rc<Comm>>>,
    pub(crate) comm_self: RefCell<Option<Rc<Comm>>>,
    pub(crate) group_empty: Rc<Group>,
    pub(crate) errors_are_fatal: Rc<Errhandler>,
    /// The handler of a communicator that was freed with an operation pending that has failed since, until that error is handled.
    pub(crate) handler_of_freed: RefCell<Option<Rc<Errhandler>>>,
    pub(crate) errors_abort: Rc<Errhandler>,
    pub(crate) errors_return: Rc<Errhandler>,
    pub(crate) comms: Slab<Rc<Comm>>,
    pub(crate) groups: Slab<Rc<Group>>,
    pub(crate) types: Slab<Rc<TypeObj>>,
    pub(crate) ops: Slab<Rc<Op>>,
    pub(crate) infos: Slab<Rc<Info>>,
    pub(crate) errhandlers: Slab<Rc<Errhandler>>,
    pub(crate) requests: Pool<Request>,
    pub(crate) messages: Slab<crate::api::probe::Matched>,
    pub(crate) predefined_types: Predefined,
    pub(crate) predefined_ops: PredefinedOps,
    pub(crate) keyvals: RefCell<Vec<Option<Rc<Keyval>>>>,
    pub(crate) context_ids: ContextIds,
    pub(crate) error_texts: RefCell<ErrorTexts>,
    pub(crate) bsend: RefCell<crate::api::bsend::Pools>,
    pub(crate) completions: RefCell<Vec<mtmi::Completion>>,
    pub(crate) shared_done: Cell<Option<Handle>>,
    pub(crate) failures: Failures,
    pub(crate) graphs: Graphs,
    /// What uses the transport beside MPI.
    pub(crate) extension: Cell<Option<&'static dyn crate::Extension>>,
    /// Whether MPI runs because an extension started it.
    pub(crate) lent: Cell<bool>,
    /// Threads of this process that sleep outside the lock until something completes; and a bit, see [`crate::beside::BINDS`]:
    /// one test tells whether a send or receive concerns anybody else.
    pub(crate) sleeping: Cell<u32>,
    /// How often something may have completed: a thread that let others in compares it before it sleeps.
    pub(crate) changes: Cell<u64>,
    /// When a call that a program polls with found nothing the last time, in [cycles](sys::clock::cycles).
    pub(crate) polled: Cell<u64>,
    /// How many such calls came one right after the other.
    pub(crate) polls: Cell<u32>,
    /// When the processor is given away next by one that computes in between, in the same.
    pub(crate) next_turn: Cell<u64>,
    /// With threads, the communicator that short paths know.
    pub(crate) known: Known,
    /// Whether anything uses the transport beside ordinary messages.
    pub(crate) beside: Cell<bool>,
    /// Streams of persistent requests, in part bound to slots.
    pub(crate) bound: RefCell<crate::bound::Bound>,
    /// Persistent requests of more bytes than this may be bound.
    pub(crate) least_bound: Cell<u64>,
    /// Collectives that the kernel runs.
    pub(crate) kernel: crate::kernel::Kernel,
    /// Small collectives in its receive path.
    pub(crate) softirq: crate::softirq::Softirq,
    /// A thread that goes on with collectives.
    pub(crate) progress_thread: crate::progress_thread::ProgressThread,
    /// What the tool information interface has in use.
    pub(crate) tools: crate::api::tool::Tools,
    /// The places in shared memory where communicators' blocking collectives go.
    pub(crate) places: Rc<crate::together::Places>,
    /// Memory that was temporary buffers of collectives.
    pub(crate) spare: Rc<crate::coll::Spare>,
    /// Waits that the hang report was told of and that are over.
    pub(crate) waits_over: Cell<u64>,
    /// Collectives that ran in calls and are over, for the next like them.
    pub(crate) ended: crate::coll::EndedInCalls,
}

static ENGINE: OnceLock<BigLock<Engine>> = OnceLock::new();

/// The engine, entered: holds the lock until dropped.
pub struct Guard {
    inner: sys::lock::Guard<'static, Engine>,
}

impl std::ops::Deref for Guard {
    type Target = Engine;

    #[inline(always)]
    fn deref(&self) -> &Engine {
        &self.inner
    }
}

/// Enters the engine on behalf of the library that `hooks` describes.
#[inline]
pub fn enter(hooks: &'static AbiHooks) -> Guard {
    let lock = ENGINE.get_or_init(|| BigLock::new(Engine::new(hooks)));
    Guard {
        inner: lock.enter(),
    }
}

/// Whether several threads may call at the same time: a flag for locks beside the engine's, which are needed when it is.
pub fn threads_flag(hooks: &'static AbiHooks) -> &'static AtomicBool {
    let lock = ENGINE.get_or_init(|| BigLock::new(Engine::new(hooks)));
    lock.threaded_flag()
}

pub(crate) fn lock() -> &'static BigLock<Engine> {
    ENGINE.get().expect("somebody is inside the engine")
}

/// The lock, if anybody has been inside the engine.
#[inline(always)]
pub(crate) fn lock_if_any() -> Option<&'static BigLock<Engine>> {
    ENGINE.get()
}

impl Engine {
    fn new(hooks: &'static AbiHooks) -> Engine {
        Engine {
            hooks,
            phase: Cell::new(Phase::Before),
            thread_level: Cell::new(consts::THREAD_SINGLE),
            main_thread: Cell::new(0),
            fork_mark: sys::process::ForkMark::new(),
            world: RefCell::new(None),
            comm_world: RefCell::new(None),
            comm_self: RefCell::new(None),
            group_empty: Rc::new(Group::empty()),
            errors_are_fatal: Rc::new(Errhandler::predefined(consts::ERRORS_ARE_FATAL)),
            handler_of_freed: RefCell::default(),
            errors_abort: Rc::new(Errhandler::predefined(consts::ERRORS_ABORT)),
            errors_return: Rc::new(Errhandler::predefined(consts::ERRORS_RETURN)),
            comms: Slab::new(1),
            groups: Slab::new(2),
            types: Slab::new(3),
            ops: Slab::new(4),
            infos: Slab::new(5),
            errhandlers: Slab::new(6),
            requests: Pool::beside(7, &crate::short::short().requests),
            messages: Slab::new(8),
            predefined_types: Predefined::new(),
            predefined_ops: PredefinedOps::new(),
            keyvals: RefCell::new(Vec::new()),
            context_ids: ContextIds::new(),
            error_texts: RefCell::new(ErrorTexts::default()),
            bsend: RefCell::default(),
            completions: RefCell::new(Vec::new()),
            shared_done: Cell::new(None),
            failures: Failures::default(),
            graphs: Graphs::default(),
            extension: Cell::new(None),
            lent: Cell::new(false),
            sleeping: Cell::new(0),
            changes: Cell::new(0),
            polled: Cell::new(0),
            polls: Cell::new(0),
            next_turn: Cell::new(0),
            known: Known::BLANK,
            beside: Cell::new(false),
            bound: RefCell::default(),
            least_bound: Cell::new(u64::MAX),
            kernel: crate::kernel::Kernel::default(),
            softirq: crate::softirq::Softirq::default(),
            progress_thread: crate::progress_thread::ProgressThread::default(),
            tools: crate::api::tool::Tools::default(),
            places: Rc::default(),
            spare: Rc::default(),
            waits_over: Cell::new(0),
            ended: crate::coll::EndedInCalls::default(),
        }
    }

    /// Whether a call that is allowed `when` may run now.
    #[inline]
    pub fn ready(&self, when: When) -> Result<()> {
        if when == When::Always || (self.phase.get() == Phase::Running && !self.fork_mark.forked())
        {
            return Ok(());
        }
        Err(self.not_ready())
    }

    #[cold]
    fn not_ready(&self) -> Box<types::Fault> {
        let why = match self.phase.get() {
            Phase::Before => "MPI is not initialised; call MPI_Init first",
            Phase::Finalized => "MPI is already finalized",
            Phase::Running => {
                "this process was forked from a rank; MPI can only be used in the rank itself"
            }
        };
        fault(consts::ERR_OTHER, why)
    }

    /// Whether several threads may be inside MPI: the program's, its tool's, or one of ours.
    pub fn is_threaded(&self) -> bool {
        self.is_called_by_threads() || self.progress_thread.is_on() || self.tools.are_threaded()
    }

    /// Whether several threads of the program may be inside MPI.
    pub fn is_called_by_threads(&self) -> bool {
        self.thread_level.get() == consts::THREAD_MULTIPLE
    }

    /// Whether the caller is the thread that started MPI.
    pub(crate) fn is_main_thread(&self) -> bool {
        self.main_thread.get() == sys::lock::thread_pointer() as u64
    }

    /// The error of a handle that names nothing: it is not `what`. Told as the program has the handle.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_not(&self, class: i32, handle: Handle, what: &str) -> Box<types::Fault> {
        let passed = match handle.0 {
            // What the ABIs make of a word that none of their handles has.
            0 => "NULL, or another word that is no handle,".to_string(),
            _ => format!("{:#x}", (self.hooks.callback.handle)(handle)),
        };
        fault(class, format!("{passed} is not {what}"))
    }

    /// The communicator that `handle` names.
    pub fn comm(&self, handle: Handle) -> Result<Rc<Comm>> {
        let found = match handle {
            consts::COMM_WORLD => self.comm_world.borrow().clone(),
            consts::COMM_SELF => self.comm_self.borrow().clone(),
            _ => self.comms.get(handle.0),
        };
        found.ok_or_else(|| match handle {
            consts::COMM_NULL => fault(consts::ERR_COMM, "the communicator is MPI_COMM_NULL"),
            h => self.is_not(consts::ERR_COMM, h, "a communicator"),
        })
    }

    /// The group that `handle` names.
    pub fn group(&self, handle: Handle) -> Result<Rc<Group>> {
        if handle == consts::GROUP_EMPTY {
            return Ok(self.group_empty.clone());
        }
        self.groups.get(handle.0).ok_or_else(|| match handle {
            consts::GROUP_NULL => fault(consts::ERR_GROUP, "the group is MPI_GROUP_NULL"),
            h => self.is_not(consts::ERR_GROUP, h, "a group"),
        })
    }

    /// A handle for `group`.
    pub fn new_group(&self, group: Group) -> Result<Handle> {
        if group.size() == 0 {
            return Ok(consts::GROUP_EMPTY);
        }
        self.groups
            .insert(Rc::new(group))
            .map(Handle)
            .ok_or_else(out_of_objects)
    }

    /// The datatype that `handle` names.
    #[inline]
    pub fn type_of(&self, handle: Handle) -> Result<Rc<TypeObj>> {
        let found = match handle.is_predefined() {
            true => self.predefined_types.get(handle),
            false => self.types.get(handle.0),
        };
        found.ok_or_else(|| self.is_no_type(handle))
    }

    #[cold]
    #[inline(never)]
    fn is_no_type(&self, handle: Handle) -> Box<types::Fault> {
        if handle == consts::DATATYPE_NULL {
            return fault(consts::ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
        }
        if handle.is_predefined() && handle > consts::DATATYPE_NULL {
            return self.is_not(consts::ERR_TYPE, handle, "a datatype of this platform");
        }
        match self.hooks.removed_types.iter().find(|(r, _)| *r == handle) {
            Some((_, name)) => fault(
                consts::ERR_TYPE,
                format!(
                    "{name} was removed from MPI in version 3.0: MPI_Type_create_resized sets bounds"
                ),
            ),
            None => self.is_not(consts::ERR_TYPE, handle, "a datatype"),
        }
    }

    /// The datatype that `handle` names, which must be committed.
    #[inline]
    pub fn committed_type(&self, handle: Handle) -> Result<Rc<TypeObj>> {
        let t = self.type_of(handle)?;
        if !t.is_committed() {
            return Err(fault(consts::ERR_TYPE, "the datatype is not committed"));
        }
        Ok(t)
    }

    /// The operation that `handle` names.
    pub fn op(&self, handle: Handle) -> Result<Rc<Op>> {
        self.predefined_ops
            .get(handle)
            .or_else(|| self.ops.get(handle.0))
            .ok_or_else(|| match handle {
                consts::OP_NULL => fault(consts::ERR_OP, "the operation is MPI_OP_NULL"),
                h => self.is_not(consts::ERR_OP, h, "an operation"),
            })
    }

    /// The info object that `handle` names.
    pub fn info(&self, handle: Handle) -> Result<Rc<Info>> {
        if handle == consts::INFO_ENV {
            return Ok(Rc::new(self.info_env()));
        }
        self.infos.get(handle.0).ok_or_else(|| match handle {
            consts::INFO_NULL => fault(consts::ERR_INFO, "the info object is MPI_INFO_NULL"),
            h => self.is_not(consts::ERR_INFO, h, "an info object"),
        })
    }

    /// The error handler that `handle` names.
    pub fn errhandler(&self, handle: Handle) -> Result<Rc<Errhandler>> {
        let found = match handle {
            consts::ERRORS_ARE_FATAL => Some(self.errors_are_fatal.clone()),
            consts::ERRORS_ABORT => Some(self.errors_abort.clone()),
            consts::ERRORS_RETURN => Some(self.errors_return.clone()),
            _ => self.errhandlers.get(handle.0),
        };
        found.ok_or_else(|| self.is_not(consts::ERR_ERRHANDLER, handle, "an error handler"))
    }
}

/// The fault of a full object span.
#[cold]
pub(crate) fn out_of_objects() -> Box<types::Fault> {
    fault(consts::ERR_NO_MEM, "no room is left for another MPI object")
}
