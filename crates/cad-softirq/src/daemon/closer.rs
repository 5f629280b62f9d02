//! Closes descriptors that clients sent. To close one may take as long as whoever made it likes: that of a FUSE file asks its server, that of a
//! socket may linger. So a thread does it, and waits instead of the daemon.
//!
//! Invariants: no more than [`LINE_MAX`] wait to be closed; who asks for [room](Closer::has_room) before it receives one can always hand it over. The
//! thread ends when it has closed all after the [`Closer`] went.

use crate::kernel::Refused;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Descriptors that wait to be closed, at most.
const LINE_MAX: usize = 64;

pub(super) struct Closer {
    line: Sender<OwnedFd>,
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    /// With a thread.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new() -> Result<Closer, Refused> {
        let (line, next) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = waiting.clone();
        let thread = std::thread::Builder::new().name("kaccd closing".to_owned());
        let work = move || {
            while let Ok(fd) = next.recv() {
                drop::<OwnedFd>(fd);
                left.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let thread = thread.spawn(work);
        thread.map_err(|e| Refused::new("a thread that closes descriptors", e))?;
        Ok(Closer { line, waiting })
    }

    /// Whether another one may come.
    pub fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < LINE_MAX
    }

    /// Has it closed.
    pub fn close(&self, fd: OwnedFd) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread is there as long as this is.
        let _ = self.line.send(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_handed_over_is_closed() {
        let closer = Closer::new().unwrap();
        let (near, far) = sys::unix::pair(sys::unix::Kind::Stream).unwrap();
        assert!(closer.has_room());
        closer.close(far.into());
        let deadline = Some(Instant::now() + Duration::from_secs(10));
        assert_eq!(near.receive(&mut [0; 1], deadline).unwrap().bytes, 0);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let (line, held) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let closer = Closer { line, waiting };
        for _ in 0..LINE_MAX {
            assert!(closer.has_room());
            let (near, _) = sys::unix::pair(sys::unix::Kind::Stream).unwrap();
            closer.close(near.into());
        }
        assert!(!closer.has_room());
        drop(held);
    }
}
