//! Which part of a call an instruction belongs to, in the rows of the paper on YAMPI3 (its tables 1 and 3).
//!
//! An instruction lies in a function that is inlined into another, and so on; `addr2line` tells these. The innermost one that stands in
//! [`RULES`] decides.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use super::callgrind::Profile;
use crate::Result;

/// A part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum Row {
    /// A request is created.
    Created,
    /// It is registered in a hash.
    Hashed,
    /// The datatype is looked at, and how many bytes that makes.
    Type,
    /// Messages are matched and moved.
    Transport,
    /// A request is looked up.
    Found,
    /// It is released.
    Released,
    /// Arguments are checked, the call is entered and left, and the rest.
    Other,
    /// Outside the MPI library.
    System,
}

/// All of them, with names for people.
pub const ROWS: [(Row, &str); 8] = [
    (Row::Created, "created"),
    (Row::Hashed, "hashed"),
    (Row::Type, "type"),
    (Row::Transport, "transport"),
    (Row::Found, "found"),
    (Row::Released, "released"),
    (Row::Other, "other"),
    (Row::System, "system"),
];

/// A part of the name of a file, functions in it (none: all), and what they do.
const RULES: [(&str, &[&str], Row); 16] = [
    ("hashbrown", &[], Row::Hashed),
    ("/hash/", &[], Row::Hashed),
    (
        "sys/src/slab.rs",
        &["free", "take", "acquire"],
        Row::Created,
    ),
    (
        "sys/src/slab.rs",
        &["find", "find_in", "find_hidden", "get"],
        Row::Found,
    ),
    (
        "sys/src/slab.rs",
        &["release_if", "put_free", "release", "set_next"],
        Row::Released,
    ),
    ("engine/src/request.rs", &["begin_light"], Row::Created),
    ("engine/src/short.rs", &["bytes", "is_outside"], Row::Type),
    ("/src/abi.rs", &["size"], Row::Type),
    ("engine/src/typeobj.rs", &[], Row::Type),
    ("crates/shm/", &[], Row::Transport),
    ("crates/tcp/", &[], Row::Transport),
    ("crates/mtmi/", &[], Row::Transport),
    ("crates/fabrics/", &[], Row::Transport),
    ("engine/src/progress.rs", &[], Row::Transport),
    ("sys/src/copy.rs", &[], Row::Transport),
    ("sys/src/doorbell.rs", &[], Row::Transport),
];

/// A function that an instruction lies in: its name and its file.
pub type Frame = (String, String);

fn row_of(frames: &[Frame]) -> Row {
    let of = |(function, file): &Frame| {
        let name = last_name(function);
        let stands = |(part, functions, _): &&(&str, &[&str], Row)| {
            file.contains(part) && (functions.is_empty() || functions.contains(&name.as_str()))
        };
        RULES.iter().find(stands).map(|rule| rule.2)
    };
    frames.iter().find_map(of).unwrap_or(Row::Other)
}

/// The last part of a path, without what stands in angle brackets: `take` of `slab::Free<a::B>::take<c::D>`.
fn last_name(path: &str) -> String {
    let mut depth = 0u32;
    let mut name = String::new();
    for letter in path.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => name.clear(),
            _ if depth == 0 => name.push(letter),
            _ => {}
        }
    }
    name
}

/// Instructions by row. What lies in files whose name does not contain `library` is the system's.
pub fn count(profile: &Profile, library: &str) -> Result<BTreeMap<Row, u64>> {
    let mut rows = BTreeMap::new();
    let mut by_file: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for ((object, at), cost) in &profile.places {
        match object.contains(library) {
            true => by_file.entry(object).or_default().push((*at, *cost)),
            false => *rows.entry(Row::System).or_default() += cost,
        }
    }
    for (object, places) in by_file {
        let frames = frames(object, places.iter().map(|place| place.0))?;
        for ((_, cost), frames) in places.iter().zip(frames) {
            *rows.entry(row_of(&frames)).or_default() += cost;
        }
    }
    Ok(rows)
}

/// The functions that each of these places in a file lies in, the innermost first.
pub fn frames(object: &str, places: impl Iterator<Item = u64>) -> Result<Vec<Vec<Frame>>> {
    let failed = |e: std::io::Error| format!("addr2line: {e}");
    let mut tool = Command::new("addr2line")
        .args(["-a", "-i", "-f", "-C", "-e", object])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let asked: String = places.map(|at| format!("{at:#x}\n")).collect();
    let count = asked.lines().count();
    let mut words = tool.stdin.take().ok_or("addr2line has no input")?;
    let writer = std::thread::spawn(move || words.write_all(asked.as_bytes()));
    let said = tool.wait_with_output().map_err(failed)?;
    writer
        .join()
        .map_err(|_| "addr2line was not asked".to_owned())?
        .map_err(failed)?;
    let found = read_frames(&String::from_utf8_lossy(&said.stdout));
    match found.len() == count {
        true => Ok(found),
        false => Err(format!(
            "addr2line told of {} of {count} places in {object}",
            found.len()
        )),
    }
}

/// Reads what `addr2line -a -i -f` says: for each address a line with it, then two lines for each function.
fn read_frames(said: &str) -> Vec<Vec<Frame>> {
    let mut all: Vec<Vec<Frame>> = Vec::new();
    let mut lines = said.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
        } else if let (Some(frames), Some(file)) = (all.last_mut(), lines.next()) {
            frames.push((line.to_owned(), file.to_owned()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_known_function_decides() {
        let said = "0x0000000000000010\ncore::cell::Cell<T>::get\n/rustc/x/core/src/cell.rs:500\n\
            sys::slab::Near<T>::find_in\n/y/crates/sys/src/slab.rs:170\nPMPI_Wait\n/y/crates/capi/src/gen/p.rs:3\n\
            0x0000000000000014\nPMPI_Wait\n/y/crates/capi/src/gen/p.rs:3\n\
            0x0000000000000018\nshm::port::Room::send\n/y/crates/shm/src/port.rs:9\nx\n/y/crates/sys/src/slab.rs:1\n";
        let rows: Vec<Row> = read_frames(said).iter().map(|f| row_of(f)).collect();
        assert_eq!(rows, [Row::Found, Row::Other, Row::Transport]);
    }

    #[test]
    fn names_without_types() {
        assert_eq!(last_name("slab::Free<a::B>::take<c::D>"), "take");
        assert_eq!(last_name("<T as a::B<C>>::size"), "size");
        assert_eq!(last_name("find_in"), "find_in");
    }

    #[test]
    fn a_hash_would_be_seen() {
        let frame = |file: &str| vec![("insert".to_owned(), file.to_owned())];
        assert_eq!(
            row_of(&frame("/cargo/hashbrown-0.15/src/map.rs:1")),
            Row::Hashed
        );
        assert_eq!(
            row_of(&frame("/rustc/x/std/src/collections/hash/map.rs:1")),
            Row::Hashed
        );
        assert_eq!(row_of(&frame("/y/crates/engine/src/comm.rs:1")), Row::Other);
    }
}
