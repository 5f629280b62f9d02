//! Making and ending communicators, and agreeing at the start.
//!
//! All that are asked tell the first of them (rank 0 of the parent, or the first of a list) what they know; it
//! decides and tells each. What is agreed on is the communicator's number: the lowest that is free at all members, so
//! that its slots and its place on the boards are nobody else's at any of them. Processes are found by messages of
//! fixed length in the parent's context for this.

use std::rc::Rc;

use fmpl_table::{code, consts};
use mtmi::{Boards, Endpoint};

use crate::any::Talk;
use crate::barrier;
use crate::comm::{Comm, ID_WORDS, UsedIds};
use crate::core::PROGRAM;
use crate::host::Host;
use crate::steps::Entered;

/// Bytes of what each tells: a word (key, or count) and its used numbers.
const QUESTION: usize = 8 + ID_WORDS * 8;

/// The tag of those that all processes make, far from the tags that a list is made with.
const ALL: i32 = i32::MIN;

fn question(word: i64, used: &UsedIds) -> Vec<u8> {
    let words = std::iter::once(word as u64).chain(used.0);
    words.flat_map(u64::to_ne_bytes).collect()
}

fn read(bytes: &[u8]) -> (i64, UsedIds) {
    let mut words = bytes.chunks_exact(8).map(|c| {
        let mut word = [0; 8];
        word.copy_from_slice(c);
        u64::from_ne_bytes(word)
    });
    let word = words.next().unwrap_or(0) as i64;
    let mut used = UsedIds([0; ID_WORDS]);
    used.0.iter_mut().zip(words).for_each(|(to, w)| *to = w);
    (word, used)
}

/// What the members told; the first of them calls it, with its own word.
fn gather<H: Host>(h: &H, talk: Talk<'_>, word: i64) -> Result<Vec<(i64, UsedIds)>, i32> {
    let own = h.with(|core, _| core.ids);
    let mut told = vec![(word, own)];
    for &from in &talk.members[1..] {
        let mut bytes = vec![0; QUESTION];
        talk.hear(h, from, &mut bytes)?;
        told.push(read(&bytes));
    }
    Ok(told)
}

/// Tells the first member and hears its answer.
fn ask<H: Host>(h: &H, talk: Talk<'_>, word: i64, answer: &mut [u8]) -> Result<(), i32> {
    let (own, first) = (h.with(|core, _| core.ids), talk.members[0]);
    talk.tell(h, first, &mut question(word, &own))?;
    talk.hear(h, first, answer)
}

/// The first member's answer to all others.
fn answer<H: Host>(h: &H, talk: Talk<'_>, bytes: &[u8]) -> Result<(), i32> {
    let mut others = talk.members[1..].iter();
    others.try_for_each(|&to| talk.tell(h, to, &mut bytes.to_vec()))
}

/// The talk of all processes.
fn among_all<'a>(call: &'static str, world: &'a Comm, members: &'a [u32]) -> Talk<'a> {
    Talk {
        call,
        parent: world,
        tag: ALL,
        members,
    }
}

/// The lowest number that is free at all.
fn common<'a>(mut all: impl Iterator<Item = &'a UsedIds>) -> i32 {
    let Some(&first) = all.next() else { return -1 };
    let mut used = first;
    all.for_each(|other| used.join(&other.0));
    used.lowest().map_or(-1, |id| id as i32)
}

/// Checks that all processes opened the program's area with the same count; all call it.
pub fn agree_on_count<H: Host>(h: &H, count: u32) -> i32 {
    let result = Entered::new(h, consts::COMM_WORLD).and_then(|entered| {
        entered.run(|world| {
            let members = world.members();
            let talk = among_all("fmpl_init", world, &members);
            let word = i64::from(count);
            let mut verdict = [0; 4];
            if world.rank != 0 {
                ask(h, talk, word, &mut verdict)?;
                return Ok(i32::from_ne_bytes(verdict));
            }
            let told = gather(h, talk, word)?;
            let same = told.iter().all(|(theirs, _)| *theirs == word);
            let verdict = if same { code::SUCCESS } else { code::ERR_COUNT };
            answer(h, talk, &verdict.to_ne_bytes())?;
            Ok(verdict)
        })
    });
    crate::p2p::code_of(result)
}

