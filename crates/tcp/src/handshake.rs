//! How the two ends of a new connection prove to each other that they know the job's secret.
//!
//! 1. Dialer and acceptor each say hello: what they speak, which version of the library they are, and a number
//!    nobody used before.
//! 2. The dialer says which rank it is and which it wants, with a MAC over all that was said.
//! 3. The acceptor checks it, and answers with its verdict and a MAC of its own.
//!
//! Every message has a fixed size, so a connection that has proved nothing costs a fixed buffer. The MAC is
//! HMAC-SHA256 keyed with the job's secret; each direction has its own label and covers both numbers, so a recorded
//! handshake proves nothing later and neither end can be made to answer for the other. What follows on
//! the connection is not protected: this keeps strangers out, not those who can change packets.
//!
//! No I/O here: bytes in, bytes out. `dial` and `accept` move them.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a hello.
pub(crate) const HELLO: usize = 80;
/// Bytes of the dialer's proof.
pub(crate) const PROOF: usize = 40;
/// Bytes of the acceptor's verdict.
pub(crate) const VERDICT: usize = 36;
/// The longest of them.
pub(crate) const LONGEST: usize = HELLO;
/// Bytes of a note, which needs no answer: see `meeting`.
pub(crate) const NOTE: usize = 8 + 4 + WORDS + 32;
/// Bytes of the words in it.
pub const WORDS: usize = 16;
/// Its first bytes.
pub(crate) const NOTED: [u8; 8] = *b"yamanote";
const _: () = assert!(NOTE <= LONGEST);

const MAGIC: [u8; 8] = *b"yamabiko";
/// Version of everything that is sent: two libraries that differ here can't even say so.
const WIRE: u32 = 1;
const TEXT: usize = 36;
const NONCE: usize = 32;
const _: () = assert!(MAGIC.len() + 4 + TEXT + NONCE == HELLO);

/// A number that is used once.
pub(crate) type Nonce = [u8; NONCE];

/// What both ends know beforehand.
#[derive(Clone)]
pub(crate) struct Job {
    pub secret: [u8; 32],
    pub version: String,
    pub me: u32,
    pub ranks: u32,
}

/// Why a connection is not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The other end is none of ours.
    Stranger(&'static str),
    /// It is another version of the library.
    Version(String),
}

/// What the acceptor says in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The connection is the one.
    Welcome,
    /// The acceptor's own dial, or an earlier connection, is the one.
    MineWins,
    /// The rank that was asked for is not here.
    Elsewhere,
}

fn hello(version: &str, nonce: &Nonce) -> [u8; HELLO] {
    let mut text = [0; TEXT];
    let n = version.len().min(TEXT);
    text[..n].copy_from_slice(&version.as_bytes()[..n]);
    let mut out = [0; HELLO];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&WIRE.to_le_bytes());
    out[12..12 + TEXT].copy_from_slice(&text);
    out[12 + TEXT..].copy_from_slice(nonce);
    out
}

/// Checks all of the other end's hello but its number, given ours.
fn check(theirs: &[u8; HELLO], ours: &[u8; HELLO]) -> Result<(), Refused> {
    const SAID: usize = 12 + TEXT;
    if theirs[..8] != MAGIC {
        return Err(Refused::Stranger(
            "it does not speak this library's protocol",
        ));
    }
    if theirs[..SAID] != ours[..SAID] {
        let text = &theirs[12..SAID];
        let end = text.iter().position(|&b| b == 0).unwrap_or(TEXT);
        let printable = |&b: &u8| match b {
            b' '..=b'~' => char::from(b),
            _ => '?',
        };
        return Err(Refused::Version(
            text[..end].iter().map(printable).collect(),
        ));
    }
    // What comes back must not be our own words.
    if theirs == ours {
        return Err(Refused::Stranger("it repeats what it hears"));
    }
    Ok(())
}

