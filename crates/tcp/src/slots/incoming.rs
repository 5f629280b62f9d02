//! What peers say about slots.

use mtmi::slot::{Landed, SlotError};

use super::{EARLY, Offer, Place, Receiving};
use crate::frame::{Frame, Hostile, SlotRef};
use crate::protocol::{Body, Protocol};

const STRANGE: Hostile = Hostile("something about a slot that no receive there explains");
const TOO_MUCH: Hostile = Hostile("too much about tables that are not open");

impl Protocol {
    /// Takes a frame about slots.
    pub fn slot_frame(&mut self, peer: u32, frame: Frame) -> Result<(), Hostile> {
        match frame {
            Frame::SlotQuery { name } => self.take_query(peer, name),
            Frame::SlotCount { name, count } => {
                self.take_count(peer, name, count);
                Ok(())
            }
            Frame::SlotPost {
                slot,
                count,
                length,
            } => self.take_post(
                peer,
                slot,
                Offer {
                    generation: slot.generation,
                    count,
                    length,
                    returned: false,
                },
            ),
            Frame::SlotData {
                slot,
                immediate,
                sent,
                len,
            } => self.take_data(peer, slot, (immediate, sent), len),
            Frame::SlotMore { slot, len } => self.take_more(peer, slot, len),
            Frame::SlotWithdraw { slot } => self.take_withdraw(peer, slot),
            Frame::SlotReturned { slot } => self.take_returned(peer, slot),
            _ => Err(STRANGE),
        }
    }

    /// One more thing is kept for a peer.
    fn keep(&mut self, peer: u32) -> Result<(), Hostile> {
        let kept = &mut self.slots.kept[peer as usize];
        *kept += 1;
        if *kept > EARLY { Err(TOO_MUCH) } else { Ok(()) }
    }

    fn take_query(&mut self, peer: u32, name: u32) -> Result<(), Hostile> {
        if let Some(table) = self.slots.named(name) {
            let open = &self.slots.tables[table as usize];
            let count = open.as_ref().map_or(0, |t| t.count);
            self.control(peer, Frame::SlotCount { name, count });
            return Ok(());
        }
        if !self.slots.closed.contains(&name) && self.slots.curious.insert((peer, name)) {
            self.keep(peer)?;
        }
        Ok(())
    }

    fn take_count(&mut self, peer: u32, name: u32, count: u32) {
        let Some(table) = self.slots.named(name) else {
            return;
        };
        let mine = self.slots.tables[table as usize].as_ref().map(|t| t.count);
        if let Some(pair) = self.slots.pair(table, peer) {
            pair.theirs = Some(count);
            if mine != Some(count) {
                pair.trouble = Some(SlotError::Count { theirs: count });
            }
        }
    }

    fn take_post(&mut self, peer: u32, slot: SlotRef, offer: Offer) -> Result<(), Hostile> {
        let Some(table) = self.slots.named(slot.name) else {
            if self.slots.closed.contains(&slot.name) {
                return Ok(());
            }
            let key = (peer, slot.name, slot.index);
            return match self.slots.early.insert(key, offer) {
                None => self.keep(peer),
                Some(old) if old.returned => Ok(()),
                Some(_) => Err(STRANGE),
            };
        };
        self.take_count(peer, slot.name, offer.count);
        let mine = self.slots.tables[table as usize].as_ref().map(|t| t.count);
        if mine != Some(offer.count) {
            return Ok(());
        }
        let place = Place {
            table,
            index: slot.index,
        };
        self.slots.join(place, peer).ok_or(STRANGE)?;
        let delivery = self.slots.delivery(place, peer).ok_or(STRANGE)?;
        if delivery.is_offered() || offer.generation != delivery.posted.wrapping_add(1) {
            return Err(STRANGE);
        }
        delivery.posted = offer.generation;
        delivery.length = offer.length;
        Ok(())
    }

    fn take_data(
        &mut self,
        peer: u32,
        slot: SlotRef,
        (immediate, sent): (u32, u64),
        len: u32,
    ) -> Result<(), Hostile> {
        let table = self.slots.named(slot.name).ok_or(STRANGE)?;
        let place = Place {
            table,
            index: slot.index,
        };
        let receive = self.slots.receive(place, peer).ok_or(STRANGE)?;
        if receive.state != Receiving::Posted || receive.generation != slot.generation {
            return Err(STRANGE);
        }
        let capacity = receive.memory.len();
        let of = sent.min(capacity);
        if u64::from(len) > of || (len == 0 && of > 0) {
            return Err(STRANGE);
        }
        let end = match sent > capacity {
            true => Landed::Truncated { sent, immediate },
            false => Landed::Done {
                bytes: sent,
                immediate,
            },
        };
        if of == 0 {
            receive.state = Receiving::Ended(end);
            return Ok(());
        }
        receive.state = Receiving::Arrives { bytes: 0, of, end };
        self.expect(peer, place, len)
    }

