//! Lines of the PMI-1 "simple wire" protocol: `cmd=name key=value key=value\n`.
//!
//! Parsing never panics and never allocates more than the line; a line longer than [`MAX_LINE`] or
//! with more than [`MAX_FIELDS`] fields is an error. Both the client and the launcher use this.

/// Longest line either side accepts, terminator included.
pub const MAX_LINE: usize = 4096;
/// Most fields a line may have.
pub const MAX_FIELDS: usize = 32;
/// Longest name of a key-value space, as this project's launcher announces it.
pub const KVSNAME_MAX: usize = 256;
/// Longest key.
pub const KEY_MAX: usize = 64;
/// Longest value.
pub const VALUE_MAX: usize = 1024;

/// Text as one token, at most [`VALUE_MAX`] long: what is not a visible ASCII character becomes `?`,
/// a space `%20` and a percent sign `%25`. What does not fit is left out.
pub fn to_token(text: &str) -> String {
    let mut token = String::new();
    for c in text.chars() {
        let shown = if c.is_ascii_graphic() { c } else { '?' };
        match c {
            ' ' => token.push_str("%20"),
            '%' => token.push_str("%25"),
            _ => token.push(shown),
        }
        if token.len() > VALUE_MAX - 3 {
            break;
        }
    }
    token
}

/// The text that [`to_token`] was given; of anything else, something fit for a terminal.
pub fn from_token(token: &str) -> String {
    let visible = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    let text: String = token.chars().take(VALUE_MAX).map(visible).collect();
    text.replace("%20", " ").replace("%25", "%")
}

/// One parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    /// Parses one line; the terminator may be present. `None` if it is not UTF-8, is too long, has
    /// too many fields or does not begin with `cmd=` or `mcmd=`.
    pub fn parse(bytes: &'a [u8]) -> Option<Line<'a>> {
        if bytes.len() > MAX_LINE {
            return None;
        }
        let text = std::str::from_utf8(bytes)
            .ok()?
            .trim_end_matches(['\n', '\r']);
        if text.contains(['\n', '\0']) {
            return None;
        }
        let mut fields = Vec::new();
        // A token without '=' continues a free text (`msg=no such key`); nobody needs its rest.
        for (name, value) in text.split(' ').filter_map(|token| token.split_once('=')) {
            if fields.len() == MAX_FIELDS {
                return None;
            }
            fields.push((name, value));
        }
        match fields.first() {
            Some(("cmd" | "mcmd", _)) => Some(Line { fields }),
            _ => None,
        }
    }

    /// The command's name.
    pub fn command(&self) -> &'a str {
        self.fields[0].1
    }

    /// Whether the line opens a command of several lines (`mcmd=`).
    pub fn is_multi_line(&self) -> bool {
        self.fields[0].0 == "mcmd"
    }

    /// The value of field `name`, the first if it is repeated.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.fields
            .iter()
            .skip(1)
            .find(|(n, _)| *n == name)
            .map(|(_, v)| *v)
    }

    /// The value of field `name` as a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }
}

/// Whether `text` can stand as a key or value: not empty, at most `max` bytes, printable ASCII
/// without spaces.
pub fn is_token(text: &str, max: usize) -> bool {
    !text.is_empty() && text.len() <= max && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Splits a stream into lines without ever holding more than [`MAX_LINE`] bytes of an unfinished one.
#[derive(Default)]
pub struct LineBuffer {
    held: Vec<u8>,
}

impl LineBuffer {
    /// Adds received bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Takes the next complete line (with its terminator). `Err` if the stream's next line is too
    /// long: the peer does not speak the protocol.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        match self.held.iter().take(MAX_LINE).position(|b| *b == b'\n') {
            Some(end) => Ok(Some(self.held.drain(..=end).collect())),
            None if self.held.len() >= MAX_LINE => Err(TooLong),
            None => Ok(None),
        }
    }
}

/// A line exceeded [`MAX_LINE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Writes bytes as lower-case hexadecimal digits, which every PMI value can hold.
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

/// Reads what [`to_hex`] wrote. `None` for anything else.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    digits
        .chunks_exact(2)
        .map(|p| Some(nibble(p[0])? << 4 | nibble(p[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_as_a_token() {
        for text in ["", "MPI_Recv failed: 100 % bad", "%2 0%20%25", "__ __"] {
            assert!(!to_token(text).contains(' '));
            assert_eq!(from_token(&to_token(text)), text);
        }
        assert_eq!(from_token(&to_token("a\u{1b}[2J\nb")), "a?[2J?b");
        assert_eq!(from_token("\u{1b}"), "?");
        let long = to_token(&" ".repeat(5000));
        assert!(long.len() <= VALUE_MAX && from_token(&long).trim().is_empty());
    }
    use proptest::prelude::*;

    #[test]
    fn parses_fields_and_ignores_free_text() {
        let line = Line::parse(b"cmd=get_result rc=-1 msg=no such key value=a=b\n").unwrap();
        assert_eq!(line.command(), "get_result");
        assert_eq!(line.number("rc"), Some(-1));
        assert_eq!(line.get("msg"), Some("no"));
        assert_eq!(line.get("value"), Some("a=b"));
        assert_eq!(line.get("cmd"), None);
    }

    #[test]
    fn refuses_what_is_not_a_command() {
        assert!(Line::parse(b"").is_none());
        assert!(Line::parse(b"rc=0 cmd=x").is_none());
        assert!(Line::parse(b"cmd=a\ncmd=b").is_none());
        assert!(Line::parse(&[b'c'; MAX_LINE + 1]).is_none());
        assert!(Line::parse("cmd=x a=b ".repeat(40).as_bytes()).is_none());
    }

    #[test]
    fn line_buffer_bounds_a_line() {
        let mut buffer = LineBuffer::default();
        buffer.extend(b"one\ntw");
        assert_eq!(buffer.next_line(), Ok(Some(b"one\n".to_vec())));
        assert_eq!(buffer.next_line(), Ok(None));
        buffer.extend(b"o\n");
        assert_eq!(buffer.next_line(), Ok(Some(b"two\n".to_vec())));
        buffer.extend(&[b'x'; MAX_LINE]);
        assert_eq!(buffer.next_line(), Err(TooLong));
    }

    proptest! {
        #[test]
        fn parse_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Line::parse(&bytes);
        }

        #[test]
        fn hex_round_trips(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        }

        #[test]
        fn from_hex_never_panics(text in ".{0,40}") {
            let _ = from_hex(&text);
        }
    }
}
