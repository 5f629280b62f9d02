//! What mpiexec says to the person in front of it.

use super::Job;
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
        let rank = *rank;
        let process = match self.members[rank].pid {
            0 => String::new(),
            pid => format!(" (pid {pid})"),
        };
        let text = format!(
            "mpiexec: rank {rank}{process} {failure}; it was {}",
            self.doing(rank)
        );
        self.announced = true;
        self.sinks[1].say(&text);
        match self.verdict.others() {
            0 => {}
            1 => self.sinks[1].say("mpiexec: 1 other rank failed at the same time"),
            n => self.sinks[1].say(&format!("mpiexec: {n} other ranks failed at the same time")),
        }
    }

    /// Tells for each rank where it is: the hang report.
    pub(super) fn tell_where_ranks_are(&mut self) {
        for rank in 0..self.members.len() {
            let member = &self.members[rank];
            let ended = if member.has_ended() {
                ", has ended"
            } else {
                ""
            };
            let text = format!(
                "rank {rank} (pid {}{ended}): {}",
                member.pid,
                self.doing(rank)
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
                "in MPI, in a library that does not tell where it waits".into()
            }
        }
    }
}
