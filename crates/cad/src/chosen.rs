//! Who runs a collective where that is chosen for each (`YAMABIKO_CAD=auto`): the rank in calls, chains of the kernel (the ring), or the kernel's network receive path.
//!
//! The rule, of which each part has its figure beside its constant:
//!
//! * Inside one machine collectives run in calls: the copying needs the ranks' own processors whoever does it, and shared memory is
//!   cheaper than what a kernel's chain can use. But where ranks outnumber processors, and are too many to send all [straight](crate::straight), small ones go to the receive path,
//!   if all ranks can use it: a rank that waits for a processor holds nobody up there.
//! * On several machines long ones that only move data, non-blocking or persistent, go to the ring, unless ranks outnumber processors anywhere:
//!   there the kernel's work for a rank that has no processor waits with it. Those with a calculation run in calls, as the ring would have
//!   to interrupt the program with a signal for it.
//!
//! Invariant: only what all ranks know alike goes in: what each published of itself at the start ([`Seat`]), and of a collective its kind and
//! the bytes of a block. So all come to the same answer. Called by the engine, when it starts and for each such collective.

use std::collections::{BTreeMap, BTreeSet};

use crate::straight;

/// Bytes of a block (of a broadcast: all) from which a collective goes to the ring whose blocks go straight to where they are wanted. Below, the
/// kernel holds the whole message while its receiver computes, and a receiver in a call takes it in less processor time than a chain. Measured with two
/// ranks, of two hosts of the lab, that have a processor each: what a broadcast adds to a computation of 19 ms at 1 Gbit/s is 4.1 ms in the ring and 6.6 to 7.4 in calls for 1 MiB, but for 256 KiB
/// (4.8 ms) 0.9 to 1.0 and 0.6. At full speed one of 256 KiB takes 138 us in the ring and 33 in calls while both test, of 1 MiB 262 and 325.
pub const STRAIGHT_MIN: u64 = 1 << 20;
/// The same where ranks pass blocks on: one that only computes passes on nothing in calls, and in the ring at once. Measured with four ranks on two hosts, joined at
/// 1 Gbit/s, that do nothing for more than twice the time that it takes: what a broadcast adds to that is 225 us in the ring and 380 to 400 in calls for 64 KiB, 0.5 ms and 2.1 for 256 KiB,
/// 0.6 and 15.4 for 1 MiB; an allgather 0.28 and 0.21 to 0.42, 3.8 and 9.5, 17 and 51 ms. With 16 KiB that is equal, and who waits at once waits a fifth longer in the ring; from
/// 64 KiB on a twentieth.
pub const RELAYED_MIN: u64 = 64 << 10;
/// Ranks that a job with a ring may have: each reads what all have published.
pub const RING_RANKS_MAX: u32 = 128;
/// Communicators made first by each rank 0 that may use the executors in the kernel; the numbers of the predefined ones are among them. Each takes
/// descriptors, or a place at the daemon, until it is freed.
pub const COMMS_MAX: u32 = 8;
/// Persistent collectives that may, of each of these (in the receive path one fewer).
pub const KEPT_MAX: u32 = 8;
/// Descriptors that a channel may take for each peer.
const DESCRIPTORS: u64 = 3;

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Numbers of the processors that it may use, as ranges, both ends included.
    processors: Vec<(u32, u32)>,
    /// How many of these its machine's ranks may keep busy together, if that is limited.
    quota: Option<u32>,
    /// Descriptors that it may have.
    files: u64,
}

/// Most ranges of processors that are said, for the text's length.
const RANGES: usize = 16;

impl Seat {
    /// A rank with these processors, ascending, of which so many are `allowed`, and so many descriptors; `None` if that takes too many words.
    pub fn new(processors: &[usize], allowed: usize, files: u64) -> Option<Seat> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &processor in processors {
            let number = u32::try_from(processor).ok()?;
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let limited = allowed < processors.len();
        (1..=RANGES).contains(&ranges.len()).then(|| Seat {
            processors: ranges,
            quota: limited.then(|| u32::try_from(allowed).unwrap_or(u32::MAX)),
            files,
        })
    }

