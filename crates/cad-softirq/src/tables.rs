//! The program and its maps, as whoever has the privilege for them holds them.
//!
//! Invariants: nothing has a name, so all of it, and what it does at interfaces, ends with the [`Tables`] (and with
//! their process, however that ends); an entry is blank, which no packet fits, unless a context was opened there; a page of results
//! is a map of its own, which nobody but the program can write, and which nobody has seen when a context gets it; inputs and pages go from one context to
//! another only after the kernel has waited for all processors, so none is still at a packet of the former one. That is waited for ahead ([`ahead`](crate::ahead)). Who calls it: `daemon`, and tests.

use crate::ahead::{Ahead, Page, Ready, Wanted};
use crate::asm::{Asm, Kind};
use crate::context::Context;
use crate::flat::Flat;
use crate::kernel::{Link, Map, Prog, Refused, Shape, Sort};
use crate::layout::{SLOTS, code, context, input, machine, result, scratch};
use crate::program;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Why a context is not opened.
#[derive(Debug)]
pub enum NotOpened {
    /// It has no processes, or too many, or too many hosts below.
    Impossible,
    /// There is no entry left, or not as many inputs.
    Full,
    /// The place is not a reserved one of this size.
    Place,
    /// The kernel refuses something.
    Refused(Refused),
    /// The kernel refuses to write into a map.
    System(io::Error),
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotOpened::Impossible => f.write_str("it has no processes, or more than are possible"),
            NotOpened::Full => f.write_str("there is no room for it"),
            NotOpened::Place => f.write_str("its place is another's"),
            NotOpened::Refused(why) => write!(f, "{why}"),
            NotOpened::System(why) => write!(f, "the kernel refuses an entry: {why}"),
        }
    }
}

impl std::error::Error for NotOpened {}

/// Where a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its entry: what processes and other hosts call it.
    pub entry: u32,
    base: u32,
    inputs: u32,
}

impl Place {
    /// How many inputs it has.
    pub fn inputs(&self) -> u32 {
        self.inputs
    }
}

/// What has been counted in a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets with a tag or a ticket that is none.
    pub forged: u64,
    /// Packets that had come before, or for another collective.
    pub repeated: u64,
    /// Packets sent to other hosts.
    pub sent: u64,
    /// Packets that the system didn't send.
    pub unsent: u64,
    /// The last collective to which all have contributed that are below this host.
    pub gathered: u64,
    /// Collectives that are over here.
    pub done: u64,
}

/// What somebody has.
struct Slot {
    place: Place,
    page: Map,
    open: bool,
}

/// What is at an entry.
enum Entry {
    /// Nothing, or a page that is not to be used: others have seen it, or there were enough.
    Empty,
    /// A page is on its way.
    Coming { kept: bool },
    /// A page that nobody has seen.
    Ready(Map),
    /// Somebody's.
    Held(Slot),
}

impl Entry {
    fn held(&self) -> Option<&Slot> {
        match self {
            Entry::Held(slot) => Some(slot),
            _ => None,
        }
    }

    fn held_mut(&mut self) -> Option<&mut Slot> {
        match self {
            Entry::Held(slot) => Some(slot),
            _ => None,
        }
    }
}

/// Inputs that were given up: a processor may still be at them, until a page has come that was asked for after so many others.
struct Rest {
    place: Place,
    after: u64,
}

/// How many pages are kept ready.
const AHEAD: usize = 16;

/// The program and its maps.
pub struct Tables {
    prog: Prog,
    contexts: Map,
    inputs: Map,
    codes: Map,
    /// What only the program uses.
    _own: [Map; 2],
    entries: Vec<Entry>,
    ahead: Ahead,
    /// Pages that were asked for, and of these that have come.
    asked: u64,
    come: u64,
    resting: Vec<Rest>,
}

impl Tables {
    /// Loads the program for packets to `port`, with room for so many contexts and inputs of all.
    ///
    /// # Errors
    /// The kernel's: mostly, that the privilege is missing.
    pub fn new(port: u16, contexts: u32, inputs: u32) -> Result<Tables, Refused> {
        let page = Map::new(Shape::Mapped, result::BYTES, 1, None)?;
        let maps = [
            Map::new(Shape::Array, context::BYTES, contexts, None)?,
            Map::new(Shape::Array, input::BYTES, inputs, None)?,
            Map::new(Shape::OfMaps, 4, contexts, Some(&page))?,
            Map::new(Shape::PerCpu, scratch::BYTES, 1, None)?,
            Map::new(Shape::Array, code::BYTES, contexts * SLOTS, None)?,
            Map::new(Shape::PerCpu, machine::BYTES, 1, None)?,
        ];
        let prog = Prog::load(Sort::Packets, &program::program(port), &maps.each_ref())?;
        let [contexts, inputs, results, scratch, codes, machine] = maps;
        let ahead = Ahead::new(Arc::new(results));
        let mut tables = Tables {
            prog,
            entries: (0..contexts.entries()).map(|_| Entry::Empty).collect(),
            contexts,
            inputs,
            codes,
            _own: [scratch, machine],
            ahead: ahead.map_err(|e| Refused::new("a thread", e))?,
            asked: 0,
            come: 0,
            resting: Vec::new(),
        };
        tables.top_up();
        Ok(tables)
    }

