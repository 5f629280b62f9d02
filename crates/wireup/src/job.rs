//! The job as one of its ranks sees it.

use crate::inherited::{self, Inherited};
use crate::link::Link;
use crate::wire::{KEY_MAX, VALUE_MAX, from_hex, is_token, to_hex, to_token};
use crate::{Error, SECRET_KEY, mapping};
use std::collections::HashMap;
use std::time::Duration;

/// How long a socket that only looks like a launcher's may take to answer before this process
/// declares itself a job of one. Long for a launcher on a loaded machine, short for a person.
const DOUBTFUL_LIMIT: Duration = Duration::from_secs(5);
/// The same for a socket that certainly is the launcher's: it only guards against a hang.
const CERTAIN_LIMIT: Duration = Duration::from_secs(120);
/// Where rank 0 publishes the job's secret if the launcher does not.
const OWN_SECRET_KEY: &str = "yamabiko_secret_of_rank_0";
/// Most bytes [`Job::get_bytes`] accepts: a bound for a hostile length, far above any address.
const BYTES_MAX: usize = 1 << 20;

/// The job this process belongs to: its rank, its size and the key-value space all ranks share.
pub struct Job {
    rank: u32,
    size: u32,
    appnum: Option<u32>,
    universe: Option<u32>,
    nodes: Option<Vec<u32>>,
    space: Space,
}

/// Where keys go.
enum Space {
    /// To the launcher.
    Launcher(Remote),
    /// Nowhere else: a job of one talks to itself.
    Alone(HashMap<String, String>),
}

struct Remote {
    link: Link,
    name: String,
    key_max: usize,
    value_max: usize,
}

impl Job {
    /// Joins the job that this process was started in, or makes a job of one when it was started
    /// without a launcher (leftover `PMI_*` variables included).
    pub fn join() -> Result<Job, Error> {
        let Some(found) = inherited::find() else {
            return Ok(Job::alone());
        };
        let certain = found.certain;
        match Job::join_over(found) {
            Ok(job) => Ok(job),
            // A rank that is sure of its launcher must not go on as a job of one: the other ranks
            // would wait for it.
            Err(error) if certain => Err(error),
            Err(_) => Ok(Job::alone()),
        }
    }

    fn alone() -> Job {
        Job {
            rank: 0,
            size: 1,
            appnum: None,
            universe: None,
            nodes: Some(vec![0]),
            space: Space::Alone(HashMap::new()),
        }
    }

    fn join_over(found: Inherited) -> Result<Job, Error> {
        let limit = if found.certain {
            CERTAIN_LIMIT
        } else {
            DOUBTFUL_LIMIT
        };
        let mut link = Link::new(found.socket);
        let hello = link.ask(
            "cmd=init pmi_version=1 pmi_subversion=1",
            "response_to_init",
            Some(limit),
        );
        let hello = match hello {
            Ok(hello) if hello.succeeded() => hello,
            Ok(_) => return Err(Error::Refused("PMI version 1".into())),
            Err(error) => {
                link.release();
                return Err(error);
            }
        };
        if hello.number("pmi_version") != Some(1) {
            return Err(Error::Refused("it does not speak PMI version 1".into()));
        }
        link.close_on_exec();
        let maxes = link.ask("cmd=get_maxes", "maxes", Some(limit))?;
        let bounded = |field, least: usize, most: usize| {
            let n = maxes
                .number(field)
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(least);
            if n < least { None } else { Some(n.min(most)) }
        };
        let small = || Error::Malformed("limits too small to work with".into());
        let key_max = bounded("keylen_max", 16, KEY_MAX).ok_or_else(small)?;
        let value_max = bounded("vallen_max", 64, VALUE_MAX).ok_or_else(small)?;
        let name = link.ask("cmd=get_my_kvsname", "my_kvsname", Some(limit))?;
        let name = name.text("kvsname").filter(|n| is_token(n, 256));
        let name = name.ok_or_else(|| Error::Malformed("key-value space without name".into()))?;
        let name = name.to_string();
        let number = |link: &mut Link, ask, answer, field| -> Result<Option<u32>, Error> {
            let answer = link.ask(ask, answer, Some(limit))?;
            Ok(answer.number(field).and_then(|n| u32::try_from(n).ok()))
        };
        let appnum = number(&mut link, "cmd=get_appnum", "appnum", "appnum")?;
        let universe = number(&mut link, "cmd=get_universe_size", "universe_size", "size")?;
        let space = Space::Launcher(Remote {
            link,
            name,
            key_max,
            value_max,
        });
        let (rank, size) = (found.rank, found.size);
        let mut job = Job {
            rank,
            size,
            appnum,
            universe,
            nodes: None,
            space,
        };
        let mapped = job.get("PMI_process_mapping")?;
        job.nodes = mapped.and_then(|text| mapping::nodes(&text, size));
        Ok(job)
    }

    /// This process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Which of the launcher's programs this is (the attribute `MPI_APPNUM`), if it said.
    pub fn appnum(&self) -> Option<u32> {
        self.appnum
    }

    /// How many processes the launcher could start in all (`MPI_UNIVERSE_SIZE`), if it said.
    pub fn universe_size(&self) -> Option<u32> {
        self.universe
    }

    /// Whether this process was started without a launcher.
    pub fn is_singleton(&self) -> bool {
        matches!(self.space, Space::Alone(_))
    }

    /// The node number of each rank, if the launcher told.
    pub fn nodes(&self) -> Option<&[u32]> {
        self.nodes.as_deref()
    }

    /// The ranks on this process's node, in order, itself included. Without knowledge only itself.
    pub fn local_ranks(&self) -> Vec<u32> {
        let Some(nodes) = &self.nodes else {
            return vec![self.rank];
        };
        let mine = nodes.get(self.rank as usize);
        (0..self.size)
            .filter(|r| nodes.get(*r as usize) == mine)
            .collect()
    }

