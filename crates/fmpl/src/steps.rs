//! What collectives are made of: entering one, and single steps on a communicator's slots.

use std::rc::Rc;

use boundary::UserBuf;
use fmpl_table::code;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, Slots};

use crate::area::refused;
use crate::comm::Comm;
use crate::core::Lane;
use crate::host::{Host, Waiting};

/// One collective of a process on a communicator; while it lives no other begins.
pub(crate) struct Entered(pub Rc<Comm>);

impl Entered {
    /// Enters a collective on the communicator of a number.
    pub fn new<H: Host>(h: &H, comm: i32) -> Result<Entered, i32> {
        let comm = h.with(|core, _| core.comm(comm).cloned())?;
        Entered::of(comm)
    }

    /// The same, on one that has been found.
    pub fn of(comm: Rc<Comm>) -> Result<Entered, i32> {
        if comm.is_busy() {
            return Err(code::ERR_REENTERED);
        }
        if comm.is_broken() {
            return Err(code::ERR_PEER);
        }
        comm.set_busy(true);
        Ok(Entered(comm))
    }

    /// The collective itself, and its end. Where it has missed somebody there is no other on this communicator: members
    /// differ in how far they came.
    pub fn run<R>(self, f: impl FnOnce(&Rc<Comm>) -> Result<R, i32>) -> Result<R, i32> {
        let end = f(&self.0);
        if matches!(end, Err(code::ERR_PEER)) {
            self.0.set_broken();
        }
        end
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

pub(crate) fn waiting(call: &'static str, peer: u32, bytes: u64) -> Waiting {
    Waiting {
        call,
        peer: peer as i32,
        index: -1,
        bytes,
    }
}

/// Posts a receive on a communicator's slot.
pub(crate) fn post<H: Host>(
    h: &H,
    comm: &Comm,
    from: u32,
    lane: Lane,
    data: &Data,
) -> Result<(), i32> {
    h.with(|core, below| {
        let slot = core.lane(comm, from, lane);
        below.post(slot, data).map_err(refused)
    })
}

/// Waits for the peer's receive on a communicator's slot, and delivers.
pub(crate) fn deliver<H: Host>(
    h: &H,
    comm: &Comm,
    call: &'static str,
    to: u32,
    lane: Lane,
    data: &Data,
) -> Result<(), i32> {
    let mut moving = false;
    h.wait_for(waiting(call, to, data.len()), |core, below| {
        let slot = core.lane(comm, to, lane);
        let how = match moving {
            true => below.delivered(slot),
            false if below.offered(slot).is_none() => {
                let vain = comm.is_broken() || core.has_failed(to);
                return vain.then_some(Err(code::ERR_PEER));
            }
            false => match below.deliver(slot, data, 0) {
                Ok(how) => how,
                Err(SlotError::NotOffered) => return None,
                Err(error) => return Some(Err(refused(error))),
            },
        };
        match how {
            Delivery::Pending => {
                moving = true;
                None
            }
            Delivery::Done { bytes } if bytes < data.len() => Some(Err(code::ERR_TRUNCATE)),
            Delivery::Done { .. } => Some(Ok(())),
            Delivery::PeerFailed | Delivery::Idle => Some(Err(code::ERR_PEER)),
        }
    })
}

/// Waits for what comes into a posted slot; gives its bytes. Where it is clear that nothing may come, the buffer is asked back first.
pub(crate) fn landed<H: Host>(
    h: &H,
    comm: &Comm,
    call: &'static str,
    from: u32,
    lane: Lane,
) -> Result<u64, i32> {
    let mut asked = false;
    h.wait_for(waiting(call, from, 0), |core, below| {
        let slot = core.lane(comm, from, lane);
        match below.landed(slot) {
            Landed::NotYet => {
                if comm.is_broken() && !asked {
                    asked = true;
                    ask_back(below, slot);
                }
                None
            }
            Landed::Done { bytes, .. } => Some(Ok(bytes)),
            Landed::Truncated { .. } => Some(Err(code::ERR_TRUNCATE)),
            Landed::PeerFailed | Landed::Withdrawn => Some(Err(code::ERR_PEER)),
            Landed::Idle => Some(Err(code::ERR_NOTHING)),
        }
    })
}

/// Asks for the memory of a posted receive.
#[cold]
#[inline(never)]
fn ask_back(below: &mut impl Slots, slot: Slot) {
    // Refused only where `landed` says why.
    let _ = below.withdraw(slot);
}

/// A stretch of a buffer.
pub(crate) fn part(buf: UserBuf, at: u64, bytes: u64) -> Data {
    Data::bytes(buf.offset(at as i64), bytes)
}
