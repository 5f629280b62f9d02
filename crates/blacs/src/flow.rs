//! How the elements of a matrix get from process to process: in pieces, in order, without a datatype.
//!
//! Where the elements lie in one run, they are sent and received there. Else they pass through two faces: while one
//! piece is on its way from its face the next is packed into the other, and while one is received the one before is
//! unpacked. A process inside a broadcast's tree sends pieces on from where it received them.
//!
//! # Where a message is cut
//! The two sides need not know each other's matrix: its size may differ, and on either side it may lie in one run or
//! not. What a piece's length says is enough:
//! * **A piece of exactly [`CUT`] bytes is followed by another; one of any other length is the last.**
//! * A sender cuts off pieces of [`CUT`] bytes until [`LAST`] bytes or less are left, which it sends as one piece. If
//!   exactly [`CUT`] bytes are left, they are followed by an empty piece.
//! * Only where its elements lie in one run and it sees that the receive which is posted has room for all that is left,
//!   it sends that as one piece, however long it is.
//! * A receiver posts one piece at a time, the next one as soon as a piece of [`CUT`] bytes has come (and before it
//!   unpacks that): never a receive that no piece will come for, since the next message would land in it. It posts all
//!   that is left of a matrix in one run, but no more than [`LAST`] bytes of one that passes through faces.
//!
//! So a message between two matrices that lie in one run is not cut if the receiver is there in time; a sender waits for it
//! as long as copying the message to the stash would take ([`Flow::meet`]). Messages along trees are always cut, so that
//! all their edges are busy at once. A matrix larger than its message is filled as far as the message goes; a smaller
//! one is [`Trouble::Truncated`].

use std::time::{Duration, Instant};

use boundary::UserBuf;

use crate::context::{Context, DEPTH, Stream};
use crate::{End, Error, Net, Scope, Shape, Trouble};

/// Bytes at which a message is cut. A little less than a power of two, so that a message of such a length does not end
/// with an empty piece. Each piece needs both sides awake; measured with two ranks on two processors of load 10, columns
/// with gaps on both sides, best times: where both ranks have a processor, 4 MiB take 0.35 ms uncut, 0.29 in
/// pieces of 256 KiB, 0.20 of 512 KiB, 0.19 of 1 MiB and 0.25 of 2 MiB; where they share one, 0.42 uncut, 0.78, 0.55,
/// 0.48 and 0.44. Pieces of 512 KiB make 1 MiB faster in the one case (0.056 ms for 0.069) and slower in the other
/// (0.113 for 0.087).
pub(crate) const CUT: usize = if cfg!(test) {
    64 << 10
} else {
    (1 << 20) - 4096
};

/// Most bytes of the last piece of a message that is cut: a short one behind would cost more than it moves.
pub(crate) const LAST: usize = CUT + CUT / 2;

/// Bytes of a face, and of what one broadcast of the messages below takes. It wakes all processes, so few large ones are
/// best where these share processors (measured with two ranks on a machine with load 12: 16 MB in one run take three
/// times as long in chunks of 256 KiB). Tests have small ones, to have many.
pub(crate) const FACE: usize = if cfg!(test) { 96 << 10 } else { 4 << 20 };

const _: () = assert!(LAST <= FACE && LAST != CUT);

/// Bytes that are copied to the stash in a nanosecond; a sender that waits no longer than the copy would take
/// loses at most as much again as it would have lost anyway.
const COPIED_PER_NS: u64 = 4;

/// The messages of one stream of a context.
pub(crate) struct Flow<'a, N: Net> {
    pub(crate) net: &'a mut N,
    pub(crate) context: &'a mut Context<N::Comm>,
    pub(crate) faces: [UserBuf; 2],
    pub(crate) stream: Stream,
}

/// A message of several pieces under way, as one process sees it.
struct Way<'a> {
    to: &'a [u32],
    /// Where the elements lie, if in one run.
    direct: Option<UserBuf>,
    /// Bytes of the matrix.
    bytes: usize,
    /// Bytes that are in pieces before this one.
    done: usize,
    /// The piece, counted from 0.
    piece: usize,
    /// The sends of all pieces below are over.
    finished: usize,
    /// How long we may still wait for receivers.
    patience: Duration,
}

