//! The executor `ring`: plans of `cad-run` run as linked io_uring chains, in the kernel, while the rank
//! computes. No system call of the rank's own, no thread: the kernel does the next step when data come
//! in, as work of the rank's thread, which it interrupts for that.
//!
//! * [`usable`] says whether it works here, and why not. It tries what is used, not the kernel's version.
//! * [`Opening`] becomes a [`Ring`] when all processes of a job have published their cards.
//! * Whoever sleeps by other means than `wait` polls the ring's descriptor, and minds [`Ring::look_again`].
//! * [`Ring::keep`] is for plans that are issued again and again: their chains are kept as the kernel takes them (`ring::kept`).
//! * `code`: a plan, compiled by crate `chains`, as steps. `uring`: the ring. `cells`: what the kernel calculates by itself. `interrupt`: the signal by which it has the
//!   rank calculate, `calls`: what its handler may do. (All but `code` are unsafe, and where `ring` hands chains over; nothing else is.)
//! * `control`: who says what to whom beside the data (`packet`), and who is gone; `control::own`: what is said of each before; `control::far`: the same, and the streams, between hosts. `lanes`: the streams for the data,
//!   `claims`: who makes them.
//!
//! # What runs where
//!
//! SEND, RECV, and COPY in pieces of 64 KiB run in the kernel; so does END, which writes the word. A COPY of 4 KiB or more that waits for nothing is done
//! by the rank before it hands the chains over. A CALC of up to 1 KiB that is
//! [known](cad_run::Known) does too, as three steps of its chain, where a kaccd has given this process a socket for that ([`Ring::calculate_by`], `cells`), by kaccd's program: it is there
//! as long as the ring, whatever becomes of kaccd, and as long as there are cells for all that is under way. Any other CALC is done by the rank,
//! while its chain waits for a token: a [reduction](cad_run::Descriptor::make_reduction_node) by the handler of SIGURG, which
//! the kernel raises on the rank's thread when the chain has come to it, any other in the
//! rank's next call: the chain asks by a completion, and
//! [`Executor::progress`](cad_run::Executor::progress) (or `wait`) calculates and posts the token. A call also does a
//! reduction that the handler has not done: as the program blocks the signal or has another handler, too many are prepared at
//! once, or [`Callback::None`](cad_run::Callback) is asked for. A plan without other CALC needs no call between issue and END, except:
//!
//! * the first plan on a lane (of two) of a channel after an issue failed there: of two processes one always lends
//!   new connections when it issues; if the other issued before, it gets them in its next call. (The very first
//!   plan on a channel waits for them, if both issue at the same time.)
//! * the first plan on each lane of a channel with a process of lower rank on another host: that process makes the connection when it issues, or is
//!   asked to [`prepare`](Ring::prepare), and this one takes it in its next call. (It waits a moment, as both may come at the same time.)
//! * the first plan with a process of another host that this one has not met when both joined ([`Meet::WhenNeeded`]).
//! * an issue whose predecessor but one on the channel isn't over: it starts in the next call after that;
//! * failures: that a process is gone, or has taken its part back, shows in the word after the next call.
//!
//! Until an issue has begun its word is [`UNBEGUN`](cad_run::UNBEGUN), by which who only looks at words learns that it has to call.
//!
//! All this runs on the rank's processor. The receive path in front of it (IP, TCP) runs where the network's interrupt comes, unless that is steered
//! (`yamabiko kaccd --steer`, crate `launch`'s `steer`).
//!
//! Work of the kernel in a thread may end a system call in which the thread sleeps, as a signal without
//! effect does: most go on, some (`epoll_wait`) give EINTR. Where ranks outnumber processors, the kernel's work for a rank that waits for its processor waits with it.
//!
//! # What differs from `Inline`
//!
//! * Messages of a pair of processes arrive in the order in which the nodes were made, whatever edges
//!   say; a plan whose edges contradict that is not issued ([`NotIssued::Unfit`](cad_run::NotIssued)), nor is one with a
//!   calculation on no bytes. If the parts of several processes contradict each other over that order, they
//!   wait for ever.
//! * Messages have no lengths of their own: nodes that do not fit together are not noticed as such.
//! * Cancelling ends the other processes' parts too, with `Cancelled`, where they are not over; and also
//!   those of the next issue but one of the channel, where that had already begun.
//! * Processes of another host, network namespace or user are reached over the network, if all processes of the job listen there
//!   ([`Opening::reach`]). Such a job has at most 1024 processes, since each may have a connection to all of other hosts from the beginning. What goes there is not
//!   encrypted: the two ends of a connection have proved that they know the job's secret, no more.
//! * A channel keeps its streams, up to three descriptors for each peer, until [`Ring::forget`] or the executor's end. Where descriptors
//!   get few the soft limit on them is raised (`headroom`); an issue that is refused some at the hard one waits for those of others, and ends with `Lost` where none gives any back.
//!
//! # Safety of what runs later
//!
//! The kernel reads and writes the buffers of a plan until its chains have told that they are over. An issue
//! keeps everything of ours that they use (word, tokens, sockets) until then, and its word says
//! `Pending`, which is until when the program promised to leave its buffers alone. END stores the word after
//! the kernel has stored all data, on the rank's own processor, and between the two takes locks and references that
//! order them; so another thread which loads the word with acquire sees the data.

