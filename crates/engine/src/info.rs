//! Info objects: ordered key-value pairs, and the two that the library fills itself: what is known
//! of this process's start (`MPI_INFO_ENV`) and the hints of a communicator.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

use boundary::cut;
use types::{Handle, Result, consts, fault};

use crate::state::Engine;

/// An info object. Keys and values are bytes: a program's encoding is its own affair.
#[derive(Clone, Default, Debug)]
pub struct Info {
    /// The pairs in the order in which keys were first set.
    pub pairs: RefCell<Vec<(OsString, OsString)>>,
}

impl Info {
    /// The value of `key`.
    pub fn get(&self, key: impl AsRef<OsStr>) -> Option<OsString> {
        let (pairs, key) = (self.pairs.borrow(), key.as_ref());
        pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone())
    }

    /// Sets `key`, in place if it exists.
    pub fn set(&self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
        let (key, value) = (key.as_ref(), value.as_ref().to_os_string());
        let mut pairs = self.pairs.borrow_mut();
        match pairs.iter_mut().find(|(k, _)| k == key) {
            Some((_, v)) => *v = value,
            None => pairs.push((key.to_os_string(), value)),
        }
    }

    /// Removes `key`; says whether it was there.
    pub fn delete(&self, key: &OsStr) -> bool {
        let mut pairs = self.pairs.borrow_mut();
        let before = pairs.len();
        pairs.retain(|(k, _)| k != key);
        pairs.len() != before
    }

    /// An info object with these pairs.
    pub fn of(pairs: &[(&str, &str)]) -> Info {
        let info = Info::default();
        pairs.iter().for_each(|(k, v)| info.set(k, v));
        info
    }
}

/// Checks a key that the program passed.
pub(crate) fn check_key(key: impl AsRef<OsStr>) -> Result<()> {
    let key = key.as_ref();
    let limit = consts::MAX_INFO_KEY as usize;
    if key.is_empty() {
        return Err(fault(consts::ERR_INFO_KEY, "the key is empty"));
    }
    if key.len() >= limit {
        return Err(fault(
            consts::ERR_INFO_KEY,
            format!(
                "the key has {} bytes; at most {} are allowed",
                key.len(),
                limit - 1
            ),
        ));
    }
    Ok(())
}

/// Checks a value that the program passed.
pub(crate) fn check_value(value: impl AsRef<OsStr>) -> Result<()> {
    let value = value.as_ref();
    let limit = consts::MAX_INFO_VAL as usize;
    if value.len() >= limit {
        return Err(fault(
            consts::ERR_INFO_VALUE,
            format!(
                "the value has {} bytes; at most {} are allowed",
                value.len(),
                limit - 1
            ),
        ));
    }
    Ok(())
}

/// The hints that communicators know, with their defaults. The standard's assertions change nothing here, but
/// the program may ask what it asserted.
const COMM_HINTS: [(&str, &str); 7] = [
    ("mpi_assert_no_any_tag", "false"),
    ("mpi_assert_no_any_source", "false"),
    ("mpi_assert_exact_length", "false"),
    ("mpi_assert_allow_overtaking", "false"),
    ("mpi_assert_strict_persistent_collective_ordering", "false"),
    ("mpi_memory_alloc_kinds", "mpi,system"),
    (OP_ASYNC_SAFE, "false"),
];

/// The hint that the program's own reduction functions, where they are used on the communicator, may run at any point of the
/// program: they are async-signal-safe, and call nothing of MPI.
pub(crate) const OP_ASYNC_SAFE: &str = "yamabiko_op_async_safe";

/// Takes the hints that communicators know from `asked`; others are ignored, as are assertions
/// that are neither true nor false. What memory kinds exist is not the program's to say.
pub(crate) fn set_comm_hints(hints: &Info, asked: &Info) {
    for (key, value) in asked.pairs.borrow().iter() {
        let known = COMM_HINTS.iter().any(|(k, _)| key == k);
        if known && (value == "true" || value == "false") {
            hints.set(key, value);
        }
    }
}

/// All hints of a communicator: those set, else their defaults.
pub(crate) fn comm_hints(set: &Info) -> Info {
    let all = Info::of(&COMM_HINTS);
    set.pairs.borrow().iter().for_each(|(k, v)| all.set(k, v));
    all
}

