//! The fabric between processes: ranks are forked, and nothing but `mtmi` and `shm` is linked.

mod common;
mod protocol;
mod traffic;

fn main() {
    // `cargo test NAME` runs the groups whose name contains NAME.
    let wanted = std::env::args().nth(1).filter(|a| !a.starts_with('-'));
    let groups: &[(&str, fn())] = &[("protocol", protocol::all), ("traffic", traffic::all)];
    for (name, group) in groups {
        if wanted.as_ref().is_none_or(|w| name.contains(w.as_str())) {
            let start = std::time::Instant::now();
            group();
            println!("{name}: ok in {:.1} s", start.elapsed().as_secs_f64());
        }
    }
}
