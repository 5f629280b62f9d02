//! Names of hosts, as they stand after `-hosts` and in host files of both dialects.

use std::ffi::OsString;
use std::net::Ipv6Addr;

/// One mention of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address, without brackets.
    pub name: String,
    /// Ranks it gets before the next host has its turn; 1 if nothing is said.
    pub slots: Option<u32>,
    /// Most ranks it takes.
    pub limit: Option<u32>,
}

/// How daemons are started on other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `ssh`, the default.
    Ssh,
    /// `rsh`.
    Rsh,
    /// Not at all: all ranks run on this machine.
    Fork,
    /// This command, for every host whatever its name.
    Command(Vec<OsString>),
}

impl Launcher {
    /// The command to which the host and the daemon's command are appended.
    pub fn words(&self) -> Vec<OsString> {
        match self {
            // Without forwarding of windows, which only takes time.
            Launcher::Ssh => vec!["ssh".into(), "-x".into()],
            Launcher::Rsh => vec!["rsh".into()],
            Launcher::Fork => Vec::new(),
            Launcher::Command(words) => words.clone(),
        }
    }
}

/// Longest name: what the domain name system allows, with a user's name before it.
const NAME_MAX: usize = 320;

/// The hosts that the option called `name` lists.
pub(super) fn listed(name: &str, text: &str) -> Result<Vec<Host>, String> {
    list(text).map_err(|e| format!("{name} {text}: {e}"))
}

/// `h1,h2:4,[fe80::1]:2`.
fn list(text: &str) -> Result<Vec<Host>, String> {
    let names = text.split(',').map(str::trim).filter(|h| !h.is_empty());
    let hosts = names.map(host).collect::<Result<Vec<_>, _>>()?;
    if hosts.is_empty() {
        return Err("the list of hosts is empty".into());
    }
    Ok(hosts)
}

/// What a line of a host file may say after the host.
const CLAUSES: &str = "after a host there may be slots=N, max_slots=N and user=NAME";

/// A host file: a host on each line, as `h:4` or as `h slots=4 max_slots=8`, with blanks around `=` or
/// without; `#` begins a comment. Hydra's `binding=` is skipped, as `-bind-to` is for all hosts; what
/// neither dialect knows is an error.
pub(super) fn file(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("");
        let pieces: Vec<&str> = line.split('=').map(str::trim).collect();
        let line = pieces.join("=");
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else {
            continue;
        };
        let at = |error: String| format!("line {number}: {error}");
        let mut found = host(first).map_err(at)?;
        for word in words {
            clause(&mut found, word).map_err(at)?;
        }
        hosts.push(found);
    }
    if hosts.is_empty() {
        return Err("it names no host".into());
    }
    Ok(hosts)
}

/// Notes what `word` says of a host: the key words of Open MPI and of Hydra.
fn clause(host: &mut Host, word: &str) -> Result<(), String> {
    match word.split_once('=').unwrap_or((word, "")) {
        ("slots" | "cpus" | "count", n) => host.slots = Some(slots(n)?),
        (
            "max_slots" | "max-slots" | "slots_max" | "slots-max" | "cpus_max" | "cpus-max"
            | "count_max" | "count-max",
            n,
        ) => host.limit = Some(slots(n)?),
        ("user" | "username" | "user_name" | "user-name", user) => {
            if host.name.contains('@') || !is_name(user) {
                return Err(format!("{} is no user of {}", said(user), host.name));
            }
            host.name = format!("{user}@{}", host.name);
        }
        ("binding", _) => {}
        ("ifname" | "ifhn", _) => {
            return Err(format!(
                "{word} is not supported: YAMABIKO_TCP_INTERFACE names the network to use"
            ));
        }
        _ => return Err(format!("{} is not understood: {CLAUSES}", said(word))),
    }
    Ok(())
}

/// One host with or without slots. An address of version 6 has colons of its own, so with slots it
/// needs brackets.
fn host(text: &str) -> Result<Host, String> {
    let (name, count) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, rest)) => match rest.strip_prefix(':') {
            Some(count) => (name, Some(count)),
            None => return Err(no_host(text)),
        },
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => (text, None),
            Some((name, count)) => (name, Some(count)),
            None => (text, None),
        },
    };
    if !is_name(name) {
        return Err(no_host(text));
    }
    Ok(Host {
        name: name.to_string(),
        slots: count.map(slots).transpose()?,
        limit: None,
    })
}

fn no_host(text: &str) -> String {
    format!("{} is no host", said(text))
}

/// What somebody wrote, for a message: all of it, unless it is long or nothing that a person writes.
fn said(text: &str) -> String {
    const MOST: usize = 80;
    let mut escaped = text.escape_debug().to_string();
    if let Some((cut, _)) = escaped.char_indices().nth(MOST) {
        escaped.truncate(cut);
        escaped.push_str("...");
    }
    escaped
}

/// Whether this can be a host's name, perhaps with a user's before it: the launcher command gets it as an argument, and perhaps a
/// shell sees it. Only addresses have colons.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._:@%-".contains(c);
    let written = text.len() <= NAME_MAX && !text.starts_with('-') && text.chars().all(fits);
    let (user, host) = text.split_once('@').unwrap_or(("anybody", text));
    let address = host.split('%').next().unwrap_or(host);
    let named = !host.contains([':', '@']) || address.parse::<Ipv6Addr>().is_ok();
    written && named && !user.is_empty() && !host.is_empty()
}

