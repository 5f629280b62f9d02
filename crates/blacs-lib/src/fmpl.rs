//! FMPL as what BLACS needs of messages: one call of the table each.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Duration;

use blacs::{End, Net, Trouble};
use boundary::UserBuf;
use fmpl_table::consts::{COMM_LIBRARY, COMM_NULL, GROWS};
use fmpl_table::{FmplTable, Func, code};

/// FMPL in this process.
pub(crate) struct Fmpl {
    pub(crate) table: &'static FmplTable,
    rank: u32,
    size: u32,
    indices: u32,
}

/// Turns a code of FMPL into a result.
#[inline]
pub(crate) fn check(code: i32) -> Result<(), Trouble> {
    match code {
        code::SUCCESS => Ok(()),
        other => Err(trouble(other)),
    }
}

#[cold]
fn trouble(code: i32) -> Trouble {
    match code {
        code::ERR_TRUNCATE => Trouble::Truncated,
        code::ERR_PEER => Trouble::PeerFailed,
        code::ERR_MEMORY => Trouble::Memory,
        other => {
            let text = code::text(other).to_string_lossy();
            Trouble::Other(format!("FMPL: {text}"))
        }
    }
}

/// `fmpl_send`: its code.
#[inline(always)]
pub(crate) fn send(table: &FmplTable, to: End<i32>, buf: UserBuf, bytes: usize) -> i32 {
    let (peer, index) = (to.peer as i32, to.index as i32);
    // SAFETY: the maker of `buf` vouches for it.
    unsafe { (table.send)(buf.as_mut_ptr().cast(), bytes as i64, peer, index, to.comm) }
}

/// `fmpl_recv`: its code.
#[inline(always)]
pub(crate) fn recv(table: &FmplTable, from: End<i32>, buf: UserBuf, bytes: usize) -> i32 {
    let (peer, index) = (from.peer as i32, from.index as i32);
    // SAFETY: the maker of `buf` vouches for it.
    unsafe {
        (table.recv)(
            buf.as_mut_ptr().cast(),
            bytes as i64,
            peer,
            index,
            from.comm,
        )
    }
}

/// Combines words by "or"; what [`Net::unite`] reduces with.
///
/// # Safety
/// `inout` and `input` hold `*count` words.
unsafe extern "C" fn or_words(inout: *mut c_void, input: *const c_void, count: *const i32) {
    // SAFETY: the caller's promise.
    let count = unsafe { *count } as usize;
    for word in 0..count {
        let (inout, input) = (
            inout.cast::<u64>().wrapping_add(word),
            input.cast::<u64>().wrapping_add(word),
        );
        // SAFETY: the caller's promise; FMPL's work areas need not be aligned for a word.
        unsafe { inout.write_unaligned(inout.read_unaligned() | input.read_unaligned()) }
    }
}

impl Fmpl {
    /// Attaches to FMPL, which starts MPI if nobody has.
    pub(crate) fn start(table: &'static FmplTable) -> Result<Fmpl, Trouble> {
        let (mut rank, mut size, mut indices) = (0, 0, 0);
        // SAFETY: the table's functions take any values; the addresses are of locals.
        unsafe {
            check((table.attach)())?;
            check((table.library_stash)(GROWS, 0))?;
            check((table.rank)(COMM_LIBRARY, &mut rank))?;
            check((table.comm_size)(COMM_LIBRARY, &mut size))?;
            check((table.slots)(COMM_LIBRARY, &mut indices))?;
        }
        Ok(Fmpl {
            table,
            rank: rank as u32,
            size: size as u32,
            indices: indices as u32,
        })
    }

    /// How many processes there are.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Waits until everything that was spooled has been received.
    pub(crate) fn drain(&mut self) -> Result<(), Trouble> {
        // SAFETY: always allowed.
        check(unsafe { (self.table.library_stash_drain)() })
    }

    /// The ranks among all processes of an MPI communicator's members, by its Fortran handle.
    pub(crate) fn members(&self, comm: i32) -> Result<Vec<u32>, Trouble> {
        let mut ranks = vec![0; self.size as usize];
        let mut count = 0;
        let room = ranks.len() as i32;
        // SAFETY: `ranks` has `room` places.
        check(unsafe {
            (self.table.mpi_fortran_comm_ranks)(comm, ranks.as_mut_ptr(), room, &mut count)
        })?;
        ranks.truncate(count.max(0) as usize);
        Ok(ranks.into_iter().map(|rank| rank as u32).collect())
    }
}

impl Net for Fmpl {
    type Comm = i32;

