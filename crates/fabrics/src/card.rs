//! A process's card: where it is and how it can be reached, as it tells the others at start.
//!
//! In text: `machine/shares/address`, each `-` where there is none.

use sys::unix;

/// What a process tells about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// Processes with the same value run on one machine and can pass each other descriptors.
    pub machine: Option<u64>,
    /// Whether it may share memory.
    pub shares: bool,
    /// Its address on the network, if it listens.
    pub address: Option<String>,
}

impl Card {
    /// The card as text.
    pub fn encode(&self) -> String {
        let machine = self.machine.map(|m| format!("{m:016x}"));
        format!(
            "{}/{}/{}",
            machine.as_deref().unwrap_or("-"),
            if self.shares { "s" } else { "-" },
            self.address.as_deref().unwrap_or("-")
        )
    }

    /// The card that another process published.
    pub fn decode(text: &str) -> Option<Card> {
        let (machine, rest) = text.split_once('/')?;
        let (shares, address) = rest.split_once('/')?;
        let machine = match machine {
            "-" => None,
            hex if hex.len() == 16 => Some(u64::from_str_radix(hex, 16).ok()?),
            _ => return None,
        };
        let shares = match shares {
            "s" => true,
            "-" => false,
            _ => return None,
        };
        let address = match address {
            "-" => None,
            "" => return None,
            text => Some(text.to_string()),
        };
        Some(Card {
            machine,
            shares,
            address,
        })
    }
}

/// Identifies what a descriptor can be passed within: one running kernel, one network namespace (in
/// which abstract sockets have their names) and one user.
pub(crate) fn machine() -> Option<u64> {
    unix::neighbourhood().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(machine: Option<u64>, address: Option<&str>) -> Card {
        Card {
            machine,
            shares: address.is_none(),
            address: address.map(str::to_string),
        }
    }

    #[test]
    fn cards_come_back() {
        for c in [
            card(None, None),
            card(Some(u64::MAX), None),
            card(Some(7), Some("v1:0102")),
        ] {
            assert_eq!(Card::decode(&c.encode()), Some(c));
        }
        for text in [
            "",
            "-",
            "x/-/y",
            "12/-/-",
            "-/-/",
            "-/x/-",
            "00000000000000zz/s/-",
        ] {
            assert_eq!(Card::decode(text), None, "{text}");
        }
    }
}