    /// For the others: without blanks and without `/`, at most 400 characters.
    pub fn text(&self) -> String {
        let ranges: Vec<_> = self
            .processors
            .iter()
            .map(|(first, last)| format!("{first}-{last}"))
            .collect();
        let quota = self.quota.unwrap_or(0);
        format!("{}:{quota}:{}", ranges.join(","), self.files)
    }

    /// What another rank's text says, if it is one.
    pub fn read(text: &str) -> Option<Seat> {
        let parts: Vec<&str> = text.split(':').collect();
        let [ranges, quota, files] = parts[..] else {
            return None;
        };
        let range = |text: &str| {
            let (first, last) = text.split_once('-')?;
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last <= PROCESSOR_MAX).then_some((first, last))
        };
        let quota: u32 = quota.parse().ok()?;
        Some(Seat {
            processors: ranges
                .split(',')
                .take(RANGES)
                .map(range)
                .collect::<Option<_>>()?,
            quota: (quota > 0).then_some(quota),
            files: files.parse().ok()?,
        })
    }

    /// Whether a machine with so many ranks surely has a processor for each, as far as this one knows.
    pub fn suffices(&self, ranks: u32) -> bool {
        self.quota.is_none() && self.numbers().take(ranks as usize).count() == ranks as usize
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.processors
            .iter()
            .flat_map(|&(first, last)| first..=last)
    }
}

/// The largest number of a processor that is believed.
const PROCESSOR_MAX: u32 = 1 << 13;

/// Whether ranks outnumber processors on some machine. The numbers beside the seats are equal where ranks are on one machine.
pub fn is_crowded(seats: &[(u64, Seat)]) -> bool {
    let mut machines: BTreeMap<u64, (usize, BTreeSet<u32>, u32)> = BTreeMap::new();
    for (place, seat) in seats {
        let machine = machines
            .entry(*place)
            .or_insert((0, BTreeSet::new(), u32::MAX));
        machine.0 += 1;
        machine.1.extend(seat.numbers());
        machine.2 = machine.2.min(seat.quota.unwrap_or(u32::MAX));
    }
    let crowded =
        |(ranks, all, quota): &(usize, BTreeSet<u32>, u32)| *ranks > all.len().min(*quota as usize);
    machines.values().any(crowded)
}

/// Whether a job with these seats uses the ring.
///
/// # Errors
/// Why not, in words for a person.
pub fn ring_serves(seats: &[(u64, Seat)]) -> Result<(), String> {
    let ranks = seats.len() as u64;
    let apart = seats.iter().any(|(place, _)| *place != seats[0].0);
    let channels = u64::from(COMMS_MAX) * (1 + u64::from(KEPT_MAX));
    // The other half is the program's.
    let files = 2 * DESCRIPTORS * channels * ranks.saturating_sub(1);
    if !apart {
        return Err("all ranks are on one machine".to_owned());
    }
    if ranks > u64::from(RING_RANKS_MAX) {
        return Err(format!("the job has more than {RING_RANKS_MAX} ranks"));
    }
    if let Some(rank) = seats.iter().position(|(_, seat)| seat.files < files) {
        return Err(format!(
            "rank {rank} may have fewer than {files} descriptors (ulimit -n)"
        ));
    }
    match is_crowded(seats) {
        true => Err("ranks outnumber the processors of a machine".to_owned()),
        false => Ok(()),
    }
}

/// Whether a job inside one machine uses the receive path. Measured with four ranks on two processors that all compute: the first test after a rank was away from its
/// processor finds all allreduces of 8 bytes done there, half of them in calls that go on in rounds, and all in such that send straight; a round of starting one, computing for 1 ms and waiting takes as
/// long all ways; one that is waited for at once takes 16 to 50 us there, 4 to 8 in calls.
pub fn has_receive_path(seats: &[Seat]) -> bool {
    let here: Vec<_> = seats.iter().map(|seat| (0, seat.clone())).collect();
    seats.len() > straight::RANKS_MAX as usize && is_crowded(&here)
}

/// What a collective moves that only moves blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moves {
    /// Bytes of a block, or of a broadcast.
    pub block: u64,
    /// Whether ranks pass on what they receive.
    pub relayed: bool,
}

