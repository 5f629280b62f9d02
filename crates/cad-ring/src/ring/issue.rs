//! How an issue begins: it gets a slot and a number, waits for its turn, and hands its chains over.
//!
//! Invariant: what the kernel is given to use is the issue's, which stays in its slot until all its chains have told that they are over.
//! Called by the rest of `ring`.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use cad_run::{Issued, NotIssued, Plan, State};

use super::Ring;
use super::peers::Missing;
use crate::cells::Cells;
use crate::channel::Channel;
use crate::code::Code;
use crate::headroom;
use crate::running::{Pair, Running};
use crate::uring::{CHAIN_MAX, SLOTS_MAX, token};

impl Ring {
    /// A channel, from now on known.
    fn channel(&mut self, number: u32) -> &Rc<Channel> {
        let new = || Rc::new(Channel::new(number));
        self.channels.entry(number).or_insert_with(new)
    }

    /// Makes ready what issues of a plan on a channel need that is not each one's own.
    pub(super) fn ready(
        &mut self,
        plan: &Rc<Plan>,
        channel: u32,
    ) -> Result<(Rc<Code>, Rc<Channel>), NotIssued> {
        let unfit = |why: &str| NotIssued::Unfit(why.to_owned());
        if self.uring.is_broken() {
            return Err(unfit("the kernel has stopped taking submissions"));
        }
        if self.slots.len() >= SLOTS_MAX {
            return Err(unfit("too many plans are under way"));
        }
        let code = self.compiled(plan).map_err(NotIssued::Unfit)?;
        let channel = self.channel(channel).clone();
        self.meet(&code, &channel);
        Ok((code, channel))
    }

    /// Issues, with what is [`ready`](Ring::ready): gives it a slot and a number, and starts it if it is its turn.
    pub(super) fn enter(&mut self, mut running: Box<Running>) -> Issued {
        let slot = self.free_slot(running.slot);
        if running.slot != slot {
            running.slot = slot;
            running.images = Default::default();
        }
        running.stand_in_line();
        let (word, why) = (running.word.clone(), self.doomed(&running));
        self.slots[slot] = Some(running);
        self.unsettled += 1;
        match why {
            Some(why) => self.fail(slot, why),
            None => self.start(slot),
        }
        self.attend();
        Issued::new(word, slot as u32)
    }

    /// A slot without an issue: this one, if it is free.
    fn free_slot(&mut self, wanted: usize) -> usize {
        if self.slots.get(wanted).is_some_and(Option::is_none) {
            return wanted;
        }
        let free = self.slots.iter().position(Option::is_none);
        free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        })
    }

    /// Tokens without units and empty pairs for an issue.
    fn supplies(&mut self, code: &Code) -> io::Result<(Vec<OwnedFd>, Vec<Pair>)> {
        while self.spare_tokens.len() < code.tokens as usize {
            let token = token()?;
            headroom::keep(&token);
            self.spare_tokens.push(token);
        }
        while self.spare_pairs.len() < code.pairs as usize {
            let (a, b) = sys::unix::pair(sys::unix::Kind::Stream)?;
            headroom::keep(&b);
            self.spare_pairs.push([a.into(), b.into()]);
        }
        let tokens = self.spare_tokens.len() - code.tokens as usize;
        let pairs = self.spare_pairs.len() - code.pairs as usize;
        Ok((
            self.spare_tokens.split_off(tokens),
            self.spare_pairs.split_off(pairs),
        ))
    }

    /// Why an issue can't come to its end, if that is known already.
    fn doomed(&mut self, running: &Running) -> Option<State> {
        let mut why = None;
        for peer in &running.code.peers {
            if let Some(overs) = self.overs.get_mut(peer) {
                let over = overs.remove(&(running.channel.number, running.number));
                why = why.or(over);
                if overs.is_empty() {
                    self.overs.remove(peer);
                }
            }
        }
        let lost = self.control.lost().any(|p| running.plan.needs(p));
        why.or(lost.then_some(State::Lost))
    }

    /// Starts an issue if it is its turn and all streams are there.
    pub(super) fn start(&mut self, slot: usize) {
        if !self.has_turn(slot) || !self.settle_claims(slot) || !self.has_turn(slot) {
            return;
        }
        let Some(running) = self.slots.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let streams = self.streams(&running);
        let supplied = running.tokens.len() == running.code.tokens as usize
            && running.pairs.len() == running.code.pairs as usize;
        let supplies = match &streams {
            Ok(Some(_)) if supplied => Ok(None),
            Ok(Some(_)) => self.supplies(&running.code).map(Some),
            _ => Err(io::ErrorKind::NotConnected.into()),
        };
        let running = self.slots[slot].insert(running);
        match (streams, supplies) {
            (Ok(Some(streams)), Ok(supplies)) => {
                running.streams = streams;
                if let Some(new) = supplies {
                    (running.tokens, running.pairs) = new;
                }
            }
            (Err(Missing::Peer), _) => return self.fail(slot, State::Lost),
            (Ok(None), _) => return,
            (Err(Missing::Descriptors), _) | (Ok(Some(_)), Err(_)) => return self.starve(slot),
        }
        self.unsettled -= 1;
        self.allot_cells(slot);
        let Some(running) = self.slots[slot].as_mut() else {
            return;
        };
        running.begin();
        let socket = self.cells.as_ref().map(Cells::fd);
        let bell = self.bell.as_ref();
        let bell = bell.filter(|bell| running.wants_bell() && bell.rings());
        let rings = bell.is_some();
        running.prepare(rings);
        running.copy_first();
        let (mut entries, mut pushed) = (Vec::new(), Ok(()));
        let fits = running.code.ops.len() <= CHAIN_MAX;
        for chain in 0..running.code.chains.len() {
            if !fits {
                entries.clear();
            }
            let from = entries.len();
            let steps = running.steps(chain, bell, socket);
            self.uring
                .chain(slot as u32, chain as u32, &steps, &mut entries);
            // SAFETY: the plan's buffers are valid while it is under way, as whoever made its nodes promised
            // (`UserBuf`), and it is until the word says otherwise; descriptors and the word are the issue's. The word is
            // written and the issue let go in `finish` only, which comes after the last chain's completion
            // (or by the kernel with END, after which its other chains touch no buffer of the program's).
            let one = unsafe { self.uring.push(&entries[from..]) };
            pushed = pushed.and(one);
        }
        if fits && running.kept.is_some() {
            running.keep_image(entries, rings);
        }
        if pushed.and_then(|()| self.uring.flush()).is_err() {
            self.abandon(slot);
        }
    }

    /// Gives an issue cells to calculate in, if there are as many as it needs; plans that rest give theirs up for that.
    fn allot_cells(&mut self, slot: usize) {
        loop {
            let (Some(cells), Some(running)) = (&mut self.cells, &mut self.slots[slot]) else {
                return;
            };
            if running.code.cells == 0 || !running.cells.is_empty() {
                return;
            }
            if let Some(taken) = cells.take(running.code.cells) {
                // Its entries and images are of an issue without.
                running.prepared.settle();
                running.images = Default::default();
                running.cells = taken;
                return;
            }
            if !self.reclaim_resting() {
                return;
            }
        }
    }

    /// Whether it is an issue's turn to start.
    fn has_turn(&self, slot: usize) -> bool {
        let running = self.slots.get(slot).and_then(Option::as_ref);
        running.is_some_and(|r| {
            let first = r.channel.is_first(r.number, slot);
            first && r.failed.is_none() && !r.begun
        })
    }
}
