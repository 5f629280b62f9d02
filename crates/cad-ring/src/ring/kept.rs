//! Plans that are issued again and again. What an issue needs is kept for the next: its tokens and pairs, the handler's entries, and
//! its chains as the ring takes them, by lane. So the next one is copied to the ring as it is, if nothing has changed meanwhile.
//!
//! Invariants:
//! * A kept plan rests with at most one issue's things, and only after that issue has come to its END and all its chains have told so. An issue
//!   that fails takes all of them with it.
//! * An image is dropped when a stream that it names, a process or the handler's entries are not what they were when it was made ([`Ring::drop_images`]): so
//!   a stream that is spoilt or forgotten is closed at once, and an issue with an image needs to ask for nothing of all that.
//! * Where descriptors get few, nothing rests with any.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use cad_run::{Executor, Issued, NotIssued, Plan, State};

use super::Ring;
use crate::channel::Channel;
use crate::interrupt::Bell;
use crate::running::Running;

/// A plan that a ring keeps ready for one channel, until this is dropped.
pub struct Kept {
    index: usize,
    dropped: Rc<RefCell<Vec<usize>>>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.index)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.dropped.borrow_mut().push(self.index);
    }
}

/// What is kept.
pub(super) struct Keep {
    plan: Rc<Plan>,
    channel: u32,
    /// The last issue, which is over.
    idle: Option<Box<Running>>,
}

impl Ring {
    /// Keeps a plan that will be issued on a channel many times, and once at a time for the most part.
    pub fn keep(&mut self, plan: &Rc<Plan>, channel: u32) -> Kept {
        self.let_go_of_kept();
        let free = self.kept.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() - 1
        });
        self.kept[index] = Some(Keep {
            plan: plan.clone(),
            channel,
            idle: None,
        });
        Kept {
            index,
            dropped: self.dropped.clone(),
        }
    }

    /// Issues a kept plan. What [`keep`](Ring::keep) gave is of this ring. What an [`Issued`] of an issue before that is over says is not
    /// true any more.
    ///
    /// # Errors
    /// As of [`Executor::issue_with`].
    pub fn issue_kept(&mut self, kept: &Kept) -> Result<Issued, NotIssued> {
        if self.has_work() {
            self.progress();
        }
        if let Some(issued) = self.issue_image(kept.index) {
            return Ok(issued);
        }
        let Some(Some(keep)) = self.kept.get(kept.index) else {
            return Err(NotIssued::Unfit("it is kept elsewhere".to_owned()));
        };
        let (plan, channel) = (keep.plan.clone(), keep.channel);
        let (code, channel) = self.ready(&plan, channel)?;
        // It rested till now, so that what was heard has been minded.
        let keep = self.kept.get_mut(kept.index).and_then(Option::as_mut);
        let running = keep.and_then(|keep| keep.idle.take());
        let running = running.unwrap_or_else(|| {
            let word = Arc::new(AtomicU32::new(State::Idle as u32));
            let mut running = Running::new(plan, code, channel, word);
            running.kept = Some(kept.index);
            Box::new(running)
        });
        Ok(self.enter(running))
    }

    /// Issues a kept plan with its image, if it has one for the issue's lane, and nothing is in its way.
    fn issue_image(&mut self, index: usize) -> Option<Issued> {
        let keep = self.kept.get_mut(index)?.as_mut()?;
        let running = keep.idle.as_mut()?;
        let image = running.images[running.channel.next_lane()].as_ref()?;
        let place = self.slots.get_mut(running.slot)?;
        let in_the_way = place.is_some() || !running.channel.is_clear() || !self.overs.is_empty();
        let rings = running.wants_bell() && self.bell.as_ref().is_some_and(Bell::rings);
        if in_the_way || self.starving.is_some() || self.uring.is_broken() || image.rings != rings {
            return None;
        }
        running.begin_with_image();
        let slot = running.slot;
        let issued = Issued::new(running.word.clone(), slot as u32);
        // There was none in it.
        std::mem::forget(std::mem::replace(place, keep.idle.take()));
        let running = place.as_ref()?;
        let image = running.images[running.lane()].as_ref()?;
        running.copy_first();
        // SAFETY: as in `start`. The image names this issue's tokens, pairs, entries and word, and streams that it has.
        let pushed = unsafe { self.uring.push(&image.entries) };
        if pushed.and_then(|()| self.uring.flush()).is_err() {
            self.abandon(slot);
        }
        Some(issued)
    }

    /// Puts what an issue that came to its END has used where it is found again.
    pub(super) fn park(&mut self, mut running: Box<Running>) {
        running.rest();
        let keep = running.kept.and_then(|index| self.kept.get_mut(index));
        let home = keep.and_then(Option::as_mut);
        let useful = running.failed.is_none() && running.images.iter().any(Option::is_some);
        match home.filter(|keep| keep.idle.is_none() && useful) {
            Some(keep) => keep.idle = Some(running),
            None => self.strip(*running),
        }
    }

    /// Takes from an issue that came to its END what others can use: all tokens are at zero and all pairs empty again.
    fn strip(&mut self, mut running: Running) {
        running.prepared.settle();
        self.reclaim(&mut running);
        self.spare_tokens.append(&mut running.tokens);
        self.spare_pairs.append(&mut running.pairs);
    }

    /// Takes the cells of an issue, whose chains are over.
    pub(super) fn reclaim(&mut self, running: &mut Running) {
        if let Some(cells) = &mut self.cells {
            cells.give_back(&mut running.cells);
        }
    }

    /// Takes the cells of a plan that rests; whether one had any.
    pub(super) fn reclaim_resting(&mut self) -> bool {
        let resting = self.kept.iter_mut().flatten();
        let mut resting = resting.filter_map(|keep| keep.idle.as_mut());
        let (Some(idle), Some(cells)) =
            (resting.find(|idle| !idle.cells.is_empty()), &mut self.cells)
        else {
            return false;
        };
        idle.images = Default::default();
        idle.prepared.settle();
        cells.give_back(&mut idle.cells);
        true
    }

    /// Lets go of plans whose owners have dropped them.
    pub(super) fn let_go_of_kept(&mut self) {
        for index in self.dropped.take() {
            let keep = self.kept.get_mut(index).and_then(Option::take);
            if let Some(running) = keep.and_then(|keep| keep.idle) {
                self.strip(*running);
            }
            for running in self.slots.iter_mut().flatten() {
                running.kept = running.kept.filter(|&kept| kept != index);
            }
        }
    }

    /// Closes the descriptors that rest with kept plans.
    pub(super) fn drop_idle(&mut self) {
        for keep in self.kept.iter_mut().flatten() {
            if let Some(mut running) = keep.idle.take() {
                running.prepared.settle();
                if let Some(cells) = &mut self.cells {
                    cells.give_back(&mut running.cells);
                }
            }
        }
    }

    /// Drops the images of issues on these channels, and their streams with them, where those are not in use.
    pub(super) fn drop_images(&mut self, of: impl Fn(&Channel) -> bool) {
        let idle = self.kept.iter_mut().flatten();
        let idle = idle.filter_map(|keep| keep.idle.as_mut());
        for running in idle.chain(self.slots.iter_mut().flatten()) {
            if of(&running.channel) {
                running.images = Default::default();
            }
        }
    }
}
