//! A simulated process: its slots.

use std::collections::HashMap;
use std::time::Duration;

use boundary::{AlignedBuf, UserBuf};
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};
use mtmi::{Endpoint, Patience};

use crate::fabric::Sim;
use crate::world::{Event, Landing, Name};

/// A table, as one process has it.
pub(crate) struct Table {
    name: u32,
    count: u32,
    receives: HashMap<(u32, u32), Receive>,
    /// How far they are, and how many bytes they brought.
    deliveries: HashMap<(u32, u32), (Delivery, u64)>,
}

struct Receive {
    memory: Data,
    prepared: bool,
    posted: bool,
}

/// Alignment of mapped memory.
const LINE: usize = 64;

impl Sim {
    fn table(&mut self, slot: Slot) -> Result<&mut Table, SlotError> {
        let peers = self.shared.ranks;
        let table = self.tables.get_mut(slot.table.0 as usize);
        let table = table.and_then(Option::as_mut);
        let table = table.ok_or(SlotError::NoSuchSlot)?;
        if slot.index >= table.count || slot.peer.0 >= peers {
            return Err(SlotError::NoSuchSlot);
        }
        Ok(table)
    }

    /// The table, if the peer is alive and agrees on the number of slots.
    fn usable(&mut self, slot: Slot) -> Result<&mut Table, SlotError> {
        let theirs = self.opened(slot.table, slot.peer);
        let failed = self.failed.get(slot.peer.index()).copied();
        let table = self.table(slot)?;
        if failed == Some(true) {
            return Err(SlotError::PeerFailed);
        }
        match theirs.filter(|&theirs| theirs != table.count) {
            Some(theirs) => Err(SlotError::Count { theirs }),
            None => Ok(table),
        }
    }

    /// The job's name for the receives of a slot,
    fn inward(&mut self, slot: Slot) -> Result<Name, SlotError> {
        let me = self.me;
        let name = self.table(slot)?.name;
        Ok((name, slot.peer.0, me, slot.index))
    }

    /// and for its deliveries.
    fn outward(&mut self, slot: Slot) -> Result<Name, SlotError> {
        let me = self.me;
        let name = self.table(slot)?.name;
        Ok((name, me, slot.peer.0, slot.index))
    }

    /// Tells a peer about a slot: at once where the fabric is so, otherwise for its next progress.
    fn tell_slot(&mut self, to: u32, event: Event) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        match event {
            Event::Posted(name, len) if shared.manner.at_once => {
                state.headers.insert(name, len);
                shared.wake(&mut state, to);
            }
            Event::Landed(name, landing) if shared.manner.at_once => {
                state.landings.insert(name, landing);
                shared.wake(&mut state, to);
            }
            event => shared.tell(&mut state, to, event),
        }
    }

    /// What a peer told about a slot.
    pub(crate) fn slot_event(&mut self, event: Event) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        match event {
            Event::Posted(name, len) => {
                state.headers.insert(name, len);
            }
            Event::Landed(name, landing) => {
                state.landings.insert(name, landing);
            }
            Event::Withdraw(name) if state.headers.remove(&name).is_some() => {
                drop(state);
                self.tell_slot(name.2, Event::Landed(name, Landing::Withdrawn));
            }
            Event::Came(name) => {
                drop(state);
                self.tell_slot(name.1, Event::Taken(name));
            }
            Event::Taken((name, _, peer, index)) => {
                let tables = self.tables.iter_mut().flatten();
                if let Some(table) = tables.into_iter().find(|t| t.name == name)
                    && let Some(delivery) = table.deliveries.get_mut(&(peer, index))
                    && delivery.0 == Delivery::Pending
                {
                    let bytes = delivery.1;
                    delivery.0 = Delivery::Done { bytes };
                    self.pending -= 1;
                }
            }
            _ => {}
        }
    }

    /// A peer is gone.
    pub(crate) fn fail_slots(&mut self, peer: Endpoint) {
        for table in self.tables.iter_mut().flatten() {
            for ((to, _), delivery) in &mut table.deliveries {
                if *to == peer.0 && delivery.0 == Delivery::Pending {
                    delivery.0 = Delivery::PeerFailed;
                    self.pending -= 1;
                }
            }
        }
    }

    /// What came into a posted slot, if anything did.
    fn look(&mut self, slot: Slot) -> Option<Landed> {
        let name = self.inward(slot).ok()?;
        let state = self.shared.lock();
        match state.landings.get(&name) {
            Some(Landing::Withdrawn) => Some(Landed::Withdrawn),
            Some(&Landing::Data {
                ref bytes,
                sent,
                immediate,
                ..
            }) => Some(match sent > bytes.len() as u64 {
                true => Landed::Truncated { sent, immediate },
                false => Landed::Done {
                    bytes: sent,
                    immediate,
                },
            }),
            None if self.failed[slot.peer.index()] => Some(Landed::PeerFailed),
            None => None,
        }
    }
}

