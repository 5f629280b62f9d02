//! Random bytes from the kernel, for secrets, challenges and names of sockets.

use std::io;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `out` with random bytes.
///
/// # Errors
/// When the kernel has no generator (`ENOSYS` under a filter of system calls).
pub fn fill(out: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < out.len() {
        match getrandom(&mut out[done..], GetRandomFlags::empty()) {
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Sixteen random bytes: a name nobody can guess, or a job's secret.
///
/// # Errors
/// As [`fill`].
pub fn bytes16() -> io::Result<[u8; 16]> {
    let mut out = [0; 16];
    fill(&mut out)?;
    Ok(out)
}

/// A random 64-bit number.
///
/// # Errors
/// As [`fill`].
pub fn u64() -> io::Result<u64> {
    let mut out = [0; 8];
    fill(&mut out)?;
    Ok(u64::from_ne_bytes(out))
}

#[cfg(test)]
mod tests {
    #[test]
    fn differs() {
        assert_ne!(super::bytes16().unwrap(), super::bytes16().unwrap());
        let mut long = vec![0; 5000];
        super::fill(&mut long).unwrap();
        assert!(long[4000..].iter().any(|&b| b != 0));
    }
}