    /// Has the program look at what comes in through an interface of the caller's network namespace.
    ///
    /// # Errors
    /// The kernel's: there is no such interface, the privilege is missing, or the kernel has no tcx.
    pub fn attach(&self, interface: u32) -> Result<Link, Refused> {
        self.prog.attach(interface, false)
    }

    /// How many instructions of the program the kernel's verifier went through, on all ways, of a million that it would.
    ///
    /// # Errors
    /// The kernel's.
    pub fn verified(&self) -> io::Result<u32> {
        self.prog.verified()
    }

    /// A place for a context with so many inputs, which is the caller's until it is released. Where no page is ready, or inputs are only just given
    /// up, this waits until the kernel has waited.
    ///
    /// # Errors
    /// [`NotOpened::Full`], [`NotOpened::System`].
    pub fn reserve(&mut self, inputs: u32) -> Result<Place, NotOpened> {
        while let Some(ready) = self.ahead.take() {
            // What the kernel refuses is asked for again when it is needed.
            let _ = self.note(ready);
        }
        let entry = loop {
            let any = |what: fn(&Entry) -> bool| self.entries.iter().position(what);
            let ready = any(|entry| matches!(entry, Entry::Ready(_)));
            let (empty, coming) = (
                any(|entry| matches!(entry, Entry::Empty)),
                any(|entry| matches!(entry, Entry::Coming { .. })).is_some(),
            );
            match (ready, self.gap(inputs)) {
                (Some(entry), Some(_)) => break entry,
                (Some(_), None) if self.resting.is_empty() => return Err(NotOpened::Full),
                _ => {}
            }
            match empty {
                _ if coming => {}
                Some(entry) => self.prepare(entry, true),
                None => return Err(NotOpened::Full),
            }
            let come = self.ahead.wait().ok_or(NotOpened::Full)?;
            self.note(come).map_err(NotOpened::System)?;
        };
        let place = Place {
            entry: entry as u32,
            base: self.gap(inputs).ok_or(NotOpened::Full)?,
            inputs,
        };
        if let Entry::Ready(page) = std::mem::replace(&mut self.entries[entry], Entry::Empty) {
            let open = false;
            self.entries[entry] = Entry::Held(Slot { place, page, open });
        }
        self.top_up();
        Ok(place)
    }

    /// Where so many inputs can begin: the first gap that is large enough.
    fn gap(&self, inputs: u32) -> Option<u32> {
        let held = self.entries.iter().filter_map(Entry::held);
        let resting = self.resting.iter().map(|rest| rest.place);
        let mut taken: Vec<_> = held.map(|slot| slot.place).chain(resting).collect();
        taken.sort_by_key(|p| p.base);
        let mut base = 0;
        for place in taken {
            if place.base - base >= inputs {
                break;
            }
            base = place.base + place.inputs;
        }
        (inputs <= self.inputs.entries() - base).then_some(base)
    }

    /// Has a page put at an entry, and kept unless it is only to replace another.
    fn prepare(&mut self, entry: usize, kept: bool) {
        self.entries[entry] = Entry::Coming { kept };
        self.asked += 1;
        let entry = entry as u32;
        self.ahead.prepare(Wanted { entry, kept });
    }

    /// Has so many more pages made that [`AHEAD`] are there soon.
    fn top_up(&mut self) {
        let near = self.near();
        let empty = self.entries.iter().enumerate();
        let empty = empty.filter(|(_, entry)| matches!(entry, Entry::Empty));
        let some: Vec<_> = empty
            .map(|(at, _)| at)
            .take(AHEAD.saturating_sub(near))
            .collect();
        for entry in some {
            self.prepare(entry, true);
        }
    }

    /// How many pages are ready, or will be.
    fn near(&self) -> usize {
        let near = |entry: &&Entry| matches!(entry, Entry::Coming { kept: true } | Entry::Ready(_));
        self.entries.iter().filter(near).count()
    }

    /// What the thread brings back, in the order in which it was asked for.
    fn note(&mut self, (entry, page): Ready) -> io::Result<()> {
        self.come += 1;
        let entry = &mut self.entries[entry as usize];
        *entry = match page {
            Page::Kept(page) => Entry::Ready(page),
            Page::Put => Entry::Empty,
            Page::Refused => {
                *entry = Entry::Empty;
                // The kernel has perhaps not waited.
                for rest in &mut self.resting {
                    rest.after = self.asked;
                }
                return Err(io::Error::other("no page of results can be made"));
            }
        };
        let come = self.come;
        self.resting.retain(|rest| rest.after >= come);
        Ok(())
    }

