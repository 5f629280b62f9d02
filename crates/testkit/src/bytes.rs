//! Buffers as a program would have them.

use boundary::AlignedBuf;
use layout::Data;

/// A buffer that transports are given; to be kept until what it was given for is over.
pub struct Bytes {
    memory: AlignedBuf,
    len: usize,
}

impl Bytes {
    /// `len` zeros.
    ///
    /// # Panics
    /// When there is no memory.
    pub fn new(len: usize) -> Bytes {
        let memory = AlignedBuf::new(len).expect("memory for a test's buffer");
        Bytes { memory, len }
    }

    /// These bytes.
    pub fn of(bytes: &[u8]) -> Bytes {
        let mut out = Bytes::new(bytes.len());
        out.memory.buf().write(bytes);
        out
    }

    /// The buffer, as transports take it.
    pub fn data(&mut self) -> Data {
        Data::bytes(self.memory.buf(), self.len as u64)
    }

    /// What is in it now.
    pub fn bytes(&mut self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        self.memory.buf().read(&mut out);
        out
    }
}
