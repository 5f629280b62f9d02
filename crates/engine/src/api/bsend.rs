//! Buffered sends and the buffers that programs attach for them.
//!
//! A buffered message is kept in memory of our own; what the program attaches is only accounted
//! for, so that a send fails when its buffer would be full, and detaching waits until every
//! message that counts against the buffer has left. That frees the attached memory from any
//! layout and lets automatic buffering (MPI-4.1) share the path.

use std::collections::HashMap;

use boundary::UserBuf;
use mtmi::SendMode;
use types::{Handle, Result, consts, fault};

use super::p2p::Transfer;
use super::sendrecv::packed;
use crate::request::{Body, Kind};
use crate::state::Engine;
use crate::wait::Waiting;

/// Whom a buffer was attached to: the process (`None`) or the communicator of this context.
pub type PoolKey = Option<u32>;

/// What one buffer of a program holds.
struct Pool {
    address: UserBuf,
    size: u64,
    automatic: bool,
    used: u64,
}

/// A part of a request for a flush.
struct Flush {
    /// It is done when this message has left.
    message: Handle,
    request: Handle,
}

/// All attached buffers, and automatic ones that still drain.
#[derive(Default)]
pub struct Pools {
    attached: HashMap<PoolKey, Pool>,
    /// What waits for messages to leave.
    flushes: Vec<Flush>,
}

impl Pools {
    /// A message that counted against a buffer has left.
    pub fn give_back(&mut self, key: PoolKey, bytes: u64) {
        if let Some(pool) = self.attached.get_mut(&key) {
            pool.used -= bytes;
        }
    }

    fn reserve(&mut self, context: u32, bytes: u64) -> Result<PoolKey> {
        let key = match self.attached.contains_key(&Some(context)) {
            true => Some(context),
            false => None,
        };
        let Some(pool) = self.attached.get_mut(&key) else {
            return Err(fault(
                consts::ERR_BUFFER,
                "no buffer is attached for buffered sends; call MPI_Buffer_attach",
            ));
        };
        if !pool.automatic && pool.used + bytes > pool.size {
            return Err(fault(
                consts::ERR_BUFFER,
                format!(
                    "the attached buffer has {} bytes, of which {} are in use; this message needs {bytes}",
                    pool.size, pool.used
                ),
            ));
        }
        pool.used += bytes;
        Ok(key)
    }

    fn used(&self, key: PoolKey) -> u64 {
        self.attached.get(&key).map_or(0, |p| p.used)
    }
}

/// Bytes that a buffered message takes of an attached buffer.
fn footprint(bytes: u64) -> u64 {
    // The smaller `MPI_BSEND_OVERHEAD` of the two ABIs, that of MPICH: a program that attaches as much
    // as the standard tells it to finds room in either.
    const OVERHEAD: u64 = 96;
    bytes + OVERHEAD
}

impl Engine {
    /// Copies a message and sends it without anybody waiting for it.
    pub(crate) fn start_buffered(&self, t: &Transfer) -> Result<()> {
        let bytes = footprint(t.data().len());
        let key = self.reserve(t.comm.context(), bytes)?;
        let (scratch, data) =
            packed(t).inspect_err(|_| self.bsend.borrow_mut().give_back(key, bytes))?;
        let (handle, request) = self
            .new_request(Kind::Send, 1, Some(t.comm.clone()))
            .inspect_err(|_| self.bsend.borrow_mut().give_back(key, bytes))?;
        request.unattended.set(true);
        request.body.replace(Body::Buffered(scratch, key, bytes));
        let submit = self.submit_send(t, data, SendMode::Standard, handle, 0);
        self.submitted(submit);
        Ok(())
    }

    /// Reserves room in the buffer; if there seems to be none, after noting what has left by now.
    fn reserve(&self, context: u32, bytes: u64) -> Result<PoolKey> {
        let first = self.bsend.borrow_mut().reserve(context, bytes);
        if first.is_ok() {
            return first;
        }
        while self.progress() {}
        self.bsend.borrow_mut().reserve(context, bytes)
    }

    fn attach(&self, key: PoolKey, buffer: UserBuf, size: i64) -> Result<()> {
        // MPI_BUFFER_AUTOMATIC is address 2 in the standard ABI.
        let automatic = buffer.addr() == 2;
        if size < 0 || (buffer.is_null() && size > 0) {
            return Err(fault(
                consts::ERR_ARG,
                format!("a buffer of {size} bytes at {:#x}", buffer.addr()),
            ));
        }
        let mut pools = self.bsend.borrow_mut();
        if pools.attached.contains_key(&key) {
            return Err(fault(
                consts::ERR_BUFFER,
                "a buffer is already attached; detach it first",
            ));
        }
        if buffer.is_null() {
            // As if none were attached, which is what MPI_Buffer_detach says where there is none.
            return Ok(());
        }
        let pool = Pool {
            address: buffer,
            size: size as u64,
            automatic,
            used: 0,
        };
        pools.attached.insert(key, pool);
        Ok(())
    }

