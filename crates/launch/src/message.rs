//! Messages between mpiexec and its keeper: 12 bytes each over a sequenced-packet socket.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::AsFd;

/// What mpiexec tells the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Send this signal to the process groups of all living ranks.
    Signal(i32),
    /// Send this signal to every descendant.
    SignalAll(i32),
}

/// What the keeper tells mpiexec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// This rank has been started as this process.
    Started(u32, i32),
    /// This rank could not be started: step and errno.
    Failed(u32, u32, i32),
    /// This rank's process ended with this wait status.
    Ended(u32, i32),
    /// No descendant is left.
    Alone,
}

/// One message on the wire: kind, rank, value; the step of a failure is in the kind's upper half.
type Packet = [u8; 12];

fn pack(kind: u32, rank: u32, value: i32) -> Packet {
    let mut packet = [0; 12];
    packet[..4].copy_from_slice(&kind.to_ne_bytes());
    packet[4..8].copy_from_slice(&rank.to_ne_bytes());
    packet[8..].copy_from_slice(&value.to_ne_bytes());
    packet
}

fn unpack(packet: &Packet) -> (u32, u32, i32) {
    let word = |at: usize| [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
    (
        u32::from_ne_bytes(word(0)),
        u32::from_ne_bytes(word(4)),
        i32::from_ne_bytes(word(8)),
    )
}

impl Order {
    fn encode(self) -> Packet {
        match self {
            Order::Signal(signal) => pack(1, 0, signal),
            Order::SignalAll(signal) => pack(2, 0, signal),
        }
    }

    fn decode(packet: &Packet) -> Option<Order> {
        match unpack(packet) {
            (1, _, signal) => Some(Order::Signal(signal)),
            (2, _, signal) => Some(Order::SignalAll(signal)),
            _ => None,
        }
    }
}

impl News {
    fn encode(self) -> Packet {
        match self {
            News::Started(rank, pid) => pack(1, rank, pid),
            News::Failed(rank, step, errno) => pack(2 | step << 16, rank, errno),
            News::Ended(rank, status) => pack(3, rank, status),
            News::Alone => pack(4, 0, 0),
        }
    }

    fn decode(packet: &Packet) -> Option<News> {
        let (kind, rank, value) = unpack(packet);
        match kind & 0xffff {
            1 => Some(News::Started(rank, value)),
            2 => Some(News::Failed(rank, kind >> 16, value)),
            3 => Some(News::Ended(rank, value)),
            4 => Some(News::Alone),
            _ => None,
        }
    }
}

/// What [`receive`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// A message.
    Message(T),
    /// Nothing yet.
    Nothing,
    /// The other side is gone.
    Closed,
}

/// Sends an order; a keeper that is gone shows when its news are read. One that is stopped may let so many
/// orders wait that there is no room for more: then some of the kind wait already, as signals do.
pub fn order(socket: impl AsFd, order: Order) {
    let _ = send(socket, order.encode(), SendFlags::DONTWAIT);
}

/// Sends news; `false` if mpiexec is gone.
pub fn tell(socket: impl AsFd, news: News) -> bool {
    send(socket, news.encode(), SendFlags::empty()).is_ok()
}

/// Receives an order without waiting.
pub fn next_order(socket: impl AsFd) -> Received<Order> {
    receive(socket, Order::decode)
}

/// Receives news without waiting.
pub fn next_news(socket: impl AsFd) -> Received<News> {
    receive(socket, News::decode)
}

fn send(socket: impl AsFd, packet: Packet, flags: SendFlags) -> Result<(), Errno> {
    loop {
        match rustix::net::send(socket.as_fd(), &packet, flags | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => return other.map(|_| ()),
        }
    }
}

fn receive<T>(socket: impl AsFd, decode: fn(&Packet) -> Option<T>) -> Received<T> {
    let mut packet = [0; 12];
    let mut look = || rustix::net::recv(socket.as_fd(), &mut packet[..], RecvFlags::DONTWAIT);
    // The second look is for what the other side said just before it went: `sys::unix::Socket::receive` says why.
    let got = match look() {
        Ok((_, 0)) => look(),
        other => other,
    };
    match got {
        Ok((_, 12)) => decode(&packet).map_or(Received::Closed, Received::Message),
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        _ => Received::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        for order in [Order::Signal(2), Order::SignalAll(9)] {
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        for news in [
            News::Started(3, 99),
            News::Failed(1, 3, 2),
            News::Ended(7, -1),
            News::Alone,
        ] {
            assert_eq!(News::decode(&news.encode()), Some(news));
        }
        assert_eq!(Order::decode(&[0; 12]), None);
        assert_eq!(News::decode(&[0xff; 12]), None);
    }

    #[test]
    fn orders_that_nobody_takes_do_not_block() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (a, b) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        for _ in 0..100_000 {
            order(&a, Order::Signal(10));
        }
        let mut waited = 0;
        while next_order(&b) == Received::Message(Order::Signal(10)) {
            waited += 1;
        }
        assert!((10..100_000).contains(&waited), "{waited}");
    }
}
