//! A low limit on the size of files. One test, as the limit is the whole process's.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sys::memfd::create_sealed;

#[test]
fn a_segment_larger_than_files_may_be_is_refused_without_a_signal() {
    let before = getrlimit(Resource::Fsize);
    let low = Rlimit {
        current: Some(8192),
        ..before
    };
    setrlimit(Resource::Fsize, low).unwrap();
    let (fits, refused) = (create_sealed("test", 8192), create_sealed("test", 8193));
    setrlimit(Resource::Fsize, before).unwrap();
    assert_eq!(fits.unwrap().1.len(), 8192);
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("ulimit -f") && text.contains("8193 bytes") && text.contains("8192 bytes"),
        "{text}"
    );
}