impl Slots for Sim {
    fn open_slots(&mut self, name: u32, count: u32) -> Result<SlotTable, SlotError> {
        if count == 0 {
            return Err(SlotError::NoSuchSlot);
        }
        let opened = &mut self.shared.lock().ranks[self.me as usize].opened;
        if opened.insert(name, count).is_some() {
            return Err(SlotError::Busy);
        }
        let free = self.tables.iter().position(Option::is_none);
        let at = free.unwrap_or(self.tables.len());
        if at == self.tables.len() {
            self.tables.push(None);
        }
        self.tables[at] = Some(Table {
            name,
            count,
            receives: HashMap::new(),
            deliveries: HashMap::new(),
        });
        Ok(SlotTable(at as u32))
    }

    fn close_slots(&mut self, table: SlotTable) {
        if let Some(entry) = self.tables.get_mut(table.0 as usize) {
            *entry = None;
        }
    }

    fn opened(&mut self, table: SlotTable, peer: Endpoint) -> Option<u32> {
        let name = self.tables.get(table.0 as usize)?.as_ref()?.name;
        let state = self.shared.lock();
        state.ranks.get(peer.index())?.opened.get(&name).copied()
    }

    fn prepare(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        let table = self.usable(slot)?;
        let key = (slot.peer.0, slot.index);
        if table.receives.get(&key).is_some_and(|r| r.posted) {
            return Err(SlotError::Busy);
        }
        let receive = Receive {
            memory: memory.clone(),
            prepared: true,
            posted: false,
        };
        table.receives.insert(key, receive);
        Ok(())
    }

    fn start(&mut self, slot: Slot) -> Result<(), SlotError> {
        let table = self.usable(slot)?;
        let key = (slot.peer.0, slot.index);
        let receive = table.receives.get_mut(&key);
        let receive = receive.filter(|r| r.prepared || r.posted);
        let receive = receive.ok_or(SlotError::NotPrepared)?;
        if receive.posted {
            return Err(SlotError::Busy);
        }
        receive.posted = true;
        let len = receive.memory.len();
        let name = self.inward(slot)?;
        self.tell_slot(slot.peer.0, Event::Posted(name, len));
        Ok(())
    }

    fn post(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        self.prepare(slot, memory)?;
        self.start(slot)?;
        let receive = self
            .table(slot)?
            .receives
            .get_mut(&(slot.peer.0, slot.index));
        if let Some(receive) = receive {
            receive.prepared = false;
        }
        Ok(())
    }

    fn landed(&mut self, slot: Slot) -> Landed {
        if !self.has_landed(slot) {
            return Landed::NotYet;
        }
        let (Some(landed), Ok(name)) = (self.look(slot), self.inward(slot)) else {
            return Landed::Idle;
        };
        let landing = self.shared.lock().landings.remove(&name);
        let receive = self.table(slot).ok();
        let receive = receive.and_then(|t| t.receives.get_mut(&(slot.peer.0, slot.index)));
        let Some(receive) = receive.filter(|r| r.posted) else {
            return Landed::Idle;
        };
        receive.posted = false;
        if let Some(Landing::Data { bytes, .. }) = landing {
            receive.memory.writer().write(&bytes);
        }
        landed
    }

