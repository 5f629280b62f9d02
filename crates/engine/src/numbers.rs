//! The numbers of a communicator's persistent collectives, which keep their messages apart.
//!
//! A persistent collective has one number from its initialisation until it is freed, so that its starts may come in
//! another order on each process: only the initialisations are in order. All its starts use that number. A
//! process begins the next one after it completed the last, so each pair's messages match in order.
//!
//! Invariant: all processes of a communicator give out the same numbers in the same order, although they free requests when
//! they like. At first they count; when all numbers were given out once, they agree on those that none of them uses any
//! more, count through these, and so on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use types::{Result, consts, fault};

use crate::comm::Comm;
use crate::state::Engine;

/// Persistent collectives that one communicator can have at a time.
pub(crate) const NUMBERS: u32 = 1 << 15;

/// A set of numbers, as a bit for each.
type Bits = Vec<u8>;

fn has(bits: &Bits, number: u32) -> bool {
    bits.get(number as usize / 8)
        .is_some_and(|byte| byte >> (number % 8) & 1 != 0)
}

fn put(bits: &mut Bits, number: u32, on: bool) {
    let bit = 1 << (number % 8);
    match on {
        true => bits[number as usize / 8] |= bit,
        false => bits[number as usize / 8] &= !bit,
    }
}

/// What a communicator knows of its numbers.
#[derive(Default)]
pub struct Numbers {
    /// Those in use here; empty until the first is.
    used: Rc<RefCell<Bits>>,
    /// Those in use anywhere when all agreed last; empty before.
    kept: RefCell<Bits>,
    /// The next number, if it is not kept.
    next: Cell<u32>,
}

/// A number in use, until dropped.
pub(crate) struct Lease {
    number: u32,
    used: Rc<RefCell<Bits>>,
}

impl Lease {
    /// The number, below [`NUMBERS`].
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        put(&mut self.used.borrow_mut(), self.number, false);
    }
}

impl Numbers {
    /// The next number, the same on all processes, unless all of this round were given out.
    fn take(&self) -> Option<Lease> {
        let kept = self.kept.borrow();
        let number = (self.next.get()..NUMBERS).find(|&n| !has(&kept, n));
        self.next.set(number.map_or(NUMBERS, |n| n + 1));
        let number = number?;
        let mut used = self.used.borrow_mut();
        used.resize(NUMBERS as usize / 8, 0);
        put(&mut used, number, true);
        Some(Lease {
            number,
            used: self.used.clone(),
        })
    }

    /// Begins a round with the numbers that nobody uses.
    fn agree(&self, kept: Bits) {
        self.kept.replace(kept);
        self.next.set(0);
    }
}

impl Engine {
    /// The number of a persistent collective that is being initialised on `comm`. All its processes call this in the
    /// same order.
    pub(crate) fn collective_number(&self, comm: &Rc<Comm>) -> Result<Lease> {
        let numbers = &comm.numbers;
        if let Some(lease) = numbers.take() {
            return Ok(lease);
        }
        let mut used = numbers.used.borrow().clone();
        self.internal_union(comm, &mut used)?;
        numbers.agree(used);
        numbers.take().ok_or_else(|| {
            let text =
                format!("{NUMBERS} persistent collectives exist on the communicator; free some");
            fault(consts::ERR_OTHER, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `Engine::collective_number` does on several processes at once.
    fn take_all(processes: &[Numbers]) -> Vec<Option<Lease>> {
        let leases: Vec<_> = processes.iter().map(Numbers::take).collect();
        if leases[0].is_some() {
            return leases;
        }
        assert!(leases.iter().all(Option::is_none));
        let mut union = vec![0; NUMBERS as usize / 8];
        for p in processes {
            for (all, one) in union.iter_mut().zip(p.used.borrow().iter()) {
                *all |= one;
            }
        }
        processes.iter().for_each(|p| p.agree(union.clone()));
        processes.iter().map(Numbers::take).collect()
    }

    #[test]
    fn processes_give_out_equal_numbers_and_none_that_is_in_use() {
        let processes = [Numbers::default(), Numbers::default()];
        let mut held: [Vec<Lease>; 2] = Default::default();
        for i in 0..3 * NUMBERS {
            let leases: Vec<Lease> = take_all(&processes).into_iter().flatten().collect();
            assert_eq!(leases.len(), 2);
            let number = leases[0].number();
            assert_eq!(number, leases[1].number());
            for (k, lease) in leases.into_iter().enumerate() {
                assert!(held[k].iter().all(|l| l.number() != number));
                // The one keeps the first of each thousand, the other one of each two thousand.
                if i % (1000 << k) == 0 {
                    held[k].push(lease);
                }
            }
        }
        assert!(held[0].len() > 90);
    }

    #[test]
    fn when_all_are_in_use_there_is_none_until_one_is_freed() {
        let process = [Numbers::default()];
        let mut held: Vec<Lease> = (0..NUMBERS)
            .filter_map(|_| take_all(&process).pop().flatten())
            .collect();
        assert_eq!(held.len(), NUMBERS as usize);
        assert!(take_all(&process).pop().flatten().is_none());
        held.swap_remove(77);
        let again = take_all(&process).pop().flatten();
        assert_eq!(again.map(|l| l.number()), Some(77));
    }
}