    /// Publishes `value` under `key`; other ranks may `get` it after the next barrier. Both must
    /// be printable ASCII without spaces.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
        match &mut self.space {
            Space::Alone(keys) => {
                keys.insert(key.to_string(), value.to_string());
                Ok(())
            }
            Space::Launcher(remote) => remote.put(key, value),
        }
    }

    /// What was published under `key`, if anything was. Only a barrier makes sure that it is there;
    /// it may be there earlier, so nothing collective may depend on its absence.
    pub fn get(&mut self, key: &str) -> Result<Option<String>, Error> {
        match &mut self.space {
            Space::Alone(keys) => Ok(keys.get(key).cloned()),
            Space::Launcher(remote) => remote.get(key),
        }
    }

    /// Waits until every rank of the job is here; what was `put` before is visible to all after.
    pub fn barrier(&mut self) -> Result<(), Error> {
        let Space::Launcher(remote) = &mut self.space else {
            return Ok(());
        };
        let answer = remote.link.ask("cmd=barrier_in", "barrier_out", None)?;
        if !answer.succeeded() {
            return Err(Error::Refused("barrier".into()));
        }
        Ok(())
    }

    /// Publishes any bytes under `key`, in as many values as their length asks for.
    pub fn put_bytes(&mut self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        let piece = match &self.space {
            Space::Alone(_) => BYTES_MAX,
            Space::Launcher(remote) => remote.value_max / 2,
        };
        self.put(key, &bytes.len().to_string())?;
        for (i, chunk) in bytes.chunks(piece).enumerate() {
            self.put(&format!("{key}.{i}"), &to_hex(chunk))?;
        }
        Ok(())
    }

    /// What [`put_bytes`](Job::put_bytes) published under `key`, if anything.
    pub fn get_bytes(&mut self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(length) = self.get(key)? else {
            return Ok(None);
        };
        let malformed = || Error::Malformed(format!("value of \"{key}\""));
        let length: usize = length.parse().map_err(|_| malformed())?;
        if length > BYTES_MAX {
            return Err(malformed());
        }
        let mut bytes = Vec::with_capacity(length);
        for i in 0.. {
            if bytes.len() >= length {
                break;
            }
            let chunk = self.get(&format!("{key}.{i}"))?.ok_or_else(malformed)?;
            let chunk = from_hex(&chunk)
                .filter(|c| !c.is_empty())
                .ok_or_else(malformed)?;
            bytes.extend_from_slice(&chunk);
        }
        if bytes.len() != length {
            return Err(malformed());
        }
        Ok(Some(bytes))
    }

    /// The secret that every rank of the job, and nobody else, knows. Collective: every rank calls
    /// it once, before it publishes anything that depends on it. This project's launcher hands the
    /// secret out; under others rank 0 makes it.
    pub fn secret(&mut self) -> Result<[u8; 32], Error> {
        // Two keys: whether the launcher's is there must not change while ranks look, but what rank 0
        // publishes may be visible at once, before the barrier.
        let key = match self.get(SECRET_KEY)? {
            Some(_) => SECRET_KEY,
            None => {
                if self.rank == 0 {
                    let secret =
                        random().map_err(|e| Error::Refused(format!("no randomness: {e}")))?;
                    self.put(OWN_SECRET_KEY, &to_hex(&secret))?;
                }
                self.barrier()?;
                OWN_SECRET_KEY
            }
        };
        let text = self.get(key)?.unwrap_or_default();
        let bytes = from_hex(&text).and_then(|b| <[u8; 32]>::try_from(b).ok());
        bytes.ok_or_else(|| Error::Malformed("the job's secret".into()))
    }

    /// Asks the launcher to end the whole job with exit code `code`, saying `message`. It returns;
    /// the caller ends its own process.
    pub fn abort(&mut self, code: i32, message: &str) -> Result<(), Error> {
        let Space::Launcher(remote) = &mut self.space else {
            return Ok(());
        };
        // Hydra of MPICH takes no empty value.
        let said = match to_token(message) {
            token if token.is_empty() => token,
            token => format!(" message={token}"),
        };
        remote
            .link
            .send(&format!("cmd=abort exitcode={code}{said}"))
    }

    /// Tells the launcher that this rank has finished MPI. Nothing can be asked afterwards.
    pub fn finalize(&mut self) -> Result<(), Error> {
        let Space::Launcher(remote) = &mut self.space else {
            return Ok(());
        };
        remote
            .link
            .ask("cmd=finalize", "finalize_ack", None)
            .map(|_| ())
    }
}

impl Remote {
    fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
        if !is_token(key, self.key_max) {
            return Err(Error::Unfit(format!("key \"{key}\"")));
        }
        if !is_token(value, self.value_max) {
            return Err(Error::Unfit(format!(
                "value of \"{key}\" ({} bytes)",
                value.len()
            )));
        }
        let request = format!("cmd=put kvsname={} key={key} value={value}", self.name);
        let answer = self.link.ask(&request, "put_result", None)?;
        if !answer.succeeded() {
            return Err(Error::Refused(format!("to store \"{key}\"")));
        }
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, Error> {
        if !is_token(key, self.key_max) {
            return Err(Error::Unfit(format!("key \"{key}\"")));
        }
        let request = format!("cmd=get kvsname={} key={key}", self.name);
        let answer = self.link.ask(&request, "get_result", None)?;
        Ok(answer
            .text("value")
            .filter(|_| answer.succeeded())
            .map(str::to_string))
    }
}

fn random() -> rustix::io::Result<[u8; 32]> {
    let mut bytes = [0u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
