//! Taking receives back, closing tables, and what a lost peer leaves.
//!
//! Only the sender knows whether it is about to write, so a receive is the caller's again when the sender has agreed. The
//! question and the answer are messages in the ring; whoever has closed a table agrees to everything that was not
//! delivered before.

use mtmi::Endpoint;
use mtmi::slot::{Delivery, Slot, SlotError, SlotTable};

use super::receive::place;
use super::table::{Ask, Entry, Place, Receiving, Retired, Table};
use crate::Shm;
use crate::ring::Hostile;
use crate::wire::{Kind, Words};

/// Questions about tables that are not open yet, which this process keeps.
const EARLY: usize = 65_536;

impl Ask {
    fn of(words: Words) -> Result<Ask, Hostile> {
        let [name, index, generation] = [words[0], words[1], words[2]].map(u32::try_from);
        match (name, index, generation) {
            (Ok(name), Ok(index), Ok(generation)) => Ok(Ask {
                name,
                index,
                generation,
            }),
            _ => Err(Hostile),
        }
    }

    fn words(self) -> Words {
        let [name, index, generation] = [self.name, self.index, self.generation].map(u64::from);
        [name, index, generation, 0]
    }
}

impl Shm {
    /// Asks for the memory of a posted receive.
    pub(super) fn ask_back(&mut self, slot: Slot) -> Result<(), SlotError> {
        let (place, peer) = (place(slot), slot.peer.0);
        if self.peers.get(slot.peer.index()).is_none_or(|p| p.failed) {
            return Err(SlotError::PeerFailed);
        }
        let table = self.slots.tables.get(slot.table.0 as usize);
        let name = table.and_then(Option::as_ref).map(|t| t.name);
        let name = name.ok_or(SlotError::NoSuchSlot)?;
        let receive = self.slots.receive(place, peer);
        let (receive, side) = receive.ok_or(SlotError::NotPrepared)?;
        match receive.state {
            Receiving::Idle => return Err(SlotError::NotPrepared),
            Receiving::Posted if !receive.asked => receive.asked = true,
            // It ends anyway.
            _ => return Ok(()),
        }
        let ask = Ask {
            name,
            index: slot.index,
            generation: side.generation.get(),
        };
        self.control(peer, Kind::SlotWithdraw, ask.words());
        Ok(())
    }

    /// A receiver asks for its memory.
    pub(crate) fn take_slot_withdraw(&mut self, peer: u32, words: Words) -> Result<(), Hostile> {
        let ask = Ask::of(words)?;
        if let Some(table) = self.slots.named(ask.name) {
            return self.answer(peer, table, ask);
        }
        if self.slots.closed.contains(&ask.name) {
            // The receiver has seen, or finds now, what was delivered before.
            self.control(peer, Kind::SlotReturned, ask.words());
            return Ok(());
        }
        if self.slots.early.len() >= EARLY {
            return Err(Hostile);
        }
        self.slots.early.push((peer, ask));
        Ok(())
    }

    fn answer(&mut self, peer: u32, table: u32, ask: Ask) -> Result<(), Hostile> {
        let slot = Slot {
            table: SlotTable(table),
            peer: Endpoint(peer),
            index: ask.index,
        };
        // Without memory for our lines nothing was and nothing will be delivered, but that can change.
        let pair = match self.join_slots(slot) {
            Ok(pair) => pair,
            Err(SlotError::NoSuchSlot) => return Err(Hostile),
            Err(_) => return Ok(()),
        };
        let side = pair.sides.get(ask.index as usize).ok_or(Hostile)?;
        let theirs = pair.theirs.as_ref().ok_or(Hostile)?;
        let next = side.consumed.get().wrapping_add(1);
        if ask.generation != next {
            // It was served. Numbers go round, so half of them are before.
            let served = side.consumed.get().wrapping_sub(ask.generation) < 1 << 31;
            return if served { Ok(()) } else { Err(Hostile) };
        }
        if !theirs.line(ask.index).is_offered(next) {
            return Err(Hostile);
        }
        side.consumed.set(next);
        self.control(peer, Kind::SlotReturned, ask.words());
        Ok(())
    }

    /// A sender agrees that a receive is taken back.
    pub(crate) fn take_slot_returned(&mut self, peer: u32, words: Words) -> Result<(), Hostile> {
        let ask = Ask::of(words)?;
        let table = self.slots.named(ask.name).ok_or(Hostile)?;
        let index = ask.index;
        self.find_theirs(table, peer);
        let pair = self.slots.pair(table, peer).ok_or(Hostile)?;
        let (theirs, receive, side) = pair.taking(index).ok_or(Hostile)?;
        if !receive.asked || side.generation.get() != ask.generation {
            return Err(Hostile);
        }
        let served = theirs.is_some_and(|t| t.line(index).has_landed(ask.generation));
        if receive.state == Receiving::Posted && !served {
            receive.state = Receiving::Returned;
        }
        Ok(())
    }

