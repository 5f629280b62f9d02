//! The fabric's slots, as [`mtmi::slot::Slots`].

use std::time::Duration;

use boundary::UserBuf;
use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable, Slots};
use mtmi::{Context, Cookie, Endpoint, Outgoing, Patience, SendMode};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::{Pair, Place, Receiving, SlotSend, Table};
use crate::Tcp;
use crate::fabric::MEDIUM;
use crate::frame::{Frame, MOST_SLOTS, SlotRef};
use crate::protocol::{Protocol, Queued, Send, Sending};

fn place(slot: Slot) -> Place {
    Place {
        table: slot.table.0,
        index: slot.index,
    }
}

impl Protocol {
    /// A pair in which something new can begin.
    #[inline]
    fn usable(&mut self, slot: Slot, me: u32) -> Result<&mut Pair, SlotError> {
        let gone = self.is_gone(slot.peer);
        let pair = self.slots.join(place(slot), slot.peer.0);
        let pair = pair.filter(|_| slot.peer.0 != me);
        let pair = pair.ok_or(SlotError::NoSuchSlot)?;
        match pair.trouble {
            Some(trouble) => Err(trouble),
            None if gone => Err(SlotError::PeerFailed),
            None => Ok(pair),
        }
    }

    /// The job's name for a receive in a slot.
    fn slot_ref(&self, slot: Slot, generation: u32) -> Option<SlotRef> {
        let table = self.slots.tables.get(slot.table.0 as usize)?.as_ref()?;
        Some(SlotRef {
            name: table.name,
            index: slot.index,
            generation,
        })
    }
}

impl Tcp {
    /// Sends what is staged for a peer, as far as its kernel takes it. The rest, and what is to be said about a lost
    /// connection, is left to `progress`.
    fn flush_staged(&mut self, peer: u32) {
        self.protocol.mark_dirty(peer);
        let Some(stream) = &self.routes[peer as usize].stream else {
            return;
        };
        if stream.blocked {
            return;
        }
        let link = &self.protocol.links[peer as usize];
        let staged = &link.staged[link.staged_from..];
        let whole = staged.len();
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

    fn bind_slot(&mut self, slot: Slot, memory: &Data, prepared: bool) -> Result<(), SlotError> {
        let pair = self.protocol.usable(slot, self.job.me)?;
        let receive = &mut pair.receives[slot.index as usize];
        if receive.state != Receiving::Idle {
            return Err(SlotError::Busy);
        }
        receive.memory = memory.clone();
        receive.prepared = prepared;
        Ok(())
    }

    fn start_slot(&mut self, slot: Slot, prepared: bool) -> Result<(), SlotError> {
        let pair = self.protocol.usable(slot, self.job.me)?;
        let count = pair.receives.len() as u32;
        let receive = &mut pair.receives[slot.index as usize];
        if receive.state != Receiving::Idle {
            return Err(SlotError::Busy);
        }
        if receive.prepared != prepared {
            return Err(SlotError::NotPrepared);
        }
        receive.generation = receive.generation.wrapping_add(1);
        receive.state = Receiving::Posted;
        receive.asked = false;
        let (generation, length) = (receive.generation, receive.memory.len());
        let named = self.protocol.slot_ref(slot, generation);
        let frame = Frame::SlotPost {
            slot: named.ok_or(SlotError::NoSuchSlot)?,
            count,
            length,
        };
        self.protocol.control(slot.peer.0, frame);
        Ok(())
    }
}

impl Slots for Tcp {
    fn open_slots(&mut self, name: u32, count: u32) -> Result<SlotTable, SlotError> {
        if count == 0 || count > MOST_SLOTS {
            return Err(SlotError::NoSuchSlot);
        }
        let slots = &mut self.protocol.slots;
        if slots.named(name).is_some() || slots.closed.contains(&name) {
            return Err(SlotError::Busy);
        }
        let free = slots.tables.iter().position(Option::is_none);
        let at = free.unwrap_or(slots.tables.len());
        if at == slots.tables.len() {
            slots.tables.push(None);
        }
        let mut pairs = Vec::new();
        pairs.resize_with(self.job.ranks as usize, Pair::default);
        slots.tables[at] = Some(Table { name, count, pairs });
        self.protocol.open_slot_table(at as u32, name, count);
        Ok(SlotTable(at as u32))
    }

    fn close_slots(&mut self, table: SlotTable) {
        let slots = &mut self.protocol.slots;
        let entry = slots.tables.get_mut(table.0 as usize);
        if let Some(table) = entry.and_then(Option::take) {
            slots.closed.insert(table.name);
        }
    }

    /// The peer is asked when this is called for the first time.
    fn opened(&mut self, table: SlotTable, peer: Endpoint) -> Option<u32> {
        if self.protocol.is_gone(peer) {
            return None;
        }
        let name = self
            .protocol
            .slots
            .tables
            .get(table.0 as usize)?
            .as_ref()?
            .name;
        let pair = self.protocol.slots.pair(table.0, peer.0)?;
        if pair.theirs.is_none() && !pair.asked {
            pair.asked = true;
            self.protocol.control(peer.0, Frame::SlotQuery { name });
            return None;
        }
        pair.theirs
    }

