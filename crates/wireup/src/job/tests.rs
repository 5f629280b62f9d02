//! The client against a scripted launcher on the other end of a socket pair.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;

/// Joins with a launcher that answers each request by `answer`.
fn with_launcher(answer: fn(&str) -> Option<String>) -> Result<Job, Error> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    thread::spawn(move || {
        let mut writer = theirs.try_clone().unwrap();
        for line in BufReader::new(theirs).lines() {
            let Some(text) = answer(&line.unwrap()) else {
                return;
            };
            if writer.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    });
    Job::join_over(Inherited {
        socket: ours.into(),
        rank: 1,
        size: 4,
        certain: true,
    })
}

fn decent(request: &str) -> Option<String> {
    let answer = match request.split(' ').next()? {
        "cmd=init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2",
        "cmd=get_maxes" => "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=100",
        "cmd=get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=kvs_0",
        "cmd=get_appnum" => "cmd=appnum rc=0 appnum=0",
        "cmd=get_universe_size" => "cmd=universe_size rc=0 size=8",
        "cmd=get" if request.ends_with("PMI_process_mapping") => {
            "cmd=get_result rc=0 value=(vector,(0,2,1))"
        }
        "cmd=get" if request.ends_with("key=b") => "cmd=get_result rc=0 value=3",
        "cmd=get" if request.ends_with("key=b.0") => "cmd=get_result rc=0 value=0aff07",
        "cmd=get" if request.ends_with("key=huge") => "cmd=get_result rc=0 value=999999999999",
        "cmd=get" => "cmd=get_result rc=1",
        "cmd=put" => "cmd=put_result rc=0",
        "cmd=barrier_in" => "cmd=barrier_out tag=0",
        "cmd=finalize" => "cmd=finalize_ack rc=0",
        _ => return None,
    };
    Some(format!("{answer}\n"))
}

#[test]
fn joins_and_talks() {
    let mut job = with_launcher(decent).unwrap();
    assert_eq!(
        (job.rank(), job.size(), job.universe_size()),
        (1, 4, Some(8))
    );
    assert_eq!(job.local_ranks(), [1, 3]);
    assert!(!job.is_singleton());
    job.put("a", "x").unwrap();
    job.put_bytes("c", &[7; 333]).unwrap();
    job.barrier().unwrap();
    assert_eq!(job.get("nothing").unwrap(), None);
    assert_eq!(job.get_bytes("b").unwrap(), Some(vec![10, 255, 7]));
    assert!(matches!(job.get_bytes("huge"), Err(Error::Malformed(_))));
    assert!(matches!(job.put("a b", "x"), Err(Error::Unfit(_))));
    assert!(matches!(
        job.put("a", &"x".repeat(101)),
        Err(Error::Unfit(_))
    ));
    job.finalize().unwrap();
}

#[test]
fn hostile_answers_are_errors() {
    let hostile: [fn(&str) -> Option<String>; 6] = [
        |_| None,
        |_| Some("nonsense\n".into()),
        |_| Some("cmd=response_to_init rc=0 pmi_version=2\n".into()),
        |_| Some("x".repeat(10_000)),
        |r| {
            if r.starts_with("cmd=get_maxes") {
                Some("cmd=maxes keylen_max=-1 vallen_max=3\n".into())
            } else {
                decent(r)
            }
        },
        |r| {
            if r.starts_with("cmd=get_my") {
                Some("cmd=my_kvsname rc=0\n".into())
            } else {
                decent(r)
            }
        },
    ];
    for answer in hostile {
        assert!(with_launcher(answer).is_err());
    }
}

#[test]
fn alone_keeps_its_keys() {
    let mut job = Job::alone();
    assert!(job.is_singleton());
    assert_eq!(job.local_ranks(), [0]);
    job.put_bytes("k", &[1, 2, 3]).unwrap();
    job.barrier().unwrap();
    assert_eq!(job.get_bytes("k").unwrap(), Some(vec![1, 2, 3]));
    assert_ne!(job.secret().unwrap(), [0; 32]);
    job.finalize().unwrap();
}
