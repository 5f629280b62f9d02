//! Slots of all fabrics as one: each pair's are those of the fabric that reaches the peer.

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};
use mtmi::{Endpoint, Patience};

use crate::routes::Fabrics;

impl Slots for Fabrics {
    fn open_slots(&mut self, name: u32, count: u32) -> Result<SlotTable, SlotError> {
        let table = self.shm.open_slots(name, count)?;
        if let Some(tcp) = &mut self.tcp {
            // Both give out the lowest number that is free, and what is open in one is open in the other.
            let other = tcp.open_slots(name, count);
            debug_assert!(other.is_err() || other == Ok(table));
            if let Err(e) = other {
                self.shm.close_slots(table);
                return Err(e);
            }
        }
        Ok(table)
    }

    fn close_slots(&mut self, table: SlotTable) {
        self.shm.close_slots(table);
        if let Some(tcp) = &mut self.tcp {
            tcp.close_slots(table);
        }
    }

    fn opened(&mut self, table: SlotTable, peer: Endpoint) -> Option<u32> {
        match self.network(peer) {
            None => self.shm.opened(table, peer),
            Some(tcp) => tcp.opened(table, peer),
        }
    }

    fn prepare(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        match self.network(slot.peer) {
            None => self.shm.prepare(slot, memory),
            Some(tcp) => tcp.prepare(slot, memory),
        }
    }

    #[inline]
    fn start(&mut self, slot: Slot) -> Result<(), SlotError> {
        match self.network(slot.peer) {
            None => self.shm.start(slot),
            Some(tcp) => tcp.start(slot),
        }
    }

    #[inline(always)]
    fn post(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        match self.network(slot.peer) {
            None => self.shm.post(slot, memory),
            Some(tcp) => tcp.post(slot, memory),
        }
    }

    #[inline(always)]
    fn landed(&mut self, slot: Slot) -> Landed {
        match self.network(slot.peer) {
            None => self.shm.landed(slot),
            Some(tcp) => tcp.landed(slot),
        }
    }

    #[inline]
    fn has_landed(&mut self, slot: Slot) -> bool {
        match self.network(slot.peer) {
            None => self.shm.has_landed(slot),
            Some(tcp) => tcp.has_landed(slot),
        }
    }

    #[inline(always)]
    fn await_landing(&mut self, slot: Slot, looks: u32) {
        if self.network(slot.peer).is_none() {
            self.shm.await_landing(slot, looks);
        }
    }

    fn is_posted(&mut self, slot: Slot) -> bool {
        match self.network(slot.peer) {
            None => self.shm.is_posted(slot),
            Some(tcp) => tcp.is_posted(slot),
        }
    }

    #[inline]
    fn set_clear(&mut self, slot: Slot, clear: bool) {
        if self.network(slot.peer).is_none() {
            self.shm.set_clear(slot, clear);
        }
    }

    fn withdraw(&mut self, slot: Slot) -> Result<(), SlotError> {
        match self.network(slot.peer) {
            None => self.shm.withdraw(slot),
            Some(tcp) => tcp.withdraw(slot),
        }
    }

    #[inline]
    fn offered(&mut self, slot: Slot) -> Option<u64> {
        match self.network(slot.peer) {
            None => self.shm.offered(slot),
            Some(tcp) => tcp.offered(slot),
        }
    }

    #[inline(always)]
    fn deliver(&mut self, slot: Slot, data: &Data, immediate: u32) -> Result<Delivery, SlotError> {
        match self.network(slot.peer) {
            None => self.shm.deliver(slot, data, immediate),
            Some(tcp) => tcp.deliver(slot, data, immediate),
        }
    }

    #[inline]
    fn delivered(&mut self, slot: Slot) -> Delivery {
        match self.network(slot.peer) {
            None => self.shm.delivered(slot),
            Some(tcp) => tcp.delivered(slot),
        }
    }

    /// Peers on other machines can't reach it, and need not.
    fn alloc_mapped(&mut self, bytes: usize) -> Option<UserBuf> {
        self.shm.alloc_mapped(bytes)
    }

    fn free_mapped(&mut self, memory: UserBuf) -> bool {
        self.shm.free_mapped(memory)
    }

    fn patience(&mut self) -> Patience {
        self.patience_for_all()
    }

    #[inline]
    fn is_crowded(&mut self) -> bool {
        self.shm.is_crowded() || self.neighbours.are_there()
    }

    fn give_way(&mut self) {
        self.give_way_to_all();
    }
}
