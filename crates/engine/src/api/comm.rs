//! Communicators (sections 7.4 and 7.8): inquiries, names, hints, duplication, creation and
//! freeing. How the calls that divide a communicator agree is in [`super::split`].

use std::rc::Rc;

use boundary::{AlignedBuf, Text, TextOut, cut};
use types::{Handle, Result, consts, fault};

use crate::api::bsend::comm_detach_buffer;
use crate::api::info::new_info;
use crate::api::split::{Learnt, Part, by_color, by_group, from_members, offer, whole};
use crate::attr;
use crate::comm::Comm;
use crate::group::{Group, Order};
use crate::info::{comm_hints, set_comm_hints};
use crate::state::{Engine, out_of_objects};
use crate::topology::Topology;
use crate::wait::Waiting;

/// Key of the info object that says which resource `MPI_Comm_split_type` divides by.
const RESOURCE_TYPE: &str = "mpi_hw_resource_type";
/// The one resource type known: processes that share memory.
pub(crate) const SHARED_MEMORY: &str = "mpi_shared_memory";
/// Key of the info object that says which process set `MPI_Comm_split_type` selects.
const PROCESS_SET: &str = "mpi_pset_name";

/// `MPI_Comm_size`.
pub fn comm_size(e: &Engine, comm: Handle, size: &mut i32) -> Result<()> {
    *size = e.comm(comm)?.size() as i32;
    Ok(())
}

/// `MPI_Comm_rank`.
pub fn comm_rank(e: &Engine, comm: Handle, rank: &mut i32) -> Result<()> {
    *rank = e.comm(comm)?.rank as i32;
    Ok(())
}

/// `MPI_Comm_compare`.
pub fn comm_compare(e: &Engine, comm1: Handle, comm2: Handle, result: &mut i32) -> Result<()> {
    let (a, b) = (e.comm(comm1)?, e.comm(comm2)?);
    *result = match a.group.compare(&b.group) {
        _ if Rc::ptr_eq(&a, &b) => consts::IDENT,
        Order::Same => consts::CONGRUENT,
        Order::Permuted => consts::SIMILAR,
        Order::Different => consts::UNEQUAL,
    };
    Ok(())
}

/// `MPI_Comm_test_inter`.
pub fn comm_test_inter(e: &Engine, comm: Handle, flag: &mut bool) -> Result<()> {
    e.comm(comm)?;
    *flag = false;
    Ok(())
}

/// `MPI_Comm_remote_size`.
pub fn comm_remote_size(e: &Engine, comm: Handle, _size: &mut i32) -> Result<()> {
    e.comm(comm)?;
    Err(no_remote_group())
}

/// `MPI_Comm_remote_group`.
pub fn comm_remote_group(e: &Engine, comm: Handle, _group: &mut Handle) -> Result<()> {
    e.comm(comm)?;
    Err(no_remote_group())
}

/// `MPI_Comm_get_parent`. No process here was spawned, so there is none.
pub fn comm_get_parent(_e: &Engine, parent: &mut Handle) -> Result<()> {
    *parent = consts::COMM_NULL;
    Ok(())
}

fn no_remote_group() -> Box<types::Fault> {
    fault(
        consts::ERR_COMM,
        "the communicator is an intra-communicator and has no remote group",
    )
}

/// `MPI_Comm_set_name`. A longer name is cut.
pub fn comm_set_name(e: &Engine, comm: Handle, comm_name: Text) -> Result<()> {
    let name = cut(comm_name.to_os(), consts::MAX_OBJECT_NAME as usize - 1);
    e.comm(comm)?.name.replace(name.to_os_string());
    Ok(())
}

/// `MPI_Comm_get_name`. `MPI_COMM_NULL` has a name too.
pub fn comm_get_name(
    e: &Engine,
    comm: Handle,
    comm_name: TextOut,
    resultlen: &mut i32,
) -> Result<()> {
    let length = match comm {
        consts::COMM_NULL => comm_name.set("MPI_COMM_NULL"),
        comm => comm_name.set(&*e.comm(comm)?.name.borrow()),
    };
    *resultlen = length as i32;
    Ok(())
}

/// `MPI_Comm_set_info`.
pub fn comm_set_info(e: &Engine, comm: Handle, info: Handle) -> Result<()> {
    let comm = e.comm(comm)?;
    if let Some(asked) = e.hints(info)? {
        set_comm_hints(&comm.info.borrow(), &asked);
    }
    Ok(())
}

/// `MPI_Comm_get_info`.
pub fn comm_get_info(e: &Engine, comm: Handle, info_used: &mut Handle) -> Result<()> {
    let all = comm_hints(&e.comm(comm)?.info.borrow());
    *info_used = new_info(e, all)?;
    Ok(())
}

/// `MPI_Comm_dup`. Attributes, the topology and the error handler go with it, hints don't (since MPI-4.0).
pub fn comm_dup(e: &Engine, comm: Handle, newcomm: &mut Handle) -> Result<()> {
    comm_dup_with_info(e, comm, consts::INFO_NULL, newcomm)
}

