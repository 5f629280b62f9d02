//! The stash: memory at the sender in which messages wait for their receives.
//!
//! [`Blocks`] is the bookkeeping alone: which stretches of a memory of some size are free. [`Stash`] joins it
//! to memory: the program's, the library's own, or one piece of heap per message where it may grow. Messages leave
//! in any order, since each waits for its own receiver, so it is no ring; the free stretches are few and kept in
//! order. Invariants of `Blocks`: free stretches do not touch, and free and taken ones together are the whole.

use std::collections::BTreeMap;

use boundary::{AlignedBuf, UserBuf};
use layout::Data;

/// Taken stretches begin at multiples of this, so that a copy in and out is as quick as it can be.
const GRAIN: u64 = 64;

/// Which stretches of a memory are free.
#[derive(Debug, Default)]
pub struct Blocks {
    /// Free stretches: begin and length.
    free: BTreeMap<u64, u64>,
    /// Taken stretches: begin and length.
    taken: BTreeMap<u64, u64>,
}

impl Blocks {
    /// All of `size` bytes free, in whole grains.
    pub fn new(size: u64) -> Blocks {
        let whole = size - size % GRAIN;
        let mut blocks = Blocks::default();
        if whole > 0 {
            blocks.free.insert(0, whole);
        }
        blocks
    }

    /// Takes `len` bytes (an empty message takes one grain): the first free stretch that holds them.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        let len = len.max(1).checked_next_multiple_of(GRAIN)?;
        let (&at, &room) = self.free.iter().find(|&(_, &room)| room >= len)?;
        self.free.remove(&at);
        if room > len {
            self.free.insert(at + len, room - len);
        }
        self.taken.insert(at, len);
        Some(at)
    }

    /// Gives back what begins at `at`; false if nothing does.
    pub fn give(&mut self, at: u64) -> bool {
        let Some(mut len) = self.taken.remove(&at) else {
            return false;
        };
        let mut begin = at;
        if let Some(after) = self.free.remove(&(at + len)) {
            len += after;
        }
        if let Some((&before, &room)) = self.free.range(..at).next_back()
            && before + room == at
        {
            self.free.remove(&before);
            (begin, len) = (before, room + len);
        }
        self.free.insert(begin, len);
        true
    }

    /// Whether nothing is taken.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

/// Where a spooled message lies.
#[derive(Debug)]
pub enum Place {
    /// In the stash's memory, from this byte on.
    At(u64),
    /// In memory of its own.
    Own(Box<Owned>),
}

/// Memory of one message.
pub struct Owned(AlignedBuf);

impl std::fmt::Debug for Owned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

enum Memory {
    None,
    Given(UserBuf),
    Own(AlignedBuf),
    Grows,
}

/// A stash.
pub struct Stash {
    memory: Memory,
    blocks: Blocks,
}

impl Stash {
    /// No room at all.
    pub fn none() -> Stash {
        Stash {
            memory: Memory::None,
            blocks: Blocks::default(),
        }
    }

    /// The program's memory.
    pub fn given(buf: UserBuf, size: u64) -> Stash {
        // The grains are counted from an aligned address.
        let skip = (GRAIN - buf.addr() as u64 % GRAIN) % GRAIN;
        Stash {
            memory: Memory::Given(buf.offset(skip as i64)),
            blocks: Blocks::new(size.saturating_sub(skip)),
        }
    }

    /// Memory of our own; `None` when it is refused.
    pub fn own(size: u64) -> Option<Stash> {
        let memory = AlignedBuf::new(usize::try_from(size).ok()?)?;
        Some(Stash {
            memory: Memory::Own(memory),
            blocks: Blocks::new(size),
        })
    }

    /// As much as it takes.
    pub fn growing() -> Stash {
        Stash {
            memory: Memory::Grows,
            blocks: Blocks::default(),
        }
    }

    /// Copies a message in. `None` when there is no room for it now.
    pub fn put(&mut self, data: &Data) -> Option<(Place, Data)> {
        let len = data.len();
        let (place, copy) = match &mut self.memory {
            Memory::None => return None,
            Memory::Given(buf) => {
                let at = self.blocks.take(len)?;
                (Place::At(at), Data::bytes(buf.offset(at as i64), len))
            }
            Memory::Own(memory) => {
                let at = self.blocks.take(len)?;
                (
                    Place::At(at),
                    Data::bytes(memory.buf().offset(at as i64), len),
                )
            }
            Memory::Grows => {
                let mut own = Box::new(Owned(AlignedBuf::new(usize::try_from(len).ok()?)?));
                let buf = own.0.buf();
                (Place::Own(own), Data::bytes(buf, len))
            }
        };
        layout::transfer(data, &copy);
        Some((place, copy))
    }

    /// The message that lay there has left.
    pub fn drop(&mut self, place: Place) {
        if let Place::At(at) = place {
            let known = self.blocks.give(at);
            debug_assert!(known, "a message leaves the stash once");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64),
        Give(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..700).prop_map(Step::Take),
            any::<usize>().prop_map(Step::Give),
        ]
    }

    proptest! {
        #[test]
        fn stretches_never_overlap_and_all_come_back(
            size in 0u64..5000,
            steps in proptest::collection::vec(step(), 1..200),
        ) {
            let mut blocks = Blocks::new(size);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for s in steps {
                match s {
                    Step::Take(len) => {
                        let Some(at) = blocks.take(len) else {
                            // Refused only where no hole between the held ones is large enough.
                            let need = len.max(1).next_multiple_of(GRAIN);
                            let mut edges = held.clone();
                            edges.sort_unstable();
                            let whole = size - size % GRAIN;
                            let mut from = 0;
                            for (at, len) in edges.into_iter().chain([(whole, 0)]) {
                                prop_assert!(at - from < need);
                                from = at + len;
                            }
                            continue;
                        };
                        let len = len.max(1).next_multiple_of(GRAIN);
                        prop_assert!(at % GRAIN == 0 && at + len <= size);
                        let apart = |&(a, n): &(u64, u64)| a + n <= at || at + len <= a;
                        prop_assert!(held.iter().all(apart));
                        held.push((at, len));
                    }
                    Step::Give(i) => {
                        if !held.is_empty() {
                            let (at, _) = held.swap_remove(i % held.len());
                            prop_assert!(blocks.give(at));
                            prop_assert!(!blocks.give(at));
                        }
                    }
                }
            }
            for (at, _) in held {
                prop_assert!(blocks.give(at));
            }
            prop_assert!(blocks.is_empty());
            let whole = size - size % GRAIN;
            prop_assert_eq!(blocks.take(whole).is_some(), whole > 0);
        }
    }

    #[test]
    fn messages_keep_their_bytes() {
        let mut message = *b"mountain echo";
        let data = Data::bytes(UserBuf::of_array(&mut message), 13);
        let mut memory = [0; 300];
        let stashes = [
            Stash::given(UserBuf::of_array(&mut memory), 300),
            Stash::own(128).unwrap(),
            Stash::growing(),
        ];
        for mut stash in stashes {
            let (place, copy) = stash.put(&data).unwrap();
            let (other, _) = stash.put(&Data::EMPTY).unwrap();
            let mut out = [0; 13];
            copy.buf.read(&mut out);
            assert_eq!(&out, b"mountain echo");
            stash.drop(place);
            stash.drop(other);
        }
        assert!(Stash::none().put(&data).is_none());
        assert!(
            Stash::own(64)
                .unwrap()
                .put(&Data::bytes(data.buf, 65))
                .is_none()
        );
    }
}
