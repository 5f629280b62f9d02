//! Slots in shared memory, as [`mtmi::slot::Slots`].

use std::rc::Rc;

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};
use mtmi::{Endpoint, Patience};

use super::port::{Posted, SlotPorts};
use crate::Shm;

impl Shm {
    /// The ports of an open table, for short messages in its slots below `limit`, which are never [prepared](Slots::prepare).
    pub fn slot_ports(&mut self, table: SlotTable, limit: u32) -> Option<Rc<SlotPorts>> {
        let table = self.slots.tables.get_mut(table.0 as usize)?.as_mut()?;
        let ports = table.ports.get_or_insert_with(|| {
            let bells = self.peers.iter().map(|p| self.segment.bell_ref(p.slot));
            SlotPorts::new(bells, limit, self.segment.clone())
        });
        for (peer, pair) in (0..).zip(&table.pairs) {
            ports.show(peer, pair);
        }
        Some(ports.clone())
    }
}

impl Slots for Shm {
    fn open_slots(&mut self, name: u32, count: u32) -> Result<SlotTable, SlotError> {
        self.open_table(name, count)
    }

    fn close_slots(&mut self, table: SlotTable) {
        self.close_table(table);
    }

    fn opened(&mut self, table: SlotTable, peer: Endpoint) -> Option<u32> {
        self.slots.pair(table.0, peer.0)?;
        if self.peers.get(peer.index()).is_none_or(|p| p.failed) {
            return None;
        }
        self.find_theirs(table.0, peer.0);
        let entry = self.slots.tables.get(table.0 as usize)?.as_ref()?;
        let pair = entry.pairs.get(peer.index())?;
        match pair.trouble {
            Some(SlotError::Count { theirs }) => Some(theirs),
            Some(_) => None,
            None => pair.theirs.as_ref().map(|_| entry.entry.count),
        }
    }

    fn prepare(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        self.bind_slot(slot, memory, false)
    }

    #[inline]
    fn start(&mut self, slot: Slot) -> Result<(), SlotError> {
        self.start_slot(slot)
    }

    #[inline(always)]
    fn post(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        self.bind_slot(slot, memory, true)
    }

    #[inline(always)]
    fn landed(&mut self, slot: Slot) -> Landed {
        self.slot_landed(slot)
    }

    #[inline]
    fn has_landed(&mut self, slot: Slot) -> bool {
        self.slot_has_landed(slot)
    }

    #[inline(always)]
    fn await_landing(&mut self, slot: Slot, looks: u32) {
        self.slot_await(slot, looks);
    }

    fn is_posted(&mut self, slot: Slot) -> bool {
        let pair = self.slots.pair(slot.table.0, slot.peer.0);
        let side = pair.and_then(|p| p.sides.get(slot.index as usize));
        side.is_some_and(|side| side.posted.get() != Posted::Free)
    }

    #[inline]
    fn set_clear(&mut self, slot: Slot, clear: bool) {
        let pair = self.slots.pair(slot.table.0, slot.peer.0);
        if let Some(side) = pair.and_then(|p| p.sides.get(slot.index as usize)) {
            side.clear.set(clear);
        }
    }

    fn withdraw(&mut self, slot: Slot) -> Result<(), SlotError> {
        self.ask_back(slot)
    }

    #[inline]
    fn offered(&mut self, slot: Slot) -> Option<u64> {
        self.slot_offered(slot)
    }

    #[inline(always)]
    fn deliver(&mut self, slot: Slot, data: &Data, immediate: u32) -> Result<Delivery, SlotError> {
        self.slot_deliver(slot, data, immediate)
    }

    fn delivered(&mut self, slot: Slot) -> Delivery {
        self.slot_delivered(slot)
    }

    fn alloc_mapped(&mut self, bytes: usize) -> Option<UserBuf> {
        let area = self.slots.area.as_ref().ok()?;
        self.slots.arena.alloc(area, bytes)
    }

    fn free_mapped(&mut self, memory: UserBuf) -> bool {
        match &self.slots.area {
            Ok(area) => self.slots.arena.free(area, memory),
            Err(_) => false,
        }
    }

    fn patience(&mut self) -> Patience {
        self.patience()
    }

    #[inline]
    fn is_crowded(&mut self) -> bool {
        if !self.settled {
            // Finds it out, if that can be.
            self.patience();
        }
        self.shares_processors()
    }

    fn give_way(&mut self) {
        self.give_way();
    }
}
