//! The launcher's side of PMI-1: what to answer to each line a rank sends. No I/O happens here.
//!
//! [`Server::line`] takes one line and returns what follows from it; the job's event loop owns the
//! sockets. Every line is hostile: sizes are bounded, names are checked, and a rank that breaks the
//! protocol is reported rather than believed.
//!
//! A rank may run several MPI programs one after the other (`mpiexec -n 2 bash -c 'a; b'`). Each
//! `init` therefore starts the rank's next *generation*, with a key-value space and barriers of its
//! own, so `b` neither sees `a`'s keys nor meets ranks that are still in `a`.

use std::collections::{HashMap, HashSet};
use wireup::wire::{KEY_MAX, KVSNAME_MAX, Line, VALUE_MAX, from_token, is_token};

/// Most bytes of keys and values one generation holds: far above what address exchange needs, and
/// a bound for what a runaway program can make the launcher store.
const SPACE_MAX: usize = 256 << 20;

/// How far a rank has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not initialised MPI.
    Never,
    /// MPI is initialised and not finalised.
    Joined,
    /// MPI is finalised.
    Finalized,
}

/// What follows from a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this text to this rank.
    Reply(usize, String),
    /// The rank asks for the job's end.
    Abort {
        /// Exit code it asks for.
        code: i32,
        /// Its reason, possibly empty.
        message: String,
    },
    /// The rank does not keep to the protocol; the text says how.
    Violation(String),
}

struct Rank {
    appnum: u32,
    state: State,
    generation: u32,
    gone: bool,
    /// Barriers do not wait for it.
    excused: bool,
    /// Inside the lines of a command of several lines.
    multi_line: bool,
}

#[derive(Default)]
struct Space {
    values: HashMap<String, String>,
    bytes: usize,
    waiting: HashSet<usize>,
}

/// The state of a job's key-value spaces and barriers.
pub struct Server {
    name: String,
    universe: u32,
    ranks: Vec<Rank>,
    preset: Vec<(String, String)>,
    spaces: HashMap<u32, Space>,
}

impl Server {
    /// A server for ranks of the programs `appnums`, one entry a rank. Every generation's space is
    /// called after `name` and begins with the keys `preset`.
    pub fn new(
        name: &str,
        appnums: &[u32],
        universe: u32,
        preset: Vec<(String, String)>,
    ) -> Server {
        let rank = |appnum: &u32| Rank {
            appnum: *appnum,
            state: State::Never,
            generation: 0,
            gone: false,
            excused: false,
            multi_line: false,
        };
        Server {
            name: name.chars().take(KVSNAME_MAX / 2).collect(),
            universe,
            ranks: appnums.iter().map(rank).collect(),
            preset,
            spaces: HashMap::new(),
        }
    }

    /// How far `rank` has come.
    pub fn state(&self, rank: usize) -> State {
        self.ranks[rank].state
    }

    /// Notes that `rank` has ended and will send nothing more.
    pub fn gone(&mut self, rank: usize) {
        self.ranks[rank].gone = true;
    }

    /// A rank that has ended although others wait for it in a barrier, with one that waits: the
    /// barrier can never be complete.
    pub fn stuck(&self) -> Option<(usize, usize)> {
        let waiting = self
            .spaces
            .iter()
            .filter_map(|(g, s)| Some((*g, *s.waiting.iter().min()?)));
        let (generation, waiter) = waiting.min()?;
        let missing = self
            .ranks
            .iter()
            .position(|r| r.gone && !r.excused && r.generation <= generation)?;
        Some((missing, waiter))
    }

    /// Lets the others go on without `rank`, which is dead: barriers do not wait for it any more.
    pub fn excuse(&mut self, rank: usize) -> Vec<Action> {
        self.ranks[rank].excused = true;
        let generations: Vec<u32> = self.spaces.keys().copied().collect();
        let released = generations.into_iter().flat_map(|g| self.release(g));
        released.collect()
    }

    /// Answers one line from `rank`.
    pub fn line(&mut self, rank: usize, bytes: &[u8]) -> Vec<Action> {
        if self.ranks[rank].multi_line {
            // Only `spawn` has several lines, and it is refused: the answer follows its last line.
            if bytes.strip_suffix(b"\n").unwrap_or(bytes) == b"endcmd" {
                self.ranks[rank].multi_line = false;
                let text = "cmd=spawn_result rc=-1 msg=this_launcher_cannot_spawn_processes\n";
                return vec![Action::Reply(rank, text.into())];
            }
            return Vec::new();
        }
        let Some(line) = Line::parse(bytes) else {
            return vec![Action::Violation("a line that is no PMI command".into())];
        };
        if line.is_multi_line() {
            self.ranks[rank].multi_line = true;
            return Vec::new();
        }
        if self.ranks[rank].state != State::Joined
            && !matches!(line.command(), "init" | "abort" | "get_maxes")
        {
            return vec![Action::Violation(format!(
                "\"{}\" outside init and finalize",
                shown(line.command())
            ))];
        }
        let reply = match line.command() {
            "init" => self.init(rank, &line),
            "get_maxes" => format!(
                "maxes rc=0 kvsname_max={KVSNAME_MAX} keylen_max={KEY_MAX} vallen_max={VALUE_MAX}"
            ),
            "get_my_kvsname" => format!("my_kvsname rc=0 kvsname={}", self.space_name(rank)),
            "get_appnum" => format!("appnum rc=0 appnum={}", self.ranks[rank].appnum),
            "get_universe_size" => format!("universe_size rc=0 size={}", self.universe),
            "put" => self.put(rank, &line),
            "get" => self.get(rank, &line),
            "barrier_in" => return self.barrier(rank),
            "finalize" => {
                self.ranks[rank].state = State::Finalized;
                "finalize_ack rc=0".into()
            }
            "abort" => return vec![abort(&line)],
            "publish_name" => "publish_result rc=-1 info=not_supported msg=not_supported".into(),
            "lookup_name" => "lookup_result rc=-1 info=not_supported msg=not_supported".into(),
            "unpublish_name" => {
                "unpublish_result rc=-1 info=not_supported msg=not_supported".into()
            }
            "singinit" => "singinit rc=-1 msg=this_process_already_has_a_launcher".into(),
            other => {
                return vec![Action::Violation(format!(
                    "the unknown command \"{}\"",
                    shown(other)
                ))];
            }
        };
        vec![Action::Reply(rank, format!("cmd={reply}\n"))]
    }

