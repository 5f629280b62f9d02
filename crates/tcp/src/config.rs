//! What can be set from outside.

use std::env::{VarError, var};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// How sockets are watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReactorKind {
    /// By io_uring: looking for events is a look at memory.
    IoUring,
    /// By epoll.
    Epoll,
}

/// How a process takes part in the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Interfaces, addresses or networks to use alone, separated by commas (`YAMABIKO_TCP_INTERFACE`).
    pub interface: Option<String>,
    /// Ports to listen on, first and last (`YAMABIKO_PORT_RANGE=lo:hi`); otherwise the kernel chooses.
    pub ports: Option<(u16, u16)>,
    /// How to watch sockets (`YAMABIKO_TCP_REACTOR=epoll|io_uring`); epoll otherwise.
    pub reactor: Option<ReactorKind>,
    /// The library's version; connections are made between equals only.
    pub version: String,
    /// How long a peer may be out of reach before it counts as failed.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            interface: None,
            ports: None,
            reactor: None,
            version: env!("CARGO_PKG_VERSION").into(),
            patience: crate::dial::PATIENCE,
        }
    }
}

impl Config {
    /// As the environment says. What is on this machine is not looked at: whether an interface exists
    /// shows when the fabric is started.
    ///
    /// # Errors
    /// A variable that can't be understood.
    pub fn from_environment() -> Result<Config, Error> {
        let mut config = Config {
            interface: text("YAMABIKO_TCP_INTERFACE")?,
            ..Config::default()
        };
        if let Some(wanted) = &config.interface {
            check_interfaces(wanted)?;
        }
        if let Some(range) = text("YAMABIKO_PORT_RANGE")? {
            config.ports = Some(ports(&range)?);
        }
        config.reactor = match text("YAMABIKO_TCP_REACTOR")?.as_deref() {
            None => None,
            Some("epoll") => Some(ReactorKind::Epoll),
            Some("io_uring") => Some(ReactorKind::IoUring),
            Some(other) => {
                return Err(Error(format!(
                    "YAMABIKO_TCP_REACTOR is `{other}`; it can be `epoll` or `io_uring`"
                )));
            }
        };
        Ok(config)
    }
}

/// A variable that is set and not empty.
fn text(name: &str) -> Result<Option<String>, Error> {
    match var(name) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Error(format!("{name} is not text"))),
    }
}

/// Longest name of an interface (`IFNAMSIZ`, with its NUL).
const INTERFACE_NAME: usize = 16;

/// Whether each word can be an interface, an address or a network.
fn check_interfaces(wanted: &str) -> Result<(), Error> {
    let words = || wanted.split(',').map(str::trim).filter(|w| !w.is_empty());
    let wrong = |why: String| {
        Error(format!(
            "YAMABIKO_TCP_INTERFACE is `{wanted}`, {why}; it can have names of interfaces, addresses and \
             networks, separated by commas, as in `eth0,10.1.0.0/16`"
        ))
    };
    if words().next().is_none() {
        return Err(wrong("which names nothing".into()));
    }
    match words().find(|word| !can_be_interface(word)) {
        Some(word) => Err(wrong(format!("and `{word}` is neither"))),
        None => Ok(()),
    }
}

fn can_be_interface(word: &str) -> bool {
    if let Some((ip, prefix)) = word.split_once('/') {
        let longest = match ip.parse() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        return prefix.parse::<u32>().is_ok_and(|bits| bits <= longest);
    }
    // Digits and dots alone are meant to be an address.
    let is_name = word.len() < INTERFACE_NAME
        && word.chars().any(|c| !c.is_ascii_digit() && c != '.')
        && !word.chars().any(|c| c.is_whitespace() || c.is_control());
    is_name || word.parse::<IpAddr>().is_ok()
}

fn ports(range: &str) -> Result<(u16, u16), Error> {
    let wrong = || {
        Error(format!(
            "YAMABIKO_PORT_RANGE is `{range}`; it should be the first and the last port, from 1 to 65535, as in `50000:50100`"
        ))
    };
    let (first, last) = range.split_once([':', '-']).ok_or_else(wrong)?;
    let port = |word: &str| word.trim().parse::<u16>().map_err(|_| wrong());
    let (first, last) = (port(first)?, port(last)?);
    if first == 0 || first > last {
        return Err(wrong());
    }
    Ok((first, last))
}

/// Why a process can't take part, as a sentence for a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces() {
        for good in [
            "eth0",
            "lo, eth0.100",
            "10.1.2.3",
            "10.0.0.0/8,",
            "::1/128",
            "fe80::1",
            "eth0:1",
        ] {
            assert_eq!(check_interfaces(good), Ok(()), "{good}");
        }
        for (wrong, why) in [
            (",", "which names nothing"),
            ("10.0.0.0/33", "and `10.0.0.0/33` is neither"),
            ("::1/129", "is neither"),
            ("eth0,10.1.2", "and `10.1.2` is neither"),
            ("10.1.2.300", "is neither"),
            ("eth0/16", "is neither"),
            ("10.0.0.0/x", "is neither"),
            ("eth0 eth1", "is neither"),
            ("a-name-that-is-too-long", "is neither"),
        ] {
            let told = check_interfaces(wrong).unwrap_err().0;
            assert!(told.contains(wrong) && told.contains(why), "{told}");
        }
    }

    #[test]
    fn port_ranges() {
        assert_eq!(ports("50000:50100"), Ok((50000, 50100)));
        assert_eq!(ports("7-7"), Ok((7, 7)));
        for wrong in ["", "1", "0:5", "9:5", "1:70000", "a:b"] {
            let told = ports(wrong).unwrap_err().0;
            assert!(told.contains(wrong) && told.contains("from 1 to 65535"));
        }
    }
}
