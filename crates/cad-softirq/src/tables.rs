//! The program and its maps, as whoever has the privilege for them holds them.
//!
//! Invariants: nothing has a name, so all of it, and what it does at interfaces, ends with the [`Tables`] (and with
//! their process, however that ends); an entry is blank, which no packet fits, unless a context was opened there; a page of results
//! is a map of its own, which nobody but the program can write. Who calls it: `daemon`, and tests.

use crate::asm::{Asm, Kind};
use crate::context::Context;
use crate::flat::Flat;
use crate::kernel::{Link, Map, Prog, Refused, Shape};
use crate::layout::{SLOTS, code, context, input, machine, result, scratch};
use crate::program;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

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
    /// Collectives that are over here.
    pub done: u64,
}

struct Slot {
    place: Place,
    page: Option<Map>,
}

/// The program and its maps.
pub struct Tables {
    prog: Prog,
    contexts: Map,
    inputs: Map,
    results: Map,
    codes: Map,
    /// What only the program uses.
    _own: [Map; 2],
    slots: Vec<Option<Slot>>,
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
        let prog = Prog::load(&program::program(port), &maps.each_ref())?;
        let [contexts, inputs, results, scratch, codes, machine] = maps;
        Ok(Tables {
            prog,
            slots: (0..contexts.entries()).map(|_| None).collect(),
            contexts,
            inputs,
            results,
            codes,
            _own: [scratch, machine],
        })
    }

    /// Has the program look at what comes in through an interface of the caller's network namespace.
    ///
    /// # Errors
    /// The kernel's: there is no such interface, the privilege is missing, or the kernel has no tcx.
    pub fn attach(&self, interface: u32) -> Result<Link, Refused> {
        self.prog.attach(interface, false)
    }

    /// A place for a context with so many inputs, which is the caller's until it is released.
    ///
    /// # Errors
    /// [`NotOpened::Full`].
    pub fn reserve(&mut self, inputs: u32) -> Result<Place, NotOpened> {
        let entry = self.slots.iter().position(Option::is_none);
        let entry = entry.ok_or(NotOpened::Full)?;
        let mut taken: Vec<_> = self.slots.iter().flatten().map(|s| s.place).collect();
        taken.sort_by_key(|p| p.base);
        // The first gap that is large enough.
        let mut base = 0;
        for place in taken {
            if place.base - base >= inputs {
                break;
            }
            base = place.base + place.inputs;
        }
        if inputs > self.inputs.entries() - base {
            return Err(NotOpened::Full);
        }
        let place = Place {
            entry: entry as u32,
            base,
            inputs,
        };
        self.slots[entry] = Some(Slot { place, page: None });
        Ok(place)
    }

    /// Opens a context at its place, blank; it can be opened again, then it begins again.
    ///
    /// # Errors
    /// As [`NotOpened`] says. The place is blank then.
    pub fn open(&mut self, place: Place, opened: &Context) -> Result<(), NotOpened> {
        if !opened.is_possible() {
            return Err(NotOpened::Impossible);
        }
        let slot = self.slots.get_mut(place.entry as usize);
        let slot = slot.and_then(Option::as_mut);
        let slot = slot.filter(|s| s.place == place && opened.inputs() == place.inputs as usize);
        let slot = slot.ok_or(NotOpened::Place)?;
        let blank = vec![0; context::BYTES];
        let (contexts, inputs) = (&self.contexts, &self.inputs);
        let system = NotOpened::System;
        contexts.set(place.entry, &blank).map_err(system)?;
        let page = Map::new(Shape::Mapped, result::BYTES, 1, None).map_err(NotOpened::Refused)?;
        // The kernel waits here until no processor is at a packet for what was there before: nobody is at the inputs after that.
        self.results.set_map(place.entry, &page).map_err(system)?;
        clear(&self.codes, place).map_err(system)?;
        for number in 0..place.inputs {
            let bytes = opened.input(number as usize);
            inputs.set(place.base + number, &bytes).map_err(system)?;
        }
        // The last: from now on packets fit.
        let entry = opened.entry(place.base);
        contexts.set(place.entry, &entry).map_err(system)?;
        slot.page = Some(page);
        Ok(())
    }

    /// Puts byte code into a slot of the context at a place. While a collective is under way that uses what was there, what comes of that is
    /// not defined.
    ///
    /// # Errors
    /// There is no such slot, no context is open there, or the kernel's.
    pub fn put(&self, place: Place, slot: u32, flat: &Flat) -> Result<(), NotOpened> {
        if slot >= SLOTS || self.page(place).is_none() {
            return Err(NotOpened::Place);
        }
        let put = self.codes.set(place.entry * SLOTS + slot, &flat.entry());
        put.map_err(NotOpened::System)
    }

    /// What the processes of a context map to read its results; it can't write.
    pub fn page(&self, place: Place) -> Option<BorrowedFd<'_>> {
        let slot = self.slots.get(place.entry as usize)?.as_ref()?;
        let mine = (slot.place == place).then_some(slot)?;
        mine.page.as_ref().map(Map::fd)
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
            done: word(context::DONE),
        })
    }

    /// Ends the context at a place, and gives the place up. Packets for it are dropped from now on. Who has mapped its results still
    /// sees the last ones.
    ///
    /// # Errors
    /// The kernel's: the place is kept, then.
    pub fn release(&mut self, place: Place) -> io::Result<()> {
        let slot = self.slots.get_mut(place.entry as usize);
        let Some(slot) = slot.filter(|s| s.as_ref().is_some_and(|s| s.place == place)) else {
            return Ok(());
        };
        self.contexts.set(place.entry, &vec![0; context::BYTES])?;
        *slot = None;
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
    let prog = Prog::load(&asm.finish(), &[]).map_err(told)?;
    let link = prog.attach(program::LOOPBACK as u32, false);
    link.map(drop).map_err(told)
}
