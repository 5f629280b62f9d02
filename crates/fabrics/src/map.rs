//! Where the processes of a job are, and who shares memory.

use std::collections::{HashMap, HashSet};

use crate::card::Card;

/// The job by machines and by segments of shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobMap {
    /// The processes of each machine, in the order of their first ones.
    pub machines: Vec<Vec<u32>>,
    /// The processes of each segment, in the same order; one that may not share memory is alone.
    pub segments: Vec<Vec<u32>>,
}

impl JobMap {
    /// All `size` processes on one machine and one segment.
    pub fn together(size: u32) -> JobMap {
        let all: Vec<u32> = (0..size).collect();
        JobMap {
            machines: vec![all.clone()],
            segments: vec![all],
        }
    }

    /// As the processes' cards say. One that does not know its machine is alone.
    pub fn of(cards: &[Card]) -> JobMap {
        JobMap {
            machines: groups(cards, |card| card.machine),
            segments: groups(cards, |card| card.machine.filter(|_| card.shares)),
        }
    }

    /// The processes that share memory with `rank`, itself included.
    pub fn segment(&self, rank: u32) -> Vec<u32> {
        let segment = self.segments.iter().find(|s| s.contains(&rank));
        segment.cloned().unwrap_or_else(|| vec![rank])
    }

    /// How many processes run on the machine of `rank`, itself included.
    pub fn neighbours(&self, rank: u32) -> usize {
        let machine = self.machines.iter().find(|m| m.contains(&rank));
        machine.map_or(1, Vec::len)
    }

    /// Whether all these processes are of one segment.
    pub fn are_together(&self, processes: &[u32]) -> bool {
        let wanted: HashSet<_> = processes.iter().collect();
        let mut segments = self.segments.iter();
        segments.any(|all| all.iter().filter(|rank| wanted.contains(rank)).count() == wanted.len())
    }

    /// Whether no two of these processes run on one machine.
    pub fn are_apart(&self, processes: &[u32]) -> bool {
        let wanted: HashSet<_> = processes.iter().collect();
        let mut machines = self.machines.iter();
        machines.all(|all| all.iter().filter(|rank| wanted.contains(rank)).count() <= 1)
    }

    /// Whether a ring of these processes, in this order, enters each machine once, and the machines are several.
    pub fn follow_on(&self, processes: &[u32]) -> bool {
        let of_machine = |(at, all): (usize, &Vec<u32>)| {
            all.iter().map(move |rank| (*rank, at)).collect::<Vec<_>>()
        };
        let of_rank: HashMap<u32, usize> = self
            .machines
            .iter()
            .enumerate()
            .flat_map(of_machine)
            .collect();
        let machines: Vec<_> = processes.iter().map(|rank| of_rank.get(rank)).collect();
        let distinct = machines.iter().collect::<HashSet<_>>().len();
        let next = machines.iter().cycle().skip(1);
        let entered = machines.iter().zip(next).filter(|(from, to)| from != to);
        distinct > 1 && entered.count() == distinct
    }

    /// What is used between which ranks, and why.
    pub fn describe(&self) -> Vec<String> {
        let mut lines: Vec<String> = (self.segments.iter())
            .filter(|s| s.len() > 1)
            .map(|s| format!("ranks {}: shm, as they share a machine's memory", ranges(s)))
            .collect();
        if self.segments.len() > 1 {
            let why = if self.machines.len() == self.segments.len() {
                "as they are on different machines"
            } else if self.machines.len() == 1 {
                "as shared memory is not among the fabrics allowed"
            } else {
                "as they are on different machines, or shared memory is not among the fabrics allowed"
            };
            let parts: Vec<String> = self.segments.iter().map(|s| ranges(s)).collect();
            lines.push(format!("between ranks {}: tcp, {why}", parts.join(" | ")));
        }
        if lines.is_empty() {
            lines.push("one rank: self".to_string());
        }
        lines
    }
}

fn groups(cards: &[Card], key: impl Fn(&Card) -> Option<u64>) -> Vec<Vec<u32>> {
    let mut groups: Vec<(Option<u64>, Vec<u32>)> = Vec::new();
    for (rank, card) in (0u32..).zip(cards) {
        let key = key(card);
        let known = groups
            .iter_mut()
            .find(|(other, _)| key.is_some() && *other == key);
        match known {
            Some((_, members)) => members.push(rank),
            None => groups.push((key, vec![rank])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

/// Numbers in ascending order as `0-3,7`.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(cards: &[(Option<u64>, bool)]) -> JobMap {
        let card = |&(machine, shares)| Card {
            machine,
            shares,
            address: None,
        };
        JobMap::of(&cards.iter().map(card).collect::<Vec<_>>())
    }

    #[test]
    fn machines_and_segments() {
        let m = map(&[
            (Some(1), true),
            (Some(2), true),
            (None, true),
            (Some(1), true),
            (Some(1), false),
        ]);
        assert_eq!(m.machines, [vec![0, 3, 4], vec![1], vec![2]]);
        assert_eq!(m.segments, [vec![0, 3], vec![1], vec![2], vec![4]]);
        assert_eq!(m.segment(3), [0, 3]);
        assert_eq!([2, 3, 4].map(|rank| m.neighbours(rank)), [1, 3, 3]);
        assert!(m.are_apart(&[4, 2, 1]) && !m.are_apart(&[1, 4, 0]));
        assert!(!JobMap::together(3).are_apart(&[0, 2]));
        assert!(m.are_together(&[3, 0]) && m.are_together(&[2]));
        assert!(!m.are_together(&[0, 4]) && !m.are_together(&[0, 3, 1]));
    }

    #[test]
    fn which_orders_enter_each_machine_once() {
        let one = |machine| (Some(machine), true);
        let m = map(&[one(1), one(1), one(2), one(2), one(3), (None, true)]);
        for processes in [
            &[0, 1, 2, 3, 4][..],
            &[1, 2, 3, 4, 0],
            &[3, 2, 5, 0, 1],
            &[0, 2, 4],
            &[0, 1, 2],
        ] {
            assert!(m.follow_on(processes), "{processes:?}");
        }
        for processes in [&[0, 2, 1, 3, 4][..], &[2, 4, 3, 0], &[0, 1], &[4], &[]] {
            assert!(!m.follow_on(processes), "{processes:?}");
        }
    }

    #[test]
    fn a_person_can_read_it() {
        let one = |machine| (Some(machine), true);
        let m = map(&[one(1), one(1), one(2), one(2), one(2)]);
        assert_eq!(
            m.describe(),
            [
                "ranks 0-1: shm, as they share a machine's memory",
                "ranks 2-4: shm, as they share a machine's memory",
                "between ranks 0-1 | 2-4: tcp, as they are on different machines",
            ]
        );
        assert_eq!(JobMap::together(1).describe(), ["one rank: self"]);
        let m = map(&[(Some(1), false), (Some(1), false)]);
        assert!(m.describe()[0].ends_with("as shared memory is not among the fabrics allowed"));
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
