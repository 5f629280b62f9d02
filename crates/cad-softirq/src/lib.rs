//! Small collectives in the kernel's network receive path: barrier, broadcast and reductions of up to
//! [`DATA_MAX`](layout::DATA_MAX) bytes, which an eBPF program does while the ranks compute. The KACC paper did so in tasklets of
//! a kernel module; a stock kernel runs a verified program instead.
//!
//! With `YAMABIKO_CAD=softirq` MPI's non-blocking barriers, broadcasts and reductions use it, on one host or on several of one [`site`] (`engine`'s `softirq.rs`), by the daemon
//! that holds the program for ranks without privilege.
//!
//! * A rank sends one packet through the loopback interface ([`rank`]). The program that sees it there takes the contribution; whoever
//!   brings the last one finishes the collective, in the receive path, and writes the result into a page that the ranks of the host have mapped
//!   and can only read. No rank has to run, or enter the kernel, for that.
//! * It is done on the processor of the rank that brings the last contribution, as the loopback interface receives where it is sent; unless RPS is set
//!   there, which `yamabiko kaccd --steer lo` takes away.
//! * Hosts of a communicator are a tree; the program sends what its host has to the one above, and results down. Within a host there are no
//!   packets but those of the start.
//! * Whoever holds the program needs `CAP_BPF` and `CAP_NET_ADMIN` ([`tables`]): the [`daemon`], which ranks, that need nothing, ask for a context
//!   ([`client`]). What a context needs is made `ahead`, as the kernel
//!   takes its time for it. Those of several hosts are opened by what their daemons offer each other, sealed with the site's key ([`site`]).
//! * An operation of the program's own is byte code (crate `bytecode`), which the daemon verifies and writes into a map as words of one length ([`flat`]);
//!   the program, which is always the same, has a machine that runs these. A context has [`SLOTS`](layout::SLOTS) of such operations at once, and who uses
//!   one says which he means: where it isn't there, all are told so, and do it otherwise.
//! * [`asm`] assembles the program, which lies in `program`; `btf` and [`kernel`] hand it to the kernel.
//!
//! # What it takes
//!
//! Linux 6.6 (tcx), a little-endian machine, IPv4 on the loopback interface; between hosts a segment of Ethernet, IPv4 or IPv6. [`usable`] tries it.
//!
//! # What it does not do
//!
//! All processes wait for all, also in a broadcast. One collective at a time is under way in a context. Of floating-point
//! numbers there are sums, products and the extremes, exact in every bit (`program/float.rs`), in byte code too, and no quotients and roots. Where a process does not come, nobody is told: whoever
//! waits has to give up by himself. What UDP loses is said again only when a process says its start again, which the kernel does for it
//! while it computes ([`resend`]). A process that sleeps is woken ([`rank::Waker`]), on a kernel
//! that looks strictly where senders' addresses come from (`rp_filter` 1 of the loopback interface) only where a process of its own host
//! brought the last contribution; it looks from time to time all the same.

mod ahead;
pub mod asm;
mod btf;
pub mod calc;
pub mod client;
pub mod context;
pub mod daemon;
pub mod flat;
mod group;
pub mod interfaces;
#[cfg(test)]
mod interpreter;
pub mod kernel;
pub mod layout;
#[cfg(test)]
mod model;
mod program;
pub mod rank;
pub mod resend;
pub mod site;
pub mod tables;

pub use tables::usable;
