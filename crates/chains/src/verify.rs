//! Checks a program before it runs, whoever wrote it.

use crate::cover::Clock;
use crate::flow::Flow;
use crate::program::{
    BY_RANK, CALC, COPY, END, Entry, FILLER, LINK, MAX_CLOCKS, MAX_ENTRIES, POST, Program, RECV,
    SEND, WAIT,
};
use std::collections::HashMap;
use std::fmt;

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There are none, or more than [`MAX_ENTRIES`], or the last chain has no end.
    Length,
    /// This entry has an unknown code or flag.
    Code(u32),
    /// This entry's peer does not exist, or is the process itself.
    Peer(u32),
    /// This entry touches memory outside its area, or that does not exist; or a calculation cuts an
    /// element.
    Bounds(u32),
    /// This token does not exist, has more than one chain that posts or waits, or is posted and
    /// waited for unequally often.
    Token(u32),
    /// Chains wait for each other.
    Cycle,
    /// This entry may be in flight together with another of its connection and direction.
    Stream(u32),
    /// There is no END, or more than one, or something may run after it.
    End,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Length => write!(f, "wrong number of entries, or a chain without end"),
            Fault::Code(i) => write!(f, "entry {i}: unknown code or flags"),
            Fault::Peer(i) => write!(f, "entry {i}: no such peer"),
            Fault::Bounds(i) => write!(f, "entry {i}: memory out of bounds"),
            Fault::Token(t) => write!(f, "token {t}: not one poster and one waiter in balance"),
            Fault::Cycle => write!(f, "chains wait for each other"),
            Fault::Stream(i) => write!(f, "entry {i}: not ordered with others of its stream"),
            Fault::End => write!(f, "END is not the one last entry"),
        }
    }
}

impl std::error::Error for Fault {}

impl Program {
    /// Checks everything that the executor relies on, in a job of `world` processes. The time it takes
    /// is bounded by the number of entries times that of chains.
    ///
    /// # Errors
    /// The first fault found.
    pub fn verify(&self, world: u32) -> Result<(), Fault> {
        let open = self.entries.last().is_none_or(|e| e.flags & LINK != 0);
        let entries = self.entries.len();
        let long = entries > MAX_ENTRIES || entries * self.chains().count() > MAX_CLOCKS;
        if open || long || self.tokens as usize > MAX_ENTRIES {
            return Err(Fault::Length);
        }
        for (i, entry) in self.entries.iter().enumerate() {
            self.verify_entry(i as u32, entry, world)?;
        }
        let flow = Flow::new(self)?;
        self.verify_streams(&flow)?;
        self.verify_end(&flow)
    }

    fn verify_entry(&self, i: u32, entry: &Entry, world: u32) -> Result<(), Fault> {
        let flags = match entry.code {
            CALC | COPY => LINK | BY_RANK,
            SEND | RECV | WAIT | POST | END => LINK,
            _ => return Err(Fault::Code(i)),
        };
        if entry.flags & !flags != 0 {
            return Err(Fault::Code(i));
        }
        let message = matches!(entry.code, SEND | RECV);
        if message && (entry.peer >= world || entry.peer == self.rank) {
            return Err(Fault::Peer(i));
        }
        let local = matches!(entry.code, CALC | COPY);
        let bounded = (!message && !local) || self.inside(entry.area, entry.offset, entry.bytes);
        let source = !local || self.inside(entry.from_area, entry.from_offset, entry.bytes);
        let whole = entry.code != CALC
            || (entry.unit > 0 && entry.bytes.is_multiple_of(u64::from(entry.unit)));
        if bounded && source && whole {
            Ok(())
        } else {
            Err(Fault::Bounds(i))
        }
    }

    fn inside(&self, area: u32, offset: i64, bytes: u64) -> bool {
        if area == FILLER {
            return offset == 0 && bytes == 1;
        }
        let Some(area) = self.areas.get(area as usize) else {
            return false;
        };
        let end = i128::from(offset) + i128::from(bytes);
        bytes > 0 && offset >= area.low && end <= i128::from(area.high)
    }

    fn verify_streams(&self, flow: &Flow) -> Result<(), Fault> {
        let mut last: HashMap<(u8, u32), u32> = HashMap::new();
        for &i in &flow.sequence {
            let entry = &self.entries[i as usize];
            if !matches!(entry.code, SEND | RECV) {
                continue;
            }
            if let Some(before) = last.insert((entry.code, entry.peer), i)
                && !flow.clock[i as usize].covers(flow.at[before as usize])
            {
                return Err(Fault::Stream(i));
            }
        }
        Ok(())
    }

    fn verify_end(&self, flow: &Flow) -> Result<(), Fault> {
        let mut ends = (0..self.entries.len()).filter(|&i| self.entries[i].code == END);
        let (Some(end), None) = (ends.next(), ends.next()) else {
            return Err(Fault::End);
        };
        let mut all: Clock = flow.clock[end].clone();
        all.add(flow.at[end]);
        let ended = |i: usize| self.entries[i].flags & LINK != 0 || all.covers(flow.at[i]);
        if (0..self.entries.len()).all(ended) {
            Ok(())
        } else {
            Err(Fault::End)
        }
    }
}
