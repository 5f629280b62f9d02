//! Connections between processes of a job that are not the fabric's: with its addresses and its handshake, and then their
//! maker's alone.
//!
//! * A [`Reception`] listens, and knows where others do.
//! * A [`Meeting`] is a connection until its two ends have proved to each other that they know the job's secret.
//! * Between two that have met, further connections begin with a *note*: words of the dialer's and a MAC over them, the two
//!   ranks and the job ([`Identity::note`]). Nobody has to answer, so the dialer can use such a connection at once; but the same note is as
//!   good a second time, and who takes it has to tell from the words whether it is. So a note keeps strangers out, but not one who can hear
//!   the network and gets through with it before its maker does; such a one hears the data anyway.
//!
//! Invariants: nothing here waits; of a connection nothing is read beyond handshake or note; a connection that has proved nothing costs a
//! fixed buffer. Its maker bounds how many there are. Called by `cad-ring`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::address::{Address, network_stack};
use crate::callers::{Caller, Filled, Role, Stage};
use crate::config::{Config, Error};
use crate::handshake::{
    Acceptor, Dialer, HELLO, Job, LONGEST, NOTE, NOTED, PROOF, Refused, VERDICT, Verdict,
};
use crate::interfaces::{self, Interface};
use crate::socket;

pub use crate::handshake::WORDS;

/// Listens for connections of one purpose.
pub struct Reception {
    listener: OwnedFd,
    address: Address,
    mine: Vec<Interface>,
}

impl Reception {
    /// Listens, on a port of its own.
    ///
    /// # Errors
    /// When no port can be listened on, or the interface that the user insists on does not exist.
    pub fn open(config: &Config) -> Result<Reception, Error> {
        let (listener, address, mine) = listen(config)?;
        Ok(Reception {
            listener,
            address,
            mine,
        })
    }

    /// Where the others reach this process: up to 200 printable ASCII characters without blanks.
    pub fn address(&self) -> String {
        self.address.encode()
    }

    /// What to try, best first, to reach a process that published `address`; empty if that can't be read.
    pub fn candidates(&self, address: &str) -> Vec<SocketAddr> {
        let address = Address::decode(address);
        address.map_or_else(Vec::new, |a| {
            a.candidates(&self.mine, self.address.stack, None)
        })
    }

    /// The next caller, if there is one.
    ///
    /// # Errors
    /// The system has no descriptors or memory left.
    pub fn accept(&self, identity: &Identity) -> io::Result<Option<Meeting>> {
        loop {
            match socket::accept(&self.listener) {
                Ok((fd, remote)) => return Meeting::answer(identity, fd, remote).map(Some),
                Err(Errno::AGAIN) => return Ok(None),
                // The kernel looks for a descriptor first, and only then whether anybody is there.
                Err(e) if socket::no_room(e) && !socket::is_readable(&self.listener) => {
                    return Ok(None);
                }
                Err(e) if socket::no_room(e) => return Err(e.into()),
                // It was gone before we looked.
                Err(_) => {}
            }
        }
    }
}

impl AsFd for Reception {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Listens where the configuration says; what to publish, and what is on this machine.
pub(crate) fn listen(config: &Config) -> Result<(OwnedFd, Address, Vec<Interface>), Error> {
    let mine = interfaces::all();
    let wanted = config.interface.as_deref();
    let mut ips = interfaces::choose(&mine, wanted)
        .map_err(|e| Error(format!("YAMABIKO_TCP_INTERFACE: {e}")))?;
    let (listener, port, both) = socket::listen_on(config.ports)?;
    if !both {
        ips.retain(|ip| ip.is_ipv4());
    }
    let address = Address {
        port,
        stack: network_stack(),
        loopback: wanted.is_none(),
        ips,
    };
    Ok((listener, address, mine))
}

/// What a process proves: that it is this rank of this job. What is proved for one purpose proves nothing for another.
#[derive(Clone)]
pub struct Identity(Job);

impl Identity {
    /// Rank `me` of `ranks`, in a job that alone knows `secret`. `purpose` is one short word.
    pub fn new(purpose: &str, config: &Config, secret: [u8; 32], me: u32, ranks: u32) -> Identity {
        Identity(Job {
            secret,
            // The fabric's is a number.
            version: format!("{purpose} {}", config.version),
            me,
            ranks,
        })
    }

