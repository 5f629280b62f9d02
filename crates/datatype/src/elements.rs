//! Counting: whole types and basic elements in so many received bytes.

use types::basic::Basic;

use crate::{Datatype, pairs};

impl Datatype {
    /// `MPI_Get_count`: whole elements of this type in `bytes`, or `None` where that is not a whole
    /// number.
    pub fn count_in(&self, bytes: u64) -> Option<u64> {
        match self.size {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// `MPI_Get_elements`: basic elements in the first `bytes` of data of this type, or `None` where
    /// the last one is cut.
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        if self.size == 0 {
            return (bytes == 0).then_some(0);
        }
        // `self` first, then ever smaller parts: only the last, incomplete one is looked into.
        let (mut t, mut left, mut found) = (self, bytes, 0u64);
        loop {
            found += left / t.size * t.elements;
            left %= t.size;
            if left == 0 {
                return Some(found);
            }
            match t.part_at(left, |t| t.size) {
                Some((part, before, elements)) => {
                    found += elements;
                    left -= before;
                    t = part;
                }
                None => return Some(found + elements_of(t.basic?, left)?),
            }
        }
    }

    /// The inverse of [`Datatype::elements_in`]: bytes of the first `elements` basic elements. What
    /// would not fit saturates; a type without elements has no bytes.
    pub fn bytes_of_elements(&self, elements: u64) -> u64 {
        if self.elements == 0 {
            return 0;
        }
        let (mut t, mut left, mut bytes) = (self, elements, 0u64);
        loop {
            bytes = bytes.saturating_add((left / t.elements).saturating_mul(t.size));
            left %= t.elements;
            if left == 0 {
                return bytes;
            }
            match (t.part_at(left, |t| t.elements), t.basic) {
                (Some((part, before, elements)), _) => {
                    bytes = bytes.saturating_add(before);
                    left -= elements;
                    t = part;
                }
                (None, Some(basic)) => {
                    let parts = pairs::parts(basic);
                    let cut: u64 = parts.iter().take(left as usize).map(|p| p.size).sum();
                    return bytes.saturating_add(cut);
                }
                (None, None) => return bytes,
            }
        }
    }

    /// The part in which position `at` (in units of `weight`, below the whole) lies, and the bytes
    /// and basic elements before that part. `None` for a basic type.
    fn part_at(&self, at: u64, weight: impl Fn(&Datatype) -> u64) -> Option<(&Datatype, u64, u64)> {
        let (mut passed, mut bytes, mut elements) = (0, 0, 0);
        // Of one part there are as many as fill the size, whatever their places.
        let one;
        let lengths = match self.call.parts() {
            [only] => {
                one = [self.size.checked_div(only.size).unwrap_or(0) as i64];
                &one
            }
            _ => self.call.member_lengths(),
        };
        for (part, &n) in self.call.parts().iter().zip(lengths) {
            let n = n as u64;
            passed += n * weight(part);
            if at < passed {
                return Some((part, bytes, elements));
            }
            bytes += n * part.size;
            elements += n * part.elements;
        }
        None
    }
}

/// Basic elements in the first `bytes` of one `basic`.
fn elements_of(basic: &Basic, bytes: u64) -> Option<u64> {
    let mut end = 0;
    for (i, part) in pairs::parts(basic).iter().enumerate() {
        end += part.size;
        if bytes == end {
            return Some(i as u64 + 1);
        }
    }
    None
}
