//! Where a process can be reached, as it is published, and in which order others try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::interfaces::Interface;

/// Most addresses of each family that are published: together they fit the 200 characters that every
/// launcher's exchange takes.
const MOST: usize = 4;

/// Where a process can be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub port: u16,
    /// Which network stack it lives in: two processes with the same number reach each other by loopback.
    pub stack: u64,
    /// Whether loopback may be used; not if the user insists on an interface.
    pub loopback: bool,
    pub ips: Vec<IpAddr>,
}

impl Address {
    /// As printable text of at most 200 characters.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        bytes.extend(self.port.to_be_bytes());
        bytes.extend(self.stack.to_be_bytes());
        let v4: Vec<_> = self
            .ips
            .iter()
            .filter(|ip| ip.is_ipv4())
            .take(MOST)
            .collect();
        let v6: Vec<_> = self
            .ips
            .iter()
            .filter(|ip| ip.is_ipv6())
            .take(MOST)
            .collect();
        bytes.push(u8::from(self.loopback) << 7 | (v4.len() << 4) as u8 | v6.len() as u8);
        for ip in v4.iter().chain(&v6) {
            match ip {
                IpAddr::V4(ip) => bytes.extend(ip.octets()),
                IpAddr::V6(ip) => bytes.extend(ip.octets()),
            }
        }
        let digits = bytes.iter().map(|b| format!("{b:02x}"));
        std::iter::once("t1".to_string()).chain(digits).collect()
    }

    /// From such a text.
    pub fn decode(text: &str) -> Option<Address> {
        let digits = text.strip_prefix("t1")?;
        if !digits.is_ascii() || digits.len() > 198 {
            return None;
        }
        let bytes: Vec<u8> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect::<Option<_>>()?;
        let (port, rest) = bytes.split_first_chunk::<2>()?;
        let (stack, rest) = rest.split_first_chunk::<8>()?;
        let (&counts, mut rest) = rest.split_first()?;
        let mut ips = Vec::new();
        for _ in 0..counts >> 4 & 7 {
            let ip;
            (ip, rest) = rest.split_first_chunk::<4>()?;
            ips.push(IpAddr::V4(Ipv4Addr::from(*ip)));
        }
        for _ in 0..counts & 15 {
            let ip;
            (ip, rest) = rest.split_first_chunk::<16>()?;
            ips.push(IpAddr::V6(Ipv6Addr::from(*ip)));
        }
        Some(Address {
            port: u16::from_be_bytes(*port),
            stack: u64::from_be_bytes(*stack),
            loopback: counts >> 7 != 0,
            ips,
        })
    }

    /// What to try, best first: loopback if both are in one network stack, then the address that
    /// worked for another process there, then those in a network of ours.
    pub fn candidates(
        &self,
        mine: &[Interface],
        stack: u64,
        worked: Option<IpAddr>,
    ) -> Vec<SocketAddr> {
        let same = self.stack == stack && stack != 0;
        let mut ips: Vec<IpAddr> = self.ips.clone();
        if !same && self.stack != 0 && stack != 0 {
            // An address of ours that somebody elsewhere has too, as those of container bridges.
            ips.retain(|ip| !mine.iter().any(|i| i.ip == *ip));
        }
        ips.sort_by_key(|ip| {
            let near = mine.iter().any(|i| !i.loopback && i.covers(*ip));
            (worked != Some(*ip), !near)
        });
        let local = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        let local = local.into_iter().filter(|_| same && self.loopback);
        let mut all: Vec<SocketAddr> = local.map(|ip| SocketAddr::new(ip, self.port)).collect();
        for ip in ips {
            let address = SocketAddr::new(ip, self.port);
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all
    }

    /// Why there are no [`candidates`](Address::candidates), and what to do.
    pub fn nothing_to_try(&self) -> String {
        if self.ips.is_empty() {
            return "it gave no address that others could try: its host has none but loopback and those of one link \
                    alone, and it is of another network"
                .into();
        }
        let ips: Vec<String> = self.ips.iter().map(IpAddr::to_string).collect();
        format!(
            "its addresses ({}) are addresses of this host too and lead nowhere else; YAMABIKO_TCP_INTERFACE there \
             chooses others",
            ips.join(", ")
        )
    }
}

