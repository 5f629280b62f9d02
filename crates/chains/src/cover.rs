//! Covers the pieces with chains, and puts tokens where a piece waits for another chain.
//!
//! Pieces are taken in order; each goes to the end of a chain where it may (the rule is in the
//! crate's documentation), of several to the one where it needs fewest tokens, else to a new one.
//! Two clocks per piece say what comes before it: for each chain the last place, and the same
//! without finite pieces. So a wait that follows from another is seen and left out, and a token's
//! posts and waits rise together in both chains.

use crate::cut::{Piece, PieceId};
use crate::program::{
    BY_RANK, CALC, COPY, END, Entry, LINK, MAX_CLOCKS, MAX_ENTRIES, POST, RECV, SEND, WAIT,
};
use cad::Kind;
use std::collections::BTreeMap;

type ChainId = u32;

/// For some chains, in ascending order, a place in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<(ChainId, u32)>);

impl Clock {
    /// Whether the clock has this place or a later one of its chain.
    pub(crate) fn covers(&self, (chain, place): (ChainId, u32)) -> bool {
        self.0
            .binary_search_by_key(&chain, |e| e.0)
            .is_ok_and(|i| self.0[i].1 >= place)
    }

    pub(crate) fn add(&mut self, (chain, place): (ChainId, u32)) {
        match self.0.binary_search_by_key(&chain, |e| e.0) {
            Ok(i) => self.0[i].1 = self.0[i].1.max(place),
            Err(i) => self.0.insert(i, (chain, place)),
        }
    }

    pub(crate) fn join(&mut self, other: &Clock) {
        if other.0.len() * 8 < self.0.len() {
            other.0.iter().for_each(|&e| self.add(e));
            return;
        }
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut out = Vec::with_capacity(self.0.len().max(other.0.len()));
        loop {
            match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    out.push((x.0, x.1.max(y.1)));
                    a.next();
                    b.next();
                }
                (Some(x), Some(y)) if x.0 < y.0 => out.extend(a.next()),
                (_, Some(_)) => out.extend(b.next()),
                (Some(_), None) => out.extend(a.next()),
                (None, None) => break,
            }
        }
        self.0 = out;
    }

    fn within(&self, other: &Clock) -> bool {
        self.0.iter().all(|&e| other.covers(e))
    }
}

/// What is known of a piece that has its place.
#[derive(Clone, Debug, Default)]
struct Placed {
    /// Chain and place; `None` for one that does nothing and only orders others.
    at: Option<(ChainId, u32)>,
    finite: bool,
    /// Everything before it.
    clock: Clock,
    /// Everything before it that is not finite.
    lasting: Clock,
    waits: Vec<ChainId>,
    posts: Vec<ChainId>,
}

struct Cover<'a> {
    pieces: &'a [Piece],
    interleave: bool,
    placed: Vec<Placed>,
    chains: Vec<Vec<PieceId>>,
    /// Chains whose last piece is finite, the latest at the end.
    finite_tails: Vec<ChainId>,
}

/// Chains with a finite end that are looked at for a piece; a bound on the search only.
const TAILS: usize = 16;

/// The entries of all chains, and how many tokens they use; `None` if too many.
pub(crate) fn cover(pieces: &[Piece], interleave: bool) -> Option<(Vec<Entry>, u32)> {
    let mut cover = Cover {
        pieces,
        interleave,
        placed: Vec::with_capacity(pieces.len() + 1),
        chains: Vec::new(),
        finite_tails: Vec::new(),
    };
    for piece in pieces {
        cover.place(&piece.before, Some(piece));
    }
    let tails: Vec<PieceId> = cover
        .chains
        .iter()
        .filter_map(|c| c.last().copied())
        .collect();
    cover.place(&tails, None);
    cover.entries()
}

