//! Integers that have an address.
//!
//! An attribute that Fortran sets is an integer; C gets it as a pointer to an integer (MPI-5.0, section
//! 19.3.7). So what Fortran stores is the address of a cell with the value, and an address that is no
//! cell's was stored by C. There is one cell for each value, made when it is first needed and never
//! changed or freed, since the library may copy the address without telling.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The cells of a process.
pub struct Cells {
    tables: Mutex<Tables>,
}

struct Tables {
    by_value: BTreeMap<i64, &'static i64>,
    by_address: BTreeMap<usize, i64>,
}

impl Cells {
    /// No cells yet.
    pub const fn new() -> Cells {
        let tables = Tables {
            by_value: BTreeMap::new(),
            by_address: BTreeMap::new(),
        };
        Cells {
            tables: Mutex::new(tables),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Nothing can be half done in the tables where a thread panics.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of the cell that holds `value`.
    pub fn address_of(&self, value: i64) -> usize {
        let mut tables = self.tables();
        let cell: &'static i64 = tables
            .by_value
            .entry(value)
            .or_insert_with(|| Box::leak(Box::new(value)));
        // C may read what it points to.
        let address = std::ptr::from_ref(cell).expose_provenance();
        tables.by_address.insert(address, value);
        address
    }

    /// The value in the cell at `address`, if that is one.
    pub fn value_at(&self, address: usize) -> Option<i64> {
        self.tables().by_address.get(&address).copied()
    }
}

impl Default for Cells {
    fn default() -> Cells {
        Cells::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_one_address() {
        let cells = Cells::new();
        let addresses = [7, -1, i64::MIN, 7].map(|value| cells.address_of(value));
        assert_eq!(addresses[0], addresses[3]);
        assert_ne!(addresses[0], addresses[1]);
        assert_eq!(cells.value_at(addresses[2]), Some(i64::MIN));
        assert_eq!(cells.value_at(7), None);
    }
}
