//! Unix sockets between processes of one user, in the abstract namespace, with descriptor passing.
//!
//! Abstract names need no directory, leave nothing behind, and are visible to everybody in the
//! network namespace; so both ends check who the other is (`SO_PEERCRED`) and refuse any other
//! user. That proves the user, not the job: the secret of the job is the caller's to check.
//!
//! Sockets do not block; every operation takes a deadline (`None` waits for ever) and fails with
//! `TimedOut` when it passes. Descriptors are closed on `exec`, and a peer that is gone is an
//! error, never a signal.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect as connect_to, listen as listen_on, recv, recvmsg, sendmsg,
    socket_with, socketpair,
};

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// How long to wait before connecting again to a listener whose queue is full.
const RETRY: Duration = Duration::from_millis(1);
const BACKLOG: i32 = 1024;

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream of bytes.
    Stream,
    /// Packets that arrive whole and in order.
    Packets,
}

impl Kind {
    fn socket_type(self) -> SocketType {
        match self {
            Kind::Stream => SocketType::STREAM,
            Kind::Packets => SocketType::SEQPACKET,
        }
    }
}

/// A socket that accepts connections of this user's processes.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

/// A connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

/// What [`Socket::receive`] got.
#[derive(Debug)]
pub struct Received {
    /// Number of bytes; 0 when the peer has closed the connection (or sent an empty packet, and nothing after it).
    pub bytes: usize,
    /// The descriptor that came with them. Any others were closed.
    pub fd: Option<OwnedFd>,
}

