//! What this process does in its slots.

use layout::Data;
use mtmi::slot::{Delivery, Landed, Slot, SlotError, SlotTable};
use mtmi::{Context, Cookie, Endpoint, Outgoing, SendMode};

use super::{Pair, Place, Receive, Receiving, SlotSend, Table};
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
    /// A pair in which something new can begin; `me` is this process.
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
    fn slot_ref(&self, slot: Slot, generation: u32) -> Result<SlotRef, SlotError> {
        let table = self.slots.tables.get(slot.table.0 as usize);
        let table = table.and_then(Option::as_ref);
        Ok(SlotRef {
            name: table.ok_or(SlotError::NoSuchSlot)?.name,
            index: slot.index,
            generation,
        })
    }

    /// Opens a table with each of `ranks` processes.
    pub fn open_slots(
        &mut self,
        name: u32,
        count: u32,
        ranks: u32,
    ) -> Result<SlotTable, SlotError> {
        if count == 0 || count > MOST_SLOTS {
            return Err(SlotError::NoSuchSlot);
        }
        let slots = &mut self.slots;
        if slots.named(name).is_some() || slots.closed.contains(&name) {
            return Err(SlotError::Busy);
        }
        let free = slots.tables.iter().position(Option::is_none);
        let at = free.unwrap_or(slots.tables.len());
        if at == slots.tables.len() {
            slots.tables.push(None);
        }
        let mut pairs = Vec::new();
        pairs.resize_with(ranks as usize, Pair::default);
        slots.tables[at] = Some(Table { name, count, pairs });
        self.open_slot_table(at as u32, name, count);
        Ok(SlotTable(at as u32))
    }

    /// Closes a table.
    pub fn close_slots(&mut self, table: SlotTable) {
        let entry = self.slots.tables.get_mut(table.0 as usize);
        if let Some(table) = entry.and_then(Option::take) {
            self.slots.closed.insert(table.name);
        }
    }

    /// How many slots the peer's table has. The peer is asked the first time.
    pub fn opened_slots(&mut self, table: SlotTable, peer: Endpoint) -> Option<u32> {
        if self.is_gone(peer) {
            return None;
        }
        let entry = self.slots.tables.get(table.0 as usize)?;
        let name = entry.as_ref()?.name;
        let pair = self.slots.pair(table.0, peer.0)?;
        if pair.theirs.is_none() && !pair.asked {
            pair.asked = true;
            self.control(peer.0, Frame::SlotQuery { name });
            return None;
        }
        pair.theirs
    }

    /// Binds memory to a slot's receives.
    pub fn bind_slot(
        &mut self,
        slot: Slot,
        memory: &Data,
        prepared: bool,
        me: u32,
    ) -> Result<(), SlotError> {
        let pair = self.usable(slot, me)?;
        let receive = &mut pair.receives[slot.index as usize];
        if receive.state != Receiving::Idle {
            return Err(SlotError::Busy);
        }
        receive.memory = memory.clone();
        receive.prepared = prepared;
        Ok(())
    }

    /// Posts the receive that was bound to a slot.
    pub fn start_slot(&mut self, slot: Slot, prepared: bool, me: u32) -> Result<(), SlotError> {
        let pair = self.usable(slot, me)?;
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
        let frame = Frame::SlotPost {
            slot: self.slot_ref(slot, generation)?,
            count,
            length,
        };
        self.control(slot.peer.0, frame);
        Ok(())
    }

    /// What came of a receive.
    #[inline]
    pub fn slot_landed(&mut self, slot: Slot) -> Landed {
        let Some(pair) = self.slots.pair(slot.table.0, slot.peer.0) else {
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

    /// Whether anything came of it.
    #[inline]
    pub fn slot_has_landed(&mut self, slot: Slot) -> bool {
        let Some(pair) = self.slots.pair(slot.table.0, slot.peer.0) else {
            return true;
        };
        let waits = |r: &Receive| matches!(r.state, Receiving::Posted | Receiving::Arrives { .. });
        let receive = pair.receives.get(slot.index as usize);
        pair.trouble.is_some() || !receive.is_some_and(waits)
    }

    /// Whether a receive is there of which no end was told.
    pub fn slot_is_posted(&mut self, slot: Slot) -> bool {
        let pair = self.slots.pair(slot.table.0, slot.peer.0);
        let receive = pair.and_then(|p| p.receives.get(slot.index as usize));
        receive.is_some_and(|r| r.state != Receiving::Idle)
    }

    /// Asks for the memory of a posted receive.
    pub fn withdraw_slot(&mut self, slot: Slot, me: u32) -> Result<(), SlotError> {
        let pair = self.usable(slot, me)?;
        let receive = &mut pair.receives[slot.index as usize];
        match receive.state {
            Receiving::Idle => return Err(SlotError::NotPrepared),
            Receiving::Posted if !receive.asked => receive.asked = true,
            // It ends anyway.
            _ => return Ok(()),
        }
        let generation = receive.generation;
        let frame = Frame::SlotWithdraw {
            slot: self.slot_ref(slot, generation)?,
        };
        self.control(slot.peer.0, frame);
        Ok(())
    }

    /// How many bytes the receive takes that the next delivery would go to.
    #[inline]
    pub fn slot_offered(&mut self, slot: Slot) -> Option<u64> {
        let delivery = self.slots.delivery(place(slot), slot.peer.0)?;
        delivery.is_offered().then_some(delivery.length)
    }

    /// Delivers: what is short is staged, the rest leaves with the next offers.
    pub fn deliver_slot(
        &mut self,
        slot: Slot,
        data: &Data,
        immediate: u32,
        me: u32,
    ) -> Result<Delivery, SlotError> {
        let peer = slot.peer.0;
        let pair = self.usable(slot, me)?;
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
        let send = SlotSend {
            place: place(slot),
            slot: self.slot_ref(slot, generation)?,
            immediate,
            sent,
            bytes: sent.min(length),
        };
        let bytes = send.bytes;
        if bytes <= MEDIUM && self.stage_delivery(peer, send.first(bytes), data, bytes as usize) {
            self.mark_dirty(peer);
            return Ok(Delivery::Done { bytes });
        }
        let id = self.sends.insert(Send {
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
        self.links[peer as usize].queue.push_back(Queued::Send(id));
        self.mark_dirty(peer);
        if let Some(delivery) = self.slots.delivery(place(slot), peer) {
            delivery.state = Delivery::Pending;
        }
        Ok(Delivery::Pending)
    }

    /// How far a delivery is, and frees its place if it is over.
    pub fn delivered_slot(&mut self, slot: Slot) -> Delivery {
        let Some(delivery) = self.slots.delivery(place(slot), slot.peer.0) else {
            return Delivery::Idle;
        };
        let now = delivery.state;
        if now != Delivery::Pending {
            delivery.state = Delivery::Idle;
        }
        now
    }
}
