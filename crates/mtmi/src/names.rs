//! Entries with names that can be given to a peer and checked when they come back.
//!
//! Fabrics keep their messages under way here: the name travels to the peer, and what comes back
//! finds its entry, or nothing if the peer made it up or is late.

/// Entries named by index and generation; a name goes stale when its entry is removed.
#[derive(Debug)]
pub struct Names<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Names<T> {
    /// No entries.
    pub const fn new() -> Names<T> {
        Names {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Whether there are no entries.
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

impl<T> Default for Names<T> {
    fn default() -> Names<T> {
        Names::new()
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
        let mut names = Names::new();
        let a = names.insert('a');
        let b = names.insert('b');
        assert_eq!(names.remove(a), Some('a'));
        assert_eq!(names.remove(a), None);
        let c = names.insert('c');
        assert_ne!(a, c);
        assert!(names.get(a).is_none() && names.get(u64::MAX).is_none());
        assert_eq!(names.get(b), Some(&mut 'b'));
        let all: Vec<_> = names.iter().map(|(id, &v)| (id, v)).collect();
        assert_eq!(all, [(c, 'c'), (b, 'b')]);
        names.remove(b);
        names.remove(c);
        assert!(names.is_empty());
    }
}
