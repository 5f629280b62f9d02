//! Which kaccd each process of the job reaches: those that reach the same are on one host, and hosts whose kaccds have the same site key are of one site.
//!
//! Invariant: all ranks of a job have read the same cards, so what is said here of a group of processes all its members say alike. What a card says beside its host
//! is believed in nothing: kaccd refuses what isn't of its site.

use cad_softirq::client::Known;
use cad_softirq::layout::INPUTS_MAX;
use cad_softirq::site::{HOSTS_MAX, children};

use super::ways::{Pair, pair};
use crate::group::Group;

/// What begins the card of a rank that has reached its daemon.
const CAN: char = '+';
/// Why communicators of several hosts have no lane.
const NO_SITE: &str =
    "its ranks are on several hosts whose kaccds are not all of one site (kaccd --site-key)";
const TOO_MANY: &str = "its ranks, or their hosts, are too many";

/// What a rank publishes that has reached this daemon.
pub(super) fn card(known: Known) -> String {
    let site = known.site.map(|site| format!(".{site:016x}"));
    format!("{CAN}{:016x}{}", known.host, site.unwrap_or_default())
}

fn read(card: &str) -> Option<Known> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (host, site) = match card.strip_prefix(CAN)?.split_once('.') {
        Some((host, site)) => (number(host)?, Some(number(site)?)),
        None => (number(card.strip_prefix(CAN)?)?, None),
    };
    Some(Known { host, site })
}

/// Where the processes of a job are.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    of: Vec<Known>,
}

/// Where those of a group are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// On this host, all of them.
    Here,
    /// On several hosts of one site.
    Apart(Team),
    /// Where they can't have a context together.
    Nowhere(&'static str),
}

/// The hosts of a group, in the order of their first ranks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Team {
    /// For each its ranks in the group, the first of which speaks for it.
    pub hosts: Vec<Vec<u32>>,
    /// What their daemons call them.
    names: Vec<u64>,
    /// Which is this one.
    pub mine: usize,
    /// Which of its ranks this is.
    pub place: u32,
}

impl Team {
    /// Which hosts send to each other.
    pub fn pairs(&self) -> Vec<Pair> {
        let name = |host: usize| self.names[host];
        let below = |host| children(host, self.hosts.len()).map(move |child| (host, child));
        let all = (0..self.hosts.len()).flat_map(below);
        all.map(|(a, b)| pair(name(a), name(b))).collect()
    }
}

impl Hosts {
    /// As all ranks' cards have it; else which rank's doesn't.
    pub fn of(cards: &[String]) -> Result<Hosts, usize> {
        let known = |(rank, card): (usize, &String)| read(card).ok_or(rank);
        let of = cards.iter().enumerate().map(known);
        Ok(Hosts {
            of: of.collect::<Result<_, _>>()?,
        })
    }

    /// Whether a group's processes are on several hosts.
    pub fn are_apart(&self, group: &Group) -> bool {
        let host = |process: &u32| self.of.get(*process as usize).map(|known| known.host);
        let mut hosts = group.members().iter().map(host);
        let first = hosts.next();
        hosts.any(|host| Some(host) != first)
    }

