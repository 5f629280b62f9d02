//! Collectives that move data, and the barrier.

use boundary::UserBuf;
use cad::together::{CHUNK, CHUNK_MIN};
use cad::{Part, allgather, alltoall, bcast, gather, scatter};
use layout::{Data, transfer};
use types::Result;

use super::bodies::Round;
use super::rounds::Way;
use super::{EXCHANGED, INLINE};
use crate::graphs::Plan;

/// How a block is cut into chunks, a round each.
#[derive(Clone, Copy)]
pub(super) struct Chunks {
    bytes: u64,
    each: u64,
}

impl Chunks {
    /// Chunks of at most `most` bytes, and whole elements of `element` bytes.
    pub fn new(bytes: u64, most: usize, element: u64) -> Chunks {
        let each = (most as u64 / element * element).max(1);
        Chunks { bytes, each }
    }

    /// Chunks of data that one process has written before another reads them: several, so that both are busy at once. 16 KiB take 0.42 us (two near
    /// cores of an EPYC of the fifth generation) or 1.35 (two far ones) in two, and 0.57 or 1.48 in four.
    pub fn piped(bytes: u64, most: usize, element: u64) -> Chunks {
        let short = (bytes / 2).min(2 * CHUNK_MIN);
        let each = (bytes / 4).max(short).clamp(CHUNK_MIN, most as u64);
        Chunks::new(bytes, each as usize, element)
    }

    /// Chunks of what one process has written before another combines it with its own: these are shorter, as combining takes longer than reading.
    /// Of two far cores of an EPYC of the fifth generation, 32, 64 and 256 KiB take 2.2, 3.6 and 11.7 us so, and 2.5, 4.2 and 13.6 in chunks of 32 KiB;
    /// but 16 KiB in one 1.4 and in more 1.6, and 8 MiB 270 in those of 32 KiB and 350 in shorter ones.
    pub fn combined(bytes: u64, element: u64) -> Chunks {
        let each = match bytes {
            ..=COMBINED_WHOLE => COMBINED_WHOLE,
            _ if bytes <= COMBINED_SHORT => (bytes / 4).clamp(COMBINED_WHOLE / 2, COMBINED_WHOLE),
            _ => CHUNK as u64,
        };
        Chunks::new(bytes, each as usize, element)
    }

    /// Chunks of what each of so many others gets. 32 KiB for one take 1.2 us in two and 1.3 in one, 64 KiB 2.5 in two and 2.6 in four (two near
    /// cores of an EPYC of the fifth generation; an allgather of 32 KiB 1.13 and 1.27, between far ones 1.99 and 1.92).
    fn exchanged(bytes: u64, others: usize) -> Chunks {
        let most = CHUNK / others.next_power_of_two();
        let each = (bytes / 2).clamp(most.min(EXCHANGED_LEAST) as u64, most as u64);
        Chunks::new(bytes, each as usize, 1)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn number(&self) -> u64 {
        self.bytes.div_ceil(self.each)
    }

    /// Where a chunk begins, and its bytes.
    pub fn part(&self, chunk: u64) -> (u64, usize) {
        let start = chunk * self.each;
        (start, self.each.min(self.bytes - start) as usize)
    }
}

/// Bytes of the least chunk that is exchanged: more of them take longer.
const EXCHANGED_LEAST: usize = 16 << 10;

/// Up to so many bytes are combined as one chunk, and longer chunks are none
const COMBINED_WHOLE: u64 = 16 << 10;
/// up to so many.
const COMBINED_SHORT: u64 = 512 << 10;

/// Up to so many bytes, a broadcast's chunks lie in bodies that members write in turn: where roots alternate, each writes over what it has
/// read. Of two near cores of an EPYC of the fifth generation, 64 and 256 KiB take 1.08 and 3.8 us so, and 1.26 and 4.3 in the root's own; with one root as long both
/// ways. Of two far ones 3.1 and 8.0, and 3.4 and 9.1; with one root 256 KiB 7.8 and 7.45. Longer ones gain less with several roots than
/// they lose with one, which has fewer bodies to be ahead in.
const SPREAD_OF_TWO: u64 = 256 << 10;
/// The same where there are more processes, some of which may have no processor while others go on.
const SPREAD_IN_TURN: u64 = EXCHANGED * SPREAD_FROM as u64;
/// Shorter chunks lie in the root's own all the same, as it is further ahead there, or in the body that two members hand to each other.
const SPREAD_FROM: usize = 16 << 10;
const _: () = assert!(SPREAD_FROM > INLINE);

/// From so many bytes on an allgather copies a process's own block chunk by chunk, between those that it writes for the others: what it
/// has written is then still in the cache, and no block drives out all that was there. 1 MiB takes 55 us so and 62 as a whole, 8 MiB 575 and 736;
/// 256 KiB take 13.0 and 12.4 (two near cores of an EPYC of the fifth generation).
const GATHERED_BY_CHUNK: u64 = 1 << 20;
/// From so many on an alltoall does, where each block is written for one: 4 MiB take 300 us so and 310 as a whole, 8 MiB of far cores 791 and 1139;
/// but 1 MiB 55.5 and 53.2, 2 MiB 113 and 107.
const SCATTERED_BY_CHUNK: u64 = 4 << 20;

/// A process's own block, on its way from the send buffer to the receive buffer. It is copied when a chunk is out: then the others have
/// something to read meanwhile (8 KiB of each of two take 0.40 us so, and 0.47 if that comes first).
pub(super) struct OwnBlock {
    from: Data,
    to: Data,
    /// Where both lie, if they go chunk by chunk.
    by_chunk: Option<(UserBuf, UserBuf)>,
}

impl OwnBlock {
    /// One that goes chunk by chunk from so many bytes on.
    fn new(from: &Data, to: Data, by_chunk: u64) -> OwnBlock {
        let sides = || Some((from.contiguous()?.0, to.contiguous()?.0));
        OwnBlock {
            from: from.clone(),
            by_chunk: sides().filter(|_| from.len() >= by_chunk),
            to,
        }
    }

