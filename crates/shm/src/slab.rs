//! Entries with names that can be given to a peer and checked when they come back.

/// Entries named by index and generation; a name goes stale when its entry is removed.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub const fn new() -> Slab<T> {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// Adds an entry and names it.
    pub fn insert(&mut self, value: T) -> u64 {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.entries.push(Entry {
                    generation: 0,
                    value: None,
                });
                (self.entries.len() - 1) as u32
            }
        };
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        name(index, entry.generation)
    }

    fn entry(&mut self, id: u64) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(id as u32 as usize)?;
        (entry.generation == (id >> 32) as u32).then_some(entry)
    }

    /// The entry of a name, unless it is stale or none of ours.
    pub fn get(&mut self, id: u64) -> Option<&mut T> {
        self.entry(id)?.value.as_mut()
    }

    /// Removes the entry of a name.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        let entry = self.entry(id)?;
        let value = entry.value.take()?;
        // Half the numbers suffice to tell names apart, and leave `u64::MAX` for "none".
        entry.generation = (entry.generation + 1) & 0x7fff_ffff;
        self.free.push(id as u32);
        Some(value)
    }

    /// Names and entries.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (0u32..).zip(&self.entries).filter_map(|(index, e)| {
            let value = e.value.as_ref()?;
            Some((name(index, e.generation), value))
        })
    }
}

fn name(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_stale() {
        let mut slab = Slab::new();
        let a = slab.insert('a');
        let b = slab.insert('b');
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        let c = slab.insert('c');
        assert_ne!(a, c);
        assert!(slab.get(a).is_none() && slab.get(u64::MAX).is_none());
        assert_eq!(slab.get(b), Some(&mut 'b'));
        let all: Vec<_> = slab.iter().map(|(id, &v)| (id, v)).collect();
        assert_eq!(all, [(c, 'c'), (b, 'b')]);
        slab.remove(b);
        slab.remove(c);
        assert!(slab.is_empty());
    }
}
