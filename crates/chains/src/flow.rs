//! The order of a program's entries, found by letting its tokens flow.

use crate::cover::Clock;
use crate::program::{LINK, POST, Program, WAIT};
use crate::verify::Fault;

/// A program's entries in an order in which they can run.
pub(crate) struct Flow {
    /// Indices of entries, each after those before it.
    pub sequence: Vec<u32>,
    /// For each WAIT the POST that lets it go on.
    pub post_of: Vec<Option<u32>>,
    /// For each entry its chain, and its place in it.
    pub at: Vec<(u32, u32)>,
    /// For each entry all that comes before it.
    pub clock: Vec<Clock>,
}

#[derive(Clone, Default)]
struct Token {
    poster: Option<u32>,
    waiter: Option<u32>,
    posts: Vec<u32>,
    waits: Vec<u32>,
}

fn places(program: &Program) -> Vec<(u32, u32)> {
    let mut at = Vec::with_capacity(program.entries.len());
    let (mut chain, mut place) = (0, 0);
    for entry in &program.entries {
        at.push((chain, place));
        place += 1;
        if entry.flags & LINK == 0 {
            (chain, place) = (chain + 1, 0);
        }
    }
    at
}

fn tokens(program: &Program, at: &[(u32, u32)]) -> Result<Vec<Token>, Fault> {
    let mut tokens = vec![Token::default(); program.tokens as usize];
    for (i, entry) in program.entries.iter().enumerate() {
        let (i, chain) = (i as u32, at[i].0);
        if entry.code != WAIT && entry.code != POST {
            continue;
        }
        let token = tokens
            .get_mut(entry.peer as usize)
            .ok_or(Fault::Token(entry.peer))?;
        let (end, list) = match entry.code {
            WAIT => (&mut token.waiter, &mut token.waits),
            _ => (&mut token.poster, &mut token.posts),
        };
        if *end.get_or_insert(chain) != chain {
            return Err(Fault::Token(entry.peer));
        }
        list.push(i);
    }
    for (i, token) in tokens.iter().enumerate() {
        if token.posts.len() != token.waits.len() || token.poster == token.waiter {
            return Err(Fault::Token(i as u32));
        }
    }
    Ok(tokens)
}

impl Flow {
    pub(crate) fn new(program: &Program) -> Result<Flow, Fault> {
        let n = program.entries.len();
        let at = places(program);
        let tokens = tokens(program, &at)?;
        let mut flow = Flow {
            sequence: Vec::with_capacity(n),
            post_of: vec![None; n],
            at,
            clock: vec![Clock::default(); n],
        };
        let mut released: Vec<Option<u32>> = vec![None; n];
        for token in &tokens {
            for (&post, &wait) in token.posts.iter().zip(&token.waits) {
                flow.post_of[wait as usize] = Some(post);
                released[post as usize] = Some(wait);
            }
        }
        let heads = (0..n as u32).filter(|&i| flow.at[i as usize].1 == 0);
        let mut left: Vec<u8> = (0..n)
            .map(|i| u8::from(flow.at[i].1 > 0) + u8::from(flow.post_of[i].is_some()))
            .collect();
        let mut ready: Vec<u32> = heads.filter(|&i| left[i as usize] == 0).collect();
        while let Some(i) = ready.pop() {
            flow.time(i);
            flow.sequence.push(i);
            let linked = program.entries[i as usize].flags & LINK != 0;
            let next = linked.then_some(i + 1).filter(|&k| (k as usize) < n);
            for k in next.into_iter().chain(released[i as usize]) {
                left[k as usize] -= 1;
                if left[k as usize] == 0 {
                    ready.push(k);
                }
            }
        }
        if flow.sequence.len() == n {
            Ok(flow)
        } else {
            Err(Fault::Cycle)
        }
    }

    fn time(&mut self, i: u32) {
        let mut clock = Clock::default();
        let previous = (self.at[i as usize].1 > 0).then(|| i - 1);
        for b in previous.into_iter().chain(self.post_of[i as usize]) {
            clock.join(&self.clock[b as usize]);
            clock.add(self.at[b as usize]);
        }
        self.clock[i as usize] = clock;
    }
}
