//! Slots to oneself. Sender and receiver are one, so a delivery is a copy.

use layout::{Data, transfer};

use super::{Delivery, Landed, SlotError, SlotTable};

/// The slots of this process with itself, by table.
#[derive(Default)]
pub(crate) struct OwnSlots {
    tables: Vec<Option<Table>>,
}

struct Table {
    count: u32,
    /// Made when the first is used.
    slots: Vec<Own>,
}

#[derive(Clone)]
struct Own {
    memory: Data,
    /// Whether the memory stays bound.
    prepared: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Idle,
    Posted,
    Ended(Landed),
}

impl OwnSlots {
    /// A table was opened.
    pub fn open(&mut self, table: SlotTable, count: u32) {
        let at = table.0 as usize;
        if self.tables.len() <= at {
            self.tables.resize_with(at + 1, || None);
        }
        self.tables[at] = Some(Table {
            count,
            slots: Vec::new(),
        });
    }

    /// A table was closed.
    pub fn close(&mut self, table: SlotTable) {
        if let Some(entry) = self.tables.get_mut(table.0 as usize) {
            *entry = None;
        }
    }

    /// The number of slots of a table.
    pub fn count(&self, table: SlotTable) -> Option<u32> {
        let table = self.tables.get(table.0 as usize)?;
        table.as_ref().map(|t| t.count)
    }

    fn slot(&mut self, table: SlotTable, index: u32) -> Result<&mut Own, SlotError> {
        let table = self.tables.get_mut(table.0 as usize);
        let table = table.and_then(Option::as_mut);
        let table = table.ok_or(SlotError::NoSuchSlot)?;
        if table.slots.is_empty() {
            let idle = Own {
                memory: Data::EMPTY,
                prepared: false,
                state: State::Idle,
            };
            table.slots = vec![idle; table.count as usize];
        }
        let slot = table.slots.get_mut(index as usize);
        slot.ok_or(SlotError::NoSuchSlot)
    }

    /// As [`Slots::prepare`](super::Slots::prepare).
    pub fn prepare(
        &mut self,
        table: SlotTable,
        index: u32,
        memory: &Data,
    ) -> Result<(), SlotError> {
        let slot = self.slot(table, index)?;
        if slot.state != State::Idle {
            return Err(SlotError::Busy);
        }
        slot.memory = memory.clone();
        slot.prepared = true;
        Ok(())
    }

    /// As [`Slots::start`](super::Slots::start).
    pub fn start(&mut self, table: SlotTable, index: u32) -> Result<(), SlotError> {
        let slot = self.slot(table, index)?;
        if slot.state != State::Idle {
            return Err(SlotError::Busy);
        }
        if !slot.prepared {
            return Err(SlotError::NotPrepared);
        }
        slot.state = State::Posted;
        Ok(())
    }

    /// As [`Slots::post`](super::Slots::post).
    pub fn post(&mut self, table: SlotTable, index: u32, memory: &Data) -> Result<(), SlotError> {
        self.prepare(table, index, memory)?;
        let slot = self.slot(table, index)?;
        slot.prepared = false;
        slot.state = State::Posted;
        Ok(())
    }

    /// As [`Slots::has_landed`](super::Slots::has_landed).
    pub fn has_landed(&mut self, table: SlotTable, index: u32) -> bool {
        self.slot(table, index)
            .map_or(true, |slot| slot.state != State::Posted)
    }

    /// As [`Slots::landed`](super::Slots::landed).
    pub fn landed(&mut self, table: SlotTable, index: u32) -> Landed {
        let Ok(slot) = self.slot(table, index) else {
            return Landed::Idle;
        };
        match slot.state {
            State::Idle => Landed::Idle,
            State::Posted => Landed::NotYet,
            State::Ended(landed) => {
                slot.state = State::Idle;
                landed
            }
        }
    }

    /// As [`Slots::is_posted`](super::Slots::is_posted).
    pub fn is_posted(&self, table: SlotTable, index: u32) -> bool {
        let table = self.tables.get(table.0 as usize).and_then(Option::as_ref);
        let slot = table.and_then(|table| table.slots.get(index as usize));
        slot.is_some_and(|slot| slot.state != State::Idle)
    }

    /// As [`Slots::withdraw`](super::Slots::withdraw).
    pub fn withdraw(&mut self, table: SlotTable, index: u32) -> Result<(), SlotError> {
        let slot = self.slot(table, index)?;
        match slot.state {
            State::Idle => Err(SlotError::NotPrepared),
            State::Posted => {
                slot.state = State::Ended(Landed::Withdrawn);
                Ok(())
            }
            State::Ended(_) => Ok(()),
        }
    }

    /// As [`Slots::offered`](super::Slots::offered).
    pub fn offered(&mut self, table: SlotTable, index: u32) -> Option<u64> {
        let slot = self.slot(table, index).ok()?;
        (slot.state == State::Posted).then(|| slot.memory.len())
    }

    /// As [`Slots::deliver`](super::Slots::deliver).
    pub fn deliver(
        &mut self,
        table: SlotTable,
        index: u32,
        data: &Data,
        immediate: u32,
    ) -> Result<Delivery, SlotError> {
        let slot = self.slot(table, index)?;
        if slot.state != State::Posted {
            return Err(SlotError::NotOffered);
        }
        let bytes = transfer(data, &slot.memory);
        let sent = data.len();
        slot.state = State::Ended(match sent > bytes {
            true => Landed::Truncated { sent, immediate },
            false => Landed::Done { bytes, immediate },
        });
        Ok(Delivery::Done { bytes })
    }
}