    fn take_more(&mut self, peer: u32, slot: SlotRef, len: u32) -> Result<(), Hostile> {
        let table = self.slots.named(slot.name).ok_or(STRANGE)?;
        let place = Place {
            table,
            index: slot.index,
        };
        let receive = self.slots.receive(place, peer).ok_or(STRANGE)?;
        if receive.generation != slot.generation {
            return Err(STRANGE);
        }
        self.expect(peer, place, len)
    }

    /// The next `len` bytes are a receive's.
    fn expect(&mut self, peer: u32, place: Place, len: u32) -> Result<(), Hostile> {
        let receive = self.slots.receive(place, peer).ok_or(STRANGE)?;
        let Receiving::Arrives { bytes, of, .. } = receive.state else {
            return Err(STRANGE);
        };
        if u64::from(len) > of - bytes {
            return Err(STRANGE);
        }
        let mut writer = receive.memory.writer();
        writer.seek(bytes);
        let link = &mut self.links[peer as usize];
        link.body = Body::Slot { place, writer };
        link.body_left = len as usize;
        Ok(())
    }

    fn take_withdraw(&mut self, peer: u32, slot: SlotRef) -> Result<(), Hostile> {
        let Some(table) = self.slots.named(slot.name) else {
            // Not opened yet; or closed, and everything that was delivered before has been sent before.
            let key = (peer, slot.name, slot.index);
            match self.slots.early.get_mut(&key) {
                Some(offer) if offer.generation == slot.generation && !offer.returned => {
                    offer.returned = true;
                }
                _ if self.slots.closed.contains(&slot.name) => {}
                _ => return Err(STRANGE),
            }
            self.control(peer, Frame::SlotReturned { slot });
            return Ok(());
        };
        let place = Place {
            table,
            index: slot.index,
        };
        let delivery = self.slots.delivery(place, peer).ok_or(STRANGE)?;
        if delivery.posted.wrapping_sub(slot.generation) >= 1 << 31 {
            return Err(STRANGE);
        }
        if delivery.is_offered() && delivery.posted == slot.generation {
            delivery.consumed = delivery.posted;
            self.control(peer, Frame::SlotReturned { slot });
        }
        Ok(())
    }

    fn take_returned(&mut self, peer: u32, slot: SlotRef) -> Result<(), Hostile> {
        let table = self.slots.named(slot.name).ok_or(STRANGE)?;
        let place = Place {
            table,
            index: slot.index,
        };
        let receive = self.slots.receive(place, peer).ok_or(STRANGE)?;
        if !receive.asked || receive.generation != slot.generation {
            return Err(STRANGE);
        }
        if receive.state == Receiving::Posted {
            receive.state = Receiving::Ended(Landed::Withdrawn);
        }
        Ok(())
    }

    /// A table was opened: what peers said about it before counts now.
    pub fn open_slot_table(&mut self, table: u32, name: u32, count: u32) {
        let asked: Vec<u32> = self
            .slots
            .curious
            .iter()
            .filter(|key| key.1 == name)
            .map(|key| key.0)
            .collect();
        for peer in asked {
            self.slots.curious.remove(&(peer, name));
            self.slots.kept[peer as usize] -= 1;
            self.control(peer, Frame::SlotCount { name, count });
        }
        let posted: Vec<_> = self
            .slots
            .early
            .extract_if(|key, _| key.1 == name)
            .collect();
        for ((peer, _, index), offer) in posted {
            self.slots.kept[peer as usize] -= 1;
            let place = Place { table, index };
            if offer.count == count
                && self.slots.join(place, peer).is_some()
                && let Some(delivery) = self.slots.delivery(place, peer)
            {
                // Earlier ones were returned.
                let returned = u32::from(!offer.returned);
                delivery.consumed = offer.generation.wrapping_sub(returned);
                delivery.posted = delivery.consumed;
            }
            if offer.returned {
                continue;
            }
            let slot = SlotRef {
                name,
                index,
                generation: offer.generation,
            };
            if self.take_post(peer, slot, offer).is_err() {
                self.slots.liars.push(peer);
            }
        }
    }
}

impl super::SlotState {
    /// More of a delivery has come: `bytes` in all.
    pub fn arrived(&mut self, peer: u32, place: Place, position: u64) {
        let Some(receive) = self.receive(place, peer) else {
            return;
        };
        if let Receiving::Arrives { of, end, .. } = receive.state {
            receive.state = match position >= of {
                true => Receiving::Ended(end),
                false => Receiving::Arrives {
                    bytes: position,
                    of,
                    end,
                },
            };
        }
    }
}
