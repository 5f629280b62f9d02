//! One rank as mpiexec sees it, wherever it runs.

use crate::output::{Sink, Stream};
use std::time::Instant;

/// A rank of the job.
pub(super) struct Member {
    /// The host it runs on.
    pub host: usize,
    /// Its process, 0 before it is started.
    pub pid: i32,
    /// Its program, for messages.
    pub program: String,
    /// Whether it may still send PMI requests.
    pub pmi_open: bool,
    /// Its output: the lines, and whether more may come.
    outputs: [(Stream, bool); 2],
    ended: bool,
}

impl Member {
    pub(super) fn new(rank: usize, host: usize, program: String) -> Member {
        Member {
            host,
            pid: 0,
            program,
            pmi_open: true,
            outputs: [(Stream::new(rank), true), (Stream::new(rank), true)],
            ended: false,
        }
    }

    /// Whether its process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn set_ended(&mut self) {
        self.ended = true;
    }

    /// Whether more output may come.
    pub(super) fn has_output(&self) -> bool {
        self.outputs.iter().any(|(_, open)| *open)
    }

    /// Takes output.
    pub(super) fn feed(&mut self, which: usize, bytes: &[u8], now: Instant, sink: &mut Sink) {
        let (stream, open) = &mut self.outputs[which];
        if *open {
            stream.feed(bytes, now, sink);
        }
    }

    /// Notes that no more output will come.
    pub(super) fn end_output(&mut self, which: usize, sink: &mut Sink) {
        let (stream, open) = &mut self.outputs[which];
        *open = false;
        stream.flush(sink);
    }

    /// Drops what may still come.
    pub(super) fn close_output(&mut self, which: usize) {
        self.outputs[which].1 = false;
    }

    /// When an unfinished line is to be passed on to one of `sinks`.
    pub(super) fn deadline(&self, sinks: &[Sink; 2]) -> Option<Instant> {
        let streams = self.outputs.iter().zip(sinks);
        let deadlines = streams.filter_map(|((stream, _), sink)| stream.deadline(sink));
        deadlines.min()
    }

    /// Notes that there is room again for what the rank says.
    pub(super) fn restart(&mut self, which: usize, now: Instant) {
        self.outputs[which].0.restart(now);
    }

    /// Passes on unfinished lines whose time is over.
    pub(super) fn flush_late(&mut self, now: Instant, sinks: &mut [Sink; 2]) {
        for ((stream, _), sink) in self.outputs.iter_mut().zip(sinks) {
            if stream.deadline(sink).is_some_and(|d| now >= d) {
                stream.flush(sink);
            }
        }
    }

    /// Passes on all unfinished lines: nothing more will come.
    pub(super) fn flush(&mut self, sinks: &mut [Sink; 2]) {
        for ((stream, _), sink) in self.outputs.iter_mut().zip(sinks) {
            stream.flush(sink);
        }
    }
}
