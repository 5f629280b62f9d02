//! The broadcast: through two faces inside a machine, along a tree of messages elsewhere.
//!
//! **Faces** (section 5.2): the root copies chunk after chunk into its two faces in turn and publishes each by a flag;
//! all receivers read it at the same time, then say that they need it no more, so that the face can be used
//! again. Chunks are counted through all broadcasts of a communicator, whoever their root is: a root waits
//! only before it overwrites a face that somebody may still read, and is two chunks ahead otherwise.
//!
//! **Tree**: binomial, of messages straight into the receiver's buffer. Two members use it for large messages inside a
//! machine too, as there the one receiver takes all by one copy where memory is mapped.

use std::rc::Rc;

use boundary::UserBuf;
use fmpl_table::code;
use mtmi::Boards;

use crate::barrier::{of_each, raise, reached};
use crate::comm::Comm;
use crate::core::Lane;
use crate::face::{self, FACE, Flag};
use crate::host::Host;
use crate::p2p::code_of;
use crate::steps::{Entered, deliver, landed, part, post, waiting};

/// Two members exchange more than this by a message.
const PAIR: u64 = FACE as u64;

/// `fmpl_bcast`.
pub fn bcast<H: Host>(h: &H, buf: UserBuf, size: i64, root: i32, comm: i32) -> i32 {
    code_of(checked(h, buf, size, root, comm).map(|()| code::SUCCESS))
}

fn checked<H: Host>(h: &H, buf: UserBuf, size: i64, root: i32, comm: i32) -> Result<(), i32> {
    let size = u64::try_from(size).map_err(|_| code::ERR_SIZE)?;
    if buf.is_null() && size > 0 {
        return Err(code::ERR_BUFFER);
    }
    let entered = Entered::new(h, comm)?;
    entered.0.peer(root).ok_or(code::ERR_RANK)?;
    entered.run(|comm| run(h, comm, buf, size, root as u32))
}

/// The broadcast itself, in an entered communicator.
pub(crate) fn run<H: Host>(
    h: &H,
    comm: &Rc<Comm>,
    buf: UserBuf,
    size: u64,
    root: u32,
) -> Result<(), i32> {
    if comm.size < 2 {
        return Ok(());
    }
    let faces = h.with(|core, below| !core.software && face::has_faces(comm, below));
    let pair = comm.size == 2 && size > PAIR;
    match (faces && !pair, comm.rank == root) {
        (true, true) => publish(h, comm, buf, size),
        (true, false) => read(h, comm, buf, size, root),
        (false, _) => tree(h, comm, buf, size, root),
    }
}

/// The root's part through the faces.
fn publish<H: Host>(h: &H, comm: &Comm, buf: UserBuf, size: u64) -> Result<(), i32> {
    let others: Vec<u32> = (1..comm.size).map(|d| comm.around(d)).collect();
    let what = waiting("fmpl_bcast", others[0], size);
    let mut done = 0;
    // An empty message is a chunk too: its receivers return when the root has come.
    loop {
        let chunk = comm.chunks.get();
        let face = &comm.faces[(chunk % 2) as usize];
        if face.get() > 0 {
            reached(h, comm, what, &of_each(&others, Flag::Passed, face.get()))?;
        }
        let bytes = (size - done).min(FACE as u64);
        h.with(|_, below| {
            let from = buf.offset(done as i64);
            below.board_write(face::face(comm, chunk), from, bytes as usize);
            face.set(chunk + 1);
            comm.chunks.set(chunk + 1);
            // The root needs no chunk of its own.
            face::store(below, comm, Flag::Passed, chunk + 1);
            raise(below, comm, Flag::Published, chunk + 1, &others);
        });
        done += bytes;
        if done >= size {
            return Ok(());
        }
    }
}

/// A receiver's part.
fn read<H: Host>(h: &H, comm: &Comm, buf: UserBuf, size: u64, root: u32) -> Result<(), i32> {
    let from = [comm.peer(root as i32).ok_or(code::ERR_RANK)?];
    let what = waiting("fmpl_bcast", from[0], size);
    let mut done = 0;
    loop {
        let chunk = comm.chunks.get();
        reached(h, comm, what, &of_each(&from, Flag::Published, chunk + 1))?;
        let bytes = (size - done).min(FACE as u64);
        h.with(|_, below| {
            let to = buf.offset(done as i64);
            below.board_read(
                mtmi::Endpoint(from[0]),
                face::face(comm, chunk),
                to,
                bytes as usize,
            );
            comm.chunks.set(chunk + 1);
            raise(below, comm, Flag::Passed, chunk + 1, &from);
        });
        done += bytes;
        if done >= size {
            return Ok(());
        }
    }
}

/// The binomial tree of messages.
fn tree<H: Host>(h: &H, comm: &Comm, buf: UserBuf, size: u64, root: u32) -> Result<(), i32> {
    let call = "fmpl_bcast";
    let data = part(buf, 0, size);
    let relative = (comm.rank + comm.size - root) % comm.size;
    let member = |relative: u32| {
        let rank = (u64::from(relative) + u64::from(root)) % u64::from(comm.size);
        comm.peer(rank as i32).unwrap_or(0)
    };
    // What a member's children are ahead by is below its lowest bit.
    let mut reach = comm.size.next_power_of_two();
    if relative > 0 {
        reach = 1 << relative.trailing_zeros();
        let parent = member(relative - reach);
        post(h, comm, parent, Lane::Down, &data)?;
        let bytes = landed(h, comm, call, parent, Lane::Down)?;
        if bytes != size {
            return Err(code::ERR_TRUNCATE);
        }
    }
    while reach > 1 {
        reach /= 2;
        if relative + reach < comm.size {
            deliver(h, comm, call, member(relative + reach), Lane::Down, &data)?;
        }
    }
    Ok(())
}