    fn init(&mut self, rank: usize, line: &Line<'_>) -> String {
        let member = &mut self.ranks[rank];
        if line.number("pmi_version") != Some(1) {
            return "response_to_init rc=-1 pmi_version=1 pmi_subversion=1".into();
        }
        if member.state != State::Never {
            let left = member.generation;
            member.generation += 1;
            if let Some(space) = self.spaces.get_mut(&left) {
                space.waiting.remove(&rank);
            }
            self.spaces
                .retain(|g, _| self.ranks.iter().any(|r| r.generation <= *g));
        }
        self.ranks[rank].state = State::Joined;
        "response_to_init rc=0 pmi_version=1 pmi_subversion=1".into()
    }

    fn space_name(&self, rank: usize) -> String {
        format!("{}_{}", self.name, self.ranks[rank].generation)
    }

    /// The space of the rank's generation, made when first asked for.
    fn space(&mut self, rank: usize) -> &mut Space {
        let preset = &self.preset;
        self.spaces
            .entry(self.ranks[rank].generation)
            .or_insert_with(|| Space {
                values: preset.iter().cloned().collect(),
                ..Space::default()
            })
    }

    fn put(&mut self, rank: usize, line: &Line<'_>) -> String {
        if line.get("kvsname") != Some(&self.space_name(rank)) {
            return "put_result rc=-1 msg=no_such_kvs".into();
        }
        let (Some(key), Some(value)) = (line.get("key"), line.get("value")) else {
            return "put_result rc=-1 msg=key_or_value_missing".into();
        };
        if !is_token(key, KEY_MAX) || value.len() > VALUE_MAX {
            return "put_result rc=-1 msg=key_or_value_too_long".into();
        }
        let space = self.space(rank);
        if space.values.contains_key(key) {
            return format!("put_result rc=-1 msg=duplicate_key_{key}");
        }
        if space.bytes + key.len() + value.len() > SPACE_MAX {
            return "put_result rc=-1 msg=kvs_is_full".into();
        }
        space.bytes += key.len() + value.len();
        space.values.insert(key.into(), value.into());
        "put_result rc=0 msg=success".into()
    }

    fn get(&mut self, rank: usize, line: &Line<'_>) -> String {
        if line.get("kvsname") != Some(&self.space_name(rank)) {
            return "get_result rc=-1 msg=no_such_kvs".into();
        }
        let key = line.get("key").unwrap_or("");
        match self.space(rank).values.get(key) {
            Some(value) => format!("get_result rc=0 msg=success value={value}"),
            None => "get_result rc=-1 msg=no_such_key".into(),
        }
    }

    fn barrier(&mut self, rank: usize) -> Vec<Action> {
        self.space(rank).waiting.insert(rank);
        self.release(self.ranks[rank].generation)
    }

    /// Lets those go who wait in a generation's barrier, if nobody is missing.
    fn release(&mut self, generation: u32) -> Vec<Action> {
        let Some(space) = self.spaces.get_mut(&generation) else {
            return Vec::new();
        };
        let there = |(r, rank): (usize, &Rank)| rank.excused || space.waiting.contains(&r);
        if !self.ranks.iter().enumerate().all(there) {
            return Vec::new();
        }
        let mut waiting: Vec<usize> = space.waiting.drain().collect();
        waiting.sort_unstable();
        waiting
            .into_iter()
            .map(|r| Action::Reply(r, "cmd=barrier_out rc=0\n".into()))
            .collect()
    }
}

fn abort(line: &Line<'_>) -> Action {
    let code = line
        .number("exitcode")
        .and_then(|c| i32::try_from(c).ok())
        .unwrap_or(1);
    let message = line
        .get("message")
        .or_else(|| line.get("error_str"))
        .unwrap_or("");
    Action::Abort {
        code,
        message: from_token(message),
    }
}

/// Hostile text made fit for a terminal.
fn shown(text: &str) -> String {
    text.chars()
        .take(VALUE_MAX)
        .map(|c| if c.is_ascii_graphic() { c } else { '?' })
        .collect()
}

#[cfg(test)]
mod tests;