    /// Opens a context at its place, blank.
    ///
    /// # Errors
    /// As [`NotOpened`] says. The place is blank then; one that is open stays as it is.
    pub fn open(&mut self, place: Place, opened: &Context) -> Result<(), NotOpened> {
        if !opened.is_possible() {
            return Err(NotOpened::Impossible);
        }
        let slot = self.entries.get_mut(place.entry as usize);
        let slot = slot.and_then(Entry::held_mut);
        let slot = slot.filter(|s| s.place == place && opened.inputs() == place.inputs as usize);
        let slot = slot.filter(|s| !s.open).ok_or(NotOpened::Place)?;
        let system = NotOpened::System;
        clear(&self.codes, place).map_err(system)?;
        for number in 0..place.inputs {
            let bytes = opened.input(number as usize);
            let set = self.inputs.set(place.base + number, &bytes);
            set.map_err(system)?;
        }
        // The last: from now on packets fit.
        let entry = opened.entry(place.base);
        self.contexts.set(place.entry, &entry).map_err(system)?;
        slot.open = true;
        Ok(())
    }

    /// Puts byte code into a slot of the context at a place. While a collective is under way that uses what was there, what comes of that is
    /// not defined.
    ///
    /// # Errors
    /// There is no such slot, no context is open there, or the kernel's.
    pub fn put(&self, place: Place, slot: u32, flat: &Flat) -> Result<(), NotOpened> {
        let held = self.entries.get(place.entry as usize);
        let held = held
            .and_then(Entry::held)
            .is_some_and(|s| s.place == place && s.open);
        if slot >= SLOTS || !held {
            return Err(NotOpened::Place);
        }
        let put = self.codes.set(place.entry * SLOTS + slot, &flat.entry());
        put.map_err(NotOpened::System)
    }

    /// What the processes of a context map to read its results, also before it is opened; it can't write.
    pub fn page(&self, place: Place) -> Option<BorrowedFd<'_>> {
        let slot = self.entries.get(place.entry as usize)?.held()?;
        (slot.place == place).then(|| slot.page.fd())
    }

    /// What was counted there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn counts(&self, place: Place) -> io::Result<Counts> {
        let mut entry = vec![0; context::BYTES];
        self.contexts.get(place.entry, &mut entry)?;
        let word = |at: i16| {
            let mut word = [0; 8];
            word.copy_from_slice(&entry[at as usize..at as usize + 8]);
            u64::from_le_bytes(word)
        };
        Ok(Counts {
            forged: word(context::FORGED),
            repeated: word(context::REPEATED),
            sent: word(context::SENT),
            unsent: word(context::UNSENT),
            gathered: word(context::GATHERED),
            done: word(context::DONE),
        })
    }

    /// Ends the context at a place, and gives the place up. Packets for it pass from now on. Who has mapped its results still
    /// sees the last ones.
    ///
    /// Only its id goes: the program may be at a packet of it, and has to find all else as it was, until the place has its next page.
    ///
    /// # Errors
    /// The kernel's: the place is kept, then.
    pub fn release(&mut self, place: Place) -> io::Result<()> {
        let entry = place.entry as usize;
        let held = self.entries.get(entry).and_then(Entry::held);
        if held.is_none_or(|slot| slot.place != place) {
            return Ok(());
        }
        let mut last = vec![0; context::BYTES];
        self.contexts.get(place.entry, &mut last)?;
        last[context::ID as usize..][..size_of::<u64>()].fill(0);
        self.contexts.set(place.entry, &last)?;
        let after = self.asked;
        self.resting.push(Rest { place, after });
        self.prepare(entry, self.near() < AHEAD);
        clear(&self.codes, place)
    }
}

/// Takes away all byte code at a place.
fn clear(codes: &Map, place: Place) -> io::Result<()> {
    let blank = vec![0; code::BYTES];
    let mut all = 0..SLOTS;
    all.try_for_each(|slot| codes.set(place.entry * SLOTS + slot, &blank))
}

/// Whether this process may do it, on this machine: the program is loaded, and attached to the loopback interface.
///
/// # Errors
/// Why not, in words for a person.
pub fn usable() -> Result<(), String> {
    if cfg!(target_endian = "big") {
        return Err("the program is for little-endian machines".to_owned());
    }
    let mut asm = Asm::new();
    let main = asm.declare("main", Kind::Main);
    asm.begin(main);
    asm.give(-1);
    // First something without contents, so that what is refused is not ours.
    let told = |why: Refused| match why.is_forbidden() {
        true => format!("{why} (it takes CAP_BPF and CAP_NET_ADMIN)"),
        false => why.to_string(),
    };
    let prog = Prog::load(Sort::Packets, &asm.finish(), &[]).map_err(told)?;
    let link = prog.attach(program::LOOPBACK as u32, false);
    link.map(drop).map_err(told)
}