/// `MPI_Comm_dup_with_info`.
pub fn comm_dup_with_info(
    e: &Engine,
    comm: Handle,
    info: Handle,
    newcomm: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm)?;
    e.hints(info)?;
    let part = whole(e, &parent)?;
    let new = duplicate(e, &parent, comm, info, part)?;
    *newcomm = publish_known(e, new)?.handle.get();
    Ok(())
}

/// `MPI_Comm_idup`.
pub fn comm_idup(
    e: &Engine,
    comm: Handle,
    newcomm: &mut Handle,
    request: &mut Handle,
) -> Result<()> {
    comm_idup_with_info(e, comm, consts::INFO_NULL, newcomm, request)
}

/// `MPI_Comm_idup_with_info`. The communicator exists at once but learns its context when the
/// request completes, before which it must not be used.
pub fn comm_idup_with_info(
    e: &Engine,
    comm: Handle,
    info: Handle,
    newcomm: &mut Handle,
    request: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm)?;
    e.hints(info)?;
    let (bytes, mine) = offer(e, &parent, parent.rank == 0);
    let part = Part {
        group: parent.group.clone(),
        rank: parent.rank,
        learnt: mine.unconfirmed()?,
    };
    let new = publish(e, duplicate(e, &parent, comm, info, part)?)?;
    let handle = new.handle.get();
    let started = start_learning(e, &parent, new, bytes);
    if started.is_err() {
        e.know_none();
        e.comms.remove(handle.0);
    }
    *request = started?;
    *newcomm = handle;
    Ok(())
}

/// Starts the broadcast that tells `new` its context.
fn start_learning(e: &Engine, parent: &Rc<Comm>, new: Rc<Comm>, bytes: [u8; 4]) -> Result<Handle> {
    let mut memory = AlignedBuf::new(bytes.len())
        .ok_or_else(|| fault(consts::ERR_NO_MEM, "no memory for a broadcast"))?;
    memory.buf().write(&bytes);
    let then = move |e: &Engine, memory: &mut AlignedBuf| {
        let mut bytes = [0; 4];
        memory.buf().read(&mut bytes);
        new.set_context(u32::from_ne_bytes(bytes));
        e.know_none();
        e.lend_lane(&new);
    };
    e.internal_ibcast(parent, 0, bytes.len() as u64, memory, Box::new(then))
}

/// `MPI_Comm_create`.
pub fn comm_create(e: &Engine, comm: Handle, group: Handle, newcomm: &mut Handle) -> Result<()> {
    let parent = e.comm(comm)?;
    let group = subgroup(e, &parent, group)?;
    let part = by_group(e, &parent, group)?;
    give(e, &parent, part, newcomm)
}

/// `MPI_Comm_create_group`. Only the group's members communicate.
pub fn comm_create_group(
    e: &Engine,
    comm: Handle,
    group: Handle,
    tag: i32,
    newcomm: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm)?;
    let group = subgroup(e, &parent, group)?;
    if tag < 0 {
        return Err(fault(
            consts::ERR_TAG,
            format!("the tag is {tag}; it must be 0 or more"),
        ));
    }
    let part = from_members(e, &parent, group, tag)?;
    give(e, &parent, part, newcomm)
}

/// `MPI_Comm_split`.
pub fn comm_split(
    e: &Engine,
    comm: Handle,
    color: i32,
    key: i32,
    newcomm: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm)?;
    if color < 0 && color != consts::UNDEFINED {
        return Err(fault(
            consts::ERR_ARG,
            format!("the color is {color}; it must be 0 or more, or MPI_UNDEFINED"),
        ));
    }
    let part = by_color(e, &parent, color, key)?;
    give(e, &parent, part, newcomm)
}

/// `MPI_Comm_split_type`. No resource smaller than the memory that processes share is known.
pub fn comm_split_type(
    e: &Engine,
    comm: Handle,
    split_type: i32,
    key: i32,
    info: Handle,
    newcomm: &mut Handle,
) -> Result<()> {
    let parent = e.comm(comm)?;
    let info = e.hints(info)?;
    let asked = |key: &str, value: &str| {
        let found = info.as_ref().and_then(|i| i.get(key));
        found.is_some_and(|found| found == value)
    };
    let machine = e.transport(|m| m.fabric().machine()) as i32;
    let color = match split_type {
        consts::COMM_TYPE_SHARED => machine,
        consts::COMM_TYPE_HW_GUIDED | consts::COMM_TYPE_RESOURCE_GUIDED
            if asked(RESOURCE_TYPE, SHARED_MEMORY) =>
        {
            machine
        }
        consts::COMM_TYPE_RESOURCE_GUIDED if asked(PROCESS_SET, "mpi://WORLD") => 0,
        consts::COMM_TYPE_RESOURCE_GUIDED if asked(PROCESS_SET, "mpi://SELF") => parent.rank as i32,
        // Nothing is known that would make a smaller communicator, as unguided splitting must.
        consts::COMM_TYPE_HW_GUIDED
        | consts::COMM_TYPE_HW_UNGUIDED
        | consts::COMM_TYPE_RESOURCE_GUIDED
        | consts::UNDEFINED => consts::UNDEFINED,
        _ => {
            return Err(fault(
                consts::ERR_ARG,
                format!("{split_type} is not a type to split a communicator by"),
            ));
        }
    };
    let part = by_color(e, &parent, color, key)?;
    give(e, &parent, part, newcomm)
}

