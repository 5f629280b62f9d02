//! `yamabiko kaccd` starts where it may, says why where it may not, and leaves nothing when it is killed.

use cad_softirq::client::{Client, NAME, NotOpen};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

fn skipped(why: &str) {
    let line = format!("skipped: kaccd: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// In a network namespace of its own, so that one that is running here is neither seen nor disturbed.
#[test]
fn it_serves_until_it_is_killed() {
    let flags = rustix::thread::UnshareFlags::NEWNET;
    // SAFETY: no descriptors are unshared. Each test has a thread of its own.
    if let Err(why) = unsafe { rustix::thread::unshare_unsafe(flags) } {
        return skipped(&format!("no network namespace: {why}"));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_yamabiko"));
    command.arg("kaccd").stderr(Stdio::piped());
    let mut kaccd = command.spawn().unwrap();
    let begin = Instant::now();
    let client = loop {
        if let Some(status) = kaccd.try_wait().unwrap() {
            let said = kaccd.wait_with_output().unwrap().stderr;
            let said = String::from_utf8_lossy(&said);
            assert!(!status.success());
            assert!(
                said.contains("yamabiko: kaccd: the kernel refuses "),
                "{said}"
            );
            assert!(cad_softirq::usable().is_err(), "{said}");
            return skipped(&said);
        }
        match Client::new(NAME) {
            Ok(client) => break client,
            Err(why) => assert!(begin.elapsed() < LIMIT, "{why}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(client.open(3).unwrap().cards.len(), 3);
    let calculates = client.calculate();
    let may = cad_softirq::calc::usable();
    assert_eq!(calculates.is_ok(), may.is_ok(), "{calculates:?} {may:?}");
    kaccd.kill().unwrap();
    kaccd.wait().unwrap();
    assert!(client.open(3).is_err());
    assert!(matches!(Client::new(NAME), Err(NotOpen::Absent(_))));
}
