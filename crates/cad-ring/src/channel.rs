//! What a process keeps of a channel: how much was issued on it, and what stands in line on its lanes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::lanes::{LANES, lane};

/// A channel of this process.
pub(crate) struct Channel {
    pub number: u32,
    issued: Cell<u64>,
    /// By lane.
    lines: [Line; LANES as usize],
}

/// The slots of a lane's issues that are not over, in their order. There are others only behind a first.
#[derive(Default)]
struct Line {
    first: Cell<Option<usize>>,
    others: RefCell<VecDeque<usize>>,
}

impl Channel {
    /// A channel on which nothing was issued.
    pub fn new(number: u32) -> Channel {
        Channel {
            number,
            issued: Cell::new(0),
            lines: Default::default(),
        }
    }

    /// How many issues there were: the number of the next.
    pub fn issued(&self) -> u64 {
        self.issued.get()
    }

    /// The lane of the next issue.
    pub fn next_lane(&self) -> usize {
        usize::from(lane(self.issued()))
    }

    fn line(&self, number: u64) -> &Line {
        &self.lines[usize::from(lane(number))]
    }

    /// Puts the next issue in line, with its slot: its number.
    pub fn enter(&self, slot: usize) -> u64 {
        let number = self.issued.get();
        self.issued.set(number + 1);
        let line = self.line(number);
        match line.first.get() {
            None => line.first.set(Some(slot)),
            Some(_) => line.others.borrow_mut().push_back(slot),
        }
        number
    }

    /// Whether the issue of this number, with this slot, is the first of its line.
    pub fn is_first(&self, number: u64, slot: usize) -> bool {
        self.line(number).first.get() == Some(slot)
    }

    /// Whether the next issue would be the first of its line.
    pub fn is_clear(&self) -> bool {
        self.line(self.issued()).first.get().is_none()
    }

    /// An issue is over.
    pub fn leave(&self, number: u64, slot: usize) {
        let line = self.line(number);
        let mut others = line.others.borrow_mut();
        match self.is_first(number, slot) {
            true => line.first.set(others.pop_front()),
            false => others.retain(|&s| s != slot),
        }
    }

    /// Whether any issue is not over.
    pub fn is_busy(&self) -> bool {
        self.lines.iter().any(|line| line.first.get().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_lines_of_their_own() {
        let channel = Channel::new(7);
        assert!(channel.is_clear() && !channel.is_busy());
        let numbers: Vec<u64> = (10..14).map(|slot| channel.enter(slot)).collect();
        assert_eq!((numbers, channel.issued()), (vec![0, 1, 2, 3], 4));
        assert!(channel.is_first(0, 10) && channel.is_first(1, 11));
        assert!(!channel.is_first(2, 12) && !channel.is_clear());
        channel.enter(14);
        channel.leave(2, 12);
        channel.leave(0, 10);
        assert!(channel.is_first(4, 14) && channel.is_busy());
        channel.leave(3, 13);
        channel.leave(1, 11);
        assert!(channel.is_clear() && channel.is_busy());
        channel.leave(4, 14);
        assert!(!channel.is_busy());
    }
}