    /// Where a group's processes are, of which this one has that rank.
    pub fn of_group(&self, group: &Group, rank: u32) -> Where {
        let mut known: Vec<Known> = Vec::new();
        let mut hosts: Vec<Vec<u32>> = Vec::new();
        for (member, &process) in (0..).zip(group.members()) {
            let Some(own) = self.of.get(process as usize) else {
                return Where::Nowhere(NO_SITE);
            };
            match known.iter().position(|k| k.host == own.host) {
                Some(at) => hosts[at].push(member),
                None => {
                    known.push(*own);
                    hosts.push(vec![member]);
                }
            }
        }
        if hosts.len() < 2 {
            return match group.size() <= INPUTS_MAX {
                true => Where::Here,
                false => Where::Nowhere(TOO_MANY),
            };
        }
        if known[0].site.is_none() || known.iter().any(|k| k.site != known[0].site) {
            return Where::Nowhere(NO_SITE);
        }
        let fits = |(host, ranks): (usize, &Vec<u32>)| {
            ranks.len() + children(host, hosts.len()).len() <= INPUTS_MAX as usize
        };
        if hosts.len() > HOSTS_MAX || !hosts.iter().enumerate().all(fits) {
            return Where::Nowhere(TOO_MANY);
        }
        let place = |ranks: &Vec<u32>| ranks.iter().position(|&r| r == rank);
        let found = (0..).zip(&hosts).find_map(|(h, r)| Some((h, place(r)?)));
        let Some((mine, place)) = found else {
            return Where::Nowhere(NO_SITE);
        };
        Where::Apart(Team {
            hosts,
            names: known.iter().map(|known| known.host).collect(),
            mine,
            place: place as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(host: u64, site: Option<u64>) -> Known {
        Known { host, site }
    }

    fn hosts(all: &[(u64, Option<u64>)]) -> Hosts {
        let cards: Vec<_> = all.iter().map(|&(h, s)| card(known(h, s))).collect();
        Hosts::of(&cards).unwrap()
    }

    #[test]
    fn cards_are_read_as_they_are_written() {
        for known in [
            known(0, None),
            known(u64::MAX, Some(1)),
            known(7, Some(u64::MAX)),
        ] {
            assert_eq!(read(&card(known)), Some(known));
        }
        for bad in [
            "",
            "-",
            "+",
            "+x",
            "+1.",
            "+1.y",
            "+1.2.3",
            "+12345678901234567",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let cards = [card(known(1, None)), "-".to_owned()];
        assert_eq!(Hosts::of(&cards).unwrap_err(), 1);
    }

    #[test]
    fn who_reaches_the_same_daemon_is_on_one_host() {
        let some = Some(5);
        let hosts = hosts(&[(8, some), (9, some), (8, some), (9, some), (8, None)]);
        let of = |members: &[u32], rank| hosts.of_group(&Group::new(members.to_vec()), rank);
        assert_eq!(of(&[0, 2], 0), Where::Here);
        assert_eq!(of(&[1, 3], 1), Where::Here);
        let team = |mine, place| Team {
            hosts: vec![vec![0, 2], vec![1, 3]],
            names: vec![9, 8],
            mine,
            place,
        };
        assert_eq!(of(&[3, 0, 1, 2], 0), Where::Apart(team(0, 0)));
        assert_eq!(of(&[3, 0, 1, 2], 3), Where::Apart(team(1, 1)));
        assert_eq!(team(0, 0).pairs(), [pair(8, 9)]);
        assert_eq!(of(&[1, 4], 0), Where::Nowhere(NO_SITE));
        assert_eq!(
            of(&[0, 7], 0),
            Where::Nowhere(NO_SITE),
            "no process of the job"
        );
    }

    #[test]
    fn hosts_of_another_site_or_too_many_have_no_context_together() {
        let all: Vec<_> = (0..HOSTS_MAX as u64 + 1).map(|h| (h, Some(1))).collect();
        let group = |n: usize| Group::new((0..n as u32).collect());
        let many = hosts(&all);
        assert_eq!(
            many.of_group(&group(all.len()), 0),
            Where::Nowhere(TOO_MANY)
        );
        let fits = many.of_group(&group(HOSTS_MAX), 100);
        assert!(
            matches!(fits, Where::Apart(team) if team.mine == 100 && team.pairs().len() == HOSTS_MAX - 1)
        );
        let other = hosts(&[(1, Some(1)), (2, Some(2))]);
        assert_eq!(other.of_group(&group(2), 0), Where::Nowhere(NO_SITE));
        let full = hosts(&vec![(1, None); INPUTS_MAX as usize + 1]);
        let told = full.of_group(&group(INPUTS_MAX as usize + 1), 0);
        assert_eq!(told, Where::Nowhere(TOO_MANY));
    }
}