    /// Copies what is due when `bytes` bytes from `start` on are out.
    pub fn copy(&self, (start, bytes): (u64, usize)) {
        match self.by_chunk {
            Some((from, to)) => to
                .offset(start as i64)
                .copy_from(from.offset(start as i64), bytes),
            None if start == 0 => self.copy_all(),
            None => {}
        }
    }

    /// Copies it piece by piece, in this order, where it has no gaps.
    pub fn copy_pieces(&self, pieces: impl Iterator<Item = (u64, usize)>) {
        let (Some((from, _)), Some((to, _))) = (self.from.contiguous(), self.to.contiguous())
        else {
            return self.copy_all();
        };
        for (start, bytes) in pieces {
            to.offset(start as i64)
                .copy_from(from.offset(start as i64), bytes);
        }
    }

    pub fn copy_all(&self) {
        transfer(&self.from, &self.to);
    }
}

/// Bytes of a block.
fn bytes_of(part: &Part) -> Option<u64> {
    part.count.checked_mul(part.ty.size)
}

/// Bytes of a block that both sides know, where one of them may not count.
fn block_bytes(send: &Part, recv: &Part, counts_sent: bool) -> Option<u64> {
    bytes_of(if counts_sent { send } else { recv })
}

impl Way<'_> {
    /// Whether the collective goes here: the same at all members.
    pub fn fits(&self, plan: &Plan) -> bool {
        let bytes = match plan {
            Plan::Barrier(_) => Some(0),
            Plan::Bcast(p) => p.count.checked_mul(p.ty.size),
            Plan::Gather(p) => block_bytes(&p.send, &p.recv, p.team.rank != p.root),
            Plan::Scatter(p) => block_bytes(&p.send, &p.recv, p.team.rank == p.root),
            Plan::Allgather(p) => bytes_of(&p.recv),
            Plan::Alltoall(p) => bytes_of(&p.recv),
            Plan::Reduce(p) => return self.reduces(p.count),
            Plan::Allreduce(p) => return self.reduces(p.count),
            Plan::Scan(p) | Plan::Exscan(p) => return self.reduces(p.count),
        };
        bytes.is_some()
    }

    pub fn barrier(&self) -> Result<()> {
        let round = self.place.begin(1);
        self.page(round, 0)?.publish();
        self.all(round, 0)?;
        self.place.all_have_read(round - 1);
        Ok(())
    }

    pub fn bcast(&self, p: &bcast::Params) -> Result<()> {
        let Some(data) = self.received(p.count) else {
            return Ok(());
        };
        let (direct, at_root) = (self.copies_block(data.len()), p.team.rank == p.root);
        if direct && self.bcast_direct(&data, at_root)? {
            return Ok(());
        }
        let chunks = Chunks::piped(data.len(), self.place.lines.piped(data.len()), 1);
        let spread = match self.place.size() {
            2 => SPREAD_OF_TWO,
            _ => SPREAD_IN_TURN,
        };
        let turned_from = match data.len() <= spread {
            true => SPREAD_FROM,
            false => usize::MAX,
        };
        let first = self.begin_written(&chunks, p.root as usize, turned_from);
        for chunk in 0..chunks.number() {
            let (from, bytes) = chunks.part(chunk);
            let round = first.of_chunk(chunk, from);
            if at_root {
                let page = self.page(round, bytes)?;
                page.write(&data, from, bytes);
                page.publish_only();
            } else {
                let theirs = self.theirs(p.root as usize, round, bytes)?;
                theirs.read(&data, from, bytes);
                self.others_have_read_before(round);
                self.place.say_read(round);
            }
        }
        Ok(())
    }