/// The MAC over everything that both ends said.
struct Transcript<'a> {
    job: &'a Job,
    dialer: &'a [u8; HELLO],
    acceptor: &'a [u8; HELLO],
}

impl Transcript<'_> {
    fn mac(&self, label: &[u8; 8], words: [u32; 3]) -> Hmac<Sha256> {
        // A key shorter than a block counts as one filled up with zeros.
        let mut key = [0; 64];
        key[..32].copy_from_slice(&self.job.secret);
        let mut mac = Hmac::<Sha256>::new(&key.into());
        mac.update(label);
        mac.update(self.dialer);
        mac.update(self.acceptor);
        mac.update(&self.job.ranks.to_le_bytes());
        for word in words {
            mac.update(&word.to_le_bytes());
        }
        mac
    }

    fn dialer_proves(&self, from: u32, to: u32) -> Hmac<Sha256> {
        self.mac(b"dialer  ", [from, to, 0])
    }

    fn acceptor_proves(&self, from: u32, to: u32, verdict: u32) -> Hmac<Sha256> {
        self.mac(b"acceptor", [from, to, verdict])
    }
}

impl Job {
    fn notes(&self, from: u32, to: u32, words: &[u8; WORDS]) -> Hmac<Sha256> {
        let mut key = [0; 64];
        key[..32].copy_from_slice(&self.secret);
        let mut mac = Hmac::<Sha256>::new(&key.into());
        // As long as a hello, where the other MACs have one.
        mac.update(b"note    ");
        mac.update(&hello(&self.version, &[0; NONCE]));
        for word in [from, to, self.ranks] {
            mac.update(&word.to_le_bytes());
        }
        mac.update(words);
        mac
    }

    /// Words for rank `to`, with the proof that they are this rank's.
    pub fn note(&self, to: u32, words: &[u8; WORDS]) -> [u8; NOTE] {
        let mut out = [0; NOTE];
        out[..8].copy_from_slice(&NOTED);
        out[8..12].copy_from_slice(&self.me.to_le_bytes());
        out[12..12 + WORDS].copy_from_slice(words);
        let mac = self.notes(self.me, to, words).finalize().into_bytes();
        out[12 + WORDS..].copy_from_slice(&mac);
        out
    }

    /// Whose words for this rank these are.
    pub fn noted(&self, said: &[u8; NOTE]) -> Result<(u32, [u8; WORDS]), Refused> {
        let from = u32::from_le_bytes([said[8], said[9], said[10], said[11]]);
        let mut words = [0; WORDS];
        words.copy_from_slice(&said[12..12 + WORDS]);
        let mac = self.notes(from, self.me, &words);
        if mac.verify_slice(&said[12 + WORDS..]).is_err() {
            return Err(Refused::Stranger("it does not know the job's secret"));
        }
        if from >= self.ranks || from == self.me {
            return Err(Refused::Stranger("it is no other rank of the job"));
        }
        Ok((from, words))
    }
}

/// The end that called.
pub(crate) struct Dialer {
    to: u32,
    ours: [u8; HELLO],
    theirs: [u8; HELLO],
}

impl Dialer {
    /// Calls rank `to`.
    pub fn new(job: &Job, to: u32, nonce: &Nonce) -> Dialer {
        Dialer {
            to,
            ours: hello(&job.version, nonce),
            theirs: [0; HELLO],
        }
    }

    /// What to say first.
    pub fn hello(&self) -> [u8; HELLO] {
        self.ours
    }

    /// Takes the acceptor's hello and returns the proof to send.
    pub fn prove(&mut self, job: &Job, theirs: &[u8; HELLO]) -> Result<[u8; PROOF], Refused> {
        check(theirs, &self.ours)?;
        self.theirs = *theirs;
        let mac = self.transcript(job).dialer_proves(job.me, self.to);
        let mut out = [0; PROOF];
        out[..4].copy_from_slice(&job.me.to_le_bytes());
        out[4..8].copy_from_slice(&self.to.to_le_bytes());
        out[8..].copy_from_slice(&mac.finalize().into_bytes());
        Ok(out)
    }

