//! mpiexec at a terminal: in the foreground it passes typed lines on, in the background it neither
//! stops nor takes them.

mod common;

use common::mpiexec;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A shell command in a session of its own, at a terminal of its own.
fn at_terminal(script: &str) -> (Child, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .env("MPIEXEC", mpiexec())
        .env("SCRIPTS", common::script(""));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    common::with_default_signals(&mut command);
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            // The first terminal that a session leader opens becomes its own.
            let terminal =
                rustix::fs::open(&name, rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
            rustix::stdio::dup2_stdin(&terminal)?;
            rustix::stdio::dup2_stdout(&terminal)?;
            rustix::stdio::dup2_stderr(&terminal)?;
            Ok(())
        });
    }
    (command.spawn().unwrap(), File::from(master))
}

/// Reads the terminal until `text` appears.
fn expect(master: &mut File, seen: &mut String, text: &str) {
    let deadline = Instant::now() + common::PATIENCE;
    while !seen.contains(text) {
        assert!(
            Instant::now() < deadline,
            "{text:?} does not appear: {seen:?}"
        );
        let mut fds = [rustix::event::PollFd::new(
            master,
            rustix::event::PollFlags::IN,
        )];
        let limit = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        if rustix::event::poll(&mut fds, Some(&limit)) != Ok(1) {
            continue;
        }
        let mut bytes = [0; 1024];
        match master.read(&mut bytes) {
            Ok(count @ 1..) => seen.push_str(&String::from_utf8_lossy(&bytes[..count])),
            _ => panic!("the terminal closed before {text:?}: {seen:?}"),
        }
    }
}

fn end(mut shell: Child) {
    let deadline = Instant::now() + common::PATIENCE;
    while shell.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            shell.kill().unwrap();
            panic!("the shell does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn typed_lines_reach_rank_0() {
    let (shell, mut terminal) = at_terminal("$MPIEXEC -n 2 bash $SCRIPTS/echo.sh; echo code $?");
    let mut seen = String::new();
    expect(&mut terminal, &mut seen, "ready");
    terminal.write_all(b"hello\n").unwrap();
    expect(&mut terminal, &mut seen, "rank 0 read hello");
    terminal.write_all(b"\x04").unwrap();
    expect(&mut terminal, &mut seen, "rank 0 read end");
    expect(&mut terminal, &mut seen, "code 0");
    end(shell);
}

#[test]
fn the_interrupt_key_ends_the_job() {
    let (shell, mut terminal) =
        at_terminal("trap : INT; $MPIEXEC -n 2 bash $SCRIPTS/sleep.sh; echo code $?");
    let mut seen = String::new();
    expect(&mut terminal, &mut seen, "ready");
    terminal.write_all(b"\x03").unwrap();
    expect(&mut terminal, &mut seen, "code 130");
    end(shell);
}

#[test]
fn in_the_background_it_neither_stops_nor_reads() {
    // -m: jobs in the background get a process group of their own, as in an interactive shell.
    let script = "set -m; stty tostop; $MPIEXEC -n 2 bash $SCRIPTS/background.sh & \
                  read line; echo shell read $line; wait $!; echo code $?";
    let (shell, mut terminal) = at_terminal(script);
    let mut seen = String::new();
    expect(&mut terminal, &mut seen, "working");
    terminal.write_all(b"for the shell\n").unwrap();
    expect(&mut terminal, &mut seen, "shell read for the shell");
    expect(&mut terminal, &mut seen, "code 0");
    end(shell);
}

#[test]
fn the_stop_key_and_fg() {
    let script = "set -m; $MPIEXEC -n 2 bash $SCRIPTS/sleep.sh; echo stopped $?; \
                  kill -TERM %1; fg %1 >/dev/null; echo code $?";
    let (shell, mut terminal) = at_terminal(script);
    let mut seen = String::new();
    expect(&mut terminal, &mut seen, "ready");
    std::thread::sleep(Duration::from_millis(100));
    terminal.write_all(b"\x1a").unwrap();
    // 128 + SIGSTOP: mpiexec passes SIGTSTP on and then stops itself.
    expect(&mut terminal, &mut seen, "stopped 147");
    expect(&mut terminal, &mut seen, "code 143");
    end(shell);
}

#[test]
fn a_stopped_terminal_does_not_look_like_a_dead_mpiexec() {
    let script = "$MPIEXEC -launcher-exec $SCRIPTS/drop-host.sh -hosts a,b -n 2 \
                  bash -c 'echo ready; read -t 0.3 <><(:); seq 1 20000; read -t 15 <><(:); echo end'; echo code $?";
    let (shell, mut terminal) = at_terminal(script);
    let mut seen = String::new();
    expect(&mut terminal, &mut seen, "ready");
    // Nothing is taken for longer than a daemon bears silence, as after control-S.
    std::thread::sleep(Duration::from_secs(14));
    expect(&mut terminal, &mut seen, "code 0");
    end(shell);
}
