//! The fabric between processes: ranks are forked, and nothing but `mtmi` and `shm` is linked.

mod common;
mod mapped;
mod protocol;
mod slots;
mod traffic;

fn main() {
    // `cargo test NAME` runs the groups whose name contains NAME; the slow one only when named.
    let wanted = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    let groups: &[(&str, fn())] = &[
        ("protocol", protocol::all),
        ("traffic", traffic::all),
        ("slots", slots::all),
        ("mapped", mapped::all),
        ("beyond-4-gib", protocol::beyond_4_gib),
    ];
    for (name, group) in groups {
        let named = wanted.as_ref().map(|w| name.contains(w.as_str()));
        if named.unwrap_or(*name != "beyond-4-gib") {
            let start = std::time::Instant::now();
            group();
            println!("{name}: ok in {:.1} s", start.elapsed().as_secs_f64());
        }
    }
}