    /// What a further connection to rank `to` begins with.
    pub fn note(&self, to: u32, words: &[u8; WORDS]) -> [u8; NOTE] {
        self.0.note(to, words)
    }
}

/// What became of a connection so far.
#[derive(Debug)]
pub enum Met {
    /// Its other end has to do something.
    Waits,
    /// Both ends have proved themselves; this is the other's rank.
    With(u32),
    /// It began with a note of this rank's.
    Noted(u32, [u8; WORDS]),
    /// Nothing, for this reason.
    Not(String),
}

/// A connection that has proved nothing yet.
pub struct Meeting(Caller);

impl Meeting {
    fn new(fd: OwnedFd, remote: SocketAddr, role: Role) -> Meeting {
        Meeting(Caller {
            fd,
            remote,
            role,
            buffer: [0; LONGEST],
            filled: 0,
        })
    }

    /// Calls rank `peer` at one of its addresses.
    ///
    /// # Errors
    /// What the system says.
    pub fn dial(identity: &Identity, peer: u32, to: SocketAddr) -> io::Result<Meeting> {
        let mut nonce = [0; 32];
        sys::random::fill(&mut nonce)?;
        let role = Role::Dials {
            peer,
            dialer: Box::new(Dialer::new(&identity.0, peer, &nonce)),
            stage: Stage::Connects,
        };
        Ok(Meeting::new(socket::dial(&to)?, to, role))
    }

    fn answer(identity: &Identity, fd: OwnedFd, remote: Option<SocketAddr>) -> io::Result<Meeting> {
        let mut nonce = [0; 32];
        sys::random::fill(&mut nonce)?;
        let role = Role::Answers {
            acceptor: Box::new(Acceptor::new(&identity.0, &nonce)),
            greeted: false,
        };
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Ok(Meeting::new(fd, remote.unwrap_or(nobody), role))
    }

    /// The other end's address: where it listens, if this end dialed.
    pub fn remote(&self) -> SocketAddr {
        self.0.remote
    }

    /// Whether it goes on when it is writable; else when it is readable.
    pub fn connects(&self) -> bool {
        matches!(
            self.0.role,
            Role::Dials {
                stage: Stage::Connects,
                ..
            }
        )
    }

    /// Does what can be done now. `welcome`: whether a rank that calls is to be let in.
    pub fn go_on(&mut self, identity: &Identity, welcome: impl Fn(u32) -> bool) -> Met {
        let met = match self.0.role {
            Role::Dials { .. } => self.dials(&identity.0),
            Role::Answers { .. } => self.answers(&identity.0, &welcome),
        };
        met.unwrap_or_else(Met::Not)
    }

    fn dials(&mut self, job: &Job) -> Result<Met, String> {
        let caller = &mut self.0;
        loop {
            let Role::Dials {
                peer,
                dialer,
                stage,
            } = &mut caller.role
            else {
                return Err("it was called".into());
            };
            match *stage {
                Stage::Connects => {
                    if !connected(caller.fd.as_fd()).map_err(|e| e.to_string())? {
                        return Ok(Met::Waits);
                    }
                    *stage = Stage::Greeted;
                    let hello = dialer.hello();
                    caller.say(&hello)?;
                }
                Stage::Greeted | Stage::Held => match caller.fill(HELLO) {
                    Filled::Partly => return Ok(Met::Waits),
                    Filled::Closed(why) => return Err(why),
                    Filled::Wholly => {
                        let theirs = caller.message::<HELLO>();
                        let Role::Dials { dialer, stage, .. } = &mut caller.role else {
                            return Err("it was called".into());
                        };
                        *stage = Stage::Proved;
                        let proof = dialer.prove(job, &theirs).map_err(|why| said(why, job))?;
                        caller.say(&proof)?;
                    }
                },
                Stage::Proved => {
                    let peer = *peer;
                    match caller.fill(VERDICT) {
                        Filled::Partly => return Ok(Met::Waits),
                        Filled::Closed(why) => return Err(why),
                        Filled::Wholly => {}
                    }
                    let words = caller.message::<VERDICT>();
                    let Role::Dials { dialer, .. } = &caller.role else {
                        return Err("it was called".into());
                    };
                    return match dialer.verdict(job, &words).map_err(|why| said(why, job))? {
                        Verdict::Welcome => Ok(Met::With(peer)),
                        Verdict::MineWins => Err("it has met this rank already".into()),
                        Verdict::Elsewhere => Err("another rank listens there".into()),
                    };
                }
            }
        }
    }

