//! A place of a shelf under loom: the production code of [`Turned`] in every order that the memory model allows.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p shm --lib loom`.

use std::sync::atomic::Ordering::{Acquire, Release};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::turned::Turned;

const READERS: usize = 2;
const PLACE: u32 = 3;

/// A place, and how many messages there each reader was told of, as the rings do.
struct Place {
    message: UnsafeCell<u32>,
    told: [AtomicU32; READERS],
    turned: [Turned; READERS],
}

/// One that reads there.
struct Reader {
    place: Arc<Place>,
    me: usize,
    read: u32,
}

impl Place {
    /// Puts message `number` there, if all have read the one before.
    fn put(&self, number: u32) -> bool {
        let owners = ((number - 1) & 1) << PLACE;
        if !self.turned.iter().all(|t| t.has_read(PLACE, owners)) {
            return false;
        }
        // SAFETY: nobody has still to read what was there; loom checks that.
        self.message.with_mut(|m| unsafe { *m = number });
        self.told.iter().for_each(|t| t.store(number, Release));
        true
    }
}

impl Reader {
    fn look(mut self) -> Reader {
        let told = self.place.told[self.me].load(Acquire);
        if told > self.read {
            assert_eq!(
                told,
                self.read + 1,
                "nobody is told of one before it has read"
            );
            // SAFETY: its owner told of it; loom checks that.
            let message = self.place.message.with(|m| unsafe { *m });
            assert_eq!(message, told);
            self.read = told;
            self.place.turned[self.me].turn(PLACE);
        }
        self
    }
}

/// Messages at the same place, each read by two.
#[test]
fn loom_a_place_is_written_when_all_have_read() {
    loom::model(|| {
        let place = Arc::new(Place {
            message: UnsafeCell::new(0),
            told: Default::default(),
            turned: [Turned::new(), Turned::new()],
        });
        let readers = [0, 1].map(|me| {
            let place = place.clone();
            let reader = Reader { place, me, read: 0 };
            thread::spawn(move || reader.look().look())
        });
        assert!(place.put(1));
        thread::yield_now();
        let mut put = 1 + u32::from(place.put(2));
        let readers = readers.map(|reader| reader.join().unwrap().look());
        assert!(readers.iter().all(|r| r.read == put));
        put += 1;
        assert!(place.put(put));
        assert!(readers.map(Reader::look).iter().all(|r| r.read == put));
    });
}
