//! State of which all zeros are a value, and mean that there is nothing: what may lie behind a [door](crate::door).
//!
//! A [`Blank`] type is one whose value may become zeros at any time, from outside. [`blank!`](crate::blank!) makes a structure one
//! if all its fields are; the cells of numbers and of optional references are, and a [`Table`].

use std::cell::Cell;
use std::hint::assert_unchecked;
use std::mem::MaybeUninit;

/// A type of which all zeros are a value.
///
/// # Safety
/// All zeros are a valid value, also where another one was: no other state depends on what was there.
pub unsafe trait Blank: Sized {
    /// All zeros.
    // SAFETY: that is what the trait says.
    const BLANK: Self = unsafe { MaybeUninit::zeroed().assume_init() };
}

// SAFETY: a number.
unsafe impl Blank for u8 {}
// SAFETY: a number.
unsafe impl Blank for u32 {}
// SAFETY: a number.
unsafe impl Blank for u64 {}
// SAFETY: a number.
unsafe impl Blank for usize {}
// SAFETY: zero is `false`.
unsafe impl Blank for bool {}
// SAFETY: the null pointer is `None`, and no reference has to be counted.
unsafe impl<T> Blank for Option<&'static T> {}
// SAFETY: as large as what is in it, of which zeros are a value.
unsafe impl<T: Blank> Blank for Cell<T> {}
// SAFETY: zeros are zeros everywhere in it.
unsafe impl<T: Blank, const N: usize> Blank for [T; N] {}

/// Makes a structure [`Blank`] whose fields all are.
#[macro_export]
macro_rules! blank {
    ($(#[$about:meta])* $vis:vis struct $name:ident {
        $($(#[$of:meta])* $seen:vis $field:ident: $ty:ty),* $(,)?
    }) => {
        $(#[$about])*
        $vis struct $name { $($(#[$of])* $seen $field: $ty),* }

        // SAFETY: zeros are a value of each field, as the compiler checks, so they are one of all.
        unsafe impl $crate::blank::Blank for $name where $($ty: $crate::blank::Blank),* {}
    };
}

/// Two slices of equal length, or nothing: one comparison finds an element of both.
pub struct Table<A: 'static, B: 'static> {
    len: Cell<u32>,
    first: Cell<*const A>,
    second: Cell<*const B>,
}

// SAFETY: a length of 0 says that the pointers are not looked at.
unsafe impl<A, B> Blank for Table<A, B> {}

impl<A, B> Table<A, B> {
    /// Sets them; nothing where the lengths differ.
    pub fn set(&self, first: &'static [A], second: &'static [B]) {
        self.clear();
        if let (true, Ok(len)) = (first.len() == second.len(), u32::try_from(first.len())) {
            self.first.set(first.as_ptr());
            self.second.set(second.as_ptr());
            self.len.set(len);
        }
    }

    /// Nothing from now on.
    pub fn clear(&self) {
        self.len.set(0);
    }

    /// Elements `i`.
    #[inline(always)]
    pub fn get(&self, i: u32) -> Option<(&'static A, &'static B)> {
        if i >= self.len.get() {
            return None;
        }
        let i = i as usize;
        let (first, second) = (self.first.get(), self.second.get());
        // SAFETY: the length is above 0, so `set` wrote it last and the pointers before it: they are those of slices of that
        // length, which live as long as the process. The compiler is told, lest it has to tell `None` from a null one.
        unsafe {
            let first = at_once(first.add(i));
            assert_unchecked(!first.is_null());
            Some((&*first, &*at_once(second.add(i))))
        }
    }
}

/// The same address, computed here: else the compiler may do that in parts wherever it is used, and needs a register more until then.
#[inline(always)]
#[expect(
    clippy::pointers_in_nomem_asm_block,
    reason = "nothing is read or written there"
)]
fn at_once<T>(address: *const T) -> *const T {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut here = address;
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {} */", inout(reg) here,
                options(pure, nomem, nostack, preserves_flags));
        }
        here
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_bounded() {
        let table = Table::<u8, u16>::BLANK;
        assert!(table.get(0).is_none() && table.get(u32::MAX).is_none());
        table.set(&[1, 2, 3], &[4, 5, 6]);
        assert_eq!(table.get(2), Some((&3, &6)));
        assert!(table.get(3).is_none() && table.get(u32::MAX).is_none());
        table.set(&[1], &[4, 5]);
        assert!(table.get(0).is_none(), "of different lengths");
        table.set(&[1], &[4]);
        table.clear();
        assert!(table.get(0).is_none());
    }
}
