//! The machine's own addresses, and which of them are published.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// An address of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub name: String,
    pub ip: IpAddr,
    /// Bits that it shares with its neighbours.
    pub prefix: u32,
    pub loopback: bool,
}

/// All addresses of interfaces that are up.
pub(crate) fn all() -> Vec<Interface> {
    let Ok(list) = getifaddrs() else {
        return Vec::new();
    };
    list.filter(|i| i.flags.contains(InterfaceFlags::IFF_UP))
        .filter_map(|i| {
            let ip = ip(&i.address?)?;
            let mask = i.netmask.as_ref().and_then(self::ip);
            let prefix = match mask {
                Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
                Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
                None => 0,
            };
            Some(Interface {
                name: i.interface_name,
                ip,
                prefix,
                loopback: i.flags.contains(InterfaceFlags::IFF_LOOPBACK),
            })
        })
        .collect()
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

impl Interface {
    /// Whether `other` is in this address's network.
    pub fn covers(&self, other: IpAddr) -> bool {
        within(other, self.ip, self.prefix)
    }

    /// Addresses that mean nothing on another machine without the name of the interface there.
    fn is_link_local(&self) -> bool {
        match self.ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
    }

    /// Bridges that containers and virtual machines of this host use among themselves.
    fn is_inner(&self) -> bool {
        ["docker", "br-", "virbr", "cni", "podman", "lxc"]
            .iter()
            .any(|start| self.name.starts_with(start))
    }
}

/// Whether the first `prefix` bits of two addresses are the same.
fn within(a: IpAddr, b: IpAddr, prefix: u32) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits())
                .checked_shr(32u32.saturating_sub(prefix))
                .unwrap_or(0)
                == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits())
                .checked_shr(128u32.saturating_sub(prefix))
                .unwrap_or(0)
                == 0
        }
        _ => false,
    }
}

/// The addresses to publish: those that `wanted` names (interfaces, addresses or networks, separated by
/// commas), or all but loopback and link-local ones. Loopback only where nothing else is.
///
/// # Errors
/// A sentence for a person, when `wanted` names nothing that is here.
pub(crate) fn choose(all: &[Interface], wanted: Option<&str>) -> Result<Vec<IpAddr>, String> {
    let Some(wanted) = wanted else {
        let mut outer: Vec<&Interface> = all
            .iter()
            .filter(|i| !i.loopback && !i.is_link_local())
            .collect();
        outer.sort_by_key(|i| i.is_inner());
        if outer.is_empty() {
            outer = all.iter().filter(|i| i.loopback).collect();
        }
        return Ok(outer.iter().map(|i| i.ip).collect());
    };
    let chosen: Vec<IpAddr> = all
        .iter()
        .filter(|i| wanted.split(',').any(|word| names(word.trim(), i)))
        .map(|i| i.ip)
        .collect();
    if chosen.is_empty() {
        let here: Vec<String> = all.iter().map(|i| format!("{} {}", i.name, i.ip)).collect();
        return Err(format!(
            "no interface that is up matches `{wanted}`; there are: {}",
            here.join(", ")
        ));
    }
    Ok(chosen)
}

/// Whether `word` (a name, an address or a network) means this interface.
fn names(word: &str, interface: &Interface) -> bool {
    if word == interface.name {
        return !interface.is_link_local();
    }
    let (ip, prefix) = word.split_once('/').unwrap_or((word, "128"));
    match (ip.parse::<IpAddr>(), prefix.parse()) {
        (Ok(ip), Ok(prefix)) => within(interface.ip, ip, prefix),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, ip: &str, prefix: u32) -> Interface {
        let ip: IpAddr = ip.parse().unwrap();
        Interface {
            name: name.into(),
            ip,
            prefix,
            loopback: ip.is_loopback(),
        }
    }

    fn some() -> Vec<Interface> {
        vec![
            interface("lo", "127.0.0.1", 8),
            interface("lo", "::1", 128),
            interface("docker0", "172.17.0.1", 16),
            interface("eth0", "10.1.2.3", 8),
            interface("eth0", "fe80::1", 64),
            interface("eth1", "2001:db8::7", 64),
        ]
    }

    fn chosen(wanted: Option<&str>) -> Vec<String> {
        let ips = choose(&some(), wanted).unwrap();
        ips.iter().map(|ip| ip.to_string()).collect()
    }

    #[test]
    fn what_others_can_reach() {
        assert_eq!(chosen(None), ["10.1.2.3", "2001:db8::7", "172.17.0.1"]);
        assert_eq!(choose(&some()[..2], None).unwrap().len(), 2);
        assert_eq!(choose(&[], None).unwrap().len(), 0);
    }

    #[test]
    fn what_the_user_insists_on() {
        assert_eq!(chosen(Some("eth0")), ["10.1.2.3"]);
        assert_eq!(chosen(Some("10.0.0.0/8")), ["10.1.2.3"]);
        assert_eq!(chosen(Some("2001:db8::/32")), ["2001:db8::7"]);
        assert_eq!(chosen(Some("::1/128")), ["::1"]);
        assert_eq!(chosen(Some("lo, 172.17.0.1")).len(), 3);
        assert_eq!(chosen(Some("0.0.0.0/0")).len(), 3);
        for wrong in ["eth7", "11.0.0.0/8", "10.1.2.4", "10.0.0.0/x", ""] {
            let text = choose(&some(), Some(wrong)).unwrap_err();
            assert!(text.contains("eth1 2001:db8::7"), "{text}");
        }
    }

    #[test]
    fn networks() {
        let eth0 = &some()[3];
        assert!(eth0.covers("10.200.0.1".parse().unwrap()));
        assert!(!eth0.covers("11.0.0.1".parse().unwrap()));
        assert!(!eth0.covers("::1".parse().unwrap()));
        assert!(all().iter().any(|i| i.loopback), "this machine has one");
    }
}