    /// `count` elements of the receive buffer.
    fn received(&self, count: u64) -> Option<Data> {
        let ty = self.call.recv_type.as_ref()?;
        Some(ty.data(self.call.recv, count))
    }

    /// The block of `rank` in the receive buffer, or the only one.
    pub(super) fn block_in(&self, part: &Part, rank: usize) -> Option<Data> {
        let ty = self.call.recv_type.as_ref()?;
        Some(ty.data(self.call.recv.offset(part.start(rank as u32)), part.count))
    }

    /// The same in the send buffer.
    pub(super) fn block_out(&self, part: &Part, rank: usize) -> Option<Data> {
        let ty = self.call.send_type.as_ref()?;
        Some(ty.data(self.call.send.offset(part.start(rank as u32)), part.count))
    }

    pub fn gather(&self, p: &gather::Params) -> Result<()> {
        let (root, me) = (p.root as usize, p.team.rank as usize);
        let bytes = block_bytes(&p.send, &p.recv, me != root).unwrap_or(0);
        if me == root
            && !p.in_place
            && let (Some(out), Some(block)) =
                (self.block_out(&p.send, 0), self.block_in(&p.recv, me))
        {
            transfer(&out, &block);
        }
        let chunks = Chunks::new(bytes, CHUNK, 1);
        let first = self.begin_written(&chunks, Way::other_than(root), usize::MAX);
        if me != root {
            let Some(data) = self.block_out(&p.send, 0) else {
                return Ok(());
            };
            for chunk in 0..chunks.number() {
                let (from, bytes) = chunks.part(chunk);
                let page = self.page(first.of_chunk(chunk, from), bytes)?;
                page.write(&data, from, bytes);
                page.publish_only();
            }
            return Ok(());
        }
        for chunk in 0..chunks.number() {
            let (to, bytes) = chunks.part(chunk);
            self.read_all(&p.recv, first.of_chunk(chunk, to), to, bytes)?;
            self.place.all_have_read(first + chunk - 1);
            self.place.say_read(first + chunk);
        }
        Ok(())
    }

    /// Reads what each of the others has published in a round to its block.
    fn read_all(&self, recv: &Part, round: Round, to: u64, bytes: usize) -> Result<()> {
        for rank in self.place.others() {
            let theirs = self.theirs(rank, round, bytes)?;
            if let Some(block) = self.block_in(recv, rank) {
                theirs.read(&block, to, bytes);
            }
        }
        Ok(())
    }

    pub fn scatter(&self, p: &scatter::Params) -> Result<()> {
        let (root, me, size) = (p.root as usize, p.team.rank as usize, self.place.size());
        let bytes = block_bytes(&p.send, &p.recv, me == root).unwrap_or(0);
        let chunks = Chunks::new(bytes, CHUNK / size, 1);
        let first = self.begin_written(&chunks, root, usize::MAX);
        if me == root {
            for chunk in 0..chunks.number() {
                let (from, bytes) = chunks.part(chunk);
                let page = self.page_for_all(first.of_chunk(chunk, from), bytes)?;
                for rank in self.place.others() {
                    if let Some(block) = self.block_out(&p.send, rank) {
                        page.write_for(rank, &block, from, bytes);
                    }
                }
                page.publish_only();
            }
            if !p.in_place
                && let (Some(out), Some(block)) =
                    (self.block_out(&p.send, me), self.block_in(&p.recv, 0))
            {
                transfer(&out, &block);
            }
            return Ok(());
        }
        let Some(data) = self.block_in(&p.recv, 0) else {
            return Ok(());
        };
        for chunk in 0..chunks.number() {
            let (to, bytes) = chunks.part(chunk);
            let round = first.of_chunk(chunk, to);
            let theirs = self.theirs_for_me(root, round, bytes)?;
            theirs.read(&data, to, bytes);
            self.others_have_read_before(round);
            self.place.say_read(round);
        }
        Ok(())
    }

    /// Rounds in which everybody publishes and reads from everybody: the next one is published before the last is read, so that both
    /// sides are busy at once.
    pub(super) fn exchange(
        &self,
        rounds: u64,
        put: impl Fn(u64, Round) -> Result<()>,
        take: impl Fn(u64, Round) -> Result<()>,
    ) -> Result<()> {
        let first = self.begin_exchange(rounds);
        if rounds > 0 {
            put(0, first)?;
        }
        for chunk in 0..rounds {
            let round = first + chunk;
            if chunk + 1 < rounds {
                put(chunk + 1, round + 1)?;
            }
            take(chunk, round)?;
            // They had published this round before they were through with the one before.
            self.place.all_have_read(round - 2);
        }
        Ok(())
    }

