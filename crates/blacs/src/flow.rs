//! How the elements of a matrix get from process to process: in chunks, in order, without a datatype.
//!
//! A message is a sequence of chunks of [`CHUNK`] bytes, of which the last one alone is shorter (and may be empty), so
//! both sides agree on them whatever their matrices look like. Where the elements lie in one run, chunks are
//! sent and received there. Else they pass through two faces: while one chunk is on its way from its face the next is
//! packed into the other, and while one is received the one before is unpacked. A process inside a broadcast's tree
//! sends chunks on from where it received them.

use boundary::UserBuf;

use crate::context::{Context, DEPTH, Stream};
use crate::{End, Error, Net, Scope, Shape, Trouble};

/// Bytes of a chunk, and of a face. Each chunk needs both sides awake, so few large ones are best where processes share
/// processors (measured with two ranks on a machine with load 12: 16 MB in one run take three times as long in chunks of
/// 256 KiB). Tests have small ones, to have many.
pub(crate) const CHUNK: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// The messages of one stream of a context.
pub(crate) struct Flow<'a, N: Net> {
    pub(crate) net: &'a mut N,
    pub(crate) context: &'a mut Context<N::Comm>,
    pub(crate) faces: [UserBuf; 2],
    pub(crate) stream: Stream,
}

/// The chunks of one message as one process sees them.
struct Chunks {
    /// Where the elements lie, if in one run.
    direct: Option<UserBuf>,
    bytes: usize,
    count: usize,
}

impl Chunks {
    fn length(&self, chunk: usize) -> usize {
        CHUNK.min(self.bytes - chunk * CHUNK)
    }

    /// How many chunks can be in memory at a time.
    fn window(&self) -> usize {
        match self.direct {
            Some(_) => DEPTH as usize,
            None => 2,
        }
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
        if shape.bytes() < CHUNK {
            return self.carry_one(from, to, shape, a, direct);
        }
        let chunks = Chunks {
            direct,
            bytes: shape.bytes(),
            count: shape.bytes() / CHUNK + 1,
        };
        self.carry_many(from, to, shape, a, &chunks)?;
        let count = chunks.count as u32;
        for &peer in to {
            self.context.sent(self.stream, peer, count);
        }
        if let Some(peer) = from {
            self.context.received(self.stream, peer, count);
        }
        Ok(())
    }

    /// A message of one chunk.
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
            let end = self.context.from(self.stream, peer, 0);
            self.context.received(self.stream, peer, 1);
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

    fn carry_many(
        &mut self,
        from: Option<u32>,
        to: &[u32],
        shape: &Shape,
        a: UserBuf,
        chunks: &Chunks,
    ) -> Result<(), Error> {
        let (mut posted, mut finished) = (0, 0);
        let mut cursor = shape.cursor();
        for chunk in 0..chunks.count {
            let region = self.region(chunks, chunk);
            let mut bytes = chunks.length(chunk);
            if let Some(peer) = from {
                while posted < chunks.count.min(chunk + chunks.window()) {
                    if chunks.direct.is_none() {
                        // What was in that face has to be gone.
                        let gone = (posted + 1).saturating_sub(chunks.window());
                        self.finish(to, &mut finished, gone)?;
                    }
                    let end = self.context.from(self.stream, peer, posted as u32);
                    let place = self.region(chunks, posted);
                    self.net.irecv(end, place, chunks.length(posted))?;
                    posted += 1;
                }
                let end = self.context.from(self.stream, peer, chunk as u32);
                bytes = self.net.irecv_wait(end)?;
                if bytes < chunks.length(chunk) {
                    return Err(Error::Short {
                        came: chunk * CHUNK + bytes,
                        expected: chunks.bytes,
                    });
                }
            }
            let gone = (chunk + 1).saturating_sub(chunks.window());
            self.finish(to, &mut finished, gone)?;
            if from.is_none() && chunks.direct.is_none() {
                cursor.pack(a, region, bytes);
            }
            for &peer in to {
                let end = self.context.to(self.stream, peer, chunk as u32);
                self.net.isend(end, region, bytes)?;
            }
            if from.is_some() && chunks.direct.is_none() {
                cursor.unpack(a, region, bytes);
            }
        }
        self.finish(to, &mut finished, chunks.count)
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
        let chunks = Chunks {
            direct: shape.contiguous().map(|start| a.offset(start as i64)),
            bytes: shape.bytes(),
            count: shape.bytes().div_ceil(CHUNK),
        };
        let mut cursor = shape.cursor();
        for chunk in 0..chunks.count {
            let (region, bytes) = (self.region(&chunks, chunk), chunks.length(chunk));
            if own && chunks.direct.is_none() {
                cursor.pack(a, region, bytes);
            }
            self.net.bcast(comm, root, region, bytes)?;
            if !own && chunks.direct.is_none() {
                cursor.unpack(a, region, bytes);
            }
        }
        Ok(())
    }

    fn region(&self, chunks: &Chunks, chunk: usize) -> UserBuf {
        match chunks.direct {
            Some(start) => start.offset((chunk * CHUNK) as i64),
            None => self.faces[chunk % 2],
        }
    }

    /// Ends the sends of all chunks below `end`; those below `finished` are over.
    fn finish(&mut self, to: &[u32], finished: &mut usize, end: usize) -> Result<(), Error> {
        while *finished < end {
            for &peer in to {
                let send = self.context.to(self.stream, peer, *finished as u32);
                self.net.isend_wait(send)?;
            }
            *finished += 1;
        }
        Ok(())
    }

    /// Sends one message of one chunk.
    pub(crate) fn send(&mut self, peer: u32, buf: UserBuf, bytes: usize) -> Result<(), Trouble> {
        let end = self.context.to(self.stream, peer, 0);
        self.context.sent(self.stream, peer, 1);
        self.net.send(end, buf, bytes)
    }

    /// Begins to receive a message of one chunk; the number is what [`Flow::await_one`] wants.
    pub(crate) fn expect(
        &mut self,
        peer: u32,
        buf: UserBuf,
        bytes: usize,
    ) -> Result<End<N::Comm>, Trouble> {
        let end = self.context.from(self.stream, peer, 0);
        self.context.received(self.stream, peer, 1);
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