fn slots(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n @ 1..=1_000_000) => Ok(n),
        _ if text.is_empty() => Err("a number of slots is missing".into()),
        _ => Err(format!("{text} is no number of slots")),
    }
}

/// `ppr:2:node` is 2 ranks on each host in turn, `node` is 1; other ways of mapping place ranks within
/// a host, which the kernel does.
pub(super) fn per_host_of_mapping(name: &str, text: &str) -> Result<Option<u32>, String> {
    let mut words = text.split([':', ',']);
    match words.next() {
        Some("node") => Ok(Some(1)),
        Some("ppr") => match (words.next(), words.next()) {
            (Some(n), Some("node")) => slots(n).map(Some),
            _ => Err(format!("{name} {text}: expected ppr:N:node")),
        },
        _ => Ok(None),
    }
}

pub(super) fn per_host(name: &str, text: &str) -> Result<u32, String> {
    slots(text).map_err(|_| format!("{name} {text}: expected a number of ranks on each host"))
}

/// The launcher of this name.
pub(super) fn launcher(name: &str, text: &str) -> Result<Launcher, String> {
    match text {
        "ssh" => Ok(Launcher::Ssh),
        "rsh" => Ok(Launcher::Rsh),
        "fork" => Ok(Launcher::Fork),
        _ => Err(format!(
            "{name} {text}: expected ssh, rsh or fork; -launcher-exec takes any command"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(hosts: Result<Vec<Host>, String>) -> String {
        let number = |n: Option<u32>| n.map_or("-".into(), |n| n.to_string());
        match hosts {
            Ok(hosts) => hosts
                .iter()
                .map(|h| format!("{} {} {}", h.name, number(h.slots), number(h.limit)))
                .collect::<Vec<_>>()
                .join("; "),
            Err(e) => e,
        }
    }

    #[test]
    fn lists() {
        for (text, expected) in [
            ("a,b:4", "a - -; b 4 -"),
            ("me@a.b-c:2", "me@a.b-c 2 -"),
            ("[::1]:3,[fe80::2%eth0]", "::1 3 -; fe80::2%eth0 - -"),
            ("fd00::1,10.0.0.1:2", "fd00::1 - -; 10.0.0.1 2 -"),
            ("", "the list of hosts is empty"),
            ("a:", "a number of slots is missing"),
            ("a:0", "0 is no number of slots"),
            ("a:-1", "-1 is no number of slots"),
            ("-oProxyCommand=x", "-oProxyCommand=x is no host"),
            ("a;rm", "a;rm is no host"),
            ("[::1]x", "[::1]x is no host"),
            ("[]", "[] is no host"),
            ("a:2:", "a:2: is no host"),
            ("a:2:3", "a:2:3 is no host"),
            ("x::y", "x::y is no host"),
            ("a@b@c:2", "a@b@c:2 is no host"),
            ("@a", "@a is no host"),
            ("me@", "me@ is no host"),
            ("me@fd00::1", "me@fd00::1 - -"),
            ("a\0b", "a\\0b is no host"),
        ] {
            assert_eq!(shown(list(text)), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_said_shortly() {
        let why = shown(file(&"\0".repeat(3_000_000)));
        assert!(why.len() < 120 && why.ends_with("... is no host"), "{why}");
    }

    #[test]
    fn files_of_both_dialects() {
        let hydras = "# cluster\n\nn1:4\nn2:2 binding=user:0\n[::1]:2 # last\n";
        assert_eq!(shown(file(hydras)), "n1 4 -; n2 2 -; ::1 2 -");
        let open_mpis = "n1 slots=4 max_slots=8\n  n2 max-slots=2\nn3\n";
        assert_eq!(shown(file(open_mpis)), "n1 4 8; n2 - 2; n3 - -");
        assert_eq!(
            shown(file("a\nb slots=x\n")),
            "line 2: x is no number of slots"
        );
        assert_eq!(shown(file("# nobody\n")), "it names no host");
    }

    #[test]
    fn clauses_of_files() {
        for (line, expected) in [
            ("h slots = 2", "h 2 -"),
            ("h slots= 2 max_slots =4", "h 2 4"),
            ("h\tcpus=2 slots-max=3 # two", "h 2 3"),
            ("h:4 user=me", "me@h 4 -"),
            ("h binding = user:0 slots=2\r", "h 2 -"),
            ("h slots", "line 1: a number of slots is missing"),
            ("h slots = ", "line 1: a number of slots is missing"),
            ("h slots=2=3", "line 1: 2=3 is no number of slots"),
            ("h slots=2,4", "line 1: 2,4 is no number of slots"),
            (" = 2", "line 1: =2 is no host"),
            ("me@h user=you", "line 1: you is no user of me@h"),
            ("h user=-oX", "line 1: -oX is no user of h"),
        ] {
            assert_eq!(shown(file(line)), expected, "{line}");
        }
        for (line, part) in [
            (
                "h 4",
                "line 1: 4 is not understood: after a host there may be",
            ),
            ("h slot=4", "line 1: slot=4 is not understood"),
            ("h : 4", "line 1: : is not understood"),
            (
                "h:4 ifname=eth0",
                "YAMABIKO_TCP_INTERFACE names the network",
            ),
        ] {
            let error = file(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