    fn flush(&self, call: &'static str, key: PoolKey) {
        let bytes = self.bsend.borrow().used(key);
        let what = move || Waiting {
            bytes,
            ..Waiting::new(call, key.unwrap_or(0))
        };
        self.wait_until(what, |e| e.bsend.borrow().used(key) == 0);
    }

    /// A request that is complete when the messages that are in the buffer now have left.
    fn begin_flush(&self, key: PoolKey) -> Result<Handle> {
        while self.progress() {}
        let is_in = |handle: &u32| {
            let request = self.requests.get(*handle);
            let is_in = |body: &Body| matches!(body, Body::Buffered(_, pool, _) if *pool == key);
            request.is_some_and(|request| is_in(&request.body.borrow()))
        };
        let messages: Vec<u32> = self.requests.handles().filter(is_in).collect();
        if messages.is_empty() {
            return self.done_request();
        }
        let (request, _) = self.new_request(Kind::Send, messages.len() as u32, None)?;
        let parts = messages.into_iter().map(|message| Flush {
            message: Handle(message),
            request,
        });
        self.bsend.borrow_mut().flushes.extend(parts);
        Ok(request)
    }

    /// A message has left that counted against a buffer.
    pub(crate) fn buffered_left(&self, message: Handle, key: PoolKey, bytes: u64) {
        let mut pools = self.bsend.borrow_mut();
        pools.give_back(key, bytes);
        let waiting = pools
            .flushes
            .extract_if(.., |flush| flush.message == message);
        let waiting: Vec<Flush> = waiting.collect();
        drop(pools);
        for Flush {
            request: handle, ..
        } in waiting
        {
            if let Some(request) = self.requests.get(handle.0) {
                self.part_done(handle, request);
            }
        }
    }

    fn detach(
        &self,
        call: &'static str,
        key: PoolKey,
        address: &mut usize,
        size: &mut i64,
    ) -> Result<()> {
        self.flush(call, key);
        // Without a buffer it is as with one of no bytes: libraries detach what a program may have attached, and give it back.
        let pool = self.bsend.borrow_mut().attached.remove(&key);
        (*address, *size) = pool.map_or((0, 0), |pool| (pool.address.addr(), pool.size as i64));
        Ok(())
    }
}

/// `MPI_Buffer_attach`.
pub fn buffer_attach(e: &Engine, buffer: UserBuf, size: i64) -> Result<()> {
    e.attach(None, buffer, size)
}

/// `MPI_Buffer_detach`.
pub fn buffer_detach(e: &Engine, address: &mut usize, size: &mut i64) -> Result<()> {
    e.detach("MPI_Buffer_detach", None, address, size)
}

/// `MPI_Buffer_flush`.
pub fn buffer_flush(e: &Engine) -> Result<()> {
    e.flush("MPI_Buffer_flush", None);
    Ok(())
}

/// `MPI_Buffer_iflush`.
pub fn buffer_iflush(e: &Engine, request: &mut Handle) -> Result<()> {
    *request = e.begin_flush(None)?;
    Ok(())
}

/// `MPI_Comm_attach_buffer`.
pub fn comm_attach_buffer(e: &Engine, comm: Handle, buffer: UserBuf, size: i64) -> Result<()> {
    e.attach(Some(e.comm(comm)?.context()), buffer, size)
}

/// `MPI_Comm_detach_buffer`.
pub fn comm_detach_buffer(
    e: &Engine,
    comm: Handle,
    address: &mut usize,
    size: &mut i64,
) -> Result<()> {
    let key = Some(e.comm(comm)?.context());
    e.detach("MPI_Comm_detach_buffer", key, address, size)
}

/// `MPI_Comm_flush_buffer`.
pub fn comm_flush_buffer(e: &Engine, comm: Handle) -> Result<()> {
    let key = Some(e.comm(comm)?.context());
    e.flush("MPI_Comm_flush_buffer", key);
    Ok(())
}

/// `MPI_Comm_iflush_buffer`.
pub fn comm_iflush_buffer(e: &Engine, comm: Handle, request: &mut Handle) -> Result<()> {
    *request = e.begin_flush(Some(e.comm(comm)?.context()))?;
    Ok(())
}
