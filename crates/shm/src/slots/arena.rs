//! Mapped memory of this process, and windows into that of its peers.
//!
//! Blocks of the arena are mapped one by one, so that a limit on address space is met only by what is used, and given back
//! whole when nothing in them is in use. Inside a block, first fit. What is still in use at the end stays mapped, as the
//! program may read it after MPI has ended.

use std::collections::BTreeMap;

use boundary::UserBuf;
use sys::memfd::Mapping;

use crate::slots::Area;

/// Alignment of what is given out.
const LINE: usize = 64;
/// Blocks are multiples of this, and peers map whole multiples of it. Requests above half of it have a block of their
/// own.
const BLOCK: usize = 256 << 10;
/// Windows to each peer.
const WINDOWS: usize = 1024;

/// Mapped memory that this process gives out.
#[derive(Default)]
pub(crate) struct Arena {
    /// In the order of their addresses.
    blocks: Vec<Block>,
    /// Ranges of the arena that were given back, by where they start. No two touch, and none touches `fresh`.
    holes: BTreeMap<u64, u64>,
    /// Where it was never used.
    fresh: u64,
}

struct Block {
    mapping: Mapping,
    /// Where it is in the arena.
    offset: u64,
    at: usize,
    /// What is free: starts and lengths, in order.
    free: Vec<(usize, usize)>,
    /// What is in use.
    used: Vec<(usize, usize)>,
    /// Bytes from here on were never given out, so they are zero.
    clean: usize,
}

impl Arena {
    /// `bytes` zeroed bytes.
    pub fn alloc(&mut self, area: &Area, bytes: usize) -> Option<UserBuf> {
        let bytes = bytes.max(1).checked_next_multiple_of(LINE)?;
        if bytes <= BLOCK / 2
            && let Some(at) = self.blocks.iter_mut().find_map(|b| b.alloc(bytes))
        {
            return Some(at);
        }
        let whole = match bytes <= BLOCK / 2 {
            true => BLOCK,
            false => bytes.checked_next_multiple_of(BLOCK)?,
        };
        let offset = self.range(area, whole as u64)?;
        let Some(mapping) = area.arena(area.local, offset, whole as u64) else {
            // A piece of it may have got memory.
            area.release(offset, whole as u64);
            self.give_back(offset, whole as u64);
            return None;
        };
        let at = mapping.range(0, whole)? as usize;
        let mut block = Block {
            mapping,
            offset,
            at,
            free: vec![(0, whole)],
            used: Vec::new(),
            clean: 0,
        };
        let given = block.alloc(bytes);
        let place = self.blocks.partition_point(|b| b.at < at);
        self.blocks.insert(place, block);
        given
    }

    /// Gives memory back; false if it is none of ours.
    pub fn free(&mut self, area: &Area, memory: UserBuf) -> bool {
        let Some(i) = self.block_of(memory) else {
            return false;
        };
        let block = &mut self.blocks[i];
        let start = memory.addr() - block.at;
        let Some(place) = block.used.iter().position(|u| u.0 == start) else {
            return false;
        };
        let range = block.used.swap_remove(place);
        block.give_back(range);
        if block.used.is_empty() {
            let block = self.blocks.remove(i);
            let len = block.mapping.len() as u64;
            drop(block.mapping);
            area.release(block.offset, len);
            self.give_back(block.offset, len);
        }
        true
    }

    /// Takes a range of the arena back, together with the holes beside it: else requests of changing sizes would leave ever
    /// smaller ones.
    fn give_back(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &room)) = self.holes.range(..offset).next_back()
            && before + room == offset
        {
            self.holes.remove(&before);
            (offset, len) = (before, room + len);
        }
        len += self.holes.remove(&(offset + len)).unwrap_or(0);
        match offset + len == self.fresh {
            true => self.fresh = offset,
            false => drop(self.holes.insert(offset, len)),
        }
    }

    /// A range of the arena that is not in use.
    fn range(&mut self, area: &Area, len: u64) -> Option<u64> {
        let hole = self.holes.iter().find(|&(_, &room)| room >= len);
        if let Some((&offset, &room)) = hole {
            self.holes.remove(&offset);
            if room > len {
                self.holes.insert(offset + len, room - len);
            }
            return Some(offset);
        }
        let end = self.fresh.checked_add(len)?;
        if end > area.arena_bytes() {
            return None;
        }
        Some(std::mem::replace(&mut self.fresh, end))
    }

    /// Where `len` bytes at `buf` are in the arena, if they are.
    #[inline]
    pub fn find(&self, buf: UserBuf, len: u64) -> Option<u64> {
        let block = &self.blocks[self.block_of(buf)?];
        let start = (buf.addr() - block.at) as u64;
        let end = start.checked_add(len)?;
        (end <= block.mapping.len() as u64).then_some(block.offset + start)
    }

    /// The last block that doesn't begin behind an address.
    #[inline]
    fn block_of(&self, buf: UserBuf) -> Option<usize> {
        self.blocks
            .partition_point(|b| b.at <= buf.addr())
            .checked_sub(1)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            if !block.used.is_empty() {
                std::mem::forget(block.mapping);
            }
        }
    }
}