use types::Tunable;

mod calls;
mod cells;
mod channel;
mod claims;
mod code;
mod control;
mod headroom;
mod interrupt;
mod lanes;
mod packet;
mod ring;
mod running;
mod uring;

pub use control::{FAR_MAX, Meet, are_ports_limited};
pub use ring::{Kept, Opening, Ring};
pub use uring::Unusable;

/// The tunables of this crate, and of that which makes chains for it: for `yamabiko info` and MPI_T.
pub fn tunables() -> impl Iterator<Item = Tunable> {
    chains::TUNABLES.into_iter().chain(TUNABLES)
}

const TUNABLES: [Tunable; 5] = [
    Tunable {
        name: "cad-ring.calls",
        value: calls::CALLS as u64,
        unit: "reductions",
        source: "that a signal's handler may do, at once: their bells fit a pipe of one page",
    },
    Tunable {
        name: "cad-ring.cells",
        value: cad_softirq::calc::CELLS as u64,
        unit: "chains",
        source: "that calculate by kaccd's program at once: what a socket may have in one piece of the kernel's memory",
    },
    Tunable {
        name: "cad-ring.far_max",
        value: control::FAR_MAX as u64,
        unit: "processes",
        source: "of a job on several hosts: a connection each, made at the beginning",
    },
    Tunable {
        name: "cad-ring.lanes",
        value: lanes::LANES as u64,
        unit: "issues",
        source: "of a channel under way at once: one moves, the next is already there",
    },
    Tunable {
        name: "cad-ring.chain_max",
        value: uring::CHAIN_MAX as u64,
        unit: "submissions",
        source: "a ring of 64 takes 14 us to make, one of 4096 1900 us",
    },
];

/// Whether this executor works in this process.
///
/// # Errors
/// Why not, in words for a person.
pub fn usable() -> Result<(), Unusable> {
    uring::Uring::new().map(drop)
}

/// Whether the program of the kaccd under this name can calculate in chains, while the calling thread computes.
///
/// # Errors
/// Why not, in words for a person.
pub fn program_usable(kaccd: &[u8]) -> Result<(), Unusable> {
    let mut uring = uring::Uring::new()?;
    cells::Cells::new(kaccd, &mut uring).map(drop)
}

/// Whether the handler of a signal can calculate while the calling thread computes.
///
/// # Errors
/// Why not, in words for a person.
pub fn callback_usable() -> Result<(), Unusable> {
    let mut uring = uring::Uring::new()?;
    interrupt::Bell::new(&mut uring).map(drop)
}
