//! Between which hosts packets of the program are known to arrive, by the trials of lanes ([`far`](super::far)): so each pair of hosts is tried once by a
//! process, whatever communicators it makes.
//!
//! A lane's hosts are a tree, and its trial says of all its edges that they are good, or that one of them is not. What is known of other trees follows
//! from that: one of nothing but good edges is good, and one that has all that may be the cause of a trial's failure is not.
//!
//! Invariant: what a trial said all members of its communicator have heard alike. Members of another one need not know the same; they go by what each
//! host's first member tells all of them ([`agreed`]). Who calls it: `far`.

use std::collections::BTreeSet;

/// Two hosts that send to each other, in the order of their names.
pub(super) type Pair = [u64; 2];

/// Those of these names.
pub(super) fn pair(a: u64, b: u64) -> Pair {
    [a.min(b), a.max(b)]
}

/// What is known of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Seen {
    /// Nothing.
    Nothing = 0,
    /// Packets arrive between all hosts that send to each other.
    Good = 1,
    /// Between some they don't.
    Bad = 2,
}

/// What all members of a communicator go by, when the first ones of its hosts have told this.
pub(super) fn agreed(told: &[u8]) -> Seen {
    if told.contains(&(Seen::Bad as u8)) {
        return Seen::Bad;
    }
    match told.iter().all(|&seen| seen == Seen::Good as u8) {
        true => Seen::Good,
        false => Seen::Nothing,
    }
}

/// What this process knows.
#[derive(Debug, Default)]
pub(super) struct Ways {
    good: BTreeSet<Pair>,
    /// Of each trial that failed what may be the cause.
    bad: Vec<BTreeSet<Pair>>,
}

impl Ways {
    /// What is known of a tree with these edges.
    pub fn seen(&self, pairs: &[Pair]) -> Seen {
        if pairs.iter().all(|pair| self.good.contains(pair)) {
            return Seen::Good;
        }
        let has = |cause: &BTreeSet<Pair>| cause.iter().all(|pair| pairs.contains(pair));
        match self.bad.iter().any(has) {
            true => Seen::Bad,
            false => Seen::Nothing,
        }
    }

    /// Notes what a trial said of a tree with these edges.
    pub fn note(&mut self, pairs: &[Pair], passed: bool) {
        let pairs = pairs.iter().copied();
        if passed {
            self.good.extend(pairs);
            for cause in &mut self.bad {
                cause.retain(|pair| !self.good.contains(pair));
            }
            // The hosts have begun to hear each other.
            self.bad.retain(|cause| !cause.is_empty());
        } else {
            let cause: BTreeSet<_> = pairs.filter(|pair| !self.good.contains(pair)).collect();
            if !cause.is_empty() && !self.bad.contains(&cause) {
                self.bad.push(cause);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_tried_once() {
        let mut ways = Ways::default();
        let (ab, ac, bc) = (pair(1, 2), pair(3, 1), pair(2, 3));
        assert_eq!(ways.seen(&[ab]), Seen::Nothing);
        ways.note(&[ab, ac], false);
        assert_eq!(ways.seen(&[ac, ab]), Seen::Bad);
        assert_eq!(ways.seen(&[ac, ab, bc]), Seen::Bad, "what failed is in it");
        assert_eq!(
            ways.seen(&[ab]),
            Seen::Nothing,
            "the other may be the cause"
        );
        ways.note(&[ab], true);
        assert_eq!(ways.seen(&[ab]), Seen::Good);
        assert_eq!(ways.seen(&[ac]), Seen::Bad, "so this one is it");
        assert_eq!(ways.seen(&[bc, ab]), Seen::Nothing);
        ways.note(&[ab, bc], false);
        assert_eq!(ways.seen(&[bc]), Seen::Bad);
        ways.note(&[ac, bc], true);
        assert_eq!(ways.seen(&[ab, ac, bc]), Seen::Good);
    }

    #[test]
    fn members_go_by_what_all_hosts_know() {
        let [nothing, good, bad] = [Seen::Nothing, Seen::Good, Seen::Bad].map(|seen| seen as u8);
        assert_eq!(agreed(&[good, good]), Seen::Good);
        assert_eq!(agreed(&[good, nothing]), Seen::Nothing);
        assert_eq!(agreed(&[nothing, bad, good]), Seen::Bad);
        assert_eq!(agreed(&[good, 7]), Seen::Nothing);
    }
}