/// `MPI_Comm_free`. Pending operations keep what they need of it.
pub fn comm_free(e: &Engine, comm: &mut Handle) -> Result<()> {
    let object = e.comm(*comm)?;
    if comm.is_predefined() {
        return Err(fault(
            consts::ERR_COMM,
            format!("{} can't be freed", object.name.borrow().display()),
        ));
    }
    attr::delete_all(e, &object.attributes, *comm)?;
    // Freeing detaches the communicator's buffer for buffered sends; having none is no error here.
    let _ = comm_detach_buffer(e, *comm, &mut 0, &mut 0);
    e.keep_comm(&object);
    e.know_none();
    e.kernel.spent.forget(&object);
    e.ended.forget(&object);
    e.comms.remove(comm.0);
    object.handle.set(consts::COMM_NULL);
    *comm = consts::COMM_NULL;
    Ok(())
}

/// `MPI_Comm_disconnect`: as `MPI_Comm_free`, once no operation on the communicator is pending.
pub fn comm_disconnect(e: &Engine, comm: &mut Handle) -> Result<()> {
    let object = e.comm(*comm)?;
    let what = || Waiting::new("MPI_Comm_disconnect", object.context());
    if !comm.is_predefined() {
        e.keep_comm(&object);
        e.wait_until(what, |e| !has_pending(e, &object));
    }
    comm_free(e, comm)
}

fn has_pending(e: &Engine, comm: &Rc<Comm>) -> bool {
    e.requests.handles().any(|handle| {
        let Some(request) = e.requests.get(handle) else {
            return false;
        };
        let on = request.comm.borrow();
        !request.is_done() && on.as_ref().is_some_and(|c| Rc::ptr_eq(c, comm))
    })
}

/// The group that `handle` names, which must lie within the communicator's.
fn subgroup(e: &Engine, comm: &Comm, handle: Handle) -> Result<Rc<Group>> {
    let group = e.group(handle)?;
    if group.is_within(&comm.group) {
        return Ok(group);
    }
    Err(fault(
        consts::ERR_GROUP,
        "the group has members that are not in the communicator's group",
    ))
}

/// A communicator like `parent`, which `handle` names, of the same processes.
fn duplicate(e: &Engine, parent: &Comm, handle: Handle, info: Handle, part: Part) -> Result<Comm> {
    let mut new = made(parent, part);
    new.topology = parent.topology.clone();
    new.attributes = attr::copy_all(e, &parent.attributes, handle, consts::COMM_NULL)?;
    if let Some(asked) = e.hints(info)? {
        set_comm_hints(&new.info.borrow(), &asked);
    }
    Ok(new)
}

/// A communicator of a part of `parent`'s processes, which takes its error handler on.
fn made(parent: &Comm, part: Part) -> Comm {
    let Learnt { context, lease } = part.learnt;
    let handler = parent.errhandler.borrow().clone();
    Comm::new(context, lease, part.group, part.rank, handler)
}

fn publish(e: &Engine, new: Comm) -> Result<Rc<Comm>> {
    let new = Rc::new(new);
    let handle = e.comms.insert(new.clone()).map(Handle);
    new.handle.set(handle.ok_or_else(out_of_objects)?);
    Ok(new)
}

/// The same of a communicator whose members all do so now and wait for each other.
fn publish_known(e: &Engine, new: Comm) -> Result<Rc<Comm>> {
    let new = publish(e, new)?;
    e.open_lane(&new);
    Ok(new)
}

/// Makes a communicator with a topology.
pub(super) fn publish_with(
    e: &Engine,
    parent: &Comm,
    part: Part,
    topology: Topology,
) -> Result<Rc<Comm>> {
    let mut new = made(parent, part);
    new.topology = Some(Rc::new(topology));
    publish_known(e, new)
}

/// The handle of this process's part of `parent`, with the topology that `topology` makes for the rank there, or
/// `MPI_COMM_NULL`.
pub(super) fn give_with(
    e: &Engine,
    parent: &Comm,
    part: Option<Part>,
    topology: impl FnOnce(u32) -> Topology,
) -> Result<Handle> {
    let Some(part) = part else {
        return Ok(consts::COMM_NULL);
    };
    let topology = topology(part.rank);
    Ok(publish_with(e, parent, part, topology)?.handle.get())
}

/// The handle of this process's part of `parent`, or `MPI_COMM_NULL` where it has none.
fn give(e: &Engine, parent: &Comm, part: Option<Part>, newcomm: &mut Handle) -> Result<()> {
    *newcomm = match part {
        None => consts::COMM_NULL,
        Some(part) => publish_known(e, made(parent, part))?.handle.get(),
    };
    Ok(())
}