impl Way<'_> {
    /// How many pieces can be in memory at a time.
    fn window(&self) -> usize {
        match self.direct {
            Some(_) => DEPTH as usize,
            None => 2,
        }
    }

    /// Bytes of the matrix from this piece on.
    fn left(&self) -> usize {
        self.bytes - self.done
    }
}

impl<N: Net> Flow<'_, N> {
    /// Moves the elements of the matrix at `a`: receives them from `from`, if anybody, and sends them to all of `to`.
    pub(crate) fn carry(
        &mut self,
        from: Option<u32>,
        to: &[u32],
        shape: &Shape,
        a: UserBuf,
    ) -> Result<(), Error> {
        let direct = shape.contiguous().map(|start| a.offset(start as i64));
        if shape.bytes() < CUT {
            return self.carry_one(from, to, shape, a, direct);
        }
        let mut way = Way {
            to,
            direct,
            bytes: shape.bytes(),
            done: 0,
            piece: 0,
            finished: 0,
            patience: Duration::from_nanos(shape.bytes() as u64 / COPIED_PER_NS),
        };
        match from {
            Some(peer) => self.pass_on(&mut way, peer, shape, a)?,
            None => self.send_many(&mut way, shape, a)?,
        }
        self.finish(&mut way, usize::MAX)?;
        let count = way.piece as u32;
        for &peer in to {
            self.context.ends.sent(self.stream, peer, count);
        }
        if let Some(peer) = from {
            self.context.ends.received(self.stream, peer, count);
        }
        Ok(())
    }

    /// A message of one piece, to a matrix of less than [`CUT`] bytes or from it.
    fn carry_one(
        &mut self,
        from: Option<u32>,
        to: &[u32],
        shape: &Shape,
        a: UserBuf,
        direct: Option<UserBuf>,
    ) -> Result<(), Error> {
        let mut bytes = shape.bytes();
        let buf = direct.unwrap_or(self.faces[0]);
        if let Some(peer) = from {
            let end = self.context.ends.from(self.stream, peer, 0);
            if to.is_empty() && direct.is_some() {
                self.net.recv(end, buf, bytes)?;
            } else {
                self.net.irecv(end, buf, bytes)?;
                bytes = self.net.irecv_wait(end)?;
            }
        } else if direct.is_none() {
            shape.cursor().pack(a, buf, bytes);
        }
        for &peer in to {
            self.send(peer, buf, bytes)?;
        }
        if from.is_some() && direct.is_none() {
            shape.cursor().unpack(a, buf, bytes);
        }
        Ok(())
    }

    /// Receives all pieces, and sends them on.
    fn pass_on(
        &mut self,
        way: &mut Way,
        peer: u32,
        shape: &Shape,
        a: UserBuf,
    ) -> Result<(), Error> {
        let mut cursor = shape.cursor();
        self.post(way, peer)?;
        loop {
            let place = self.place(way);
            let end = self.context.ends.from(self.stream, peer, way.piece as u32);
            let bytes = self.net.irecv_wait(end)?;
            let (piece, last) = (way.piece, bytes != CUT);
            way.done += bytes;
            way.piece += 1;
            if !last {
                // What had the next piece's face or index has to be gone.
                self.finish(way, (way.piece + 1).saturating_sub(way.window()))?;
                self.post(way, peer)?;
            }
            self.send_on(way, piece, place, bytes)?;
            if way.direct.is_none() {
                cursor.unpack(a, place, bytes);
            }
            if last {
                return Ok(());
            }
        }
    }

    /// Posts the receive of the piece.
    fn post(&mut self, way: &Way, peer: u32) -> Result<(), Trouble> {
        let room = match way.direct {
            Some(_) => way.left(),
            None => way.left().min(LAST),
        };
        let end = self.context.ends.from(self.stream, peer, way.piece as u32);
        self.net.irecv(end, self.place(way), room)
    }

    /// Sends all pieces of our matrix.
    fn send_many(&mut self, way: &mut Way, shape: &Shape, a: UserBuf) -> Result<(), Error> {
        let mut cursor = shape.cursor();
        loop {
            self.finish(way, (way.piece + 1).saturating_sub(way.window()))?;
            let place = self.place(way);
            let bytes = self.length(way)?;
            if way.direct.is_none() {
                cursor.pack(a, place, bytes);
            }
            let piece = way.piece;
            way.done += bytes;
            way.piece += 1;
            self.send_on(way, piece, place, bytes)?;
            if bytes != CUT {
                return Ok(());
            }
        }
    }

    /// Bytes of the piece that we send next.
    fn length(&mut self, way: &mut Way) -> Result<usize, Trouble> {
        let left = way.left();
        if let ([peer], Some(_), Stream::Points) = (way.to, way.direct, self.stream)
            && left > LAST
            && self
                .meet(way, *peer, way.piece)?
                .is_some_and(|room| room >= left)
        {
            return Ok(left);
        }
        match left {
            CUT => Ok(CUT),
            ..=LAST => Ok(left),
            _ => Ok(CUT),
        }
    }

    /// Waits for the receive that a piece to `peer` will meet, while there is patience; how much it has room for.
    fn meet(&mut self, way: &mut Way, peer: u32, piece: usize) -> Result<Option<usize>, Trouble> {
        let end = self.context.ends.to(self.stream, peer, piece as u32);
        if peer == self.context.grid.number() {
            return self.net.room(end, Duration::ZERO);
        }
        let since = Instant::now();
        let room = self.net.room(end, way.patience)?;
        way.patience = way.patience.saturating_sub(since.elapsed());
        Ok(room)
    }

    /// Begins to send the piece, whose index is free, to all.
    fn send_on(
        &mut self,
        way: &mut Way,
        piece: usize,
        place: UserBuf,
        bytes: usize,
    ) -> Result<(), Error> {
        for &peer in way.to {
            self.meet(way, peer, piece)?;
            let end = self.context.ends.to(self.stream, peer, piece as u32);
            self.net.isend(end, place, bytes)?;
        }
        Ok(())
    }

    /// Where the elements of the piece lie.
    fn place(&self, way: &Way) -> UserBuf {
        match way.direct {
            Some(start) => start.offset(way.done as i64),
            None => self.faces[way.piece % 2],
        }
    }

    /// Broadcasts by what the messages below have for it: chunk by chunk, through the faces where the elements do not
    /// lie in one run.
    pub(crate) fn spread_best(
        &mut self,
        scope: Scope,
        root: u32,
        shape: &Shape,
        a: UserBuf,
    ) -> Result<(), Error> {
        let Some(comm) = self.context.comm(scope) else {
            return Ok(());
        };
        let own = self.context.grid.within(scope) == root;
        let direct = shape.contiguous().map(|start| a.offset(start as i64));
        let mut cursor = shape.cursor();
        for (chunk, start) in (0..shape.bytes()).step_by(FACE).enumerate() {
            let bytes = FACE.min(shape.bytes() - start);
            let place = match direct {
                Some(all) => all.offset(start as i64),
                None => self.faces[chunk % 2],
            };
            if own && direct.is_none() {
                cursor.pack(a, place, bytes);
            }
            self.net.bcast(comm, root, place, bytes)?;
            if !own && direct.is_none() {
                cursor.unpack(a, place, bytes);
            }
        }
        Ok(())
    }

    /// Ends the sends of all pieces below `end` that were begun.
    fn finish(&mut self, way: &mut Way, end: usize) -> Result<(), Error> {
        while way.finished < end.min(way.piece) {
            for &peer in way.to {
                let send = self.context.ends.to(self.stream, peer, way.finished as u32);
                self.net.isend_wait(send)?;
            }
            way.finished += 1;
        }
        Ok(())
    }

    /// Sends one message of one piece.
    pub(crate) fn send(&mut self, peer: u32, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        let end = self.context.ends.to(self.stream, peer, 0);
        self.net.send(end, buf, bytes)
    }

    /// Begins to receive a message of one piece; the number is what [`Flow::await_one`] wants.
    pub(crate) fn expect(
        &mut self,
        peer: u32,
        buf: UserBuf,
        bytes: usize,
    ) -> Result<End<N::Comm>, Trouble> {
        let end = self.context.ends.from(self.stream, peer, 0);
        self.net.irecv(end, buf, bytes)?;
        Ok(end)
    }

    /// Ends it; the message must be as long as expected.
    pub(crate) fn await_one(&mut self, end: End<N::Comm>, bytes: usize) -> Result<(), Error> {
        let came = self.net.irecv_wait(end)?;
        if came != bytes {
            return Err(Error::Short {
                came,
                expected: bytes,
            });
        }
        Ok(())
    }
}
