//! Pages of results that are made ahead, since to put one into its place has the caller wait for all processors (an RCU grace period: tens of
//! milliseconds on a machine that computes). A thread waits for those that come after.
//!
//! Invariants: an entry is with the thread, or its page is ready, or neither; what was taken from a context that was closed before [`Ahead::prepare`] is
//! called is nobody's any more when the page comes back, as the kernel has waited since. The thread ends with the [`Ahead`], which waits for it.
//!
//! Who calls it: `tables`.

use crate::kernel::{Map, Refused, Shape};
use crate::layout::result;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// An entry, and whether its page is for a context to come; if not, it only takes the place of one that others have seen.
pub(crate) struct Wanted {
    pub entry: u32,
    pub kept: bool,
}

/// What has become of it.
pub(crate) enum Page {
    /// At its place.
    Kept(Map),
    /// The same, but nobody is going to use it.
    Put,
    /// The kernel has none.
    Refused,
}

/// What it brings back: of which entry.
pub(crate) type Ready = (u32, Page);

pub(crate) struct Ahead {
    wanted: Option<Sender<Wanted>>,
    ready: Receiver<Ready>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Makes pages for entries of this map.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(results: Arc<Map>) -> io::Result<Ahead> {
        let (wanted, asked) = channel();
        let (made, ready) = channel();
        let thread = std::thread::Builder::new().name("kaccd pages".to_owned());
        let thread = thread.spawn(move || work(&results, &asked, &made))?;
        Ok(Ahead {
            wanted: Some(wanted),
            ready,
            thread: Some(thread),
        })
    }

    /// Has a page put at an entry whose context is closed.
    pub fn prepare(&self, wanted: Wanted) {
        if let Some(thread) = &self.wanted {
            // The thread is there as long as this is.
            let _ = thread.send(wanted);
        }
    }

    /// One that is ready.
    pub fn take(&self) -> Option<Ready> {
        self.ready.try_recv().ok()
    }

    /// The next one that will be, if one is on its way.
    pub fn wait(&self) -> Option<Ready> {
        self.ready.recv().ok()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic, and has nothing to tell.
            let _ = thread.join();
        }
    }
}

fn work(results: &Map, wanted: &Receiver<Wanted>, made: &Sender<Ready>) {
    while let Ok(first) = wanted.recv() {
        // All that there are: the kernel waits once for them.
        let mut pages = Vec::new();
        for wanted in [first].into_iter().chain(wanted.try_iter()) {
            pages.push((wanted, page().ok()));
        }
        let some = pages
            .iter()
            .filter_map(|(wanted, page)| Some((wanted.entry, page.as_ref()?)));
        let set = results.set_maps(&some.collect::<Vec<_>>());
        for (Wanted { entry, kept }, page) in pages {
            let page = match page {
                Some(page) if set.is_ok() && kept => Page::Kept(page),
                Some(_) if set.is_ok() => Page::Put,
                _ => Page::Refused,
            };
            // Nobody asks any more if it can't be said.
            let _ = made.send((entry, page));
        }
    }
}

/// A page that nobody has seen.
fn page() -> Result<Map, Refused> {
    Map::new(Shape::Mapped, result::BYTES, 1, None)
}
