//! The fabric's slots, as [`mtmi::slot::Slots`].

use std::time::Duration;

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};
use mtmi::{Endpoint, Patience};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::Tcp;

impl Tcp {
    /// Sends what is staged for a peer, as far as its kernel takes it. The rest, and what is to be said about a lost
    /// connection, is left to `progress`.
    fn flush_staged(&mut self, peer: u32) {
        let Some(stream) = &self.routes[peer as usize].stream else {
            return;
        };
        let link = &self.protocol.links[peer as usize];
        let staged = &link.staged[link.staged_from..];
        let whole = staged.len();
        if stream.blocked || link.tail.is_some() || whole == 0 {
            return;
        }
        match send(
            &stream.fd,
            staged,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        ) {
            Ok(n) => {
                self.protocol.sent_staged(peer, n);
                self.wrote(peer);
                if n < whole {
                    self.block(peer);
                }
            }
            Err(Errno::AGAIN) => self.block(peer),
            // Met again by `progress`.
            Err(_) => {}
        }
    }
}

impl Slots for Tcp {
    fn open_slots(&mut self, name: u32, count: u32) -> Result<SlotTable, SlotError> {
        self.protocol.open_slots(name, count, self.job.ranks)
    }

    fn close_slots(&mut self, table: SlotTable) {
        self.protocol.close_slots(table);
    }

    fn opened(&mut self, table: SlotTable, peer: Endpoint) -> Option<u32> {
        self.protocol.opened_slots(table, peer)
    }

    fn prepare(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        self.protocol.bind_slot(slot, memory, true, self.job.me)
    }

    fn start(&mut self, slot: Slot) -> Result<(), SlotError> {
        self.protocol.start_slot(slot, true, self.job.me)
    }

    fn post(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        self.protocol.bind_slot(slot, memory, false, self.job.me)?;
        self.protocol.start_slot(slot, false, self.job.me)
    }

    #[inline]
    fn landed(&mut self, slot: Slot) -> Landed {
        self.protocol.slot_landed(slot)
    }

    #[inline]
    fn has_landed(&mut self, slot: Slot) -> bool {
        self.protocol.slot_has_landed(slot)
    }

    fn is_posted(&mut self, slot: Slot) -> bool {
        self.protocol.slot_is_posted(slot)
    }

    fn withdraw(&mut self, slot: Slot) -> Result<(), SlotError> {
        self.protocol.withdraw_slot(slot, self.job.me)
    }

    #[inline]
    fn offered(&mut self, slot: Slot) -> Option<u64> {
        self.protocol.slot_offered(slot)
    }

    /// A short one leaves at once, together with the receives that were posted before it.
    fn deliver(&mut self, slot: Slot, data: &Data, immediate: u32) -> Result<Delivery, SlotError> {
        let me = self.job.me;
        let delivery = self.protocol.deliver_slot(slot, data, immediate, me)?;
        if let Delivery::Done { .. } = delivery {
            self.flush_staged(slot.peer.0);
        }
        Ok(delivery)
    }

    fn delivered(&mut self, slot: Slot) -> Delivery {
        self.protocol.delivered_slot(slot)
    }

    /// Nobody maps this process's memory.
    fn alloc_mapped(&mut self, _bytes: usize) -> Option<UserBuf> {
        None
    }

    fn free_mapped(&mut self, _memory: UserBuf) -> bool {
        false
    }

    /// As `wait` does.
    fn patience(&mut self) -> Patience {
        Patience {
            spin: Duration::from_micros(12),
            rounds: 20,
            polls: 1,
            longest: Duration::MAX,
            least: Duration::ZERO,
        }
    }

    fn is_crowded(&mut self) -> bool {
        self.crowded
    }

    fn give_way(&mut self) {
        rustix::thread::sched_yield();
    }
}
