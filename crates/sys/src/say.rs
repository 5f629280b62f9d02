//! Sentences for the person in front of the job, on standard error, and what a command answers on standard output.
//!
//! Many processes write there, mostly to one pipe or terminal, so a line is one system call: the lines of two ranks that fail together
//! do not mix.

use std::io::{self, Write};

/// Writes `text` and the end of the line. Nobody may read it, so it does not fail.
pub fn line(text: &str) {
    line_to(&mut io::stderr(), text);
}

/// Writes the answer of a command to standard output. That its reader has seen enough is no failure.
///
/// # Errors
/// What the system says, as of a disk that is full.
pub fn answer(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn line_to(out: &mut impl Write, text: &str) {
    let _ = out.write_all(format!("{text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each call was given.
    struct Pieces(Vec<Vec<u8>>);

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_one_piece() {
        let mut pieces = Pieces(Vec::new());
        line_to(&mut pieces, "yamabiko: rank 1: it failed");
        assert_eq!(pieces.0, [b"yamabiko: rank 1: it failed\n"]);
    }
}
