//! The ranks' output: bytes from many pipes become whole lines on one stream. No I/O happens here.
//!
//! Each pipe has a [`Stream`] that holds an unfinished line; complete lines, and unfinished ones after
//! [`PARTIAL_DELAY`], go to the [`Sink`] of mpiexec's own standard output or error. A job of one rank
//! has nobody to be mixed with, so its bytes pass through at once.

use std::time::{Duration, Instant};

/// How long an unfinished line (a prompt, a progress bar) is held back.
pub const PARTIAL_DELAY: Duration = Duration::from_millis(100);
/// An unfinished line longer than this is passed on in pieces.
const PARTIAL_MAX: usize = 64 << 10;
/// With this much waiting to be written, no more is read from the ranks: they feel the back-pressure.
const BACKLOG_MAX: usize = 1 << 20;

/// One rank's standard output or error on its way.
pub struct Stream {
    rank: usize,
    partial: Vec<u8>,
    since: Option<Instant>,
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
            since: None,
        }
    }

    /// Takes bytes from the pipe.
    pub fn feed(&mut self, bytes: &[u8], now: Instant, sink: &mut Sink) {
        if sink.direct {
            sink.queue.extend_from_slice(bytes);
            return;
        }
        match bytes.iter().rposition(|b| *b == b'\n') {
            Some(end) => {
                self.partial.extend_from_slice(&bytes[..=end]);
                self.flush(sink);
                self.hold(&bytes[end + 1..], now);
            }
            None => self.hold(bytes, now),
        }
        if self.partial.len() > PARTIAL_MAX {
            self.flush(sink);
        }
    }

    fn hold(&mut self, bytes: &[u8], now: Instant) {
        self.partial.extend_from_slice(bytes);
        if !self.partial.is_empty() {
            self.since.get_or_insert(now);
        }
    }

    /// Passes the unfinished line on: its time is over, or the pipe's.
    pub fn flush(&mut self, sink: &mut Sink) {
        if !self.partial.is_empty() {
            sink.add(self.rank, &self.partial);
            self.partial.clear();
        }
        self.since = None;
    }

    /// When the unfinished line is to be passed on.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + PARTIAL_DELAY)
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
        assert_eq!(a.deadline(), Some(now + PARTIAL_DELAY));
        a.feed(b"!\n", now, &mut sink);
        assert_eq!(a.deadline(), None);
        b.flush(&mut sink);
        assert_eq!(text(&sink), "two\none!\nthr");
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
        assert_eq!(a.deadline(), None);
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
