//! The ranks' output: bytes from many pipes become whole lines on one stream. No I/O happens here.
//!
//! Each pipe has a [`Stream`] that holds an unfinished line; complete lines go to the [`Sink`] of mpiexec's
//! own standard output or error. So do unfinished ones (a prompt, a progress bar) when their pipe has been
//! quiet for [`QUIET_DELAY`], but not while the sink has no room: the rest of the line may wait in the pipe
//! for it. What came in whole blocks was cut by a program's own buffer, not by the program, and the rest is
//! waited for. A job of one rank has nobody to be mixed with, so its bytes pass through at once.

use std::time::{Duration, Instant};

/// How long an unfinished line is held back after its last bytes.
pub const QUIET_DELAY: Duration = Duration::from_millis(100);
/// How long it is held back although more of it comes all the time: a progress bar has to be seen.
const GROWING_DELAY: Duration = Duration::from_millis(500);
/// How long it is held back after bytes in whole blocks.
const BLOCK_DELAY: Duration = Duration::from_secs(10);
/// C, Fortran and Python write to a pipe when a buffer is full, whose size is a multiple of this.
const BLOCK: usize = 4096;
/// An unfinished line longer than this is passed on in pieces.
const PARTIAL_MAX: usize = 64 << 10;
/// With this much waiting to be written, no more is read from the ranks: they feel the back-pressure.
const BACKLOG_MAX: usize = 1 << 20;

/// One rank's standard output or error on its way.
pub struct Stream {
    rank: usize,
    partial: Vec<u8>,
    /// When the unfinished line is to be passed on, and at the latest.
    due: Option<(Instant, Instant)>,
}

/// What is to be written to one of mpiexec's own streams.
pub struct Sink {
    queue: Vec<u8>,
    written: usize,
    label: bool,
    direct: bool,
    /// The rank whose line has begun but not ended in what was queued.
    open: Option<usize>,
}

impl Stream {
    /// The stream of `rank`.
    pub fn new(rank: usize) -> Stream {
        Stream {
            rank,
            partial: Vec::new(),
            due: None,
        }
    }

    /// Takes bytes from the pipe.
    pub fn feed(&mut self, bytes: &[u8], now: Instant, sink: &mut Sink) {
        if sink.direct {
            sink.queue.extend_from_slice(bytes);
            return;
        }
        let mut rest = bytes;
        if let Some(end) = bytes.iter().rposition(|b| *b == b'\n') {
            self.partial.extend_from_slice(&bytes[..=end]);
            self.flush(sink);
            rest = &bytes[end + 1..];
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > PARTIAL_MAX {
            self.flush(sink);
        }
        if !self.partial.is_empty() {
            self.wait(bytes.len().is_multiple_of(BLOCK), now);
        }
    }

    /// Sets when the unfinished line is due, of which something came now: `whole` blocks or something else.
    fn wait(&mut self, whole: bool, now: Instant) {
        self.due = Some(match (whole, self.due) {
            (true, _) => (now + BLOCK_DELAY, now + BLOCK_DELAY + GROWING_DELAY),
            (false, Some((_, last))) => ((now + QUIET_DELAY).min(last), last),
            (false, None) => (now + QUIET_DELAY, now + GROWING_DELAY),
        });
    }

    /// Begins to wait anew: until now nobody looked at what comes.
    pub fn restart(&mut self, now: Instant) {
        if let Some((due, last)) = &mut self.due {
            *due = (*due).max(now + QUIET_DELAY);
            *last = (*last).max(now + GROWING_DELAY);
        }
    }

    /// Passes the unfinished line on: its time is over, or the pipe's.
    pub fn flush(&mut self, sink: &mut Sink) {
        if !self.partial.is_empty() {
            sink.add(self.rank, &self.partial);
            self.partial.clear();
        }
        self.due = None;
    }

    /// When the unfinished line is to be passed on, if `sink` has room for more.
    pub fn deadline(&self, sink: &Sink) -> Option<Instant> {
        self.due.map(|(due, _)| due).filter(|_| sink.has_room())
    }
}

impl Sink {
    /// A sink for a job of `ranks`, prefixing lines with ranks if `label`.
    pub fn new(ranks: usize, label: bool) -> Sink {
        Sink {
            queue: Vec::new(),
            written: 0,
            label,
            direct: ranks == 1 && !label,
            open: None,
        }
    }