    fn has_landed(&mut self, slot: Slot) -> bool {
        let receive = self.table(slot).ok();
        let receive = receive.and_then(|t| t.receives.get(&(slot.peer.0, slot.index)));
        match receive {
            Some(receive) if receive.posted => self.look(slot).is_some(),
            _ => true,
        }
    }

    fn is_posted(&mut self, slot: Slot) -> bool {
        let table = self.table(slot).ok();
        let receive = table.and_then(|t| t.receives.get(&(slot.peer.0, slot.index)));
        receive.is_some_and(|r| r.posted)
    }

    fn withdraw(&mut self, slot: Slot) -> Result<(), SlotError> {
        let table = self.usable(slot)?;
        let receive = table.receives.get(&(slot.peer.0, slot.index));
        if !receive.is_some_and(|r| r.posted) {
            return Err(SlotError::NotPrepared);
        }
        let name = self.inward(slot)?;
        self.tell_slot(slot.peer.0, Event::Withdraw(name));
        Ok(())
    }

    fn offered(&mut self, slot: Slot) -> Option<u64> {
        let name = self.outward(slot).ok()?;
        self.shared.lock().headers.get(&name).copied()
    }

    fn deliver(&mut self, slot: Slot, data: &Data, immediate: u32) -> Result<Delivery, SlotError> {
        let table = self.usable(slot)?;
        let key = (slot.peer.0, slot.index);
        if table.deliveries.contains_key(&key) {
            return Err(SlotError::Busy);
        }
        let name = self.outward(slot)?;
        let header = self.shared.lock().headers.remove(&name);
        let capacity = header.ok_or(SlotError::NotOffered)?;
        let sent = data.len();
        let n = sent.min(capacity);
        let mut bytes = vec![0; n as usize];
        data.reader().read(&mut bytes);
        let landing = Landing::Data {
            bytes,
            sent,
            immediate,
        };
        self.tell_slot(slot.peer.0, Event::Landed(name, landing));
        if n <= self.shared.manner.pending_above {
            return Ok(Delivery::Done { bytes: n });
        }
        self.tell_slot(slot.peer.0, Event::Came(name));
        self.pending += 1;
        let deliveries = &mut self.table(slot)?.deliveries;
        deliveries.insert(key, (Delivery::Pending, n));
        Ok(Delivery::Pending)
    }

    fn delivered(&mut self, slot: Slot) -> Delivery {
        let Ok(table) = self.table(slot) else {
            return Delivery::Idle;
        };
        let key = (slot.peer.0, slot.index);
        match table.deliveries.get(&key) {
            None => Delivery::Idle,
            Some((Delivery::Pending, _)) => Delivery::Pending,
            Some(&(ended, _)) => {
                table.deliveries.remove(&key);
                ended
            }
        }
    }

    fn alloc_mapped(&mut self, bytes: usize) -> Option<UserBuf> {
        let mut memory = AlignedBuf::new(bytes.checked_add(LINE)?)?;
        let at = line_of(&mut memory);
        self.mapped.push(memory);
        Some(at)
    }

    fn free_mapped(&mut self, memory: UserBuf) -> bool {
        let before = self.mapped.len();
        self.mapped.retain_mut(|m| line_of(m) != memory);
        self.mapped.len() < before
    }

    /// Simulated processes are threads of a crowded machine: they sleep soon.
    fn patience(&mut self) -> Patience {
        Patience {
            spin: Duration::ZERO,
            rounds: 1,
            polls: 1,
            longest: Duration::MAX,
            least: Duration::ZERO,
        }
    }

    fn is_crowded(&mut self) -> bool {
        true
    }

    fn give_way(&mut self) {
        std::thread::yield_now();
    }
}

/// The first whole line of a block.
fn line_of(memory: &mut AlignedBuf) -> UserBuf {
    let start = memory.buf();
    start.offset((start.addr().next_multiple_of(LINE) - start.addr()) as i64)
}
