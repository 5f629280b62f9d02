//! What an executor of collectives does not run, and what it does only in the program's calls: for people, and for tests that insist on one.
//!
//! The one place where this is listed. Who calls it: `info`.

use cad_softirq::daemon::Limits;
use cad_softirq::layout::DATA_MAX;

/// The heading in `yamabiko info`.
pub const HEADING: &str = "what executors do not run (it runs in calls, as without them)";

/// An executor, and one thing that it does not do.
pub fn all() -> Vec<(String, String)> {
    let contexts = Limits::default().user_contexts;
    let ranks = cad_ring::FAR_MAX;
    let functions = "while the program computes: reductions with functions of its own, unless the communicator has the hint yamabiko_op_async_safe";
    let lines = [
        ("inline", "anything while the program computes".to_owned()),
        ("ring", "blocking collectives".to_owned()),
        (
            "ring",
            format!(
                "anything where a rank asks for more than MPI_THREAD_FUNNELED, or more than {ranks} ranks are on several hosts"
            ),
        ),
        ("ring", functions.to_owned()),
        (
            "ring",
            "while the program computes: packing data that have gaps, and anything that has to wait for a connection".to_owned(),
        ),
        (
            "ring",
            "messages by the fabrics: inside a host they go by Unix sockets, to others by TCP of its own, whatever YAMABIKO_FABRICS says".to_owned(),
        ),
        ("softirq", "graphs of libcad, and blocking collectives".to_owned()),
        (
            "softirq",
            format!(
                "any but Ibarrier, Ibcast, Ireduce, Iallreduce, and persistent ones of these kinds, of up to {DATA_MAX} bytes"
            ),
        ),
        (
            "softirq",
            "reductions of other types than integers, float and double, MPI_MINLOC, MPI_MAXLOC, and functions of the program's own (byte code it runs, if that fits)".to_owned(),
        ),
        (
            "softirq",
            format!(
                "more at once than one on a communicator, or than the {contexts} that kaccd lets a user have"
            ),
        ),
        (
            "softirq",
            "between hosts: operations that do not commute".to_owned(),
        ),
        ("thread", "graphs of libcad, and blocking collectives".to_owned()),
        ("thread", functions.to_owned()),
    ];
    lines.map(|(name, what)| (name.to_owned(), what)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_executor_is_listed() {
        let all = all();
        for name in ["inline", "ring", "softirq", "thread"] {
            assert!(all.iter().any(|(executor, _)| executor == name));
        }
    }
}
