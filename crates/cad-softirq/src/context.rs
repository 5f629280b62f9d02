//! What one host does for a communicator, and how that is written into the maps.
//!
//! A *context* is one line of collectives on one host: at most one is under way on it. A communicator that wants several
//! at once has several contexts. The hosts of a communicator are a tree; each combines what its own processes and the hosts
//! below contribute. Who calls it: `tables`, and tests that have maps of their own.

use crate::layout::{CHILDREN_MAX, INPUTS_MAX, context, input, peer, scratch};
use std::net::{IpAddr, Ipv4Addr};

/// How packets get to another host: the same segment of a network, so not beyond a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The interface's number.
    pub interface: u32,
    /// The link's addresses, here and there.
    pub link: [[u8; 6]; 2],
    /// IP's addresses, here and there, of the same version.
    pub ip: [IpAddr; 2],
    /// UDP's port, on both sides.
    pub port: u16,
}

/// Another host, as a context knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The id of its context.
    pub id: u64,
    /// The number of its entry.
    pub entry: u32,
    /// Which of its inputs this host is. It does not matter for a host below.
    pub input: u32,
    /// The way there.
    pub way: Way,
}

/// A context of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its id, random and not 0: another host's is another.
    pub id: u64,
    /// The communicator's key, the same on all its hosts.
    pub key: [u64; 2],
    /// For each process of this host what it shows when it starts.
    pub tickets: Vec<u64>,
    /// The host above; none for the one that has the result first.
    pub parent: Option<Peer>,
    /// The hosts below. Their inputs follow those of the processes.
    pub children: Vec<Peer>,
}

impl Context {
    /// How many inputs it has.
    pub fn inputs(&self) -> usize {
        self.tickets.len() + self.children.len()
    }

    /// Whether the program can do it: there are processes, and neither they nor hosts are too many.
    pub fn is_possible(&self) -> bool {
        !self.tickets.is_empty()
            && self.id != 0
            && self.inputs() <= INPUTS_MAX as usize
            && self.children.len() <= CHILDREN_MAX as usize
    }

    /// Its entry, where its inputs begin at `base` of theirs.
    pub(crate) fn entry(&self, base: u32) -> Vec<u8> {
        let mut entry = vec![0; context::BYTES];
        let mut put = |at: i16, bytes: &[u8]| {
            entry[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(context::ID, &self.id.to_le_bytes());
        put(context::KEY, &self.key[0].to_le_bytes());
        put(context::KEY + 8, &self.key[1].to_le_bytes());
        let number = |n: usize| (n as u32).to_le_bytes();
        put(context::INPUTS, &number(self.inputs()));
        put(context::LOCAL, &number(self.tickets.len()));
        put(context::BASE, &base.to_le_bytes());
        put(context::CHILDREN, &number(self.children.len()));
        put(context::PARENT, &number(self.parent.iter().count()));
        let above = self.parent.iter().map(|p| (0, p));
        let below = self.children.iter().enumerate().map(|(i, p)| (i + 1, p));
        for (place, peer) in above.chain(below) {
            put(context::PEERS + (place * peer::BYTES) as i16, &peer.bytes());
        }
        entry
    }

    /// Its inputs.
    pub(crate) fn input(&self, number: usize) -> Vec<u8> {
        let mut bytes = vec![0; input::BYTES];
        if let Some(ticket) = self.tickets.get(number) {
            let at = input::TICKET as usize;
            bytes[at..at + 8].copy_from_slice(&ticket.to_le_bytes());
        }
        bytes
    }
}

impl Peer {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; peer::BYTES];
        let mut put = |at: i16, what: &[u8]| {
            bytes[at as usize..at as usize + what.len()].copy_from_slice(what);
        };
        let (start, head, sum) = self.way.head();
        put(peer::ID, &self.id.to_le_bytes());
        put(peer::ENTRY, &self.entry.to_le_bytes());
        put(peer::INPUT, &self.input.to_le_bytes());
        put(peer::INTERFACE, &self.way.interface.to_le_bytes());
        put(peer::SUM, &sum.to_le_bytes());
        put(peer::START, &(start as u32).to_le_bytes());
        put(peer::HEAD, &head);
        bytes
    }
}

impl Way {
    /// The loopback interface, for tests: every host is this one.
    pub fn loopback(port: u16) -> Way {
        Way {
            interface: crate::program::LOOPBACK as u32,
            link: [[0; 6]; 2],
            ip: [IpAddr::V4(Ipv4Addr::LOCALHOST); 2],
            port,
        }
    }

    /// Where a packet begins in the scratch; the headers up to ours, as they lie there, without lengths; and the sum of IPv4's words so far.
    fn head(&self) -> (i16, [u8; scratch::OURS as usize], u32) {
        // Nobody routes it: it stays within the segment.
        const HOPS: u8 = 1;
        const UDP: u8 = 17;
        let mut head = [0; scratch::OURS as usize];
        let mut put = |at: i16, bytes: &[u8]| {
            head[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        let (start, kind, sum) = match self.ip {
            [IpAddr::V6(here), IpAddr::V6(there)] => {
                put(scratch::IP_6, &[0x60, 0, 0, 0, 0, 0, UDP, HOPS]);
                put(scratch::IP_6 + 8, &here.octets());
                put(scratch::IP_6 + 24, &there.octets());
                (scratch::ETHERNET_6, [0x86, 0xdd], 0)
            }
            ip => {
                let [here, there] = ip.map(|ip| match ip {
                    IpAddr::V4(ip) => ip,
                    IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
                });
                // It is not to be cut into fragments.
                let mut bytes = [0; 20];
                (bytes[0], bytes[6], bytes[8], bytes[9]) = (0x45, 0x40, HOPS, UDP);
                bytes[12..16].copy_from_slice(&here.octets());
                bytes[16..].copy_from_slice(&there.octets());
                put(scratch::IP, &bytes);
                let words = bytes.chunks_exact(2);
                let sum = words.map(|w| u32::from(u16::from_le_bytes([w[0], w[1]])));
                (scratch::ETHERNET, [0x08, 0x00], sum.sum())
            }
        };
        put(start, &self.link[1]);
        put(start + 6, &self.link[0]);
        put(start + 12, &kind);
        put(scratch::UDP, &self.port.to_be_bytes());
        put(scratch::UDP + 2, &self.port.to_be_bytes());
        (start, head, sum)
    }
}
