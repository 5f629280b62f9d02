//! Where the next chunk of a message lies in a pipe: what its producer knows.
//!
//! There are three that it may lie in, the direction's own and two that the peer writes to as well ([`common`](crate::common)); each takes its own course.
//!
//! Chunks have any length and follow each other through the pipe, round and round. What a peer has read last lies then in
//! lines that are written last: messages of 64 KiB take a fifth less that way than through memory of their own length (7.1
//! against 9.1 microseconds, measured on a Xeon of the fifth generation; more memory than twice that brings no more).
//! A pipe that little has gone through stays near its beginning, so that ranks which all talk to all, but seldom, touch little memory; and messages that have a pipe to themselves touch
//! memory for the first time, which takes the system 2 to 3 microseconds a page, for no more than a [part](WIDENS) of what goes through, once the longest has come. Those behind others, and what
//! doesn't [begin](Space::begin) (the rest of longer messages, and slots' streams), go on to the pipe's end.
//!
//! Invariants: chunks that were not given back do not overlap; one that is taken when none is out in its pipe always fits.

use crate::common::AREAS;
use crate::lane::{CHUNK, CHUNK_HEADERS, COMMON_PIPE, PIPE, PLAY, WINDOW};
use crate::ring::{CELL, Hostile};

/// Messages that have a pipe to themselves go on in it up to where the bytes that went through have this many times the length,
const WIDENS: usize = 8;
/// and no further than for two of their own length, each with a page, or this. So they find lines that were not read last, and memory that has been touched before. (The first of three ranks broadcasts 16, 24 and
/// 64 KiB now and then, the last sees them 9, 10 and 17 us later. Where messages had all of the pipe after the first MiB, it was 27, 37 and 60 until all of that had been touched.)
const ROUND: usize = 64 << 10;

const _: () = assert!(WINDOW + PLAY <= PIPE && PIPE <= COMMON_PIPE && CHUNK <= WINDOW);

/// Most chunks of a message that is sent at once.
const PARTS: u32 = 17;

/// Which pipe: the own one, or a common one.
pub(crate) type Area = Option<usize>;

/// One of the pipes.
#[derive(Clone, Copy, Default)]
struct Course {
    /// Where the last chunk ends.
    head: usize,
    /// Bytes that went through, up to so many that it doesn't matter.
    passed: usize,
}

impl Course {
    /// Whether a message that needs so many bytes, and has the pipe to itself, lies behind the last one: else where the pipe begins.
    fn goes_on(self, need: usize, pipe: usize) -> bool {
        let round = (2 * need).max(ROUND).min(self.passed / WIDENS);
        self.head + need <= pipe.min(round)
    }
}

/// The producer's view of the pipes to a peer.
pub(crate) struct Space {
    /// Chunks published,
    produced: u32,
    /// and given back, as far as we know.
    drained: u32,
    /// Which pipe chunks lie in that were not given back, and where they begin, by number.
    starts: [(u8, u32); CHUNK_HEADERS as usize],
    courses: [Course; 1 + AREAS],
    /// The pipe that the next chunk lies in: 0 is the own one.
    at: u8,
    /// Whether the next chunk lies best where it was gone to, with nothing out around.
    near: bool,
}

impl Space {
    /// Nothing was sent yet.
    pub fn new() -> Space {
        Space {
            produced: 0,
            drained: 0,
            starts: [(0, 0); CHUNK_HEADERS as usize],
            courses: Default::default(),
            at: 0,
            near: false,
        }
    }

    /// The pipe that the next chunk lies in.
    #[inline]
    pub fn area(&self) -> Area {
        (self.at as usize).checked_sub(1)
    }

    /// Goes to a pipe; to where `start` says, if nothing is out there.
    #[inline]
    pub fn go(&mut self, area: Area, start: Option<usize>) {
        self.at = area.map_or(0, |i| i as u8 + 1);
        self.near = start.is_some() && self.tail().is_none();
        if let Some(start) = start
            && self.near
        {
            self.course().head = start;
        }
    }

