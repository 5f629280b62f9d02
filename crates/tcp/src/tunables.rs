//! The tunables of this fabric, for `yamabiko info`. What they mean in full stands beside the
//! constants.

use types::Tunable;

use crate::{accept, dial, fabric, frame, socket, stream};

/// The tunables of the fabric.
pub const TUNABLES: [Tunable; 9] = [
    tunable(
        "tcp.at_once_max",
        fabric::MEDIUM,
        "bytes",
        "a message that is sent without a request; a copy of the rest costs less than one",
    ),
    tunable(
        "tcp.early_max",
        frame::EARLY,
        "bytes",
        "measured: hides the round trip in which the receiver asks for the rest",
    ),
    tunable(
        "tcp.window",
        frame::WINDOW,
        "bytes",
        "memory for unexpected messages of a peer",
    ),
    tunable(
        "tcp.fragment_max",
        frame::FRAGMENT,
        "bytes",
        "what a new message waits behind",
    ),
    tunable(
        "tcp.unsent_max",
        socket::UNSENT as u64,
        "bytes",
        "what the kernel takes beyond what it can send",
    ),
    tunable(
        "tcp.staging",
        stream::STAGING as u64,
        "bytes",
        "read at once where no receive is the place for it",
    ),
    tunable(
        "tcp.strangers_max",
        accept::MOST as u64,
        "connections",
        "that have proved nothing",
    ),
    tunable(
        "tcp.patience",
        dial::PATIENCE.as_secs(),
        "seconds",
        "until a peer that can't be reached has failed",
    ),
    tunable(
        "tcp.silence",
        stream::SILENCE_MS as u64 / 1000,
        "seconds",
        "until a host that confirms nothing has failed; a cut of 5 s is survived",
    ),
];

const fn tunable(
    name: &'static str,
    value: u64,
    unit: &'static str,
    source: &'static str,
) -> Tunable {
    Tunable {
        name,
        value,
        unit,
        source,
    }
}