impl Block {
    fn alloc(&mut self, bytes: usize) -> Option<UserBuf> {
        let i = self.free.iter().position(|f| f.1 >= bytes)?;
        let (start, room) = self.free[i];
        match room - bytes {
            0 => {
                self.free.remove(i);
            }
            left => self.free[i] = (start + bytes, left),
        }
        self.used.push((start, bytes));
        // SAFETY: the range is inside the mapping, which lives until nothing of it is in use; whoever uses
        // memory after giving it back breaks the promise that its maker passes on.
        let buf = unsafe { UserBuf::new(self.at + start) };
        let old = self.clean.saturating_sub(start).min(bytes);
        if old > 0 {
            let at = self.mapping.range(start, old)?;
            // SAFETY: inside the mapping by `range`, and given out to nobody.
            unsafe { at.write_bytes(0, old) };
        }
        self.clean = self.clean.max(start + bytes);
        Some(buf)
    }

    fn give_back(&mut self, (start, len): (usize, usize)) {
        let i = self.free.partition_point(|f| f.0 < start);
        self.free.insert(i, (start, len));
        // With its neighbours, the one behind first.
        for i in [i + 1, i] {
            if i > 0
                && let Some(&(start, len)) = self.free.get(i)
                && self.free[i - 1].0 + self.free[i - 1].1 == start
            {
                self.free[i - 1].1 += len;
                self.free.remove(i);
            }
        }
    }
}

/// Parts of one peer's arena that this process maps, by where they start.
#[derive(Default)]
pub(crate) struct Windows {
    open: Vec<Window>,
    /// The one that was used last.
    last: usize,
}

struct Window {
    start: u64,
    mapping: Mapping,
}

impl Window {
    #[inline]
    fn find(&self, offset: u64, len: u64) -> Option<*mut u8> {
        let from = offset.checked_sub(self.start)?;
        self.mapping.range(from as usize, len as usize)
    }
}

impl Windows {
    /// Whether nothing is mapped.
    #[cfg(all(test, not(loom)))]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The address of `len` bytes (not 0) from `offset` on in the arena of process `rank`. `None` where that isn't in it, or
    /// can't be mapped.
    #[inline]
    pub fn find(&mut self, area: &Area, rank: u32, offset: u64, len: u64) -> Option<*mut u8> {
        if let Some(last) = self.open.get(self.last)
            && let Some(at) = last.find(offset, len)
        {
            return Some(at);
        }
        self.search(area, rank, offset, len)
    }