    /// Queues a message of the launcher itself, on lines of its own.
    pub fn say(&mut self, text: &str) {
        if self.open.take().is_some() && self.label {
            self.queue.push(b'\n');
        }
        self.queue.extend_from_slice(text.as_bytes());
        self.queue.push(b'\n');
    }

    fn add(&mut self, rank: usize, bytes: &[u8]) {
        if !self.label {
            self.queue.extend_from_slice(bytes);
            self.open = (bytes.last() != Some(&b'\n')).then_some(rank);
            return;
        }
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            // A prefix must stand at a line's beginning, so another rank's open line is ended.
            if self.open.is_some_and(|open| open != rank) {
                self.queue.push(b'\n');
                self.open = None;
            }
            if self.open.is_none() {
                self.queue
                    .extend_from_slice(format!("[{rank}] ").as_bytes());
            }
            self.queue.extend_from_slice(line);
            self.open = (line.last() != Some(&b'\n')).then_some(rank);
        }
    }

    /// What is to be written next.
    pub fn pending(&self) -> &[u8] {
        &self.queue[self.written..]
    }

    /// At most `most` bytes of that, up to the end of a line if there is one among them: what follows may be
    /// a line of the other sink, where both are one file.
    pub fn piece(&self, most: usize) -> &[u8] {
        let pending = self.pending();
        if pending.len() <= most {
            return pending;
        }
        let line = pending[..most].iter().rposition(|b| *b == b'\n');
        &pending[..line.map_or(most, |end| end + 1)]
    }

    /// Notes that the first `count` bytes of [`pending`](Sink::pending) were written.
    pub fn wrote(&mut self, count: usize) {
        self.written += count;
        if self.written == self.queue.len() {
            self.queue.clear();
            self.written = 0;
        } else if self.written > BACKLOG_MAX {
            self.queue.drain(..self.written);
            self.written = 0;
        }
    }

