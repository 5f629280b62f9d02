//! Contexts of several hosts of one site: what their kaccds tell each other, by way of ranks who can neither change it nor learn the key from it.
//!
//! Each host's kaccd makes an *offer* for a context: where it is, at which addresses of the interfaces that it may use, for which user, and a number that
//! nobody used before, with a MAC. Ranks carry these [tokens](TOKEN) to all hosts of the communicator, as they carry anything; each
//! host's kaccd checks all of them, and makes the communicator's key of all together. So every kaccd has had its say in the key, and all have
//! the same one only if all have seen the same tokens. No kaccd talks to another, or listens to a network, but for the program's packets.
//!
//! # What this keeps out
//!
//! The MAC is HMAC-SHA256, and keys are made by it, of the *site key*: a file that the superuser gives to the kaccds of all hosts of a site. Who does not have
//! it, and that is every rank, and every host that none of the site is,
//! * can't make an offer, or change one, so that nobody has a kaccd send anything to an address that isn't a kaccd's of the site;
//! * can't learn a communicator's key, so can't make a packet that a program takes;
//! * gains nothing with tokens of another communicator, or old ones: the key is another then, as one's own kaccd takes part with a new number;
//! * gains nothing with tokens of another user: all have to be of the user who asks, as the kernel says who that is (`SO_PEERCRED`) on each host.
//!
//! It does not keep out who has the site key: superusers of the site's hosts trust each other, also in that a user's number is the same person on all of them. Nor does it hide anything: results go over the
//! site's network as they are, and whoever can take packets off it can have collectives wait.
//!
//! # Inside one site
//!
//! A way leads from an allowed interface to a host in the same network there, by the link's address that its offer has; packets have one hop to live, so no
//! router passes them on.
//!
//! Invariants: nothing of a token is believed, or looked at, before its MAC; what is read then is bounded, and has one form. No I/O here but
//! [`Key::read`]. Who calls it: `daemon`; the engine for [`children`].

use crate::context::Way;
use crate::layout::{CHILDREN_MAX, INPUTS_MAX};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Hosts of a context at most.
pub const HOSTS_MAX: usize = 128;
/// Bytes of an offer as it is carried.
pub const TOKEN: usize = HEAD + ADDRESSES_MAX * ADDRESS + MAC;
/// Addresses that a host offers at most.
pub const ADDRESSES_MAX: usize = 6;
const HEAD: usize = 48;
const ADDRESS: usize = 24;
const MAC: usize = 32;
/// "yms", and the version of the layout and of what keys are made of.
const MAGIC: u32 = u32::from_le_bytes(*b"yms\x01");
/// Bytes that a site key's file has at least, and at most.
const KEY_BYTES: Range<usize> = 32..4096;

/// The hosts below one, of so many that are a tree.
pub fn children(host: usize, hosts: usize) -> Range<usize> {
    let below = CHILDREN_MAX as usize;
    let first = below * host + 1;
    first.min(hosts)..(first + below).min(hosts)
}

/// The host above one.
pub(crate) fn parent(host: usize) -> Option<usize> {
    Some(host.checked_sub(1)? / CHILDREN_MAX as usize)
}

/// What shows that a host is of the site.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Makes one of a secret, which is not to be guessed.
    pub fn new(secret: &[u8]) -> Key {
        Key(mac(&block(b"yamabiko kaccd site"), &[secret]))
    }

    /// Reads one from a file that only this process's user can read.
    ///
    /// # Errors
    /// Why it isn't read, in words for a person.
    pub fn read(path: &Path) -> Result<Key, String> {
        let told = |why: String| format!("{}: {why}", path.display());
        let all = |why: std::io::Error| told(why.to_string());
        let mut file = File::open(path).map_err(all)?;
        let about = file.metadata().map_err(all)?;
        let own = rustix::process::geteuid().as_raw();
        if !about.is_file() || about.mode() & 0o077 != 0 || ![0, own].contains(&about.uid()) {
            let how = "it has to be a file that only its owner can read (mode 0600), who is the superuser or runs this";
            return Err(told(how.to_owned()));
        }
        let mut secret = Vec::new();
        let most = KEY_BYTES.end as u64;
        file.by_ref()
            .take(most)
            .read_to_end(&mut secret)
            .map_err(all)?;
        match KEY_BYTES.contains(&secret.len()) {
            true => Ok(Key::new(&secret)),
            false => Err(told(format!(
                "a site key has {} bytes or more, which nobody can guess: head -c {} /dev/urandom",
                KEY_BYTES.start, KEY_BYTES.start
            ))),
        }
    }

    /// What shows whether two are the same, to whom it does not matter that they know it.
    pub fn name(&self) -> u64 {
        let [name, ..] = halves(&mac(&block(&self.0), &[b"name    "]));
        name
    }

    /// The key of the communicator whose hosts have made these offers, in order.
    pub(crate) fn communicator(&self, tokens: &[u8]) -> [u64; 2] {
        halves(&mac(&block(&self.0), &[b"packets ", tokens]))
    }
}

