//! Arguments of flags: numbers, lists, bindings.

use super::{Binding, Limit, RANKS_MAX};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

pub(super) fn count(name: &str, text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n @ 1..=RANKS_MAX) => Ok(n),
        _ => Err(format!(
            "{name} {text}: expected a number of ranks from 1 to {RANKS_MAX}"
        )),
    }
}

pub(super) fn universe(name: &str, text: &str) -> Result<u32, String> {
    match text.parse::<i32>() {
        Ok(n @ 1..) => Ok(n.unsigned_abs()),
        _ => Err(format!("{name} {text}: expected a number of processes")),
    }
}

pub(super) fn seconds(name: &str, text: &str) -> Result<Duration, String> {
    let duration = positive(text);
    duration.ok_or_else(|| format!("{name} {text}: expected a number of seconds above 0"))
}

fn positive(text: &str) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// What the variable `MPIEXEC_TIMEOUT` says: seconds, or no limit where it is empty, 0 or negative, as with
/// other launchers.
///
/// # Errors
/// It is no number: a sentence.
pub fn limit(text: &str) -> Result<Option<Limit>, String> {
    let text = text.trim();
    if text.is_empty() || text.parse::<f64>().is_ok_and(|s| s <= 0.0) {
        return Ok(None);
    }
    match positive(text) {
        Some(time) => Ok(Some(Limit {
            time,
            source: "MPIEXEC_TIMEOUT",
        })),
        None => Err(format!(
            "MPIEXEC_TIMEOUT is {text:?}, which is no number of seconds; there is no limit"
        )),
    }
}

pub(super) fn stdin(name: &str, text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(true),
        "none" => Ok(false),
        _ => Err(format!(
            "{name} {text}: only rank 0 can read standard input (0 or none)"
        )),
    }
}

/// `A,B,C` as variable names.
pub(super) fn names(name: &str, list: &OsStr) -> Result<Vec<OsString>, String> {
    let names = split(list, b',');
    match names.iter().find(|n| n.as_bytes().contains(&b'=')) {
        Some(wrong) => Err(format!(
            "{name}: {} is no name of a variable; a list has names without values",
            wrong.to_string_lossy()
        )),
        None => Ok(names),
    }
}

/// A variable as `NAME VALUE` or in one word, `NAME=VALUE`.
pub(super) fn variable(name: &str, words: &[OsString]) -> Result<(OsString, OsString), String> {
    let (variable, value) = match words {
        [pair] => parted(pair).unwrap_or_else(|| (pair.clone(), OsString::new())),
        [variable, value, ..] => (variable.clone(), value.clone()),
        [] => (OsString::new(), OsString::new()),
    };
    match variable.is_empty() {
        true => Err(format!("{name} needs the name of a variable")),
        false => Ok((variable, value)),
    }
}

/// Whether this word is `NAME=VALUE`.
pub(super) fn is_pair(word: &OsStr) -> bool {
    word.as_bytes().contains(&b'=')
}

fn parted(word: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=')?;
    Some((
        OsString::from_vec(bytes[..at].to_vec()),
        OsString::from_vec(bytes[at + 1..].to_vec()),
    ))
}

/// `A:B:C` as directories.
pub(super) fn directories(list: &OsStr) -> Vec<OsString> {
    split(list, b':')
}

fn split(list: &OsStr, separator: u8) -> Vec<OsString> {
    let parts = list.as_bytes().split(|b| *b == separator);
    parts
        .filter(|p| !p.is_empty())
        .map(|p| OsStr::from_bytes(p).to_os_string())
        .collect()
}

/// `NAME=VALUE`, or `NAME` with mpiexec's own value (nothing if it has none).
pub(super) fn export(name: &str, word: &OsStr) -> Result<Option<(OsString, OsString)>, String> {
    match is_pair(word) || word.is_empty() {
        true => variable(name, &[word.to_os_string()]).map(Some),
        false => Ok(std::env::var_os(word).map(|value| (word.to_os_string(), value))),
    }
}

pub(super) fn binding(name: &str, text: &str) -> Result<Binding, String> {
    // Open MPI's qualifiers (`core:overload-allowed`) and Hydra's counts (`core:1`) change nothing
    // here; only a list has something after the colon.
    match text.split(':').next().unwrap_or("") {
        "none" | "machine" | "board" | "node" => Ok(Binding::None),
        "hwthread" | "hwt" | "thread" | "pu" => Ok(Binding::Thread),
        "core" | "rr" => Ok(Binding::Core),
        "socket" | "package" | "sockets" => Ok(Binding::Package),
        "user" => {
            let list = text.strip_prefix("user:").and_then(cpu_sets);
            let list = list.ok_or_else(|| format!("{name} {text}: expected user:0,1,2+3"))?;
            Ok(Binding::Listed(list))
        }
        _ => Err(format!(
            "{name} {text}: expected none, hwthread, core, socket or user:LIST"
        )),
    }
}

/// `0,1+2,3`: one set per rank, `+` joins processors of one set.
fn cpu_sets(text: &str) -> Option<Vec<Vec<usize>>> {
    let cpu = |t: &str| t.parse().ok().filter(|c| *c < libc::CPU_SETSIZE as usize);
    text.split(',')
        .map(|set| set.split('+').map(cpu).collect())
        .collect()
}

/// Splits a configuration file's line into words; quotes and backslashes as in a shell.
pub(super) fn split_quoted(line: &str) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = letters.next().ok_or("a line ends in a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (None, ' ' | '\t') => words.extend(word.take().map(OsString::from)),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(format!("a quote is not closed: {line}"));
    }
    words.extend(word.map(OsString::from));
    Ok(words)
}