/// `fmpl_comm_create`: the communicator's number.
pub fn create<H: Host>(h: &H, key: i32) -> Result<i32, i32> {
    let entered = Entered::new(h, consts::COMM_WORLD)?;
    let world = entered.0.clone();
    let members = world.members();
    let list = entered.run(|world| {
        let talk = among_all("fmpl_comm_create", world, &members);
        // For each process: its key, and its communicator's number. All get all of it.
        let mut list = vec![0; members.len() * 8];
        if world.rank > 0 {
            ask(h, talk, i64::from(key), &mut list)?;
            return Ok(list);
        }
        let told = gather(h, talk, i64::from(key))?;
        for (i, (own, _)) in told.iter().enumerate() {
            let alike = told.iter().filter(|(other, _)| other == own);
            let id = common(alike.map(|(_, used)| used));
            list[i * 8..][..4].copy_from_slice(&(*own as i32).to_ne_bytes());
            list[i * 8 + 4..][..4].copy_from_slice(&id.to_ne_bytes());
        }
        answer(h, talk, &list)?;
        Ok(list)
    })?;
    let number = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&list[at..at + 4]);
        i32::from_ne_bytes(bytes)
    };
    if key == 0 {
        return Ok(consts::COMM_NULL);
    }
    let alike = (0..members.len()).filter(|i| number(i * 8) == key);
    let ranks: Vec<u32> = alike.map(|i| members[i]).collect();
    enlist(h, PROGRAM, number(world.rank as usize * 8 + 4), ranks)
}

/// A communicator of a list of `parent`'s ranks; those in it call this. Gives its number.
pub fn from_ranks<H: Host>(h: &H, parent: i32, ranks: &[i32], tag: i32) -> Result<i32, i32> {
    let parent = h.with(|core, _| core.comm(parent).cloned())?;
    let members: Option<Vec<u32>> = ranks.iter().map(|&r| parent.peer(r)).collect();
    let members = members.ok_or(code::ERR_RANK)?;
    let me = h.with(|core, _| core.me);
    let mut once = members.clone();
    once.sort_unstable();
    once.dedup();
    if once.len() != members.len() || !members.contains(&me) || tag < 0 {
        return Err(code::ERR_ARGUMENT);
    }
    if h.with(|core, _| core.has_dead(&members)) {
        return Err(code::ERR_PEER);
    }
    let talk = Talk {
        call: "fmpl_comm_from_ranks",
        parent: &parent,
        tag,
        members: &members,
    };
    let mut heard = [0; 4];
    let id = if members[0] == me {
        let told = gather(h, talk, 0)?;
        let id = common(told.iter().map(|(_, used)| used));
        answer(h, talk, &id.to_ne_bytes())?;
        id
    } else {
        ask(h, talk, 0, &mut heard)?;
        i32::from_ne_bytes(heard)
    };
    enlist(h, parent.area, id, members)
}

fn enlist<H: Host>(h: &H, area: usize, id: i32, ranks: Vec<u32>) -> Result<i32, i32> {
    // Another process said which: it has to be free here too.
    let id = u32::try_from(id).map_err(|_| code::ERR_MEMORY)?;
    h.with(|core, below| {
        if core.ids.has(id) {
            return Err(code::ERR_COMM);
        }
        let rank = ranks.iter().position(|&r| r == core.me);
        let rank = rank.ok_or(code::ERR_COMM)? as u32;
        let size = ranks.len() as u32;
        let together = ranks.iter().all(|&r| below.sees_board(Endpoint(r)));
        let comm = Comm::new(area, id, Some(Rc::from(ranks)), rank, size, together);
        Ok(core.enlist(comm))
    })
}

/// Frees a communicator; all members call it. Where one of them is dead nobody waits for the others.
pub fn free<H: Host>(h: &H, number: i32) -> i32 {
    if number == consts::COMM_WORLD || number == consts::COMM_LIBRARY {
        return code::ERR_COMM;
    }
    // By messages: when this is over all others are in here too, so nobody looks at our flags any more, and
    // they can be lowered for the next communicator of this number.
    let met = Entered::new(h, number).and_then(|entered| {
        entered.run(|comm| {
            barrier::messages(h, "fmpl_comm_free", comm)?;
            h.with(|_, below| crate::face::lower(comm, below));
            Ok(())
        })
    });
    let whole = match met {
        Ok(()) => true,
        // Each member leaves for itself. What is on its board and in its slots stays, and so does the number.
        Err(code::ERR_PEER) => false,
        Err(code) => return code,
    };
    h.with(|core, _| core.strike(number, whole));
    code::SUCCESS
}
