//! What can be set from outside.

use std::env::{VarError, var};
use std::fmt;
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
    /// As the environment says.
    ///
    /// # Errors
    /// A variable that can't be understood.
    pub fn from_environment() -> Result<Config, Error> {
        let mut config = Config {
            interface: text("YAMABIKO_TCP_INTERFACE")?,
            ..Config::default()
        };
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

fn ports(range: &str) -> Result<(u16, u16), Error> {
    let wrong = || {
        Error(format!(
            "YAMABIKO_PORT_RANGE is `{range}`; it should be the first and the last port, as in `50000:50100`"
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
    fn port_ranges() {
        assert_eq!(ports("50000:50100"), Ok((50000, 50100)));
        assert_eq!(ports("7-7"), Ok((7, 7)));
        for wrong in ["", "1", "0:5", "9:5", "1:70000", "a:b"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
