//! Numbers for functions.
//!
//! C calls an operation or error handler without any state, and where its handles aren't Fortran's
//! integers, something must stand between it and the Fortran subroutine. That is one of a fixed number of
//! functions, each of which knows its slot; the slot says which subroutine to call. A subroutine keeps its
//! slot for good, since an operation may be in use after it was freed. So the number of slots bounds how
//! many different subroutines a program has, not how often it hands them over.

use std::sync::atomic::{AtomicUsize, Ordering};

/// `N` slots.
pub struct Slots<const N: usize> {
    functions: [AtomicUsize; N],
}

impl<const N: usize> Slots<N> {
    /// All free.
    pub const fn new() -> Slots<N> {
        Slots {
            functions: [const { AtomicUsize::new(0) }; N],
        }
    }

    /// The slot of the function at this address, which isn't 0; `None` if all are taken.
    pub fn of(&self, function: usize) -> Option<usize> {
        self.functions.iter().position(|slot| {
            let taken = slot.compare_exchange(0, function, Ordering::AcqRel, Ordering::Acquire);
            taken.is_ok() || taken == Err(function)
        })
    }

    /// The address of the function in a slot; 0 if it is free.
    pub fn function(&self, slot: usize) -> usize {
        self.functions[slot].load(Ordering::Acquire)
    }
}

impl<const N: usize> Default for Slots<N> {
    fn default() -> Slots<N> {
        Slots::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_keeps_its_slot() {
        let slots = Slots::<2>::new();
        assert_eq!(
            [10, 20, 10].map(|f| slots.of(f)),
            [Some(0), Some(1), Some(0)]
        );
        assert_eq!(slots.of(30), None);
        assert_eq!(slots.function(1), 20);
    }
}
