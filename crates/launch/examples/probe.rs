//! A program for the launcher's tests: speaks PMI as the library does, and misbehaves on request.

use report::{Phase, ReportPage};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::process::{Command, exit};
use std::time::Duration;
use wireup::Job;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["hello"] => hello(),
        ["alone"] => {
            let job = Job::join().expect("join");
            println!("alone {} {} {}", job.is_singleton(), job.rank(), job.size());
        }
        ["nested"] => nested(),
        ["time"] => {
            let begin = std::time::Instant::now();
            let (mut job, page) = joined();
            job.put_bytes(&format!("address-{}", job.rank()), &[1; 64])
                .expect("put");
            job.barrier().expect("barrier");
            job.get_bytes("address-0").expect("get");
            println!("{}", begin.elapsed().as_micros());
            finish(&mut job, &page);
        }
        ["absent"] => {
            if rank() != 1 {
                joined().0.barrier().expect("barrier");
            }
        }
        ["unfinalized"] => drop(joined()),
        ["exit-after-finalize", code] => {
            let (mut job, page) = joined();
            finish(&mut job, &page);
            exit(if job.rank() == 1 {
                code.parse().expect("code")
            } else {
                0
            });
        }
        ["stay-after-finalize", code] => {
            let (mut job, page) = joined();
            finish(&mut job, &page);
            if job.rank() == 1 {
                exit(code.parse().expect("code"));
            }
            sleep(30);
        }
        ["abort", code] => {
            let (mut job, page) = joined();
            if job.rank() == 1 {
                page.phase(Phase::Aborted);
                job.abort(code.parse().expect("code"), "a test")
                    .expect("abort");
                exit(code.parse().expect("code"));
            }
            sleep(30);
        }
        ["die-waiting", signal] => {
            let (job, page) = joined();
            page.waiting("MPI_Recv", 0, 7, 4096);
            println!("ready");
            if job.rank() == 1 {
                die(signal);
            }
            sleep(30);
        }
        ["die-computing", signal] => {
            let (mut job, _page) = joined();
            job.barrier().expect("barrier");
            if job.rank() == 1 {
                die(signal);
            }
            sleep(30);
        }
        ["leave-first"] => leave_first(),
        ["outlive", victim] => outlive(victim),
        ["blocks"] => blocks(),
        ["wait"] => {
            let (_job, page) = joined();
            page.waiting("MPI_Barrier", report::NONE, report::NONE, 0);
            println!("ready");
            sleep(30);
        }
        other => panic!("unknown request {other:?}"),
    }
}

/// Lines of 200 letters, written as by a C program whose output is a pipe: in blocks of 4096 bytes, wherever
/// those end, and with pauses.
fn blocks() {
    let letter = ["a", "b", "c", "d"][rank() as usize % 4];
    let text = format!("{}\n", letter.repeat(200)).repeat(100);
    let mut output = std::fs::File::options()
        .write(true)
        .open("/proc/self/fd/1")
        .expect("standard output");
    for block in text.as_bytes().chunks(4096) {
        output.write_all(block).expect("write");
        sleep_ms(250);
    }
}

/// A well-behaved rank: everything the library does.
fn hello() {
    let (mut job, page) = joined();
    let secret = job.secret().expect("secret");
    let long: Vec<u8> = (0..3000u32).map(|i| (i ^ job.rank()) as u8).collect();
    let key = format!("address-{}", job.rank());
    job.put_bytes(&key, &long).expect("put");
    job.put(&format!("check-{}", job.rank()), &secret[0].to_string())
        .expect("put");
    job.barrier().expect("barrier");
    for other in 0..job.size() {
        let got = job
            .get_bytes(&format!("address-{other}"))
            .expect("get")
            .expect("published");
        assert!(got.iter().zip(0..).all(|(b, i)| *b == (i ^ other) as u8) && got.len() == 3000);
        let check = job.get(&format!("check-{other}")).expect("get");
        assert_eq!(check, Some(secret[0].to_string()));
    }
    assert_eq!(job.get("nothing"), Ok(None));
    let local = std::env::var("MPI_LOCALNRANKS").expect("set by mpiexec");
    assert_eq!(job.local_ranks().len().to_string(), local);
    println!(
        "rank {} of {} app {:?} universe {:?}",
        job.rank(),
        job.size(),
        job.appnum(),
        job.universe_size()
    );
    finish(&mut job, &page);
}

/// A rank that ends when its number is `victim`, else one that goes on without whoever dies.
fn outlive(victim: &str) {
    let (mut job, page) = joined();
    job.barrier().expect("barrier");
    println!("ready");
    if job.rank().to_string() == victim {
        exit(9);
    }
    assert_eq!(
        std::env::var(report::KEEPS_RUNNING_VARIABLE).as_deref(),
        Ok("1")
    );
    // Half of a job whose host is killed dies one by one.
    let expected = if victim == "none" { 2 } else { 1 };
    while page.deaths() < expected {
        sleep_ms(1);
    }
    let dead: Vec<u32> = (0..job.size()).filter(|r| page.is_gone(*r)).collect();
    let noun = if dead.len() == 1 { "death" } else { "deaths" };
    println!("{} knows of {} {noun}: {dead:?}", job.rank(), dead.len());
    finish(&mut job, &page);
}

/// Rank 0 finalizes and lives on; rank 1 is told that it has left, and ends it.
fn leave_first() {
    let (mut job, page) = joined();
    if job.rank() == 0 {
        let pid = std::process::id().to_string();
        job.put("pid", &pid).expect("put");
    }
    job.barrier().expect("barrier");
    let pid = job.get("pid").expect("get").expect("published");
    if job.rank() == 0 {
        job.finalize().expect("finalize");
        sleep(30);
    }
    let begin = std::time::Instant::now();
    while page.deaths() == 0 && begin.elapsed() < Duration::from_secs(10) {
        sleep_ms(1);
    }
    println!("gone {} left {}", page.is_gone(0), page.has_left(0));
    let pid = pid.parse().ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, Signal::KILL).expect("kill");
    job.finalize().expect("finalize");
}

/// A rank that starts another MPI program, which must be a job of its own.
fn nested() {
    let (mut job, page) = joined();
    let program = std::env::current_exe().expect("own path");
    let output = Command::new(program).arg("alone").output().expect("start");
    print!("nested {}", String::from_utf8_lossy(&output.stdout));
    finish(&mut job, &page);
}

fn joined() -> (Job, ReportPage) {
    let job = Job::join().expect("join");
    let page = ReportPage::join(job.rank());
    page.phase(Phase::Running);
    (job, page)
}

fn finish(job: &mut Job, page: &ReportPage) {
    job.barrier().expect("barrier");
    page.phase(Phase::Finalized);
    job.finalize().expect("finalize");
}

fn rank() -> u32 {
    std::env::var("PMI_RANK")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(0)
}

fn die(signal: &str) {
    // The shell's own `kill`: a small system has no other.
    let _ = Command::new("sh")
        .args(["-c", "kill -s \"$0\" $PPID", signal])
        .status();
    sleep(30);
}

fn sleep_ms(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

fn sleep(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}