/// The first two words.
fn halves(bytes: &[u8; 32]) -> [u64; 2] {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    [word(0), word(8)]
}

/// A key shorter than a block counts as one filled up with zeros.
fn block(key: &[u8]) -> [u8; 64] {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    block
}

fn mac(key: &[u8; 64], parts: &[&[u8]]) -> [u8; 32] {
    begun(key, parts).finalize().into_bytes().into()
}

fn begun(key: &[u8; 64], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new(&(*key).into());
    for part in parts {
        mac.update(part);
    }
    mac
}

/// Where a host can be reached: an address of an interface, and the link's there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// IP's.
    pub ip: IpAddr,
    /// How many bits of it its network has.
    pub prefix: u8,
    /// The link's.
    pub link: [u8; 6],
}

impl Address {
    fn bytes(&self) -> [u8; ADDRESS] {
        let mut bytes = [0; ADDRESS];
        match self.ip {
            IpAddr::V4(ip) => {
                bytes[..4].copy_from_slice(&ip.octets());
                bytes[16] = 4;
            }
            IpAddr::V6(ip) => {
                bytes[..16].copy_from_slice(&ip.octets());
                bytes[16] = 6;
            }
        }
        bytes[17] = self.prefix;
        bytes[18..].copy_from_slice(&self.link);
        bytes
    }

    fn of(bytes: &[u8; ADDRESS]) -> Option<Address> {
        let mut six = [0; 16];
        six.copy_from_slice(&bytes[..16]);
        let (ip, most) = match bytes[16] {
            4 => (IpAddr::from([six[0], six[1], six[2], six[3]]), 32),
            6 => (Ipv6Addr::from(six).into(), 128),
            _ => return None,
        };
        let mut link = [0; 6];
        link.copy_from_slice(&bytes[18..]);
        let prefix = bytes[17];
        let address = Address { ip, prefix, link };
        (prefix <= most && address.bytes() == *bytes && address.is_one_hosts()).then_some(address)
    }

    /// Whether it is one that a host can have beside others: the loopback interface's, and such that mean something only together with an interface, are not.
    pub(crate) fn is_one_hosts(&self) -> bool {
        let ip = self.ip;
        let local = match ip {
            IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        let one = self.link != [0; 6] && self.link[0] & 1 == 0;
        one && !local && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
    }

    /// Whether these are two hosts in one network.
    fn is_beside(&self, other: &Address) -> bool {
        let differ = match (self.ip, other.ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
            (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
            _ => return false,
        };
        let within = differ != 0 && differ.leading_zeros() >= u32::from(self.prefix);
        within && self.prefix == other.prefix && self.link != other.link
    }
}

/// An address of this host's, at an interface that packets may go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The interface's number.
    pub interface: u32,
    /// The address.
    pub address: Address,
}

/// What a kaccd says of a context that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// For whom.
    pub user: u32,
    /// The context's entry, and its id.
    pub entry: u32,
    pub id: u64,
    /// Processes of that host: inputs of hosts below follow theirs.
    pub processes: u32,
    /// Which of so many hosts it is.
    pub host: u32,
    pub hosts: u32,
    /// Where the program looks.
    pub port: u16,
    /// What nobody used before.
    pub nonce: [u8; 16],
    pub addresses: Vec<Address>,
}

