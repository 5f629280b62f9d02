//! Strings of a Fortran caller: as long as their variable, filled with blanks, without a NUL.

use std::ffi::CString;

/// The text without the blanks behind it.
pub fn trimmed(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|&c| c != b' ')
        .map_or(0, |last| last + 1);
    &text[..end]
}

/// The text without the blanks around it.
pub fn word(text: &[u8]) -> &[u8] {
    let text = trimmed(text);
    let start = text.iter().position(|&c| c != b' ').unwrap_or(text.len());
    &text[start..]
}

/// A C string of a text, up to its first NUL: some programs write one.
pub fn c_string(text: &[u8]) -> CString {
    let before = text.split(|&c| c == 0).next().unwrap_or_default();
    CString::new(before).unwrap_or_default()
}

/// Fills a Fortran variable with a text, cut or padded with blanks.
pub fn pad(text: &[u8], to: &mut [u8]) {
    let n = text.len().min(to.len());
    to[..n].copy_from_slice(&text[..n]);
    to[n..].fill(b' ');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_taken_off() {
        assert_eq!(trimmed(b"  a b  "), b"  a b");
        assert_eq!(word(b"  a b  "), b"a b");
        assert_eq!(trimmed(b"   "), b"");
        assert_eq!(word(b""), b"");
    }

    #[test]
    fn a_text_ends_at_its_first_nul() {
        assert_eq!(c_string(b"abc\0def").as_bytes(), b"abc");
        assert_eq!(c_string(b"").as_bytes(), b"");
    }

    #[test]
    fn variables_are_filled() {
        let mut to = *b"xxxxx";
        pad(b"abc", &mut to);
        assert_eq!(&to, b"abc  ");
        pad(b"abcdefg", &mut to);
        assert_eq!(&to, b"abcde");
        pad(b"", &mut to[..0]);
    }
}