    fn answers(&mut self, job: &Job, welcome: &dyn Fn(u32) -> bool) -> Result<Met, String> {
        let caller = &mut self.0;
        loop {
            let Role::Answers { greeted, .. } = caller.role else {
                return Err("it was not called".into());
            };
            // A note's first bytes tell it from a hello, and both are longer than those.
            let need = match (greeted, caller.filled >= NOTED.len()) {
                (true, _) => PROOF,
                (false, false) => NOTED.len(),
                (false, true) if caller.buffer[..NOTED.len()] == NOTED => NOTE,
                (false, true) => HELLO,
            };
            match caller.fill(need) {
                Filled::Partly => return Ok(Met::Waits),
                Filled::Closed(why) => return Err(why),
                Filled::Wholly => {}
            }
            if need == NOTED.len() {
                continue;
            }
            if need == NOTE {
                let (from, words) = job
                    .noted(&caller.message::<NOTE>())
                    .map_err(|why| said(why, job))?;
                return Ok(Met::Noted(from, words));
            }
            if greeted {
                return hear_proof(caller, job, welcome);
            }
            let theirs = caller.message::<HELLO>();
            let Role::Answers { acceptor, greeted } = &mut caller.role else {
                return Err("it was not called".into());
            };
            *greeted = true;
            let (hello, heard) = (acceptor.hello(), acceptor.greet(&theirs));
            // Also to one of another version, so that the other end can say what is wrong.
            let answered = caller.say(&hello);
            heard.map_err(|why| said(why, job))?;
            answered?;
        }
    }

    /// The connection, which is its maker's from now on.
    pub fn into_socket(self) -> OwnedFd {
        self.0.fd
    }
}

impl AsFd for Meeting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

fn hear_proof(
    caller: &mut Caller,
    job: &Job,
    welcome: &dyn Fn(u32) -> bool,
) -> Result<Met, String> {
    let proof = caller.message::<PROOF>();
    let Role::Answers { acceptor, .. } = &mut caller.role else {
        return Err("it was not called".into());
    };
    let (peer, here) = acceptor.check(job, &proof).map_err(|why| said(why, job))?;
    let (verdict, met) = match (here, welcome(peer)) {
        (true, true) => (Verdict::Welcome, Ok(Met::With(peer))),
        (true, false) => (
            Verdict::MineWins,
            Err(format!("rank {peer} is here already, or gone")),
        ),
        (false, _) => (
            Verdict::Elsewhere,
            Err(format!("rank {peer} looks for another rank")),
        ),
    };
    let words = acceptor.verdict(job, verdict);
    caller.say(&words)?;
    met
}

fn said(why: Refused, job: &Job) -> String {
    match why {
        Refused::Stranger(why) => why.into(),
        Refused::Version(theirs) => format!("it speaks `{theirs}`, this rank `{}`", job.version),
    }
}

/// Begins a further connection, without delay of what it sends; [`connected`] tells when it is there.
///
/// # Errors
/// What the system says.
pub fn dial(to: &SocketAddr) -> io::Result<OwnedFd> {
    Ok(socket::dial(to)?)
}

/// Whether a connection that was begun is there.
///
/// # Errors
/// Why it never will be.
pub fn connected(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => {
            socket::dialed(fd)?;
            Ok(true)
        }
        Err(e) => Err(e.into()),
    }
}

