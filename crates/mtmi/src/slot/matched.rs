//! Slots of a transport made of a fabric: the fabric's, and this process's with itself.

use boundary::UserBuf;
use layout::Data;

use super::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};
use crate::fabric::Fabric;
use crate::matched::Matched;
use crate::patience::Patience;
use crate::words::Endpoint;

impl<F: Fabric + Slots> Slots for Matched<F> {
    fn open_slots(&mut self, name: u32, count: u32) -> Result<SlotTable, SlotError> {
        let table = self.fabric.open_slots(name, count)?;
        self.own.open(table, count);
        Ok(table)
    }

    fn close_slots(&mut self, table: SlotTable) {
        self.own.close(table);
        self.fabric.close_slots(table);
    }

    fn opened(&mut self, table: SlotTable, peer: Endpoint) -> Option<u32> {
        if peer == self.fabric.endpoint() {
            return self.own.count(table);
        }
        self.fabric.opened(table, peer)
    }

    fn prepare(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        if slot.peer == self.fabric.endpoint() {
            return self.own.prepare(slot.table, slot.index, memory);
        }
        self.fabric.prepare(slot, memory)
    }

    #[inline]
    fn start(&mut self, slot: Slot) -> Result<(), SlotError> {
        if slot.peer == self.fabric.endpoint() {
            let done = self.own.start(slot.table, slot.index);
            if done.is_ok() {
                self.wake_threads();
            }
            return done;
        }
        self.fabric.start(slot)
    }

    #[inline(always)]
    fn post(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        if slot.peer == self.fabric.endpoint() {
            let done = self.own.post(slot.table, slot.index, memory);
            if done.is_ok() {
                self.wake_threads();
            }
            return done;
        }
        self.fabric.post(slot, memory)
    }

    #[inline(always)]
    fn landed(&mut self, slot: Slot) -> Landed {
        if slot.peer == self.fabric.endpoint() {
            return self.own.landed(slot.table, slot.index);
        }
        self.fabric.landed(slot)
    }

    #[inline]
    fn has_landed(&mut self, slot: Slot) -> bool {
        if slot.peer == self.fabric.endpoint() {
            return self.own.has_landed(slot.table, slot.index);
        }
        self.fabric.has_landed(slot)
    }

    #[inline(always)]
    fn await_landing(&mut self, slot: Slot, looks: u32) {
        if slot.peer != self.fabric.endpoint() {
            self.fabric.await_landing(slot, looks);
        }
    }

    fn is_posted(&mut self, slot: Slot) -> bool {
        if slot.peer == self.fabric.endpoint() {
            return self.own.is_posted(slot.table, slot.index);
        }
        self.fabric.is_posted(slot)
    }

    #[inline]
    fn set_clear(&mut self, slot: Slot, clear: bool) {
        if slot.peer != self.fabric.endpoint() {
            self.fabric.set_clear(slot, clear);
        }
    }

    fn withdraw(&mut self, slot: Slot) -> Result<(), SlotError> {
        if slot.peer == self.fabric.endpoint() {
            return self.own.withdraw(slot.table, slot.index);
        }
        self.fabric.withdraw(slot)
    }

    #[inline]
    fn offered(&mut self, slot: Slot) -> Option<u64> {
        if slot.peer == self.fabric.endpoint() {
            return self.own.offered(slot.table, slot.index);
        }
        self.fabric.offered(slot)
    }

    #[inline(always)]
    fn deliver(&mut self, slot: Slot, data: &Data, immediate: u32) -> Result<Delivery, SlotError> {
        if slot.peer == self.fabric.endpoint() {
            let done = self.own.deliver(slot.table, slot.index, data, immediate);
            if done.is_ok() {
                self.wake_threads();
            }
            return done;
        }
        self.fabric.deliver(slot, data, immediate)
    }

    #[inline]
    fn delivered(&mut self, slot: Slot) -> Delivery {
        if slot.peer == self.fabric.endpoint() {
            return Delivery::Idle;
        }
        self.fabric.delivered(slot)
    }

    fn alloc_mapped(&mut self, bytes: usize) -> Option<UserBuf> {
        self.fabric.alloc_mapped(bytes)
    }

    fn free_mapped(&mut self, memory: UserBuf) -> bool {
        self.fabric.free_mapped(memory)
    }

    fn patience(&mut self) -> Patience {
        self.fabric.patience()
    }

    #[inline]
    fn is_crowded(&mut self) -> bool {
        self.fabric.is_crowded()
    }

    fn give_way(&mut self) {
        self.fabric.give_way();
    }
}