    fn transcript<'a>(&'a self, job: &'a Job) -> Transcript<'a> {
        Transcript {
            job,
            dialer: &self.ours,
            acceptor: &self.theirs,
        }
    }

    /// Takes the acceptor's verdict.
    pub fn verdict(&self, job: &Job, said: &[u8; VERDICT]) -> Result<Verdict, Refused> {
        let [a, b, c, d, mac @ ..] = said;
        let number = u32::from_le_bytes([*a, *b, *c, *d]);
        let ours = self
            .transcript(job)
            .acceptor_proves(job.me, self.to, number);
        if ours.verify_slice(mac).is_err() {
            return Err(Refused::Stranger("it does not know the job's secret"));
        }
        match number {
            0 => Ok(Verdict::Welcome),
            1 => Ok(Verdict::MineWins),
            2 => Ok(Verdict::Elsewhere),
            _ => Err(Refused::Stranger("its verdict means nothing")),
        }
    }
}

/// The end that was called.
pub(crate) struct Acceptor {
    ours: [u8; HELLO],
    theirs: [u8; HELLO],
    from: u32,
    to: u32,
}

impl Acceptor {
    /// Answers a call.
    pub fn new(job: &Job, nonce: &Nonce) -> Acceptor {
        Acceptor {
            ours: hello(&job.version, nonce),
            theirs: [0; HELLO],
            from: 0,
            to: 0,
        }
    }

    /// What to answer to a hello, also to one of another version, so that the dialer can say what is wrong.
    pub fn hello(&self) -> [u8; HELLO] {
        self.ours
    }

    /// Takes the dialer's hello.
    pub fn greet(&mut self, theirs: &[u8; HELLO]) -> Result<(), Refused> {
        check(theirs, &self.ours)?;
        self.theirs = *theirs;
        Ok(())
    }

    fn transcript<'a>(&'a self, job: &'a Job) -> Transcript<'a> {
        Transcript {
            job,
            dialer: &self.theirs,
            acceptor: &self.ours,
        }
    }

    /// Takes the dialer's proof: its rank, and whether it wants this one.
    pub fn check(&mut self, job: &Job, said: &[u8; PROOF]) -> Result<(u32, bool), Refused> {
        let word =
            |at: usize| u32::from_le_bytes([said[at], said[at + 1], said[at + 2], said[at + 3]]);
        let (from, to) = (word(0), word(4));
        let mac = self.transcript(job).dialer_proves(from, to);
        if mac.verify_slice(&said[8..]).is_err() {
            return Err(Refused::Stranger("it does not know the job's secret"));
        }
        if from >= job.ranks || from == job.me {
            return Err(Refused::Stranger("it is no other rank of the job"));
        }
        (self.from, self.to) = (from, to);
        Ok((from, to == job.me))
    }

