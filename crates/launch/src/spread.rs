//! Which rank runs on which host. Pure.
//!
//! Hosts are filled one after the other, each up to its slots, and then once more, as often as it
//! takes. A program of which no number of ranks is said gets one rank for each slot, as with other
//! launchers. Hosts are numbered in the order of their first ranks; those that get none do not take part.

use crate::options::{Host as Mention, Options, RANKS_MAX};
use std::collections::HashMap;

/// A host that has ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name, as the user wrote it.
    pub name: String,
    /// Whether it is this machine.
    pub is_here: bool,
}

/// The layout of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The host of each rank.
    pub host_of: Vec<usize>,
    /// The program of each rank.
    pub program_of: Vec<u32>,
}

/// A host that may get ranks.
struct Candidate {
    host: Host,
    taken: u32,
    /// Its number, once it has a rank.
    number: Option<usize>,
}

/// What one list of hosts says about a candidate.
struct Share {
    candidate: usize,
    slots: u32,
    limit: u32,
}

#[derive(Default)]
struct Candidates {
    all: Vec<Candidate>,
    by_name: HashMap<String, usize>,
}

/// Lays the ranks of all programs out. `is_here` tells whether a host's name means this machine.
pub fn spread(options: &Options, is_here: &dyn Fn(&str) -> bool) -> Result<Spread, String> {
    let mut candidates = Candidates::default();
    let common = candidates.shares(&options.hosts, options.per_host, is_here);
    let mut spread = Spread {
        hosts: Vec::new(),
        host_of: Vec::new(),
        program_of: Vec::new(),
    };
    for (number, program) in (0..).zip(&options.programs) {
        let own = match program.hosts.is_empty() {
            true => None,
            false => Some(candidates.shares(&program.hosts, options.per_host, is_here)),
        };
        let shares = own.as_ref().unwrap_or(&common);
        let count = program.count.map_or_else(|| slots(shares), u64::from);
        let total = count.saturating_add(spread.host_of.len() as u64);
        if total > u64::from(RANKS_MAX) {
            return Err(format!(
                "{total} ranks asked for; this launcher starts at most {RANKS_MAX}"
            ));
        }
        for _ in 0..count {
            let all = &candidates.all;
            let free = shares.iter().filter(|s| all[s.candidate].taken < s.limit);
            // The first of those that were filled least often.
            let next = free.min_by_key(|s| all[s.candidate].taken / s.slots);
            let Some(next) = next else {
                return Err("there are more ranks than the hosts' max_slots allow".into());
            };
            let candidate = &mut candidates.all[next.candidate];
            candidate.taken += 1;
            let host = *candidate.number.get_or_insert_with(|| {
                spread.hosts.push(candidate.host.clone());
                spread.hosts.len() - 1
            });
            spread.host_of.push(host);
            spread.program_of.push(number);
        }
    }
    Ok(spread)
}

/// The slots of these hosts together; 1 where none is named.
fn slots(shares: &[Share]) -> u64 {
    let each = shares.iter().map(|s| u64::from(s.slots.min(s.limit)));
    each.sum()
}

impl Candidates {
    /// Joins the mentions of each host; all names of this machine are one.
    fn shares(
        &mut self,
        mentions: &[Mention],
        per_host: Option<u32>,
        is_here: &dyn Fn(&str) -> bool,
    ) -> Vec<Share> {
        let mut shares: Vec<Share> = Vec::new();
        for mention in mentions {
            let candidate = self.candidate(&mention.name, is_here(&mention.name));
            let slots = per_host.or(mention.slots).or(mention.limit).unwrap_or(1);
            let limit = mention.limit.unwrap_or(u32::MAX);
            match shares.iter_mut().find(|s| s.candidate == candidate) {
                Some(share) if per_host.is_none() => {
                    share.slots = share.slots.saturating_add(slots);
                    share.limit = share.limit.saturating_add(limit);
                }
                Some(_) => {}
                None => shares.push(Share {
                    candidate,
                    slots,
                    limit,
                }),
            }
        }
        if shares.is_empty() {
            // All ranks run here, and nobody has said how many should.
            shares.push(Share {
                candidate: self.candidate("localhost", true),
                slots: 1,
                limit: u32::MAX,
            });
        }
        shares
    }

