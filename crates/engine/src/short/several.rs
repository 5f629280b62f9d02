//! What calls that take several requests look at before they give one back, and how they wait: for requests that the shorter path knows.

use types::Handle;

use super::{Over, Short};
use crate::api::completion::waiting_for;
use crate::request::Request;
use crate::state::lock;

/// What the shorter path knows of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// It is over: [`Short::over_plain`] gives it back.
    Over,
    /// It is a receive whose message is to come.
    Pending,
    /// Nothing: it may be another one, a failed one, or none.
    Unknown,
}

impl Short {
    /// Looks at the request at `address`, which the ABI writes as `word`.
    #[inline(always)]
    pub fn look(&self, word: usize, address: usize) -> Look {
        // The one that sends share is at an address too; whoever sends much has many of these.
        if self.is_sent(word) {
            return Look::Over;
        }
        let found = self.requests.find(address);
        found.map_or(Look::Unknown, |found| Request::look(&found))
    }

    /// Whether the ABI writes the request of a send that is over as `word`.
    #[inline(always)]
    fn is_sent(&self, word: usize) -> bool {
        word == self.done.get() && word != 0
    }

    /// As [`over_plain`](Short::over_plain), in less time for sends.
    #[inline(always)]
    pub fn over_of_several(&self, word: usize, address: usize) -> Option<Over> {
        match self.is_sent(word) {
            true => Some(Over::Sent),
            false => self.over_plain(word, address),
        }
    }

    /// Whether anything is known here.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.done.get() != 0
    }
}

/// Makes progress and sleeps, for `call`, until `done`, which may look but give nothing back. Of what is waited for the hang report tells
/// what it knows of the request at the address that `of` returns. Something must be [open](Short::is_open).
pub fn wait_plain(call: &'static str, of: impl Fn() -> usize, mut done: impl FnMut() -> bool) {
    let guard = lock().enter();
    let what = || waiting_for(&guard, call, Handle(of() as u32));
    guard.wait_until(what, |_| done());
}