/// Whether a collective goes to the ring, of a job that uses it: one that only moves this, or another.
#[inline]
pub fn is_for_ring(moves: Option<Moves>) -> bool {
    moves.is_some_and(|moves| match moves.relayed {
        true => moves.block >= RELAYED_MIN,
        false => moves.block >= STRAIGHT_MIN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(processors: &[usize]) -> Seat {
        Seat::new(processors, processors.len(), 1 << 20).unwrap()
    }

    fn seats(places: &[u64], processors: &[usize]) -> Vec<(u64, Seat)> {
        places.iter().map(|&p| (p, seat(processors))).collect()
    }

    #[test]
    fn seats_are_read_as_they_are_said() {
        let all = [0, 1, 2, 5, 9, 10];
        for one in [seat(&all), Seat::new(&all, 3, 4096).unwrap(), seat(&[8000])] {
            let text = one.text();
            assert!(
                text.len() < 400 && !text.contains([' ', '/', ';']),
                "{text}"
            );
            assert_eq!(Seat::read(&text), Some(one));
        }
        assert_eq!(
            Seat::new(&all, 3, 4096).unwrap().text(),
            "0-2,5-5,9-10:3:4096"
        );
        for text in [
            "",
            "0-1",
            "1-0:0:5",
            "0-1:0:x",
            "0:0:5",
            "0-99999999:0:5",
            "0-1:0:5:6",
        ] {
            assert_eq!(Seat::read(text), None, "{text}");
        }
        let odd: Vec<usize> = (0..100).map(|i| 2 * i).collect();
        assert!(Seat::new(&odd, 100, 5).is_none() && Seat::new(&[], 1, 5).is_none());
    }

    #[test]
    fn ranks_outnumber_processors_where_they_do_on_one_machine() {
        assert!(!is_crowded(&seats(&[1, 1, 2, 2], &[0, 1])));
        assert!(is_crowded(&seats(&[1, 1, 2, 1], &[0, 1])));
        let bound = |numbers: [usize; 3]| numbers.map(|n| (7, seat(&[n])));
        assert!(!is_crowded(&bound([4, 0, 2])) && is_crowded(&bound([4, 0, 4])));
        let limited = Seat::new(&[0, 1, 2, 3], 1, 9).unwrap();
        assert!(is_crowded(&[(1, limited.clone()), (1, seat(&[5]))]));
        assert!(!is_crowded(&[(1, limited.clone()), (2, seat(&[5]))]));
        assert!(seat(&[1, 2]).suffices(2) && !seat(&[1, 2]).suffices(3) && !limited.suffices(2));
    }

    #[test]
    fn the_ring_is_for_several_machines_with_a_processor_for_each_rank() {
        let serves = |places: &[u64], processors: &[usize]| ring_serves(&seats(places, processors));
        let why = |of: Result<(), String>, word: &str| of.unwrap_err().contains(word);
        assert_eq!(serves(&[1, 2], &[0]), Ok(()));
        assert_eq!(serves(&[1, 1, 2], &[0, 1]), Ok(()));
        assert!(why(serves(&[1, 1], &[0, 1]), "one machine"));
        assert!(why(serves(&[1, 1, 2], &[0]), "outnumber"));
        let many: Vec<u64> = (0..u64::from(RING_RANKS_MAX) + 1).collect();
        assert_eq!(serves(&many[1..], &[0]), Ok(()));
        assert!(why(serves(&many, &[0]), "128 ranks"));
        let few = Seat::new(&[0], 1, 300).unwrap();
        assert!(why(ring_serves(&[(1, seat(&[0])), (2, few)]), "rank 1"));
    }

    #[test]
    fn the_receive_path_is_for_many_on_a_crowded_machine() {
        let ranks = |n, processors: &[usize]| has_receive_path(&vec![seat(processors); n]);
        let most = straight::RANKS_MAX as usize;
        assert!(ranks(most + 1, &[0, 1]) && !ranks(most, &[0, 1]));
        let enough: Vec<usize> = (0..=most).collect();
        assert!(!ranks(most + 1, &enough));
    }

    #[test]
    fn long_collectives_that_move_data_go_to_the_ring() {
        assert!(!is_for_ring(None));
        for (relayed, least) in [(false, STRAIGHT_MIN), (true, RELAYED_MIN)] {
            let goes = |block| is_for_ring(Some(Moves { block, relayed }));
            assert!(!goes(0) && !goes(least - 1) && goes(least));
        }
    }
}