    pub fn allgather(&self, p: &allgather::Params) -> Result<()> {
        let me = p.team.rank as usize;
        let mine = match p.in_place {
            true => self.block_in(&p.recv, me),
            false => self.block_out(&p.send, 0),
        };
        let Some(mine) = mine else { return Ok(()) };
        let bytes = bytes_of(&p.recv).unwrap_or(0);
        self.check_own(&mine, bytes)?;
        let own = match p.in_place {
            true => None,
            false => self.block_in(&p.recv, me),
        };
        let own = own.map(|to| OwnBlock::new(&mine, to, GATHERED_BY_CHUNK));
        if self.reads_blocks(bytes) && self.allgather_direct(p, &mine, own.as_ref())? {
            return Ok(());
        }
        let chunks = match self.place.size() {
            2 => Chunks::exchanged(bytes, 1),
            _ => Chunks::new(bytes, CHUNK, 1),
        };
        let put = |chunk, round| {
            let (from, bytes) = chunks.part(chunk);
            let page = self.page(round, bytes)?;
            page.write(&mine, from, bytes);
            page.publish();
            own.iter().for_each(|own| own.copy((from, bytes)));
            Ok(())
        };
        let take = |chunk, round| {
            let (to, bytes) = chunks.part(chunk);
            self.read_all(&p.recv, round, to, bytes)
        };
        self.exchange(chunks.number(), put, take)
    }

    pub fn alltoall(&self, p: &alltoall::Params) -> Result<()> {
        let (me, size) = (p.team.rank as usize, self.place.size());
        let out = |rank| match p.in_place {
            true => self.block_in(&p.recv, rank),
            false => self.block_out(&p.send, rank),
        };
        let bytes = bytes_of(&p.recv).unwrap_or(0);
        let mut own = None;
        if !p.in_place
            && let (Some(mine), Some(block)) = (out(me), self.block_in(&p.recv, me))
        {
            self.check_own(&mine, bytes)?;
            own = Some(OwnBlock::new(&mine, block, SCATTERED_BY_CHUNK));
        }
        if self.reads_own_blocks(bytes) && self.alltoall_direct(p, own.as_ref(), bytes)? {
            return Ok(());
        }
        let chunks = Chunks::exchanged(bytes, size - 1);
        let put = |chunk, round| {
            let (from, bytes) = chunks.part(chunk);
            let page = self.page_for_all(round, bytes)?;
            for rank in self.place.others() {
                if let Some(block) = out(rank) {
                    page.write_for(rank, &block, from, bytes);
                }
            }
            page.publish();
            own.iter().for_each(|own| own.copy((from, bytes)));
            Ok(())
        };
        let take = |chunk, round| {
            let (to, bytes) = chunks.part(chunk);
            for rank in self.place.others() {
                let theirs = self.theirs_for_me(rank, round, bytes)?;
                if let Some(block) = self.block_in(&p.recv, rank) {
                    theirs.read(&block, to, bytes);
                }
            }
            Ok(())
        };
        self.exchange(chunks.number(), put, take)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::Lines;
    use super::*;

    #[test]
    fn a_broadcasts_chunks_cover_it() {
        for bytes in [1u64, 4095, 4096, 8193, 65_536, 131_072, 131_073, 1 << 20] {
            for lines in [Lines::of(2, true), Lines::of(3, true)] {
                let chunks = Chunks::piped(bytes, lines.piped(bytes), 1);
                let parts = (0..chunks.number()).map(|i| chunks.part(i));
                let end = parts.fold(0, |next, (start, part)| {
                    assert!(start == next && (1..=CHUNK).contains(&part));
                    next + part as u64
                });
                assert_eq!(end, bytes);
            }
        }
    }

    #[test]
    fn chunks_cover_a_block() {
        for (bytes, most, element) in [
            (0, 8, 1),
            (1, 8, 1),
            (8, 8, 1),
            (9, 8, 1),
            (100, 10, 4),
            (96, 20, 16),
        ] {
            let chunks = Chunks::new(bytes, most, element);
            let mut next = 0;
            for chunk in 0..chunks.number() {
                let (start, part) = chunks.part(chunk);
                assert_eq!(start, next);
                assert!((1..=most).contains(&part) && start % element == 0);
                next += part as u64;
            }
            assert_eq!(next, bytes);
        }
    }
}