/// Whether the other host has confirmed all that was sent on a connection, or never will.
pub fn confirmed(fd: BorrowedFd<'_>) -> bool {
    crate::memory::pulse(fd).is_none_or(|pulse| !pulse.unconfirmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(me: u32, secret: u8) -> Identity {
        Identity::new("tests", &Config::default(), [secret; 32], me, 3)
    }

    fn reception() -> Reception {
        Reception::open(&Config::default()).unwrap()
    }

    /// Goes on with both ends until each has come to something.
    fn meet(dialer: &Identity, at: &Reception, acceptor: &Identity, welcome: bool) -> [Met; 2] {
        let to = at.candidates(&at.address())[0];
        let mut near = Meeting::dial(dialer, 2, to).unwrap();
        let mut far = None;
        let mut ends = [Met::Waits, Met::Waits];
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while ends.iter().any(|met| matches!(met, Met::Waits)) {
            assert!(std::time::Instant::now() < end);
            if matches!(ends[0], Met::Waits) {
                ends[0] = near.go_on(dialer, |_| true);
            }
            if far.is_none() {
                far = at.accept(acceptor).unwrap();
            }
            if let (Some(meeting), Met::Waits) = (&mut far, &ends[1]) {
                ends[1] = meeting.go_on(acceptor, |_| welcome);
                // Who refuses hangs up.
                far = far.filter(|_| !matches!(ends[1], Met::Not(_)));
            }
        }
        ends
    }

    #[test]
    fn who_knows_the_secret_is_met() {
        let at = reception();
        let (a, b) = (identity(1, 7), identity(2, 7));
        let met = meet(&a, &at, &b, true);
        assert!(matches!(met, [Met::With(2), Met::With(1)]), "{met:?}");
        let met = meet(&a, &at, &b, false);
        assert!(matches!(met, [Met::Not(_), Met::Not(_)]), "{met:?}");
        let met = meet(&a, &at, &identity(2, 8), true);
        assert!(matches!(met, [Met::Not(_), Met::Not(_)]), "{met:?}");
        let other = Identity::new("others", &Config::default(), [7; 32], 2, 3);
        let met = meet(&a, &at, &other, true);
        assert!(
            matches!(&met[0], Met::Not(why) if why.contains("others")),
            "{met:?}"
        );
    }

    #[test]
    fn notes_are_heard_without_an_answer_and_nothing_beyond_them_is_read() {
        let at = reception();
        let (a, b) = (identity(1, 7), identity(2, 7));
        let hear = |identity: &Identity, bytes: &[u8]| {
            let near = dial(&at.candidates(&at.address())[0]).unwrap();
            let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while !connected(near.as_fd()).unwrap() {
                assert!(std::time::Instant::now() < end);
            }
            rustix::io::write(&near, bytes).unwrap();
            let mut far = None;
            loop {
                assert!(std::time::Instant::now() < end);
                far = far.or_else(|| at.accept(identity).unwrap());
                let Some(meeting) = &mut far else { continue };
                match meeting.go_on(identity, |_| true) {
                    Met::Waits => {}
                    met => return (met, far.unwrap().into_socket(), near),
                }
            }
        };
        let words = *b"sixteen bytes...";
        let mut said = a.note(2, &words).to_vec();
        said.extend(b"data");
        let (met, far, _near) = hear(&b, &said);
        assert!(
            matches!(met, Met::Noted(1, heard) if heard == words),
            "{met:?}"
        );
        let mut rest = [0; 8];
        assert_eq!(rustix::io::read(&far, &mut rest).unwrap(), 4);
        assert_eq!(&rest[..4], b"data");
        for at in 0..NOTE {
            let mut wrong = said.clone();
            wrong[at] ^= 1;
            // Other first bytes may begin something longer.
            wrong.resize(HELLO, 0);
            let (met, ..) = hear(&b, &wrong);
            assert!(matches!(met, Met::Not(_)), "byte {at}: {met:?}");
        }
        let (met, ..) = hear(&identity(0, 7), &said);
        assert!(matches!(met, Met::Not(_)), "for another: {met:?}");
    }
}
