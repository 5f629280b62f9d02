//! Strings of a C caller.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A NUL-terminated string, in.
#[derive(Clone, Copy)]
pub struct Text {
    addr: usize,
}

impl Text {
    /// The string at `addr`.
    ///
    /// # Safety
    /// `addr` is NULL or points to a NUL-terminated string that lives as long as the call.
    pub const unsafe fn new(addr: usize) -> Text {
        Text { addr }
    }

    /// Whether the caller passed NULL.
    pub const fn is_null(self) -> bool {
        self.addr == 0
    }

    /// Its bytes without the NUL; empty for NULL.
    pub fn bytes(&self) -> &[u8] {
        if self.is_null() {
            return &[];
        }
        // SAFETY: the constructor's contract.
        unsafe { std::ffi::CStr::from_ptr(self.addr as *const std::ffi::c_char) }.to_bytes()
    }

    /// Its text, in whatever encoding.
    pub fn to_os(&self) -> &OsStr {
        OsStr::from_bytes(self.bytes())
    }

    /// Its text, with what isn't UTF-8 replaced: to be shown, not to be given back.
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

/// A string that the call fills.
#[derive(Clone, Copy)]
pub struct TextOut {
    addr: usize,
    limit: usize,
}

impl TextOut {
    /// The buffer at `addr` with room for `limit` bytes, the NUL included.
    ///
    /// # Safety
    /// `addr` is NULL or points to `limit` writable bytes.
    pub const unsafe fn new(addr: usize, limit: usize) -> TextOut {
        TextOut { addr, limit }
    }

    /// Whether the caller passed NULL.
    pub const fn is_null(self) -> bool {
        self.addr == 0
    }

    /// Bytes of room, the NUL included.
    pub const fn limit(self) -> usize {
        self.limit
    }

    /// The same buffer with room for `limit` bytes, where another argument tells the length.
    pub const fn with_limit(self, limit: usize) -> TextOut {
        TextOut {
            addr: self.addr,
            limit,
        }
    }

    /// Writes `text` and a NUL, [cut](cut) to the room there is; says how many bytes were written without the NUL.
    pub fn set(self, text: impl AsRef<OsStr>) -> usize {
        if self.is_null() || self.limit == 0 {
            return 0;
        }
        let text = cut(text.as_ref(), self.limit - 1).as_bytes();
        let n = text.len();
        // SAFETY: the constructor's contract: `limit` bytes are writable and n + 1 <= limit.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.addr as *mut u8, n);
            *(self.addr as *mut u8).add(n) = 0;
        }
        n
    }
}

/// The beginning of `text`, at most `limit` bytes of it, to a character's edge where it is UTF-8.
pub fn cut(text: &OsStr, limit: usize) -> &OsStr {
    let n = match text.to_str() {
        Some(text) => text.floor_char_boundary(limit),
        None => text.len().min(limit),
    };
    OsStr::from_bytes(&text.as_bytes()[..n])
}
