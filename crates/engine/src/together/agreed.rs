//! Long collectives that go by messages: members first tell each other here how long they are. So lengths that don't fit together are noticed as in any other, and nobody waits for messages that
//! don't come, or chunk by chunk for a member that goes by messages.
//!
//! Called by [`run_planned`](crate::state::Engine::run_planned).

use types::Result;

use super::rounds::Way;
use crate::graphs::Plan;

impl Way<'_> {
    /// Whether this member's length is that of the others, of whom it needs anything: all in a reduction, and in a broadcast the root.
    pub fn agree(&self, plan: &Plan, bytes: u64) -> Result<()> {
        match plan {
            Plan::Bcast(p) => self.agree_with(p.root as usize, bytes),
            _ => self.agree_with_all(bytes),
        }
    }

    fn agree_with_all(&self, bytes: u64) -> Result<()> {
        let round = self.place.begin(1);
        self.tell(round, bytes)?.publish();
        for rank in self.place.others() {
            self.check_told(rank, self.told_by(rank, round, bytes)?, bytes)?;
        }
        self.place.all_have_read(round - 1);
        Ok(())
    }

    fn agree_with(&self, root: usize, bytes: u64) -> Result<()> {
        let round = self.place.begin(1);
        if self.place.rank() == root {
            self.tell(round, bytes)?.publish_only();
            return Ok(());
        }
        self.check_told(root, self.told_by(root, round, bytes)?, bytes)?;
        self.place.say_read(round);
        Ok(())
    }

    fn check_told(&self, rank: usize, told: u64, bytes: u64) -> Result<()> {
        match told == bytes {
            true => Ok(()),
            false => Err(self.mismatch(rank, told, bytes)),
        }
    }
}