    fn course(&mut self) -> &mut Course {
        &mut self.courses[self.at as usize]
    }

    /// Bytes of the pipe.
    fn bytes(&self) -> usize {
        self.area().map_or(PIPE, |_| COMMON_PIPE)
    }

    /// Where the first chunk in this pipe begins that was not given back.
    fn tail(&self) -> Option<usize> {
        let out = 0..self.produced.wrapping_sub(self.drained);
        let starts =
            out.map(|i| self.starts[(self.drained.wrapping_add(i) % CHUNK_HEADERS) as usize]);
        let mut here = starts.filter(|(at, _)| *at == self.at);
        here.next().map(|(_, start)| start as usize)
    }

    /// The number of the next chunk.
    pub fn next(&self) -> u32 {
        self.produced
    }

    /// Takes up what the consumer has given back: `drained` chunks in all.
    pub fn refresh(&mut self, drained: u32) -> Result<(), Hostile> {
        let returned = drained.wrapping_sub(self.drained);
        if returned > self.produced.wrapping_sub(self.drained) {
            return Err(Hostile);
        }
        self.drained = drained;
        Ok(())
    }

    /// Whether no chunk is out, as far as we know.
    pub fn is_clear(&self) -> bool {
        self.produced == self.drained
    }

    /// The chunks that were given back, as far as we know.
    pub fn drained(&self) -> u32 {
        self.drained
    }

    /// Makes sure that there is room for the next `bytes` (at most `WINDOW`) of a message, one behind the other, whatever is given back meanwhile. False: there is none.
    #[must_use]
    pub fn begin(&mut self, bytes: usize) -> bool {
        debug_assert!(bytes <= WINDOW);
        let course = *self.course();
        let (pipe, head, need) = (self.bytes(), course.head, bytes + PLAY);
        if self.produced.wrapping_sub(self.drained) + PARTS > CHUNK_HEADERS {
            return false;
        }
        let Some(tail) = self.tail() else {
            // What is answered has touched the memory around.
            let stays = match self.near {
                true => head + need <= pipe,
                false => course.goes_on(need, pipe),
            };
            if !stays {
                self.course().head = 0;
            }
            return true;
        };
        let end = if tail < head { pipe } else { tail };
        if head + need < end {
            return true;
        }
        let restarts = tail < head && need < tail;
        if restarts {
            self.course().head = 0;
        }
        restarts
    }

    /// Where the next chunk of `len` bytes begins, at `place` modulo `PLAY` or where a line does; `None` if there is no room for it
    /// now.
    pub fn find(&self, place: Option<usize>, len: usize) -> Option<usize> {
        debug_assert!(len <= CHUNK && place < Some(PLAY));
        if self.produced.wrapping_sub(self.drained) >= CHUNK_HEADERS {
            return None;
        }
        let (head, pipe) = (self.courses[self.at as usize].head, self.bytes());
        let ahead = match place {
            // Else two that answer each other from different places of a page would go on by a page each time.
            Some(place) if self.near && head >= PLAY => {
                const HALF: usize = PLAY / 2 - 1;
                head + HALF - (head - place + HALF) % PLAY
            }
            Some(place) => head + place.wrapping_sub(head) % PLAY,
            None => head.next_multiple_of(CELL),
        };
        let place = place.unwrap_or(0);
        let fits = ahead + len <= pipe;
        let Some(tail) = self.tail() else {
            return Some(if fits { ahead } else { place });
        };
        let (at, end) = match tail < head {
            true if fits => (ahead, pipe),
            true => (place, tail),
            false => (ahead, tail),
        };
        // Less than that: where head and tail meet, all is out.
        (at + len <= end && (end == pipe || at + len < end)).then_some(at)
    }