    fn candidate(&mut self, name: &str, is_here: bool) -> usize {
        let key = if is_here { "" } else { name };
        if let Some(known) = self.by_name.get(key) {
            return *known;
        }
        self.by_name.insert(key.to_string(), self.all.len());
        self.all.push(Candidate {
            host: Host {
                name: name.to_string(),
                is_here,
            },
            taken: 0,
            number: None,
        });
        self.all.len() - 1
    }
}

/// Whether a host's name means this machine.
pub fn is_this_machine(host: &str) -> bool {
    let system = rustix::system::uname();
    let own = system.nodename().to_string_lossy();
    let short = own.split('.').next().unwrap_or("");
    matches!(host, "localhost" | "127.0.0.1" | "::1") || host == own || host == short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{self, Request};

    fn laid(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(Into::into).collect();
        let file = |_: &std::ffi::OsStr| Ok("n1 slots=2 max_slots=3\nn2 max_slots=1\n".to_string());
        let Request::Run(options) = options::parse(words, &file)? else {
            return Err("no job".into());
        };
        let spread = spread(&options, &|h| h == "localhost" || h == "me")?;
        let names = spread.host_of.iter().map(|h| spread.hosts[*h].name.clone());
        Ok(names.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn slots_are_filled_in_turn() {
        for (line, expected) in [
            ("-n 3 x", "localhost localhost localhost"),
            ("-hosts a,b -n 3 x", "a b a"),
            ("-hosts a:2,b:2 -n 4 x", "a a b b"),
            ("-hosts a:2,b -n 7 x", "a a b a a b a"),
            ("-hosts a,b,a -n 4 x", "a a b a"),
            ("-hosts a:5,b:5 -ppn 1 -n 3 x", "a b a"),
            ("-hosts a,a,b -ppn 2 -n 4 x", "a a b b"),
            ("-ppn 2 -n 3 x", "localhost localhost localhost"),
            ("-hosts me,localhost,a -n 3 x", "me me a"),
            ("-hosts a:2,b:2 -n 1 x : -n 2 y", "a a b"),
            ("-host a -n 1 x : -host b -n 2 y", "a b b"),
            ("-hosts a:2,b:2 -n 2 x : -host a -n 1 y : -n 1 z", "a a a b"),
            ("-f file -n 4 x", "n1 n1 n2 n1"),
            ("-f file -n 5 x", "max_slots"),
            ("x", "localhost"),
            ("-ppn 3 x", "localhost"),
            ("-hosts a,b x", "a b"),
            ("-hosts a:2,b x", "a a b"),
            ("-hosts me:2 x", "me me"),
            ("-hosts a:3,b,a -ppn 2 x", "a a b b"),
            ("-hosts a:3,b:3 -rr x", "a b"),
            ("-f file x", "n1 n1 n2"),
            ("-f file -host a:2 x", "a a"),
            ("-hosts a,b x : -n 1 y", "a b a"),
            ("-hosts a,b x : -host c:2 y", "a b c c"),
        ] {
            let got = laid(line).unwrap_or_else(|e| e);
            assert!(
                got == expected || got.contains("allow") && got.contains(expected),
                "{line}: {got}"
            );
        }
    }

    #[test]
    fn too_many_ranks() {
        for line in [
            "-n 4000 x : -n 97 y",
            "-hosts a:4000,b:97 x",
            "-hosts a:1000000 -n 4000 x : y",
        ] {
            let error = laid(line).unwrap_err();
            assert!(
                error.contains("this launcher starts at most 4096"),
                "{line}: {error}"
            );
        }
        assert!(laid("-n 4000 x : -n 96 y").is_ok());
    }

    #[test]
    fn hosts_are_numbered_by_their_first_ranks() {
        let words = [
            "-hosts", "a,me,c", "-host", "c", "-n", "1", "x", ":", "-n", "2", "y",
        ];
        let words = words.iter().map(Into::into).collect();
        let Ok(Request::Run(options)) = options::parse(words, &|_| Err(String::new())) else {
            panic!("no job");
        };
        let spread = spread(&options, &|h| h == "me").unwrap();
        let names: Vec<_> = spread
            .hosts
            .iter()
            .map(|h| (h.name.as_str(), h.is_here))
            .collect();
        assert_eq!(names, [("c", false), ("a", false), ("me", true)]);
        assert_eq!(spread.host_of, [0, 1, 2]);
        assert_eq!(spread.program_of, [0, 1, 1]);
    }
}