    fn prepare(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        self.bind_slot(slot, memory, true)
    }

    #[inline]
    fn start(&mut self, slot: Slot) -> Result<(), SlotError> {
        self.start_slot(slot, true)
    }

    #[inline]
    fn post(&mut self, slot: Slot, memory: &Data) -> Result<(), SlotError> {
        self.bind_slot(slot, memory, false)?;
        self.start_slot(slot, false)
    }

    #[inline]
    fn landed(&mut self, slot: Slot) -> Landed {
        let Some(pair) = self.protocol.slots.pair(slot.table.0, slot.peer.0) else {
            return Landed::Idle;
        };
        let failed = pair.trouble.is_some();
        let Some(receive) = pair.receives.get_mut(slot.index as usize) else {
            return Landed::Idle;
        };
        let landed = match receive.state {
            Receiving::Idle => return Landed::Idle,
            Receiving::Ended(landed) => landed,
            Receiving::Posted | Receiving::Arrives { .. } if failed => Landed::PeerFailed,
            Receiving::Posted | Receiving::Arrives { .. } => return Landed::NotYet,
        };
        receive.state = Receiving::Idle;
        landed
    }

    #[inline]
    fn has_landed(&mut self, slot: Slot) -> bool {
        let Some(pair) = self.protocol.slots.pair(slot.table.0, slot.peer.0) else {
            return true;
        };
        let waits =
            |r: &super::Receive| matches!(r.state, Receiving::Posted | Receiving::Arrives { .. });
        let receive = pair.receives.get(slot.index as usize);
        pair.trouble.is_some() || !receive.is_some_and(waits)
    }

    fn withdraw(&mut self, slot: Slot) -> Result<(), SlotError> {
        let pair = self.protocol.usable(slot, self.job.me)?;
        let receive = &mut pair.receives[slot.index as usize];
        match receive.state {
            Receiving::Idle => return Err(SlotError::NotPrepared),
            Receiving::Posted if !receive.asked => receive.asked = true,
            // It ends anyway.
            _ => return Ok(()),
        }
        let generation = receive.generation;
        let slot_ref = self.protocol.slot_ref(slot, generation);
        let slot_ref = slot_ref.ok_or(SlotError::NoSuchSlot)?;
        let frame = Frame::SlotWithdraw { slot: slot_ref };
        self.protocol.control(slot.peer.0, frame);
        Ok(())
    }

    #[inline]
    fn offered(&mut self, slot: Slot) -> Option<u64> {
        let delivery = self.protocol.slots.delivery(place(slot), slot.peer.0)?;
        delivery.is_offered().then_some(delivery.length)
    }

    fn deliver(&mut self, slot: Slot, data: &Data, immediate: u32) -> Result<Delivery, SlotError> {
        let peer = slot.peer.0;
        let pair = self.protocol.usable(slot, self.job.me)?;
        let delivery = &mut pair.deliveries[slot.index as usize];
        if delivery.state != Delivery::Idle {
            return Err(SlotError::Busy);
        }
        if !delivery.is_offered() {
            return Err(SlotError::NotOffered);
        }
        delivery.consumed = delivery.posted;
        let (generation, length) = (delivery.posted, delivery.length);
        let sent = data.len().min(i64::MAX as u64);
        let slot_ref = self.protocol.slot_ref(slot, generation);
        let send = SlotSend {
            place: place(slot),
            slot: slot_ref.ok_or(SlotError::NoSuchSlot)?,
            immediate,
            sent,
            bytes: sent.min(length),
        };
        let bytes = send.bytes;
        let first = send.first(bytes);
        if bytes <= MEDIUM
            && self
                .protocol
                .stage_delivery(peer, first, data, bytes as usize)
        {
            self.flush_staged(peer);
            return Ok(Delivery::Done { bytes });
        }
        let id = self.protocol.sends.insert(Send {
            message: Outgoing {
                to: slot.peer,
                context: Context(0),
                tag: 0,
                mode: SendMode::Standard,
                data: data.clone(),
                cookie: Cookie(0),
            },
            reader: None,
            framed: 0,
            state: Sending::Queued,
            leaving: false,
            cancelling: false,
            slot: Some(send),
        });
        self.protocol.links[peer as usize]
            .queue
            .push_back(Queued::Send(id));
        self.protocol.mark_dirty(peer);
        if let Some(delivery) = self.protocol.slots.delivery(place(slot), peer) {
            delivery.state = Delivery::Pending;
        }
        Ok(Delivery::Pending)
    }

    fn delivered(&mut self, slot: Slot) -> Delivery {
        self.protocol.slots.delivered(slot.peer.0, place(slot))
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
            yields: 20,
            polls: 1,
        }
    }
}