    /// Where in the own pipe the first `len` bytes of the next message will be, if that is one of `bytes` from where the last one came from: to be asked
    /// for now, if they were given back.
    pub fn own_ahead(&self, bytes: usize, len: usize) -> Option<usize> {
        let course = self.courses[0];
        let head = course.head;
        if self.at != 0 {
            return None;
        }
        let place = head.wrapping_sub(bytes) % PLAY;
        let start = match course.goes_on(bytes + PLAY, PIPE) {
            true => head + place.wrapping_sub(head) % PLAY,
            false => place,
        };
        let given_back = self.tail().is_none_or(|tail| {
            let (before, behind) = (start + len < tail, start >= head);
            match tail < head {
                true => before || behind,
                false => before && behind,
            }
        });
        given_back.then_some(start)
    }

    /// Takes what was found.
    pub fn take(&mut self, start: usize, len: usize) {
        self.starts[(self.produced % CHUNK_HEADERS) as usize] = (self.at, start as u32);
        self.produced = self.produced.wrapping_add(1);
        self.near = false;
        let course = self.course();
        course.head = start + len;
        course.passed = (course.passed + len).min(WIDENS * COMMON_PIPE);
    }
}

/// Bytes of the next chunk of a message of which `left` are left, cut where a line ends so that none belongs to two chunks.
/// What is left over is no small piece.
pub(crate) fn length(left: u64, chunk: u64, place: usize) -> usize {
    let cut = chunk - (place % CELL) as u64;
    if left <= cut || (left - cut < chunk / 4 && left <= CHUNK as u64) {
        left.min(CHUNK as u64) as usize
    } else {
        cut as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Any lengths and places in any pipe, given back in order at any time: no two chunks that are out overlap, and what was begun fits.
    #[test]
    fn chunks_that_are_out_do_not_overlap() {
        let mut seed = 1u64;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0xb);
            (seed >> 33) as usize % n
        };
        let mut space = Space::new();
        // Numbers wrap.
        (space.produced, space.drained) = (u32::MAX - 1000, u32::MAX - 1000);
        let mut out: VecDeque<(Area, usize, usize)> = VecDeque::new();
        let (mut refused, mut wrapped, mut begun, mut full) = (0, 0, 0, 0);
        for _ in 0..200_000 {
            if below(16) == 0 {
                out.drain(..below(out.len() + 1));
                space
                    .refresh(space.produced.wrapping_sub(out.len() as u32))
                    .unwrap();
            }
            if below(32) == 0 {
                let start = (below(2) == 0).then_some(below(COMMON_PIPE - CHUNK));
                space.go([None, Some(0), Some(1)][below(3)], start);
            }
            let most = [64, 2048, CHUNK][below(3)];
            let mut place = (below(4) > 0).then_some(below(PLAY));
            // One chunk that there need not be room for, or a message that there is room for.
            let whole = below(8) == 0;
            let mut left = 1 + below(if whole { WINDOW } else { most });
            let part = WINDOW / 16;
            if whole && !space.begin(left) {
                full += 1;
                continue;
            }
            begun += usize::from(whole);
            while left > 0 {
                let len = match whole {
                    true => length(left as u64, part as u64, place.unwrap_or(0)),
                    false => left,
                };
                let (head, area) = (space.course().head, space.area());
                let Some(at) = space.find(place, len) else {
                    assert!(!whole && !out.is_empty());
                    refused += 1;
                    break;
                };
                assert!(place.map_or(at % CELL == 0, |place| at % PLAY == place));
                assert!(at + len <= if area.is_none() { PIPE } else { COMMON_PIPE });
                let apart = |&(other, start, n): &(Area, usize, usize)| {
                    other != area || at + len <= start || start + n <= at
                };
                assert!(out.iter().all(apart));
                wrapped += usize::from(at < head);
                space.take(at, len);
                out.push_back((area, at, len));
                assert!(out.len() <= CHUNK_HEADERS as usize);
                left -= len;
                place = place.map(|_| (at + len) % PLAY);
            }
        }
        let seen = [refused, wrapped, begun, full];
        assert!(seen.iter().all(|&n| n > 1000), "{seen:?}");
    }

    /// Where messages begin that have a pipe to themselves: the bytes of it that were touched after so many of them.
    fn touched(bytes: usize, messages: usize) -> usize {
        let mut space = Space::new();
        let ends = (0..messages).map(|_| {
            assert!(space.begin(bytes));
            let mut left = bytes;
            while left > 0 {
                let len = left.min(CHUNK);
                let start = space.find(None, len).unwrap();
                space.take(start, len);
                left -= len;
            }
            space.refresh(space.produced).unwrap();
            space.courses[0].head
        });
        ends.max().unwrap()
    }

    #[test]
    fn a_pipe_widens_as_it_is_used() {
        for bytes in [64, 4 << 10, 20 << 10, 64 << 10, WINDOW] {
            assert_eq!(touched(bytes, 8), bytes);
            for messages in [20, 100, 10_000] {
                let most = (bytes * messages / WIDENS).max(bytes);
                let round = (2 * (bytes + PLAY)).max(ROUND);
                assert!(touched(bytes, messages) <= most.min(round));
            }
            assert!(touched(bytes, 100_000) >= 2 * bytes);
        }
    }

    #[test]
    fn an_answer_lies_where_the_question_lay() {
        let mut space = Space::new();
        for (question, bytes) in [(132 << 10, 4096), (40 << 10, 64), (COMMON_PIPE / 2, WINDOW)] {
            space.go(Some(1), Some(question));
            assert!(space.begin(bytes));
            assert_eq!(space.find(None, 64), Some(question));
        }
        space.go(Some(1), Some(COMMON_PIPE - 4096));
        assert!(space.begin(4096));
        assert_eq!(space.find(None, 64), Some(0));
    }

    #[test]
    fn an_idle_pipe_takes_a_window() {
        let mut space = Space::new();
        let sends = [
            (Some(0), WINDOW),
            (None, WINDOW),
            (Some(4095), WINDOW),
            (Some(16), 65_536),
            (None, WINDOW - 1000),
            (Some(2064), 100_000),
        ];
        let mut foreseen = 0;
        for (place, bytes) in sends.repeat(20) {
            assert!(space.begin(bytes));
            let (begun, mut left, mut place) = (place, bytes as u64, place);
            while left > 0 {
                let len = length(
                    left,
                    crate::chunking::here().chunk(bytes as u64),
                    place.unwrap_or(0),
                );
                let start = space.find(place, len).unwrap();
                space.take(start, len);
                left -= len as u64;
                place = place.map(|_| (start + len) % PLAY);
            }
            let ahead = space.own_ahead(bytes, 4096);
            space.refresh(space.produced).unwrap();
            if let (Some(start), Some(place)) = (ahead, begun) {
                assert!(space.begin(bytes));
                assert_eq!(space.find(Some(place), 4096), Some(start));
                foreseen += 1;
            }
        }
        assert!(foreseen > 20, "{foreseen}");
        assert_eq!(space.refresh(space.produced.wrapping_add(1)), Err(Hostile));
    }

    #[test]
    fn chunks_end_with_lines() {
        for (left, chunk, place) in [
            (8192u64, 2048u64, 16usize),
            (70_000, 8768, 63),
            (2049, 2048, 0),
        ] {
            let (mut rest, mut at, mut count) = (left, place, 0);
            while rest > 0 {
                let len = length(rest, chunk, at);
                (rest, at, count) = (rest - len as u64, at + len, count + 1);
                assert!(rest == 0 || (at % CELL == 0 && rest >= chunk / 4));
            }
            assert!(count <= left.div_ceil(chunk));
        }
        assert_eq!(length(CHUNK as u64 + 1, CHUNK as u64, 0), CHUNK);
    }
}