impl Cover<'_> {
    /// Gives the next piece (END is `None`) its place after the pieces `before`.
    fn place(&mut self, before: &[PieceId], piece: Option<&Piece>) {
        let mut new = Placed {
            finite: piece.is_none_or(|p| p.finite),
            ..Placed::default()
        };
        for &b in before {
            let b = &self.placed[b as usize];
            new.clock.join(&b.clock);
            new.lasting.join(&b.lasting);
            if let Some(at) = b.at {
                new.clock.add(at);
                if !b.finite {
                    new.lasting.add(at);
                }
            }
        }
        let id = self.placed.len() as PieceId;
        if piece.is_some_and(|p| p.work.bytes() == 0) {
            self.placed.push(new);
            return;
        }
        let needs = self.needs(&new.clock);
        let (chain, waits) = self.choose(&new, piece, &needs);
        for at in waits {
            let (from, place) = at;
            let poster = self.chains[from as usize][place as usize];
            self.placed[poster as usize].posts.push(chain);
            new.waits.push(from);
        }
        if chain as usize == self.chains.len() {
            self.chains.push(Vec::new());
        }
        if let Some(&tail) = self.chains[chain as usize].last() {
            let tail = &self.placed[tail as usize];
            new.clock.join(&tail.clock);
            new.lasting.join(&tail.lasting);
            if let Some(at) = tail.at {
                new.clock.add(at);
                if !tail.finite {
                    new.lasting.add(at);
                }
            }
        }
        new.at = Some((chain, self.chains[chain as usize].len() as u32));
        self.chains[chain as usize].push(id);
        self.finite_tails.retain(|&c| c != chain);
        if new.finite {
            self.finite_tails.push(chain);
        }
        self.placed.push(new);
    }

    fn at(&self, (chain, place): (ChainId, u32)) -> &Placed {
        &self.placed[self.chains[chain as usize][place as usize] as usize]
    }

    /// The places of a clock that don't follow from others of it.
    fn needs(&self, clock: &Clock) -> Vec<(ChainId, u32)> {
        let all = &clock.0;
        let implied = |e: (ChainId, u32)| {
            all.iter()
                .any(|&o| o.0 != e.0 && self.at(o).clock.covers(e))
        };
        all.iter().copied().filter(|&e| !implied(e)).collect()
    }

    /// The chain for a piece (one beyond the last: a new one), and the places it still has to
    /// wait for there.
    fn choose(
        &self,
        new: &Placed,
        piece: Option<&Piece>,
        needs: &[(ChainId, u32)],
    ) -> (ChainId, Vec<(ChainId, u32)>) {
        let same = piece
            .and_then(|p| p.same)
            .and_then(|s| self.placed[s as usize].at)
            .map(|at| at.0);
        let recent = self.finite_tails.iter().rev().take(TAILS).copied();
        let candidates = new.clock.0.iter().map(|e| e.0).chain(recent);
        let missing = |chain: ChainId, tail: &Placed| -> Vec<(ChainId, u32)> {
            let known = |e: &(ChainId, u32)| e.0 == chain || tail.clock.covers(*e);
            needs.iter().copied().filter(|e| !known(e)).collect()
        };
        candidates
            .filter(|&chain| self.may_follow(chain, new, piece))
            .map(|chain| {
                let tail = self.chains[chain as usize].len() as u32 - 1;
                (chain, missing(chain, self.at((chain, tail))))
            })
            .min_by_key(|(chain, waits)| (waits.len(), same != Some(*chain)))
            .unwrap_or_else(|| (self.chains.len() as ChainId, needs.to_vec()))
    }

    fn may_follow(&self, chain: ChainId, new: &Placed, piece: Option<&Piece>) -> bool {
        let place = self.chains[chain as usize].len() as u32 - 1;
        let tail = self.at((chain, place));
        new.clock.covers((chain, place))
            || (tail.finite && tail.lasting.within(&new.lasting))
            || piece.is_some_and(|p| self.interleave && self.relayed(chain, p))
    }

    /// Whether `piece` goes on with a relay: the chain has a receive, then nothing but sends that
    /// waited for it alone, and `piece` is another of them or the next receive.
    fn relayed(&self, chain: ChainId, piece: &Piece) -> bool {
        let work = |id: &PieceId| &self.pieces[*id as usize].work;
        let here = |id: &PieceId| self.placed[*id as usize].at.filter(|at| at.0 == chain);
        let is_recv = |id: &PieceId| work(id).kind == Kind::Recv && here(id).is_some();
        let recv = match piece.work.kind {
            Kind::Recv => piece.same.filter(is_recv),
            Kind::Send => piece.before.iter().copied().find(is_recv),
            Kind::Calc | Kind::Copy => None,
        };
        let Some((recv, (_, place))) = recv.and_then(|r| Some((r, here(&r)?))) else {
            return false;
        };
        let forwards = |s: &PieceId| {
            work(s).kind == Kind::Send
                && self.pieces[*s as usize].before.contains(&recv)
                && self.placed[*s as usize].waits.is_empty()
        };
        self.chains[chain as usize][place as usize + 1..]
            .iter()
            .all(forwards)
    }

    fn entries(&self) -> Option<(Vec<Entry>, u32)> {
        let mut tokens: BTreeMap<(ChainId, ChainId), u32> = BTreeMap::new();
        let mut token = |from, to| {
            let next = tokens.len() as u32;
            *tokens.entry((from, to)).or_insert(next)
        };
        let mut out: Vec<Entry> = Vec::new();
        for (chain, ids) in self.chains.iter().enumerate() {
            let chain = chain as ChainId;
            for &id in ids {
                let placed = &self.placed[id as usize];
                let signal = |code, peer| Entry {
                    code,
                    flags: LINK,
                    peer,
                    ..Entry::default()
                };
                out.extend(placed.waits.iter().map(|&c| signal(WAIT, token(c, chain))));
                out.push(match self.pieces.get(id as usize) {
                    Some(piece) => entry(piece),
                    None => signal(END, 0),
                });
                out.extend(placed.posts.iter().map(|&c| signal(POST, token(chain, c))));
            }
            if let Some(last) = out.last_mut() {
                last.flags &= !LINK;
            }
        }
        if out.len() > MAX_ENTRIES || out.len() * self.chains.len() > MAX_CLOCKS {
            return None;
        }
        Some((out, tokens.len() as u32))
    }
}

/// What a piece does; linked to what follows.
fn entry(piece: &Piece) -> Entry {
    let work = &piece.work;
    let mut entry = Entry {
        flags: LINK,
        peer: work.peer,
        area: work.dst.area,
        offset: work.dst.offset,
        bytes: work.bytes(),
        ..Entry::default()
    };
    match work.kind {
        Kind::Send => {
            entry.code = SEND;
            (entry.area, entry.offset) = (work.src.area, work.src.offset);
            return entry;
        }
        Kind::Recv => {
            entry.code = RECV;
            return entry;
        }
        Kind::Copy => entry.code = COPY,
        Kind::Calc => {
            entry.code = CALC;
            entry.unit = work.unit as u16;
        }
    }
    (entry.from_area, entry.from_offset) = (work.src.area, work.src.offset);
    if piece.by_rank {
        entry.flags |= BY_RANK;
    }
    entry
}