    fn indices(&self) -> u32 {
        self.indices
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn comm(&mut self, members: &[u32], tag: i32) -> Result<i32, Trouble> {
        let ranks: Vec<_> = members.iter().map(|&rank| rank as i32).collect();
        let mut comm = COMM_NULL;
        let count = ranks.len() as i32;
        // SAFETY: `ranks` has `count` elements.
        check(unsafe {
            (self.table.comm_from_ranks)(COMM_LIBRARY, ranks.as_ptr(), count, tag, &mut comm)
        })?;
        Ok(comm)
    }

    fn comm_free(&mut self, mut comm: i32) -> Result<(), Trouble> {
        // SAFETY: the address is of a local.
        check(unsafe { (self.table.comm_free)(&mut comm) })
    }

    fn unite(&mut self, comm: i32, bits: &mut [u64]) -> Result<(), Trouble> {
        let mut work = vec![0u64; bits.len()];
        let func = Func {
            builtin: 0,
            element: size_of::<u64>() as u32,
            function: Some(or_words),
        };
        let count = bits.len() as i64;
        let (buf, work) = (bits.as_mut_ptr().cast(), work.as_mut_ptr().cast());
        // SAFETY: `buf` and `work` have `count` elements of the size that `func` names.
        check(unsafe { (self.table.allreduce)(buf, count, &func, comm, work) })
    }

    #[inline]
    fn send(&mut self, to: End<i32>, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        check(send(self.table, to, buf, bytes))
    }

    #[inline]
    fn isend(&mut self, to: End<i32>, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        let (peer, index) = (to.peer as i32, to.index as i32);
        // SAFETY: the maker of `buf` vouches for it until the send is over.
        let code = unsafe {
            (self.table.isend)(buf.as_mut_ptr().cast(), bytes as i64, peer, index, to.comm)
        };
        check(code)
    }

    #[inline]
    fn isend_wait(&mut self, to: End<i32>) -> Result<(), Trouble> {
        // SAFETY: any values may be given.
        check(unsafe { (self.table.isend_wait)(to.peer as i32, to.index as i32, to.comm) })
    }

    fn room(&mut self, to: End<i32>, patience: Duration) -> Result<Option<usize>, Trouble> {
        let (peer, index) = (to.peer as i32, to.index as i32);
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let mut room = -1;
        // SAFETY: the address is of a local.
        check(unsafe { (self.table.offered)(peer, index, to.comm, patience, &mut room) })?;
        Ok(usize::try_from(room).ok())
    }

    #[inline]
    fn recv(&mut self, from: End<i32>, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        check(recv(self.table, from, buf, bytes))
    }

    #[inline]
    fn irecv(&mut self, from: End<i32>, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        let (peer, index) = (from.peer as i32, from.index as i32);
        // SAFETY: the maker of `buf` vouches for it until the receive is over.
        let code = unsafe {
            (self.table.irecv)(
                buf.as_mut_ptr().cast(),
                bytes as i64,
                peer,
                index,
                from.comm,
            )
        };
        check(code)
    }

    #[inline]
    fn irecv_wait(&mut self, from: End<i32>) -> Result<usize, Trouble> {
        let mut bytes = 0;
        let (peer, index) = (from.peer as i32, from.index as i32);
        // SAFETY: the address is of a local, and the other may be NULL.
        check(unsafe {
            (self.table.irecv_wait_status)(peer, index, from.comm, &mut bytes, null_mut())
        })?;
        Ok(bytes as usize)
    }

    fn bcast(&mut self, comm: i32, root: u32, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        // SAFETY: the maker of `buf` vouches for it.
        check(unsafe {
            (self.table.bcast)(buf.as_mut_ptr().cast(), bytes as i64, root as i32, comm)
        })
    }

    fn barrier(&mut self, comm: i32) -> Result<(), Trouble> {
        // SAFETY: any value may be given.
        check(unsafe { (self.table.barrier)(comm) })
    }

    fn face(&mut self, bytes: usize) -> Result<UserBuf, Trouble> {
        let mut memory = null_mut();
        // SAFETY: the address is of a local.
        let code = unsafe { (self.table.alloc)(bytes as i64, &mut memory) };
        let address = match code {
            code::SUCCESS if !memory.is_null() => memory as usize,
            // Peers of other machines, or an end of mapped memory: any other does.
            _ => boundary::memory::alloc(bytes).ok_or(Trouble::Memory)?,
        };
        // SAFETY: `bytes` bytes were just allocated there, and are never given back.
        Ok(unsafe { UserBuf::new(address) })
    }
}