/// Listens on the abstract name `name` (at most 107 bytes).
///
/// # Errors
/// When the name is too long or in use, or the system refuses.
pub fn listen(name: &[u8], kind: Kind) -> io::Result<Listener> {
    let fd = socket_with(AddressFamily::UNIX, kind.socket_type(), FLAGS, None)?;
    bind(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
    listen_on(&fd, BACKLOG)?;
    Ok(Listener { fd })
}

/// Connects to the listener called `name`, if it belongs to this user.
///
/// # Errors
/// `ConnectionRefused` when nobody listens, `PermissionDenied` when another user does, `TimedOut`,
/// or what the system says.
pub fn connect(name: &[u8], kind: Kind, deadline: Option<Instant>) -> io::Result<Socket> {
    let socket = connect_to_any(name, kind, deadline)?;
    match same_user(&socket)? {
        true => Ok(socket),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

/// Connects to the listener called `name`, [whose](Socket::user) ever it is.
///
/// # Errors
/// `ConnectionRefused` when nobody listens, `TimedOut`, or what the system says.
pub fn connect_to_any(name: &[u8], kind: Kind, deadline: Option<Instant>) -> io::Result<Socket> {
    let address = SocketAddrUnix::new_abstract_name(name)?;
    let fd = socket_with(AddressFamily::UNIX, kind.socket_type(), FLAGS, None)?;
    loop {
        match connect_to(&fd, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            // The listener's queue is full. There is nothing to poll for.
            Err(Errno::AGAIN) if crate::clock::passed(deadline) => {
                return Err(ErrorKind::TimedOut.into());
            }
            Err(Errno::AGAIN) => std::thread::sleep(RETRY),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Socket { fd })
}

/// Two sockets connected to each other.
///
/// # Errors
/// When the system refuses.
pub fn pair(kind: Kind) -> io::Result<(Socket, Socket)> {
    let (a, b) = socketpair(AddressFamily::UNIX, kind.socket_type(), FLAGS, None)?;
    Ok((Socket { fd: a }, Socket { fd: b }))
}

/// A number that two processes share if one can reach the other's sockets here: it stands for the
/// running kernel, the network namespace (in which abstract names live) and the user.
///
/// # Errors
/// When `/proc` does not tell.
pub fn neighbourhood() -> io::Result<u64> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    use std::os::unix::fs::MetadataExt;
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id")?;
    let space = std::fs::metadata("/proc/self/ns/net")?;
    let user = rustix::process::geteuid().as_raw();
    let mut hasher = DefaultHasher::new();
    (boot, space.dev(), space.ino(), user).hash(&mut hasher);
    Ok(hasher.finish())
}

fn same_user(socket: &Socket) -> io::Result<bool> {
    Ok(socket.user()? == rustix::process::geteuid().as_raw())
}

impl Listener {
    /// The next connection of this user; those of others are closed.
    ///
    /// # Errors
    /// `TimedOut`, or what the system says.
    pub fn accept(&self, deadline: Option<Instant>) -> io::Result<Socket> {
        loop {
            match accept_with(&self.fd, FLAGS) {
                Ok(fd) => {
                    let socket = Socket { fd };
                    if same_user(&socket)? {
                        return Ok(socket);
                    }
                }
                Err(Errno::AGAIN) => await_ready(&self.fd, PollFlags::IN, deadline)?,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Socket {
    /// Takes over a connected Unix socket, such as one that was inherited, and makes it
    /// non-blocking.
    ///
    /// # Errors
    /// When `fd` is not such a socket.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Socket> {
        let socket = Socket { fd };
        socket.user()?;
        rustix::io::ioctl_fionbio(&socket.fd, true)?;
        Ok(socket)
    }

    /// The user of the process at the other end (for an accepted or connected socket: when it connected or
    /// listened), as a number of this process's user namespace.
    ///
    /// # Errors
    /// What the system says.
    pub fn user(&self) -> io::Result<u32> {
        // Not rustix's `socket_peercred`: it has no value for a process of another PID namespace, whose id is 0 here.
        let mut peer = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut size = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the pointers are to a `ucred` and its size, both alive and exclusively ours during the call; the
        // kernel writes at most `size` bytes, and any bytes make a `ucred`.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut size,
            )
        };
        match result {
            0 => Ok(peer.uid),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends some of `data` (a packet: all of it), and `fd` with its first byte. Returns how many
    /// bytes went out. On a stream, `data` must not be empty.
    ///
    /// # Errors
    /// `BrokenPipe` when the peer is gone, `TimedOut`, or what the system says.
    pub fn send(
        &self,
        data: &[u8],
        fd: Option<BorrowedFd<'_>>,
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        let fds = fd.as_slice();
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(fds));
            }
            match sendmsg(
                &self.fd,
                &[IoSlice::new(data)],
                &mut control,
                SendFlags::NOSIGNAL,
            ) {
                Ok(n) => return Ok(n),
                Err(Errno::AGAIN) => await_ready(&self.fd, PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Sends all of `data`, and `fd` with its first byte.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub fn send_all(
        &self,
        mut data: &[u8],
        mut fd: Option<BorrowedFd<'_>>,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        while !data.is_empty() {
            let n = self.send(data, fd.take(), deadline)?;
            data = &data[n..];
        }
        Ok(())
    }

    /// Receives some bytes (or one packet) and the descriptor that came with them.
    ///
    /// # Errors
    /// `InvalidData` when a packet did not fit `out`, `TimedOut`, or what the system says.
    pub fn receive(&self, out: &mut [u8], deadline: Option<Instant>) -> io::Result<Received> {
        let got = self.receive_once(out, deadline)?;
        if got.bytes > 0 {
            return Ok(got);
        }
        // Linux looks for a packet first and then whether the peer has closed the connection, and takes no lock across
        // both: one that sends and closes between the two is reported as gone, with its packets waiting. Now that it
        // is, whatever it sent is there.
        match self.receive_once(out, crate::clock::after(Duration::ZERO)) {
            Err(e) if e.kind() == ErrorKind::TimedOut => Ok(got),
            second => second,
        }
    }

    fn receive_once(&self, out: &mut [u8], deadline: Option<Instant>) -> io::Result<Received> {
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let got = recvmsg(
                &self.fd,
                &mut [IoSliceMut::new(out)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            );
            match got {
                Ok(m) if m.flags.contains(ReturnFlags::TRUNC) => {
                    return Err(io::Error::new(
                        ErrorKind::InvalidData,
                        "the packet is too long",
                    ));
                }
                Ok(m) => {
                    return Ok(Received {
                        bytes: m.bytes,
                        fd: first_fd(&mut control),
                    });
                }
                Err(Errno::AGAIN) => await_ready(&self.fd, PollFlags::IN, deadline)?,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Receives a packet and no descriptor: any that came with it are never this process's, so nobody has it wait for their closing. 0 bytes as in
    /// [`Received`].
    ///
    /// # Errors
    /// As [`Socket::receive`].
    pub fn receive_plain(&self, out: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        self.receive_as(out, RecvFlags::TRUNC, deadline)
    }

    /// The beginning of the next packet, which stays. 0 bytes as in [`Received`].
    ///
    /// # Errors
    /// `TimedOut`, or what the system says.
    pub fn peek(&self, out: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        let room = out.len();
        let bytes = self.receive_as(out, RecvFlags::PEEK, deadline)?;
        Ok(bytes.min(room))
    }

    fn receive_as(
        &self,
        out: &mut [u8],
        flags: RecvFlags,
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        loop {
            match recv(&self.fd, &mut *out, flags) {
                Ok((_, bytes)) if bytes > out.len() => {
                    return Err(io::Error::new(
                        ErrorKind::InvalidData,
                        "the packet is too long",
                    ));
                }
                Ok((_, bytes)) => return Ok(bytes),
                Err(Errno::AGAIN) => await_ready(&self.fd, PollFlags::IN, deadline)?,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Fills `out` from a stream and returns the first descriptor that came on the way.
    ///
    /// # Errors
    /// `UnexpectedEof` when the peer closes before that, or as [`Socket::receive`].
    pub fn receive_exact(
        &self,
        out: &mut [u8],
        deadline: Option<Instant>,
    ) -> io::Result<Option<OwnedFd>> {
        let (mut done, mut fd) = (0, None);
        while done < out.len() {
            let got = self.receive(&mut out[done..], deadline)?;
            if got.bytes == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            done += got.bytes;
            fd = fd.or(got.fd);
        }
        Ok(fd)
    }
}

/// The first descriptor among the messages; the others are closed as they are dropped.
fn first_fd(control: &mut RecvAncillaryBuffer<'_>) -> Option<OwnedFd> {
    let mut first = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                first.get_or_insert(fd);
            }
        }
    }
    first
}

/// Waits until `fd` is ready for `what`, or an error is pending, which the next call reports.
fn await_ready(fd: impl AsFd, what: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
    loop {
        let left = crate::clock::timespec_left(deadline);
        match poll(&mut [PollFd::new(&fd, what)], left.as_ref()) {
            Ok(0) if crate::clock::passed(deadline) => return Err(ErrorKind::TimedOut.into()),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        socket.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Option<Instant> {
        crate::clock::after(Duration::from_millis(30))
    }

    fn name() -> Vec<u8> {
        format!("yamabiko-test-{:x}", crate::random::u64().unwrap()).into_bytes()
    }

    #[test]
    fn what_lets_callers_wait_is_not_waited_for_without_end() {
        let name = name();
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None).unwrap();
        bind(&fd, &SocketAddrUnix::new_abstract_name(&name).unwrap()).unwrap();
        listen_on(&fd, 0).unwrap();
        let mut kept = Vec::new();
        let told = loop {
            match connect_to_any(&name, Kind::Packets, soon()) {
                Ok(socket) => kept.push(socket),
                Err(e) => break e.kind(),
            }
            assert!(kept.len() < 100, "its queue has no end");
        };
        assert_eq!(told, ErrorKind::TimedOut);
    }

    #[test]
    fn packets_can_be_looked_at_and_taken_without_descriptors() {
        let (a, b) = pair(Kind::Packets).unwrap();
        let (near, far) = pair(Kind::Stream).unwrap();
        a.send(b"packet", Some(far.as_fd()), soon()).unwrap();
        drop(far);
        let mut bytes = [0; 6];
        assert_eq!(b.peek(&mut bytes[..4], soon()).unwrap(), 4);
        assert_eq!(&bytes[..4], b"pack");
        assert_eq!(b.receive_plain(&mut bytes, soon()).unwrap(), 6);
        assert_eq!(&bytes, b"packet");
        assert_eq!(
            near.receive(&mut [0; 1], soon()).unwrap().bytes,
            0,
            "closed"
        );
        a.send(b"too long", None, soon()).unwrap();
        let told = b.receive_plain(&mut bytes, soon()).map_err(|e| e.kind());
        assert_eq!(told, Err(ErrorKind::InvalidData));
        let told = b.peek(&mut bytes, soon()).map_err(|e| e.kind());
        assert_eq!(told, Err(ErrorKind::TimedOut));
    }

    #[test]
    fn a_segment_travels() {
        for kind in [Kind::Stream, Kind::Packets] {
            let name = name();
            let listener = listen(&name, kind).unwrap();
            assert!(listen(&name, kind).is_err());
            let a = connect(&name, kind, soon()).unwrap();
            let b = listener.accept(soon()).unwrap();
            let me = rustix::process::geteuid().as_raw();
            assert_eq!((a.user().unwrap(), b.user().unwrap()), (me, me));
            let (fd, map) = crate::memfd::create_sealed("travels", 4096).unwrap();
            map.write(100, b"hello");
            assert_eq!(a.send(b"segment", Some(fd.as_fd()), soon()).unwrap(), 7);
            a.send(b"", None, soon()).ok();
            let mut out = [0; 64];
            let got = b.receive(&mut out, soon()).unwrap();
            assert_eq!(&out[..got.bytes], b"segment");
            let theirs = crate::memfd::open_sealed(got.fd.unwrap(), 4096).unwrap();
            assert!(theirs.read(100, &mut out[..5]));
            assert_eq!(&out[..5], b"hello");
        }
    }

    #[test]
    fn waits_end() {
        let name = name();
        assert_eq!(
            connect(&name, Kind::Stream, soon()).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
        let listener = listen(&name, Kind::Stream).unwrap();
        assert_eq!(
            listener.accept(soon()).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        let a = connect(&name, Kind::Stream, soon()).unwrap();
        assert_eq!(
            a.receive(&mut [0; 8], soon()).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        let flood = a.send_all(&vec![0; 64 << 20], None, soon());
        assert_eq!(flood.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    /// Fails about once in 10,000 packets where the kernel's word for the end is taken at once.
    #[test]
    fn what_was_sent_before_the_end_arrives() {
        let (to, sender) = std::sync::mpsc::sync_channel::<Socket>(1);
        let sends = std::thread::spawn(move || {
            for (round, socket) in sender.into_iter().enumerate() {
                for _ in 0..round % 300 {
                    std::hint::spin_loop();
                }
                socket.send_all(b"last words", None, None).unwrap();
            }
        });
        for round in 0..50_000 {
            let (near, far) = pair(Kind::Packets).unwrap();
            to.send(far).unwrap();
            let mut out = [0; 16];
            let got = loop {
                match near.receive(&mut out, crate::clock::after(Duration::ZERO)) {
                    Err(e) if e.kind() == ErrorKind::TimedOut => {}
                    other => break other.unwrap(),
                }
            };
            assert_eq!(&out[..got.bytes], b"last words", "round {round}");
        }
        drop(to);
        sends.join().unwrap();
    }

    #[test]
    fn a_dead_peer_is_an_error() {
        let (a, b) = pair(Kind::Stream).unwrap();
        let b = Socket::from_fd(b.into()).unwrap();
        a.send_all(b"abc", None, soon()).unwrap();
        drop(a);
        let mut out = [0; 4];
        let e = b.receive_exact(&mut out, soon()).unwrap_err();
        assert_eq!(
            (e.kind(), &out[..3]),
            (ErrorKind::UnexpectedEof, &b"abc"[..])
        );
        assert_eq!(
            b.send(b"x", None, soon()).unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn packets_do_not_merge() {
        let (a, b) = pair(Kind::Packets).unwrap();
        a.send(b"one", None, soon()).unwrap();
        a.send(b"three", None, soon()).unwrap();
        let mut out = [0; 4];
        assert_eq!(b.receive(&mut out, soon()).unwrap().bytes, 3);
        assert_eq!(
            b.receive(&mut out, soon()).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
    }

    #[test]
    fn descriptors_close_on_exec() {
        let (a, b) = pair(Kind::Stream).unwrap();
        a.send_all(b"x", Some(a.as_fd()), soon()).unwrap();
        let fd = b.receive_exact(&mut [0; 1], soon()).unwrap().unwrap();
        for fd in [fd.as_fd(), a.as_fd(), b.as_fd()] {
            let flags = rustix::io::fcntl_getfd(fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }
}