/// A number for the network stack of this process, the same for all that share it; 0 if it can't be told.
pub(crate) fn network_stack() -> u64 {
    use sha2::{Digest, Sha256};
    use std::os::unix::fs::MetadataExt;
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id");
    let space = std::fs::metadata("/proc/self/ns/net");
    let (Ok(boot), Ok(space)) = (boot, space) else {
        return 0;
    };
    let mut hash = Sha256::new();
    hash.update(&boot);
    hash.update(space.ino().to_le_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    let (first, _) = hash.as_chunks::<8>();
    first.first().map_or(0, |b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(ips: &[&str]) -> Address {
        Address {
            port: 4711,
            stack: 7,
            loopback: true,
            ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        }
    }

    proptest! {
        #[test]
        fn addresses_come_back(
            port: u16, stack: u64, loopback: bool, v4: Vec<[u8; 4]>, v6: Vec<[u8; 16]>,
        ) {
            let v4 = v4.into_iter().take(MOST).map(IpAddr::from);
            let v6 = v6.into_iter().take(MOST).map(IpAddr::from);
            let address = Address { port, stack, loopback, ips: v4.chain(v6).collect() };
            let text = address.encode();
            prop_assert!(text.len() <= 200 && text.bytes().all(|b| b.is_ascii_alphanumeric()));
            prop_assert_eq!(Address::decode(&text), Some(address));
        }

        #[test]
        fn texts_do_no_harm(text: String, digits in "t1[0-9a-f]{0,220}") {
            let _ = Address::decode(&text);
            let _ = Address::decode(&digits);
        }
    }

    #[test]
    fn says_why_nothing_can_be_tried() {
        let bridge = [Interface {
            name: "docker0".into(),
            ip: "172.17.0.1".parse().unwrap(),
            prefix: 16,
            loopback: false,
        }];
        let none = address(&[]);
        assert!(none.candidates(&bridge, 8, None).is_empty());
        assert!(none.nothing_to_try().contains("gave no address"));
        let same = address(&["172.17.0.1"]);
        assert!(same.candidates(&bridge, 8, None).is_empty());
        assert!(
            same.nothing_to_try()
                .contains("(172.17.0.1) are addresses of this host too")
        );
    }

    #[test]
    fn the_nearest_first() {
        let mine = [Interface {
            name: "eth0".into(),
            ip: "10.0.0.1".parse().unwrap(),
            prefix: 24,
            loopback: false,
        }];
        let try_order = |a: &Address, stack, worked| -> Vec<String> {
            let all = a.candidates(&mine, stack, worked);
            all.iter().map(|a| a.ip().to_string()).collect()
        };
        let there = address(&["192.168.0.9", "10.0.0.9", "2001:db8::9"]);
        assert_eq!(
            try_order(&there, 8, None),
            ["10.0.0.9", "192.168.0.9", "2001:db8::9"]
        );
        let worked = "2001:db8::9".parse().ok();
        assert_eq!(try_order(&there, 8, worked)[0], "2001:db8::9");
        assert_eq!(
            try_order(&there, 7, None)[..3],
            ["127.0.0.1", "::1", "10.0.0.9"]
        );
        let mut insists = there.clone();
        insists.loopback = false;
        assert_eq!(try_order(&insists, 7, None)[0], "10.0.0.9");
        // The same address in two stacks is two machines; in one it is one.
        let twin = address(&["10.0.0.1"]);
        assert!(try_order(&twin, 8, None).is_empty());
        assert_eq!(try_order(&twin, 7, None).len(), 3);
        assert_ne!(network_stack(), 0);
    }
}