    /// Whether more may be read from the ranks.
    pub fn has_room(&self) -> bool {
        self.pending().len() < BACKLOG_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(sink: &Sink) -> &str {
        std::str::from_utf8(sink.pending()).unwrap()
    }

    #[test]
    fn lines_stay_whole() {
        let (mut a, mut b, now) = (Stream::new(0), Stream::new(1), Instant::now());
        let mut sink = Sink::new(2, false);
        a.feed(b"one", now, &mut sink);
        b.feed(b"two\nthr", now, &mut sink);
        assert_eq!(text(&sink), "two\n");
        assert_eq!(a.deadline(&sink), Some(now + QUIET_DELAY));
        a.feed(b"!\n", now, &mut sink);
        assert_eq!(a.deadline(&sink), None);
        b.flush(&mut sink);
        assert_eq!(text(&sink), "two\none!\nthr");
    }

    #[test]
    fn unfinished_lines_wait_for_quiet() {
        let (mut a, start) = (Stream::new(0), Instant::now());
        let mut sink = Sink::new(2, false);
        let after = |ms| start + Duration::from_millis(ms);
        for ms in [0, 90, 180] {
            a.feed(b".", after(ms), &mut sink);
            assert_eq!(a.deadline(&sink), Some(after(ms + 100)));
        }
        a.feed(b".", after(450), &mut sink);
        assert_eq!(a.deadline(&sink), Some(after(500)), "not for ever");
        a.flush(&mut sink);
        assert_eq!((text(&sink), a.deadline(&sink)), ("....", None));
    }

    #[test]
    fn blocks_wait_for_the_rest_of_their_line() {
        let (mut a, mut b, now) = (Stream::new(0), Stream::new(1), Instant::now());
        let mut sink = Sink::new(2, false);
        let mut block = vec![b'x'; BLOCK];
        block[9] = b'\n';
        a.feed(&block, now, &mut sink);
        assert_eq!(a.deadline(&sink), Some(now + BLOCK_DELAY));
        b.feed(b"other\n", now, &mut sink);
        let later = now + BLOCK_DELAY - QUIET_DELAY;
        a.feed(b"rest\n", later, &mut sink);
        let lines: Vec<usize> = text(&sink).lines().map(str::len).collect();
        assert_eq!(lines, [9, 5, BLOCK - 10 + 4]);
        // What was written after a block ends the waiting for its rest, and memory is bounded.
        a.feed(&block, now, &mut sink);
        a.feed(b"name? ", now, &mut sink);
        assert_eq!(a.deadline(&sink), Some(now + QUIET_DELAY));
        let before = sink.pending().len();
        a.feed(&vec![b'x'; PARTIAL_MAX], now, &mut sink);
        assert_eq!(sink.pending().len(), before + BLOCK - 10 + 6 + PARTIAL_MAX);
        assert_eq!(a.deadline(&sink), None);
    }

    #[test]
    fn a_line_whose_rest_is_held_back_is_no_prompt() {
        let (mut a, now) = (Stream::new(0), Instant::now());
        let mut sink = Sink::new(2, false);
        a.feed(
            &[&vec![b'x'; BACKLOG_MAX][..], b"\nhalf"].concat(),
            now,
            &mut sink,
        );
        assert_eq!(a.deadline(&sink), None, "nobody may write the rest");
        sink.wrote(2);
        let later = now + BLOCK_DELAY;
        a.restart(later);
        assert_eq!(a.deadline(&sink), Some(later + QUIET_DELAY));
    }

    #[test]
    fn pieces_end_with_lines() {
        let mut sink = Sink::new(2, false);
        sink.say("one");
        sink.say("two");
        assert_eq!(sink.piece(8), b"one\ntwo\n");
        assert_eq!(sink.piece(7), b"one\n");
        assert_eq!(sink.piece(3), b"one");
    }

    #[test]
    fn labels_stand_at_line_beginnings() {
        let (mut a, mut b, now) = (Stream::new(0), Stream::new(10), Instant::now());
        let mut sink = Sink::new(11, true);
        a.feed(b"x\ny\nz", now, &mut sink);
        a.flush(&mut sink);
        a.feed(b"z\n", now, &mut sink);
        assert_eq!(text(&sink), "[0] x\n[0] y\n[0] zz\n");
        sink.wrote(text(&sink).len());
        a.feed(b"p", now, &mut sink);
        a.flush(&mut sink);
        b.feed(b"q\n", now, &mut sink);
        a.feed(b"r\n", now, &mut sink);
        sink.say("mpiexec: end");
        assert_eq!(text(&sink), "[0] p\n[10] q\n[0] r\nmpiexec: end\n");
    }

    #[test]
    fn one_rank_passes_through() {
        let mut sink = Sink::new(1, false);
        let mut a = Stream::new(0);
        a.feed(b"\0par", Instant::now(), &mut sink);
        assert_eq!(text(&sink), "\0par");
        assert_eq!(a.deadline(&sink), None);
        a.feed(&vec![b'x'; BACKLOG_MAX], Instant::now(), &mut sink);
        assert!(!sink.has_room());
        sink.wrote(4);
        assert_eq!(sink.pending().len(), BACKLOG_MAX);
    }

    proptest! {
        /// However the bytes are cut, each rank's own bytes come out complete and in order.
        #[test]
        fn nothing_is_lost(pieces in proptest::collection::vec((0usize..2, "[ab\n]{0,9}", any::<bool>()), 0..40)) {
            let now = Instant::now();
            let mut sink = Sink::new(2, false);
            let mut streams = [Stream::new(0), Stream::new(1)];
            let mut fed = [String::new(), String::new()];
            for (rank, piece, flush) in &pieces {
                // The letters tell the ranks apart.
                let piece = if *rank == 0 { piece.clone() } else { piece.to_uppercase() };
                fed[*rank].push_str(&piece);
                streams[*rank].feed(piece.as_bytes(), now, &mut sink);
                if *flush {
                    streams[*rank].flush(&mut sink);
                }
            }
            streams.iter_mut().for_each(|s| s.flush(&mut sink));
            let out = text(&sink);
            let only = |f: fn(&char) -> bool, s: &str| s.chars().filter(f).collect::<String>();
            prop_assert_eq!(only(char::is_ascii_lowercase, out), only(char::is_ascii_lowercase, &fed[0]));
            prop_assert_eq!(only(char::is_ascii_uppercase, out), only(char::is_ascii_uppercase, &fed[1]));
            prop_assert_eq!(out.matches('\n').count(), fed.concat().matches('\n').count());
        }
    }
}
