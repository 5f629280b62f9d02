//! The addresses of interfaces of this network namespace: what a kaccd offers for packets of other hosts. Who calls it: `daemon`; `yamabiko info` for
//! [`described`].

use crate::site::{Address, Own};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_indextoname, if_nametoindex};
use nix::sys::socket::SockaddrStorage;
use std::io;
use std::net::IpAddr;

/// The number of an interface.
///
/// # Errors
/// There is none of this name.
pub(crate) fn number(name: &str) -> io::Result<u32> {
    if_nametoindex(name).map_err(io::Error::from)
}

/// An interface's name, and its addresses that a kaccd offers, in words for a person.
pub fn described(interface: u32) -> String {
    let name = match if_indextoname(interface) {
        Ok(name) if !name.is_empty() => name.to_string_lossy().into_owned(),
        _ => return format!("interface {interface}, which is gone"),
    };
    let all: Vec<_> = own(&[interface])
        .iter()
        .map(|own| format!("{}/{}", own.address.ip, own.address.prefix))
        .collect();
    match all.is_empty() {
        true => format!("{name} (which has no address that others can send to)"),
        false => format!("{name} ({})", all.join(", ")),
    }
}

/// All addresses that others can send to by the link's address, of those interfaces of these numbers that are up: IPv4's first.
pub(crate) fn own(interfaces: &[u32]) -> Vec<Own> {
    let Ok(list) = getifaddrs() else {
        return Vec::new();
    };
    let up = |i: &InterfaceAddress| i.flags.contains(InterfaceFlags::IFF_UP);
    let list: Vec<_> = list.filter(up).collect();
    let mut all = Vec::new();
    for (name, interface, link) in list.iter().filter_map(ethernet) {
        if !interfaces.contains(&interface) {
            continue;
        }
        for entry in list.iter().filter(|i| i.interface_name == name) {
            if let Some((ip, prefix)) = address(entry) {
                let address = Address { ip, prefix, link };
                all.push(Own { interface, address });
            }
        }
    }
    all.retain(|own| own.address.is_one_hosts());
    all.sort_by_key(|own| own.address.ip.is_ipv6());
    all
}

/// An interface's name, number and address, if its links are Ethernet's.
fn ethernet(entry: &InterfaceAddress) -> Option<(&str, u32, [u8; 6])> {
    let link = entry.address.as_ref()?.as_link_addr()?;
    let ethernet = link.hatype() == libc::ARPHRD_ETHER;
    let address = link.addr().filter(|_| ethernet)?;
    Some((&entry.interface_name, link.ifindex() as u32, address))
}

fn address(entry: &InterfaceAddress) -> Option<(IpAddr, u8)> {
    let prefix = match ip(entry.netmask.as_ref()?)? {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    Some((ip(entry.address.as_ref()?)?, prefix as u8))
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::LOOPBACK;

    #[test]
    fn loopback_has_no_address_for_others() {
        let told = described(LOOPBACK as u32);
        assert_eq!(told, "lo (which has no address that others can send to)");
        assert_eq!(described(u32::MAX), "interface 4294967295, which is gone");
    }
}
