//! Messages of derived types, which the short paths leave, since they know predefined types only.
//!
//! Where the data are one run of bytes, the message is one of so many bytes from where they start, and goes any of the short ways. Other data
//! are packed as they are sent; short ones are received packed and unpacked then.
//!
//! As there, nothing was done where a message does not go this way, and the long way does the call again from its first check.

use boundary::UserBuf;
use fabrics::Port;
use layout::Data;
use types::{Handle, Status, consts};

use super::super::{Args, MOST, TURN, selector, short};
use super::Started;
use crate::state::Engine;

/// Bytes of the longest data that are received packed: the memory for them is cleared first.
const PACKED: usize = 512;

impl Engine {
    /// Sends a message of a derived type at once, if that is possible: `true`.
    pub(crate) fn send_derived(&self, m: &Args) -> bool {
        let Some(data) = self.derived(m) else {
            return false;
        };
        if let Some(bytes) = as_bytes(m, &data) {
            return self.send_bytes(&bytes);
        }
        let mut packed = [0; Port::MOST];
        let bytes = |buf| bytes_at(m, buf, data.len());
        if data.len() > packed.len() as u64 {
            return self.send_data_at_once(&bytes(m.buf), |_| data.clone());
        }
        data.reader().read(&mut packed);
        self.send_bytes(&bytes(UserBuf::of_array(&mut packed)))
    }

    /// Receives a message into data of a derived type that is here or comes within a moment, or posts a receive that somebody will wait for.
    pub(crate) fn recv_derived(&self, m: &Args) -> Option<Started> {
        let data = self.derived(m)?;
        if let Some(bytes) = as_bytes(m, &data) {
            let over = self.recv_bytes(&bytes).map(Started::Over);
            return over.or_else(|| self.recv_light(&bytes));
        }
        let mut packed = [0; PACKED];
        if data.len() > packed.len() as u64 {
            return None;
        }
        let to = bytes_at(m, UserBuf::of_array(&mut packed), data.len());
        let status = self.recv_bytes(&to)?;
        data.writer().write(&packed[..status.bytes as usize]);
        Some(Started::Over(status))
    }

    /// The same of data that are one run of bytes, with a request, which may be over.
    pub(crate) fn irecv_derived(&self, m: &Args) -> Option<Handle> {
        let data = self.derived(m)?;
        self.irecv_light(&as_bytes(m, &data)?)
    }

    /// The data of a message of a derived type.
    fn derived(&self, m: &Args) -> Option<Data> {
        let datatype = self.types.get(m.datatype.0)?;
        let count = u64::try_from(m.count).ok()?;
        let len = datatype.size().checked_mul(count)?;
        let fits = len <= MOST as u64 && datatype.is_committed() && !m.buf.is_in_place();
        fits.then(|| datatype.data(m.buf, count))
    }

    /// Sends bytes at once, in a cell or else.
    fn send_bytes(&self, m: &Args) -> bool {
        let in_cell = m.tag >= 0 && self.way_of_any(m).is_some_and(|b| b.send(m));
        in_cell || self.send_at_once(m)
    }

    /// Receives bytes from a short message that is there or comes within a moment, unless it is this receive's turn to make progress.
    fn recv_bytes(&self, m: &Args) -> Option<Status> {
        // [`Engine::recv_short`] or [`Engine::recv_now`] was tried and has counted: after a receive whose turn it was all turns are left.
        if short().turns.get() == TURN {
            return None;
        }
        let tag = selector(m.tag, consts::ANY_TAG)?;
        let b = self.way_of_any(m)?;
        self.receive_coming(m, &b, tag)
    }
}

/// The same message as bytes, if `data`, which it moves, are one run.
fn as_bytes(m: &Args, data: &Data) -> Option<Args> {
    let (at, len) = data.contiguous()?;
    Some(bytes_at(m, at, len))
}

/// The same message with `len` bytes at `buf`, which are no more than [`MOST`].
fn bytes_at(m: &Args, buf: UserBuf, len: u64) -> Args {
    Args {
        buf,
        count: len as i64,
        datatype: consts::BYTE,
        ..*m
    }
}