    /// Opens a table.
    pub(super) fn open_table(&mut self, name: u32, count: u32) -> Result<SlotTable, SlotError> {
        if count == 0 || count > super::area::MOST_SLOTS {
            return Err(SlotError::NoSuchSlot);
        }
        if self.slots.named(name).is_some() || self.slots.closed.contains(&name) {
            return Err(SlotError::Busy);
        }
        self.sweep_retired();
        let refused = |e: std::io::Error| SlotError::Memory(super::table::number(&e));
        let area = self
            .slots
            .area
            .as_mut()
            .map_err(|n| SlotError::Memory(*n))?;
        let entry = Entry {
            count,
            offset: area.reserve(count).map_err(refused)?,
            open: true,
        };
        let number = area.publish(name, entry).map_err(refused)?;
        let peers = self.peers.len();
        self.slots.links.resize_with(peers, Default::default);
        let free = self.slots.tables.iter().position(Option::is_none);
        let at = free.unwrap_or(self.slots.tables.len());
        if at == self.slots.tables.len() {
            self.slots.tables.push(None);
        }
        let mut pairs = Vec::new();
        pairs.resize_with(peers, Default::default);
        self.slots.tables[at] = Some(Table {
            name,
            entry,
            number,
            pairs,
            ports: None,
        });
        let early = std::mem::take(&mut self.slots.early);
        for (peer, ask) in early {
            if ask.name != name {
                self.slots.early.push((peer, ask));
            } else if self.answer(peer, at as u32, ask).is_err() {
                self.suspect(peer);
            }
        }
        Ok(SlotTable(at as u32))
    }

    /// Closes a table.
    pub(super) fn close_table(&mut self, table: SlotTable) {
        let entry = self.slots.tables.get_mut(table.0 as usize);
        let Some(table) = entry.and_then(Option::take) else {
            return;
        };
        if let Ok(area) = &self.slots.area {
            area.retract(table.number, table.entry);
        }
        let joined = |(peer, pair): (u32, &super::table::Pair)| {
            let both = pair.theirs.is_some() && pair.mine.is_some();
            both.then_some(peer)
        };
        self.slots.closed.insert(table.name);
        self.slots.retired.push(Retired {
            name: table.name,
            entry: table.entry,
            peers: (0..).zip(&table.pairs).filter_map(joined).collect(),
        });
        drop(table);
        self.sweep_retired();
    }

    /// Gives the memory of closed tables back of which no peer reads any more.
    fn sweep_retired(&mut self) {
        let Ok(area) = &self.slots.area else {
            return;
        };
        let (links, peers) = (&self.slots.links, &self.peers);
        self.slots.retired.retain_mut(|table| {
            table.peers.retain(|&peer| {
                let directory = links[peer as usize].directory.as_ref();
                let entry = directory.and_then(|d| d.find(table.name));
                !peers[peer as usize].failed && entry.is_some_and(|e| e.open)
            });
            if table.peers.is_empty() {
                area.release_lines(table.entry);
            }
            !table.peers.is_empty()
        });
    }

    /// A peer is gone: ends what needs it.
    pub(crate) fn fail_slots(&mut self, peer: u32) {
        let link = self.slots.links.get(peer as usize);
        if link.is_some_and(|l| l.sink.is_some() || !l.announced.is_empty()) {
            // What it sent before counts; what it sent wrong doesn't matter any more.
            let _ = self.drain_flows(peer);
        }
        // The same of what both sides copy.
        let _ = self.help_splits(peer);
        for table in self.slots.tables.iter_mut().flatten() {
            table.pairs[peer as usize].trouble = Some(SlotError::PeerFailed);
            if let Some(ports) = &table.ports {
                ports.hide(peer);
            }
        }
        self.slots.early.retain(|(asker, _)| *asker != peer);
        let Some(link) = self.slots.links.get_mut(peer as usize) else {
            return;
        };
        link.flows.clear();
        link.sink = None;
        link.announced.clear();
        link.split = None;
        link.split_in.clear();
        for (_, delivery) in &mut link.deliveries {
            if *delivery == Delivery::Pending {
                *delivery = Delivery::PeerFailed;
                self.slots.pending -= 1;
            }
        }
    }

    /// Moves on what is under way with a peer. Returns whether anything moved.
    pub(super) fn serve_slots_of(&mut self, peer: u32) -> bool {
        let mut moved = false;
        if !self.slots.links[peer as usize].flows.is_empty() {
            moved |= self.pump_flows(peer);
        }
        if self.slots.links[peer as usize].split.is_some() {
            moved |= self.end_split(peer);
        }
        let link = &self.slots.links[peer as usize];
        if link.sink.is_some() || !link.announced.is_empty() {
            match self.drain_flows(peer) {
                Ok(some) => moved |= some,
                Err(Hostile) => self.suspect(peer),
            }
        }
        if self.help_splits(peer).is_err() {
            self.suspect(peer);
        }
        moved
    }

    /// Does this side's part of all copies that a peer began.
    fn help_splits(&mut self, peer: u32) -> Result<(), Hostile> {
        let link = self.slots.links.get(peer as usize);
        let splits = link.map(|link| link.split_in.iter().map(|s| s.place));
        let splits: Vec<Place> = splits.into_iter().flatten().collect();
        let helped = splits.into_iter().map(|place| self.help_split(place, peer));
        helped.fold(Ok(()), Result::and)
    }

    /// Moves on what is under way in slots. Returns whether anything moved.
    pub(crate) fn serve_slots(&mut self) -> bool {
        let mut moved = false;
        let mut i = 0;
        while let Some(&peer) = self.slots.busy.get(i) {
            moved |= self.serve_slots_of(peer);
            let link = &mut self.slots.links[peer as usize];
            let idle = link.flows.is_empty()
                && link.split.is_none()
                && link.sink.is_none()
                && link.split_in.is_empty()
                && link.announced.is_empty();
            if idle {
                link.busy = false;
                self.slots.busy.swap_remove(i);
            } else {
                i += 1;
            }
        }
        moved
    }

    /// Whether `serve_slots` would find something to do.
    pub(crate) fn slots_ready(&self) -> bool {
        self.slots
            .busy
            .iter()
            .any(|&peer| self.flows_ready(peer) || self.split_ready(peer))
    }
}