impl Offer {
    fn bytes(&self) -> [u8; TOKEN - MAC] {
        let mut bytes = [0; TOKEN - MAC];
        let place = self.host | self.hosts << 16;
        let port = u32::from(self.port) | (self.addresses.len() as u32) << 16;
        let words = [MAGIC, self.user, self.entry, self.processes, place, port];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..32].copy_from_slice(&self.id.to_le_bytes());
        bytes[32..HEAD].copy_from_slice(&self.nonce);
        let places = bytes[HEAD..].chunks_exact_mut(ADDRESS);
        for (to, address) in places.zip(&self.addresses) {
            to.copy_from_slice(&address.bytes());
        }
        bytes
    }

    /// The token.
    pub fn seal(&self, key: &Key) -> [u8; TOKEN] {
        let bytes = self.bytes();
        let mut token = [0; TOKEN];
        token[..TOKEN - MAC].copy_from_slice(&bytes);
        token[TOKEN - MAC..].copy_from_slice(&mac(&block(&key.0), &[b"offer   ", &bytes]));
        token
    }

    /// What a token says, if it is one of this site.
    pub fn of(token: &[u8], key: &Key) -> Option<Offer> {
        let (bytes, proof) = token.split_at_checked(TOKEN - MAC)?;
        let whole = begun(&block(&key.0), &[b"offer   ", bytes]);
        whole.verify_slice(proof).ok()?;
        Offer::read(bytes)
    }

    /// The parts of one. It has but one form.
    fn read(bytes: &[u8]) -> Option<Offer> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (place, port) = (word(16)?, word(20)?);
        let count = (port >> 16) as usize;
        let places = bytes.get(HEAD..)?.chunks_exact(ADDRESS).take(count);
        let addresses = places.map(|place| Address::of(place.try_into().ok()?));
        let offer = Offer {
            user: word(4)?,
            entry: word(8)?,
            processes: word(12)?,
            host: place & 0xffff,
            hosts: place >> 16,
            port: port as u16,
            id: u64::from(word(24)?) | u64::from(word(28)?) << 32,
            nonce: bytes.get(32..HEAD)?.try_into().ok()?,
            addresses: addresses.collect::<Option<_>>()?,
        };
        (count <= ADDRESSES_MAX && offer.is_possible() && offer.bytes() == bytes).then_some(offer)
    }

    fn is_possible(&self) -> bool {
        let hosts = self.hosts as usize;
        self.id != 0
            && (2..=HOSTS_MAX).contains(&hosts)
            && self.host < self.hosts
            && (1..=INPUTS_MAX).contains(&self.processes)
            && self.port != 0
    }

    /// How packets get there from these addresses of this host.
    pub fn way(&self, own: &[Own]) -> Option<Way> {
        let pairs = own
            .iter()
            .flat_map(|own| self.addresses.iter().map(move |there| (own, there)));
        let (own, there) = pairs
            .into_iter()
            .find(|(own, there)| own.address.is_beside(there))?;
        Some(Way {
            interface: own.interface,
            link: [own.address.link, there.link],
            ip: [own.address.ip, there.ip],
            port: self.port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(last: u8) -> Address {
        Address {
            ip: IpAddr::from([10, 0, 0, last]),
            prefix: 24,
            link: [2, 0, 0, 0, 0, last],
        }
    }

    fn offer() -> Offer {
        Offer {
            user: 1000,
            entry: 7,
            id: u64::MAX - 5,
            processes: 4,
            host: 1,
            hosts: 3,
            port: 7117,
            nonce: [9; 16],
            addresses: vec![
                address(1),
                Address {
                    ip: Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2).into(),
                    prefix: 64,
                    link: [2, 1, 2, 3, 4, 5],
                },
            ],
        }
    }

    #[test]
    fn what_is_offered_is_understood_by_the_site_alone() {
        let [key, other] = [b"one", b"two"].map(|s| Key::new(s));
        let token = offer().seal(&key);
        assert_eq!(Offer::of(&token, &key), Some(offer()));
        assert_eq!(Offer::of(&token, &other), None);
        assert_ne!(key.name(), other.name());
        assert_ne!(key.communicator(&token), other.communicator(&token));
        for at in 0..TOKEN {
            for bit in [1, 0x80] {
                let mut changed = token;
                changed[at] ^= bit;
                assert_eq!(Offer::of(&changed, &key), None, "byte {at}");
                assert_ne!(key.communicator(&changed), key.communicator(&token));
            }
            assert_eq!(Offer::of(&token[..at], &key), None);
        }
        let longer = [&token[..], &[0]].concat();
        assert_eq!(Offer::of(&longer, &key), None);
    }

    #[test]
    fn what_can_not_be_is_refused_though_the_site_says_it() {
        let key = Key::new(b"one");
        let refused = |change: fn(&mut Offer)| {
            let mut offer = offer();
            change(&mut offer);
            Offer::of(&offer.seal(&key), &key).is_none()
        };
        assert!(refused(|o| o.id = 0));
        assert!(refused(|o| o.host = 3));
        assert!(refused(|o| o.hosts = HOSTS_MAX as u32 + 1));
        assert!(refused(|o| (o.host, o.hosts) = (0, 1)));
        assert!(refused(|o| o.processes = 0));
        assert!(refused(|o| o.processes = INPUTS_MAX + 1));
        assert!(refused(|o| o.port = 0));
        assert!(refused(|o| o.addresses[0].prefix = 33));
        assert!(refused(|o| o.addresses[0].link = [0; 6]));
        assert!(refused(|o| o.addresses[0].link = [0xff; 6]));
        for ip in ["127.0.0.1", "169.254.0.1", "224.0.0.1", "fe80::1", "::1"] {
            let mut offer = offer();
            offer.addresses[0].ip = ip.parse().unwrap();
            assert_eq!(Offer::of(&offer.seal(&key), &key), None, "{ip}");
        }
    }

    #[test]
    fn a_way_leads_to_another_host_of_the_same_network() {
        let own = |address| Own {
            interface: 3,
            address,
        };
        let way = offer().way(&[own(address(2))]).unwrap();
        assert_eq!(
            (way.interface, way.ip[1], way.port),
            (3, address(1).ip, 7117)
        );
        assert_eq!(way.link, [address(2).link, address(1).link]);
        let mut elsewhere = address(2);
        elsewhere.ip = IpAddr::from([10, 0, 1, 2]);
        let mut wider = address(2);
        wider.prefix = 16;
        let mut same = address(1);
        same.link[1] = 7;
        for address in [elsewhere, wider, same, address(1)] {
            assert_eq!(offer().way(&[own(address)]), None, "{address:?}");
        }
        let six = Address {
            ip: "fd00:0:0:1::7".parse().unwrap(),
            prefix: 64,
            link: [2, 0, 0, 0, 0, 9],
        };
        let way = offer().way(&[own(elsewhere), own(six)]).unwrap();
        assert_eq!(way.ip[1], offer().addresses[1].ip);
        let mut all = address(2);
        all.prefix = 0;
        assert_eq!(offer().way(&[own(all)]), None, "its network is smaller");
    }

    #[test]
    fn hosts_are_a_tree() {
        for hosts in [1, 2, 17, 18, 40, HOSTS_MAX] {
            let mut seen = vec![0];
            for host in 0..hosts {
                assert!(children(host, hosts).len() <= CHILDREN_MAX as usize);
                for child in children(host, hosts) {
                    assert_eq!(parent(child), Some(host));
                    seen.push(child);
                }
            }
            assert!(seen.iter().copied().eq(0..hosts), "{seen:?}");
        }
        assert_eq!(parent(0), None);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("yamabiko-site-key-{}", std::process::id()));
        let with = |bytes: usize, mode: u32| {
            std::fs::write(&path, vec![7; bytes]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Key::read(&path)
        };
        let told = [
            with(32, 0o600),
            with(32, 0o640),
            with(32, 0o604),
            with(31, 0o600),
            with(4096, 0o600),
        ];
        std::fs::remove_file(&path).unwrap();
        assert!(told[0].is_ok());
        for refused in &told[1..] {
            assert!(refused.is_err());
        }
        assert!(Key::read(Path::new("/dev/urandom")).is_err());
    }

    proptest! {
        #[test]
        fn whatever_comes_is_refused_or_has_one_form(bytes in proptest::collection::vec(any::<u8>(), TOKEN - MAC)) {
            if let Some(offer) = Offer::read(&bytes) {
                prop_assert_eq!(&offer.bytes()[..], &bytes[..]);
            }
            prop_assert_eq!(Offer::of(&bytes, &Key::new(b"one")), None);
        }

        #[test]
        fn one_that_is_changed_is_refused_or_has_one_form(
            changes in proptest::collection::vec((0..TOKEN - MAC, any::<u8>()), 1..4)
        ) {
            let mut bytes = offer().bytes();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            if let Some(offer) = Offer::read(&bytes) {
                prop_assert_eq!(offer.bytes(), bytes);
                prop_assert!(offer.is_possible());
            }
        }
    }
}
