//! Slots between two processes' worth of fabric in one process.

use mtmi::Matched;
use sys::sparse::Sparse;

use crate::Shm;
use crate::segment::Segment;
use crate::slots::Area;

/// Both ends of a node's memory, with areas of so many bytes.
pub(super) fn ends(each: u64) -> (Shm, Shm) {
    let (fd, mine) = Segment::create(2, "test").unwrap();
    let theirs = Segment::open(&fd, 2, "test").unwrap();
    let file = Sparse::create("test", 2 * each).unwrap();
    let copy = Sparse::open(file.fd().try_clone_to_owned().unwrap()).unwrap();
    let a = Shm::new(mine, Area::new(file, 2, 0), 0, vec![0, 1], 2);
    let b = Shm::new(theirs, Area::new(copy, 2, 1), 1, vec![0, 1], 2);
    (a, b)
}

#[test]
fn the_rules_are_kept() {
    testkit::suite::all(|| {
        let (a, b) = ends(1 << 32);
        (Matched::new(a), Matched::new(b))
    });
}
