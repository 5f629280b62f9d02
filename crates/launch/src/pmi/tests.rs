//! Conversations with the server.

use super::*;
use proptest::prelude::*;

fn server(size: usize) -> Server {
    Server::new(
        "kvs",
        &vec![0; size],
        9,
        vec![("secret".into(), "s".into())],
    )
}

/// The single reply to `line` from `rank`.
fn ask(server: &mut Server, rank: usize, line: &str) -> String {
    match server.line(rank, format!("{line}\n").as_bytes()).as_slice() {
        [Action::Reply(to, text)] if *to == rank => text.trim_end().to_string(),
        other => panic!("{line}: {other:?}"),
    }
}

fn joined(size: usize) -> Server {
    let mut s = server(size);
    for rank in 0..size {
        assert!(ask(&mut s, rank, "cmd=init pmi_version=1 pmi_subversion=1").contains("rc=0"));
    }
    s
}

#[test]
fn a_whole_conversation() {
    let mut s = joined(2);
    assert_eq!(
        ask(&mut s, 0, "cmd=get_my_kvsname"),
        "cmd=my_kvsname rc=0 kvsname=kvs_0"
    );
    assert_eq!(
        ask(&mut s, 0, "cmd=get_universe_size"),
        "cmd=universe_size rc=0 size=9"
    );
    assert!(ask(&mut s, 0, "cmd=put kvsname=kvs_0 key=a value=(x,1)").contains("rc=0"));
    assert!(ask(&mut s, 1, "cmd=put kvsname=kvs_0 key=a value=y").contains("duplicate"));
    assert!(ask(&mut s, 1, "cmd=put kvsname=kvs_9 key=b value=y").contains("rc=-1"));
    assert_eq!(s.line(0, b"cmd=barrier_in\n"), []);
    assert_eq!(
        s.line(0, b"cmd=barrier_in\n"),
        [],
        "twice from one rank is not two ranks"
    );
    assert_eq!(s.line(1, b"cmd=barrier_in\n").len(), 2);
    assert!(ask(&mut s, 1, "cmd=get kvsname=kvs_0 key=a").ends_with("value=(x,1)"));
    assert!(ask(&mut s, 1, "cmd=get kvsname=kvs_0 key=secret").ends_with("value=s"));
    assert!(ask(&mut s, 1, "cmd=get kvsname=kvs_0 key=none").contains("rc=-1"));
    assert_eq!(s.state(1), State::Joined);
    assert_eq!(ask(&mut s, 1, "cmd=finalize"), "cmd=finalize_ack rc=0");
    assert_eq!(s.state(1), State::Finalized);
}

#[test]
fn programs_after_one_another_do_not_meet() {
    let mut s = joined(2);
    ask(&mut s, 0, "cmd=put kvsname=kvs_0 key=a value=old");
    ask(&mut s, 0, "cmd=finalize");
    ask(&mut s, 0, "cmd=init pmi_version=1 pmi_subversion=1");
    assert!(ask(&mut s, 0, "cmd=get_my_kvsname").ends_with("kvs_1"));
    assert!(ask(&mut s, 0, "cmd=get kvsname=kvs_1 key=a").contains("rc=-1"));
    assert!(ask(&mut s, 0, "cmd=get kvsname=kvs_1 key=secret").contains("rc=0"));
    assert_eq!(s.line(0, b"cmd=barrier_in"), []);
    assert_eq!(
        s.line(1, b"cmd=barrier_in"),
        [],
        "rank 1 is in the first program's barrier"
    );
    ask(&mut s, 1, "cmd=finalize");
    ask(&mut s, 1, "cmd=init pmi_version=1");
    assert_eq!(s.line(1, b"cmd=barrier_in").len(), 2);
}

#[test]
fn a_barrier_without_hope_is_seen() {
    let mut s = joined(3);
    s.line(1, b"cmd=barrier_in");
    assert_eq!(s.stuck(), None);
    s.gone(2);
    assert_eq!(s.stuck(), Some((2, 1)));
    let mut s = server(2);
    ask(&mut s, 0, "cmd=init pmi_version=1");
    s.line(0, b"cmd=barrier_in");
    s.gone(1);
    assert_eq!(s.stuck(), Some((1, 0)), "a rank that never joined");
}

#[test]
fn barriers_do_not_wait_for_the_dead() {
    let mut s = joined(3);
    assert_eq!(s.line(0, b"cmd=barrier_in\n"), []);
    assert_eq!(s.line(2, b"cmd=barrier_in\n"), []);
    let out = |rank| Action::Reply(rank, "cmd=barrier_out rc=0\n".into());
    s.gone(1);
    assert_eq!(s.stuck(), Some((1, 0)));
    assert_eq!(s.excuse(1), [out(0), out(2)]);
    assert_eq!(s.stuck(), None);
    assert_eq!(s.line(2, b"cmd=barrier_in\n"), []);
    assert_eq!(s.line(0, b"cmd=barrier_in\n"), [out(0), out(2)]);
}

#[test]
fn spawn_and_others_are_refused() {
    let mut s = joined(1);
    assert_eq!(s.line(0, b"mcmd=spawn\n"), []);
    assert_eq!(s.line(0, b"nprocs=2\n"), []);
    assert!(ask(&mut s, 0, "endcmd").contains("spawn_result rc=-1"));
    assert!(ask(&mut s, 0, "cmd=publish_name service=x port=y").contains("rc=-1"));
    assert!(ask(&mut s, 0, "cmd=singinit").contains("rc=-1"));
    assert!(ask(&mut s, 0, "cmd=init pmi_version=2").contains("rc=-1"));
}

#[test]
fn aborts() {
    let mut s = server(1);
    let abort = |code, message: &str| {
        vec![Action::Abort {
            code,
            message: message.into(),
        }]
    };
    assert_eq!(
        s.line(
            0,
            b"cmd=abort exitcode=7 message=MPI_X%20had%20bad%20luck\n"
        ),
        abort(7, "MPI_X had bad luck")
    );
    assert_eq!(s.line(0, b"cmd=abort exitcode=99999999999\n"), abort(1, ""));
    assert_eq!(
        s.line(0, "cmd=abort message=\u{1b}[2J".as_bytes()),
        abort(1, "?[2J")
    );
}

#[test]
fn hostile_lines_are_violations() {
    let mut s = joined(1);
    for line in ["", "GET / HTTP/1.0", "cmd=rm", "cmd="] {
        assert!(
            matches!(s.line(0, line.as_bytes())[..], [Action::Violation(_)]),
            "{line}"
        );
    }
    let long = format!("cmd=put kvsname=kvs_0 key={} value=x", "k".repeat(65));
    assert!(ask(&mut s, 0, &long).contains("rc=-1"));
    let mut s = server(1);
    assert!(matches!(
        s.line(0, b"cmd=barrier_in")[..],
        [Action::Violation(_)]
    ));
}

proptest! {
    #[test]
    fn never_panics(lines in proptest::collection::vec(
        "(cmd|mcmd)=(init|get|put|barrier_in|finalize|spawn|abort|get_maxes)( (kvsname|key|value|pmi_version)=[a-z0-9_]{0,5}){0,4}|endcmd|.{0,20}", 0..30)) {
        let mut s = server(2);
        for (i, line) in lines.iter().enumerate() {
            let _ = s.line(i % 2, line.as_bytes());
            let _ = s.stuck();
        }
    }
}
