//! What a process does that takes part: one packet to start, one load to see whether it is over; before it sleeps, another packet, so that
//! it is woken ([`Waker`]).
//!
//! Invariants: no privilege, no `bpf()`, no memory that can be written by others but the page of results, which is read
//! word by word and believed in nothing but what it says; no allocation after [`Member::new`]. Who calls it: the engine.

use crate::flat::{Flat, Slots};
use crate::kernel::{self, Page};
use crate::layout::{self, DATA_MAX, Kind, NO_CODE, Op, Type, header, result, what, what_of_code};
use nix::sys::socket::{setsockopt, sockopt::BindToDevice};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a start at most.
pub(crate) const PACKET_MAX: usize = HEADER + DATA_MAX;
const HEADER: usize = header::BYTES as usize;
const WORDS: usize = result::BYTES / 8;

/// How many packets a process takes at once of those that wake it.
const DRAINED_MAX: usize = 256;

/// Who a process is in a context: what it is told by who opened that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// The port that the program looks at.
    pub port: u16,
    /// The context's entry.
    pub entry: u32,
    /// The context's id.
    pub id: u64,
    /// The process's input.
    pub input: u32,
    /// What shows that it is the one.
    pub ticket: u64,
}

/// What a process contributes.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Nothing, as in a barrier.
    Nothing,
    /// It has what all get.
    Root(&'a [u8]),
    /// It gets as many bytes.
    Leaf(usize),
    /// Elements of this type, to be combined so.
    Reduce(Op, Type, &'a [u8]),
    /// Elements to be combined by byte code that this process [`holds`](Member::hold).
    Fold(&'a Arc<Flat>, &'a [u8]),
}

/// Why a process does not take part.
#[derive(Debug)]
pub enum NotStarted {
    /// There are too many data, or no whole elements, or the operation isn't one on this type here; or the byte code is not held.
    Unfit,
    /// The one before isn't over.
    Busy,
    /// The packet could not be sent.
    System(io::Error),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStarted::Unfit => write!(f, "not for at most {DATA_MAX} bytes of whole elements"),
            NotStarted::Busy => f.write_str("the collective before is not over"),
            NotStarted::System(why) => write!(f, "the packet that starts it is refused: {why}"),
        }
    }
}

impl std::error::Error for NotStarted {}

/// How a collective has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As it should.
    Done,
    /// The processes did not agree on what to do.
    Mismatch,
    /// The byte code was not there, which all are told alike: there is no result.
    NoCode,
}

/// What a process sleeps on, with all it takes part in. That it is woken is not certain, as packets get lost: it has to look from time to time.
///
/// It takes what comes in through the loopback interface alone, so from this host. What wakes it may be any packet, as it only has it look: one that was
/// another host's, with its address, when that brought the result.
#[derive(Debug)]
pub struct Waker {
    socket: UdpSocket,
    /// How it says the loopback interface's address.
    loopback: IpAddr,
}

impl Waker {
    /// One that nobody wakes yet. Its descriptor becomes readable.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Waker> {
        let here = Ipv4Addr::LOCALHOST;
        let (socket, loopback) = match both() {
            Ok(socket) => (socket, here.to_ipv6_mapped().into()),
            // There is no IPv6 here.
            Err(_) => (UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?, here.into()),
        };
        setsockopt(&socket, BindToDevice, &"lo".into()).map_err(io::Error::from)?;
        socket.set_nonblocking(true)?;
        kernel::without_sums(&socket)?;
        Ok(Waker { socket, loopback })
    }

    /// Has it woken when what this member has started is over, or now if it is.
    ///
    /// # Errors
    /// The system's.
    pub fn ask(&self, member: &Member) -> io::Result<()> {
        let to = (self.loopback, member.port());
        self.socket.send_to(&member.wait(), to).map(drop)
    }

    /// Takes what has woken it; how many packets. If somebody of this host floods it, some are left.
    pub fn drain(&self) -> u64 {
        let mut some = [0; 1];
        let take = || self.socket.recv(&mut some).ok();
        std::iter::repeat_with(take)
            .take(DRAINED_MAX)
            .map_while(|got| got)
            .count() as u64
    }
}