    #[cold]
    fn search(&mut self, area: &Area, rank: u32, offset: u64, len: u64) -> Option<*mut u8> {
        let end = offset.checked_add(len)?;
        if len == 0 || end > area.arena_bytes() {
            return None;
        }
        let behind = self.open.partition_point(|w| w.start <= offset);
        if behind > 0
            && let Some(at) = self.open[behind - 1].find(offset, len)
        {
            self.last = behind - 1;
            return Some(at);
        }
        let block = BLOCK as u64;
        let (start, stop) = (offset / block * block, end.next_multiple_of(block));
        let mapping = area.arena(rank, start, stop - start)?;
        if self.open.len() >= WINDOWS {
            self.open.clear();
        }
        self.open
            .retain(|w| w.start < start || w.start + w.mapping.len() as u64 > stop);
        let place = self.open.partition_point(|w| w.start <= start);
        self.open.insert(place, Window { start, mapping });
        self.last = place;
        self.open[place].find(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::sparse::Sparse;

    fn area() -> Area {
        Area::new(Sparse::create("test", 1 << 27).unwrap(), 2, 0).unwrap()
    }

    #[test]
    fn gives_out_and_takes_back() {
        let (area, mut arena) = (area(), Arena::default());
        let sizes = [1, 64, 5000, BLOCK / 2, BLOCK, 3 * BLOCK + 1];
        let given: Vec<UserBuf> = sizes
            .iter()
            .map(|&n| {
                let buf = arena.alloc(&area, n).unwrap();
                assert_eq!(buf.addr() % LINE, 0);
                let mut was = vec![1; n];
                buf.read(&mut was);
                assert!(was.iter().all(|&b| b == 0));
                buf.write(&vec![0xaa; n]);
                buf
            })
            .collect();
        for (i, a) in given.iter().enumerate() {
            for (b, n) in given.iter().zip(sizes).skip(i + 1) {
                assert!(a.addr() + sizes[i] <= b.addr() || b.addr() + n <= a.addr());
            }
        }
        assert!(!arena.free(&area, given[0].offset(8)));
        // What comes back is zero again.
        assert!(arena.free(&area, given[2]));
        let again = arena.alloc(&area, 5000).unwrap();
        let mut was = vec![1; 5000];
        again.read(&mut was);
        assert!(was.iter().all(|&b| b == 0));
        assert!(arena.free(&area, again));
        for &buf in given.iter().filter(|&&b| b != given[2]) {
            assert!(arena.free(&area, buf) && !arena.free(&area, buf));
        }
        assert!(arena.blocks.is_empty(), "freed memory is given back");
        assert!(arena.alloc(&area, 1 << 26).is_none() && arena.alloc(&area, usize::MAX).is_none());
        assert!(
            arena.alloc(&area, 16 << 20).is_some(),
            "holes are used again"
        );
    }

    #[test]
    fn what_is_given_back_is_joined() {
        let (area, mut arena) = (area(), Arena::default());
        let keep = arena.alloc(&area, BLOCK).unwrap();
        for round in 0..200 {
            for blocks in [5, 1, 3, 2] {
                let given = [0, 1].map(|_| arena.alloc(&area, blocks * BLOCK).unwrap());
                let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
                for i in order {
                    assert!(arena.free(&area, given[i]));
                }
            }
            let middle = [4, 1, 4].map(|n| arena.alloc(&area, n * BLOCK).unwrap());
            for i in [0, 2, 1] {
                assert!(arena.free(&area, middle[i]));
            }
            assert_eq!((arena.fresh, arena.holes.len()), (BLOCK as u64, 0));
        }
        assert!(arena.free(&area, keep));
        assert_eq!(arena.fresh, 0);
    }

    #[test]
    fn a_peer_that_looks_late_gets_no_memory_for_it() {
        let file = Sparse::create("test", 1 << 27).unwrap();
        let copy = file.fd().try_clone_to_owned().unwrap();
        let used = || rustix::fs::fstat(&copy).unwrap().st_blocks;
        let mine = Area::new(file, 2, 0).unwrap();
        let theirs = copy.try_clone().unwrap();
        let theirs = Area::new(Sparse::open(theirs).unwrap(), 2, 1).unwrap();
        let (mut arena, mut windows) = (Arena::default(), Windows::default());
        let buf = arena.alloc(&mine, 1 << 20).unwrap();
        let offset = arena.find(buf, 1 << 20).unwrap();
        let before = used();
        assert!(before > 0);
        assert!(arena.free(&mine, buf));
        assert_eq!(used(), 0);
        assert!(windows.find(&theirs, 0, offset, 1 << 20).is_some());
        assert_eq!(used(), 0, "what is free stays free");
    }

    #[test]
    fn peers_see_the_same_memory() {
        let file = Sparse::create("test", 1 << 27).unwrap();
        let copy = file.fd().try_clone_to_owned().unwrap();
        let mine = Area::new(file, 2, 0).unwrap();
        let theirs = Area::new(Sparse::open(copy).unwrap(), 2, 1).unwrap();
        let (mut arena, mut windows) = (Arena::default(), Windows::default());
        let buf = arena.alloc(&mine, 100).unwrap().offset(10);
        let offset = arena.find(buf, 90).unwrap();
        assert!(arena.find(buf.offset(BLOCK as i64), 1).is_none());
        buf.write(b"echo");
        let at = windows.find(&theirs, 0, offset, 4).unwrap();
        // SAFETY: four bytes inside the window.
        let seen = unsafe { std::slice::from_raw_parts(at, 4) };
        assert_eq!(seen, b"echo");
        for (offset, len) in [(u64::MAX, 2), (1 << 25, 1), ((1 << 25) - 1, 2)] {
            assert!(windows.find(&theirs, 0, offset, len).is_none());
        }
    }
}
