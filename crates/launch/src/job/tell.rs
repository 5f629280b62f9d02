//! What mpiexec says to the person in front of it.

use super::Job;
use crate::channel::SILENCE;
use crate::hang;
use crate::pmi::State;
use crate::verdict::Failure;
use report::Phase;

impl Job {
    /// Says once why the job failed, if it did.
    pub(super) fn announce(&mut self) {
        let Some((rank, failure)) = self.verdict.root().filter(|_| !self.announced) else {
            return;
        };
        // `mpiexec ... | head`: as in any pipeline, that is no news to anybody.
        if *failure == Failure::Signal(libc::SIGPIPE) && !self.sinks_open[0] {
            return;
        }
        let (rank, failure) = (*rank, failure.clone());
        if let Failure::Signal(signal) = failure
            && self.was_passed_on(signal)
        {
            return self.tell_signal(signal);
        }
        self.announced = true;
        if failure == Failure::HostLost {
            // That has been told for all its ranks together.
            return;
        }
        self.tell_request();
        self.tell_failure(rank, &failure);
        match self.verdict.others() {
            0 => {}
            1 => self.sinks[1].say("mpiexec: 1 other rank failed at the same time"),
            n => self.sinks[1].say(&format!("mpiexec: {n} other ranks failed at the same time")),
        }
    }

    /// Says how one rank failed.
    pub(super) fn tell_failure(&mut self, rank: usize, failure: &Failure) {
        if *failure == Failure::HostLost {
            return;
        }
        let member = &self.members[rank];
        let process = match (failure, member.pid, self.on_host(member.host)) {
            // What had this number was to become the program, and is gone.
            (Failure::NotStarted(..), _, host) | (_, 0, host) => host,
            (_, pid, host) => format!(" (pid {pid}{host})"),
        };
        let doing = match failure {
            // It was aborting, or nowhere.
            Failure::Abort(..) | Failure::Answer(_) | Failure::NotStarted(..) => String::new(),
            _ => format!("; it was {}", self.doing(rank)),
        };
        self.sinks[1].say(&format!("mpiexec: rank {rank}{process} {failure}{doing}"));
    }

    /// Says that a host is lost, and with it which ranks.
    pub(super) fn tell_loss(&mut self, host: usize, why: &str) {
        let why: String = why.chars().filter(|c| !c.is_control()).collect();
        let ranks = (0..self.members.len()).filter(|r| self.members[*r].host == host);
        let ranks = ranges(ranks);
        let name = &self.hosts[host].name;
        let text = match self.started {
            true => format!("mpiexec: host {name} is lost with {ranks}: {why}"),
            false => format!("mpiexec: host {name}, which was to run {ranks}, is lost: {why}"),
        };
        self.sinks[1].say(&text);
    }

    /// " on node7", where a job has several hosts.
    pub(super) fn on_host(&self, host: usize) -> String {
        match self.hosts.len() {
            1 if self.hosts[host].place.is_none() => String::new(),
            _ => format!(" on {}", self.hosts[host].name),
        }
    }

    /// Tells for each rank where it is: the hang report.
    pub(super) fn tell_where_ranks_are(&mut self) {
        for rank in 0..self.members.len() {
            let member = &self.members[rank];
            // One that fails after MPI_Finalize does not end the job, but is perhaps what others wait for.
            let ended = match (member.has_ended(), self.verdict.of(rank)) {
                (false, _) => self.whether_stopped(rank).into(),
                (true, None) => ", has ended".into(),
                (true, Some(failure)) => format!(", {failure}"),
            };
            let text = format!(
                "rank {rank} (pid {}{}{ended}): {}",
                member.pid,
                self.on_host(member.host),
                self.doing(rank)
            );
            self.sinks[1].say(&text);
        }
    }

    /// What to add of a rank whose process is stopped.
    fn whether_stopped(&self, rank: usize) -> &'static str {
        let member = &self.members[rank];
        let record = self.book.read(rank);
        let stopped = match self.hosts[member.host].place {
            Some(_) => record.is_some_and(|r| r.stopped),
            // The program may be a child of what was started.
            None => {
                let own = record.map_or(0, |r| r.pid);
                [member.pid.unsigned_abs(), own]
                    .into_iter()
                    .any(hang::is_stopped)
            }
        };
        if stopped { hang::STOPPED } else { "" }
    }

    /// Tells which hosts are not ready, so that no rank runs.
    pub(super) fn tell_which_hosts_are_ready(&mut self) {
        for host in &self.hosts {
            if !host.ready {
                let text = format!(
                    "host {}: not reached yet; no rank has been started",
                    host.name
                );
                self.sinks[1].say(&text);
            }
        }
    }

    /// Says for which hosts the start waits, once: reaching one may take long, as a person may have to type a password.
    pub(super) fn tell_who_is_late(&mut self) {
        if self.started || self.course.has_failed() {
            return;
        }
        for host in self.hosts.iter().filter(|h| !h.ready) {
            let text = format!(
                "mpiexec: host {} has not answered for {} s; it is waited for a while longer (Ctrl-C ends the job)",
                host.name,
                SILENCE.as_secs()
            );
            self.sinks[1].say(&text);
        }
    }

    /// What `rank` is doing in MPI, as far as it tells.
    fn doing(&self, rank: usize) -> String {
        let noted = self
            .book
            .read(rank)
            .filter(|r| r.phase != Phase::NotStarted);
        match (noted, self.server.state(rank)) {
            (Some(record), _) => record.to_string(),
            (None, State::Never) => "not waiting in MPI (it had not called MPI_Init)".into(),
            (None, State::Finalized) => "not waiting in MPI (it had called MPI_Finalize)".into(),
            (None, State::Joined) => {
                "in MPI_Init, or in a library that does not tell where it waits".into()
            }
        }
    }
}

/// "rank 3", "ranks 0-3, 8": ascending numbers.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match ranges.as_slice() {
        [(first, last)] if first == last => format!("rank {shown}"),
        _ => format!("ranks {shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_joined() {
        let shown = |numbers: &[usize]| ranges(numbers.iter().copied());
        assert_eq!(shown(&[3]), "rank 3");
        assert_eq!(shown(&[0, 1, 2, 5]), "ranks 0-2, 5");
    }
}