/// A socket for IPv4 and IPv6.
fn both() -> io::Result<UdpSocket> {
    let fd = socket_with(
        AddressFamily::INET6,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_ipv6_v6only(&fd, false)?;
    bind(&fd, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))?;
    let socket = UdpSocket::from(fd);
    kernel::takes_no_sums(&socket)?;
    Ok(socket)
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A process's part in a context.
pub struct Member {
    page: Page,
    socket: UdpSocket,
    packet: [u8; PACKET_MAX],
    length: usize,
    number: u64,
    card: Card,
    slots: Slots,
}

impl Member {
    /// Takes part, with the page of results that belongs to the context.
    ///
    /// # Errors
    /// The system's.
    pub fn new(card: &Card, page: BorrowedFd<'_>) -> io::Result<Member> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect((Ipv4Addr::LOCALHOST, card.port))?;
        // A start that is refused is said again.
        socket.set_nonblocking(true)?;
        kernel::without_sums(&socket)?;
        let mut packet = [0; PACKET_MAX];
        let mut put = |at: i16, bytes: &[u8]| {
            packet[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(header::MAGIC_AT, &header::MAGIC.to_le_bytes());
        put(header::KIND, &[Kind::Start as u8]);
        put(header::ENTRY, &card.entry.to_le_bytes());
        put(header::INPUT, &card.input.to_le_bytes());
        put(header::ID, &card.id.to_le_bytes());
        put(header::TAG, &card.ticket.to_le_bytes());
        let page = Page::new(page, WORDS)?;
        let number = page.words()[result::NUMBER as usize / 8].load(Ordering::Acquire);
        Ok(Member {
            page,
            socket,
            packet,
            length: 0,
            number,
            card: *card,
            slots: Slots::default(),
        })
    }

    /// Takes byte code for what comes next into one of the context's slots; unless it is known to be there `put` puts it into the one of this
    /// number, and says whether it could. All processes call this for the same byte code in the same order, and not while a
    /// collective is under way.
    pub fn hold(&mut self, flat: &Arc<Flat>, put: impl FnOnce(&Card, u32) -> bool) {
        let card = self.card;
        self.slots.hold(flat, |slot| put(&card, slot));
    }

    /// Enters the next collective. All processes do so with the same operation, type and length.
    ///
    /// # Errors
    /// As [`NotStarted`] says; it isn't entered then, but after [`NotStarted::System`] it is, and [`again`](Member::again) may help.
    pub fn start(&mut self, part: Part<'_>) -> Result<(), NotStarted> {
        if !self.is_over() {
            return Err(NotStarted::Busy);
        }
        let what = self.what(part).ok_or(NotStarted::Unfit)?;
        let (have, data, bytes) = match part {
            Part::Nothing => (false, &[][..], 0),
            Part::Leaf(bytes) => (false, &[][..], bytes),
            Part::Root(data) | Part::Reduce(_, _, data) | Part::Fold(_, data) => {
                (true, data, data.len())
            }
        };
        self.number += 1;
        self.length = HEADER + bytes.next_multiple_of(8);
        let mut put = |at: i16, bytes: &[u8]| {
            self.packet[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(header::NUMBER, &self.number.to_le_bytes());
        put(header::WHAT, &what.to_le_bytes());
        put(header::HAVE, &[u8::from(have)]);
        put(header::BYTES, data);
        self.packet[HEADER + data.len()..].fill(0);
        self.again().map_err(NotStarted::System)
    }

    /// What it is that this contributes to, if that can be.
    fn what(&self, part: Part<'_>) -> Option<u64> {
        let (op, ty, bytes) = match part {
            Part::Nothing => (Op::Barrier, Type::U8, 0),
            Part::Root(data) => (Op::Bcast, Type::U8, data.len()),
            Part::Leaf(bytes) => (Op::Bcast, Type::U8, bytes),
            Part::Reduce(op, ty, data) => (op, ty, data.len()),
            Part::Fold(flat, data) => {
                let slot = self.slots.slot(flat).filter(|_| flat.fits(data.len()))?;
                return Some(what_of_code(slot as u32, flat.mark(), data.len()));
            }
        };
        let reduces = !matches!(op, Op::Barrier | Op::Bcast);
        let whole = bytes.is_multiple_of(ty.bytes()) && op.supports(ty);
        let known = bytes <= DATA_MAX && whole && reduces == matches!(part, Part::Reduce(..));
        known.then(|| what(op, ty, bytes))
    }

    /// Says once more what was said at the start: to be called from time to time while it isn't over, since packets get lost.
    ///
    /// # Errors
    /// The system's. It may be called again.
    pub fn again(&self) -> io::Result<()> {
        self.socket.send(self.said()).map(drop)
    }

    /// What [`again`](Member::again) says.
    pub(crate) fn said(&self) -> &[u8] {
        &self.packet[..self.length]
    }

    /// What asks for a packet when what was started last is over.
    fn wait(&self) -> [u8; HEADER] {
        let mut packet = [0; HEADER];
        packet.copy_from_slice(&self.packet[..HEADER]);
        let mut put = |at: i16, bytes: &[u8]| {
            packet[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(header::KIND, &[Kind::Wait as u8]);
        put(header::WHAT, &what(Op::Barrier, Type::U8, 0).to_le_bytes());
        packet
    }

    /// Through which socket, by a descriptor of the caller's.
    pub(crate) fn socket(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    /// The port of its packets.
    pub fn port(&self) -> u16 {
        self.card.port
    }

    /// The number of the collective that was entered last.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the collective that was entered last is over. One load.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.word(result::NUMBER, Ordering::Acquire) == self.number
    }

    /// When the kernel had the result, in nanoseconds of the monotonic clock.
    pub fn when(&self) -> u64 {
        self.word(result::WHEN, Ordering::Relaxed)
    }

    /// Takes the result into `data`, which is as long as the contributions; `None` while it isn't over.
    pub fn result(&self, data: &mut [u8]) -> Option<End> {
        if !self.is_over() {
            return None;
        }
        let told = self.word(layout::WHAT, Ordering::Relaxed);
        let mut expected = [0; 8];
        expected.copy_from_slice(&self.packet[header::WHAT as usize..][..8]);
        let bytes = (told >> 16) as usize & 0xffff;
        if told == NO_CODE {
            return Some(End::NoCode);
        }
        let nobody =
            told as u8 == Op::Bcast as u8 && self.word(layout::HAVE, Ordering::Relaxed) == 0;
        if told != u64::from_le_bytes(expected) || bytes != data.len() || nobody {
            return Some(End::Mismatch);
        }
        let first = layout::DATA as usize / 8;
        for (i, to) in data.chunks_mut(8).enumerate() {
            let word = self.page.words()[first + i].load(Ordering::Relaxed);
            to.copy_from_slice(&word.to_ne_bytes()[..to.len()]);
        }
        Some(End::Done)
    }

    fn word(&self, at: i16, ordering: Ordering) -> u64 {
        self.page.words()[at as usize / 8].load(ordering)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_floods_a_waker_does_not_keep_its_process() {
        let waker = Waker::new().unwrap();
        let port = waker.socket.local_addr().unwrap().port();
        let flood = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = flood.send_to(&[0; 4], (Ipv4Addr::LOCALHOST, port));
                }
            });
            let most = (0..100).map(|_| waker.drain()).max();
            over.store(true, Ordering::Relaxed);
            assert!(most.is_some_and(|most| most <= DRAINED_MAX as u64));
        });
    }
}