    /// The verdict to send, after `check`.
    pub fn verdict(&self, job: &Job, verdict: Verdict) -> [u8; VERDICT] {
        let number = match verdict {
            Verdict::Welcome => 0u32,
            Verdict::MineWins => 1,
            Verdict::Elsewhere => 2,
        };
        let mac = self
            .transcript(job)
            .acceptor_proves(self.from, self.to, number);
        let mut out = [0; VERDICT];
        out[..4].copy_from_slice(&number.to_le_bytes());
        out[4..].copy_from_slice(&mac.finalize().into_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(me: u32, secret: u8) -> Job {
        Job {
            secret: [secret; 32],
            version: "1.2.3".into(),
            me,
            ranks: 4,
        }
    }

    /// Runs both ends; the acceptor says `verdict`.
    fn meet(dialer: &Job, acceptor: &Job, to: u32, verdict: Verdict) -> Result<Verdict, Refused> {
        let mut d = Dialer::new(dialer, to, &[1; 32]);
        let mut a = Acceptor::new(acceptor, &[2; 32]);
        a.greet(&d.hello())?;
        let proof = d.prove(dialer, &a.hello())?;
        let (rank, here) = a.check(acceptor, &proof)?;
        assert_eq!((rank, here), (dialer.me, to == acceptor.me));
        d.verdict(dialer, &a.verdict(acceptor, verdict))
    }

    #[test]
    fn those_who_know_the_secret_meet() {
        for verdict in [Verdict::Welcome, Verdict::MineWins, Verdict::Elsewhere] {
            assert_eq!(meet(&job(1, 7), &job(2, 7), 2, verdict), Ok(verdict));
        }
        assert!(meet(&job(1, 7), &job(2, 7), 3, Verdict::Elsewhere).is_ok());
    }

    #[test]
    fn others_do_not() {
        let stranger = |r| matches!(r, Err(Refused::Stranger(_)));
        assert!(stranger(meet(&job(1, 7), &job(2, 8), 2, Verdict::Welcome)));
        let mut larger = job(1, 7);
        larger.ranks = 5;
        assert!(stranger(meet(&larger, &job(2, 7), 2, Verdict::Welcome)));
        let mut outside = job(9, 7);
        outside.ranks = 4;
        assert!(stranger(meet(&outside, &job(2, 7), 2, Verdict::Welcome)));
        assert!(stranger(meet(&job(2, 7), &job(2, 7), 2, Verdict::Welcome)));
        let mut old = job(1, 7);
        old.version = "0.9\u{1b}[31m".into();
        let refused = meet(&old, &job(2, 7), 2, Verdict::Welcome);
        assert_eq!(refused, Err(Refused::Version("0.9?[31m".into())));
    }

    #[test]
    fn a_recording_proves_nothing() {
        let (dialing, accepting) = (job(1, 7), job(2, 7));
        let mut d = Dialer::new(&dialing, 2, &[1; 32]);
        let mut a = Acceptor::new(&accepting, &[2; 32]);
        a.greet(&d.hello()).unwrap();
        let proof = d.prove(&dialing, &a.hello()).unwrap();
        a.check(&accepting, &proof).unwrap();
        let verdict = a.verdict(&accepting, Verdict::Welcome);
        // The same words to another acceptor, and to another dialer.
        let mut later = Acceptor::new(&accepting, &[3; 32]);
        later.greet(&d.hello()).unwrap();
        assert!(later.check(&accepting, &proof).is_err());
        let mut again = Dialer::new(&dialing, 2, &[4; 32]);
        again.prove(&dialing, &a.hello()).unwrap();
        assert!(again.verdict(&dialing, &verdict).is_err());
        // An echo.
        assert!(d.prove(&dialing, &d.hello()).is_err());
    }

    proptest! {
        #[test]
        fn no_byte_may_change(which in 0usize..3, at in 0usize..HELLO, flip in 1u8..) {
            let (dialing, accepting) = (job(1, 7), job(2, 7));
            let mut d = Dialer::new(&dialing, 2, &[1; 32]);
            let mut a = Acceptor::new(&accepting, &[2; 32]);
            let change = |number: usize, bytes: &mut [u8]| if number == which && at < bytes.len() {
                bytes[at] ^= flip;
                true
            } else {
                false
            };
            let (mut changed, mut hello) = (false, d.hello());
            changed |= change(0, &mut hello);
            let passed = a.greet(&hello).is_ok()
                && d.prove(&dialing, &a.hello()).is_ok_and(|mut proof| {
                    changed |= change(1, &mut proof);
                    a.check(&accepting, &proof).is_ok()
                })
                && {
                    let mut verdict = a.verdict(&accepting, Verdict::Welcome);
                    changed |= change(2, &mut verdict);
                    d.verdict(&dialing, &verdict).is_ok()
                };
            prop_assert_eq!(passed, !changed);
        }
    }
}
