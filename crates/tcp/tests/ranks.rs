//! The fabric between processes: ranks are forked, and nothing but `mtmi` and `tcp` is linked.

mod common;
mod failures;
mod hostile;
mod lab;
mod protocol;
mod traffic;

use common::Net;
use tcp::ReactorKind::{Epoll, IoUring};

fn main() {
    // `cargo test NAME` runs the groups whose name contains NAME; the slow ones only when named.
    let wanted = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    type Group = (&'static str, fn(&Net));
    let groups: &[Group] = &[
        ("protocol", protocol::all),
        ("traffic", traffic::all),
        ("many", traffic::many),
        ("failures", failures::all),
        ("hostile", hostile::all),
        ("beyond-4-gib", protocol::beyond_4_gib),
        ("lab", lab::all),
    ];
    hostile::settings();
    for reactor in [Epoll, IoUring] {
        for interface in [None, Some("::1/128")] {
            let net = Net { interface, reactor };
            for (name, group) in groups {
                // What does not depend on the family is tried with one.
                if interface.is_some() && ["lab", "traffic"].contains(name) {
                    continue;
                }
                let named = wanted.as_ref().map(|w| name.contains(w.as_str()));
                if named.unwrap_or(!["beyond-4-gib", "lab"].contains(name)) {
                    let start = std::time::Instant::now();
                    group(&net);
                    let took = start.elapsed().as_secs_f64();
                    println!("{name} with {net:?}: ok in {took:.1} s");
                }
            }
        }
    }
}