impl Engine {
    /// What is known of how this process was started: the pairs of `MPI_INFO_ENV`. Keys whose value
    /// isn't known are absent, as the standard says.
    pub fn info_env(&self) -> Info {
        static START: OnceLock<Vec<(&'static str, OsString)>> = OnceLock::new();
        let info = Info::default();
        for (key, value) in START.get_or_init(start) {
            info.set(key, value);
        }
        let world = self.comm_world.borrow();
        let size = world
            .as_ref()
            .map_or_else(wireup::expected_size, |w| w.size());
        if let Some(ranks) = maxprocs(size) {
            info.set("maxprocs", ranks);
        }
        info
    }

    /// The info object that `handle` names, or `None` for `MPI_INFO_NULL`.
    pub(crate) fn hints(&self, handle: Handle) -> Result<Option<std::rc::Rc<Info>>> {
        match handle {
            consts::INFO_NULL => Ok(None),
            handle => self.info(handle).map(Some),
        }
    }
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_string(),
        name => name.to_string(),
    }
}

/// How many ranks run this process's program, of a job of `size`, if that is known: one alone may have its parent's variables.
fn maxprocs(size: u32) -> Option<OsString> {
    match size {
        1 => Some("1".into()),
        _ => std::env::var_os(wireup::MAXPROCS_VARIABLE),
    }
}

/// Read once, so that the values are those of the start even if the program changes directory.
fn start() -> Vec<(&'static str, OsString)> {
    let mut arguments = std::env::args_os();
    let mut pairs = Vec::new();
    if let Some(command) = arguments.next() {
        pairs.push(("command", command));
        pairs.push(("argv", arguments.collect::<Vec<_>>().join(" ".as_ref())));
    }
    pairs.push(("host", host().into()));
    pairs.push(("arch", std::env::consts::ARCH.into()));
    if let Ok(directory) = std::env::current_dir() {
        pairs.push(("wdir", directory.into()));
    }
    for (_, value) in &mut pairs {
        *value = cut(value, consts::MAX_INFO_VAL as usize - 1).to_os_string();
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(steps in proptest::collection::vec((0u8..3, 0u8..5, 0u8..9), 0..40)) {
            let info = Info::default();
            let mut naive: Vec<(OsString, OsString)> = Vec::new();
            for (what, key, value) in steps {
                let key = OsString::from(format!("k{key}"));
                let value = OsString::from(format!("v{value}"));
                let at = naive.iter().position(|(k, _)| *k == key);
                match what {
                    0 => {
                        prop_assert_eq!(info.delete(&key), at.is_some());
                        at.map(|i| naive.remove(i));
                    }
                    1 => prop_assert_eq!(info.get(&key), at.map(|i| naive[i].1.clone())),
                    _ => {
                        info.set(&key, &value);
                        match at {
                            Some(i) => naive[i].1 = value,
                            None => naive.push((key, value)),
                        }
                    }
                }
                prop_assert_eq!(&*info.pairs.borrow(), &naive);
            }
        }
    }

    #[test]
    fn long_and_empty_strings_are_refused() {
        let longest = "k".repeat(consts::MAX_INFO_KEY as usize - 1);
        assert!(check_key(&longest).is_ok());
        assert_eq!(
            check_key(&(longest + "k")).unwrap_err().class,
            consts::ERR_INFO_KEY
        );
        assert_eq!(check_key("").unwrap_err().class, consts::ERR_INFO_KEY);
        let longest = "v".repeat(consts::MAX_INFO_VAL as usize - 1);
        assert!(check_value(&longest).is_ok() && check_value("").is_ok());
        assert_eq!(
            check_value(&(longest + "v")).unwrap_err().class,
            consts::ERR_INFO_VALUE
        );
    }

    #[test]
    fn communicators_ignore_hints_they_do_not_know() {
        let hints = Info::default();
        let asked = Info::of(&[
            ("mpi_assert_no_any_tag", "true"),
            ("mpi_assert_exact_length", "perhaps"),
            ("colour", "blue"),
        ]);
        set_comm_hints(&hints, &asked);
        let all = comm_hints(&hints);
        assert_eq!(all.get("mpi_assert_no_any_tag"), Some("true".into()));
        assert_eq!(all.get("mpi_assert_exact_length"), Some("false".into()));
        assert_eq!(all.get("colour"), None);
    }

    #[test]
    fn the_start_names_the_command() {
        let pairs = start();
        let command = pairs.iter().find(|(k, _)| *k == "command");
        assert!(command.is_some_and(|(_, v)| !v.is_empty()));
        assert!(
            pairs
                .iter()
                .all(|(_, v)| v.len() < consts::MAX_INFO_VAL as usize)
        );
    }
}
