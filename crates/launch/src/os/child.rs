//! Starting a rank or a launcher command: everything a child does between `fork` and `exec`.

use super::signals::Mask;
use super::{Side, exit_now, fork};
use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// A program ready to be executed: all memory is allocated before the fork.
pub struct Ready {
    /// The program's file.
    pub path: CString,
    /// Its arguments, the name included.
    pub argv: Vec<CString>,
    /// Its environment, `NAME=VALUE`.
    pub environment: Vec<CString>,
    /// Its working directory.
    pub directory: Option<CString>,
    /// The processors it may use.
    pub cpus: Option<Vec<usize>>,
    /// A rank leads a process group of its own. A launcher command stays in this one's, so that it can
    /// ask for a password at the terminal, but does not hear what is typed for the job.
    pub is_rank: bool,
}

/// Signals that are for the job and that launcher commands ignore.
pub const FOR_THE_JOB: &[i32] = &[
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGTERM,
    libc::SIGTSTP,
];

/// The descriptors a child gets.
pub struct Descriptors<'a> {
    /// Standard input, output and error.
    pub standard: [BorrowedFd<'a>; 3],
    /// Those it keeps under their own numbers.
    pub kept: &'a [BorrowedFd<'a>],
    /// Where the child writes why it could not start (close-on-exec).
    pub errors: Option<BorrowedFd<'a>>,
}

/// What failed between fork and exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Joining descriptors.
    Descriptors = 0,
    /// Changing the working directory.
    Directory = 1,
    /// Restricting the processors.
    Binding = 2,
    /// Executing the program.
    Execute = 3,
}

/// Bytes of a failure note: rank, step, errno.
pub const NOTE_SIZE: usize = 12;

/// Forks a child that becomes the program of `rank` and returns its number. A failure before `exec` arrives as a note on `descriptors.errors`, and the child exits
/// with 127.
pub fn spawn(
    rank: u32,
    ready: &Ready,
    descriptors: &Descriptors<'_>,
    mask: &Mask,
) -> io::Result<i32> {
    let argv = pointers(&ready.argv);
    let shell = c"/bin/sh";
    let mut shell_argv = vec![shell.as_ptr(), ready.path.as_ptr()];
    shell_argv.extend_from_slice(&argv[1..]);
    let environment = pointers(&ready.environment);
    let parent = std::process::id();
    match fork()? {
        Side::Parent(pid) => {
            if ready.is_rank {
                // Both sides set the group, so that neither can be early.
                // SAFETY: changes the group of our own child and touches no memory.
                unsafe { libc::setpgid(pid, pid) };
            }
            Ok(pid)
        }
        Side::Child => {
            let failed = prepare(ready, descriptors, mask, parent);
            let (step, errno) = failed.unwrap_or_else(|| {
                // SAFETY: the arrays are NULL-terminated and point to strings that `ready` owns.
                unsafe {
                    libc::execve(ready.path.as_ptr(), argv.as_ptr(), environment.as_ptr());
                    if last_errno() == libc::ENOEXEC {
                        // A script without "#!", as a shell would run it.
                        libc::execve(shell.as_ptr(), shell_argv.as_ptr(), environment.as_ptr());
                    }
                }
                (Step::Execute, last_errno())
            });
            let mut note = [0; NOTE_SIZE];
            note[..4].copy_from_slice(&rank.to_ne_bytes());
            note[4..8].copy_from_slice(&(step as u32).to_ne_bytes());
            note[8..].copy_from_slice(&errno.to_ne_bytes());
            // If nobody reads the note, the exit code still tells.
            if let Some(errors) = descriptors.errors {
                let _ = rustix::io::write(errors, &note);
            }
            exit_now(127)
        }
    }
}

/// Everything before `exec`; what failed, if something did.
fn prepare(
    ready: &Ready,
    descriptors: &Descriptors<'_>,
    mask: &Mask,
    parent: u32,
) -> Option<(Step, i32)> {
    // SAFETY: these change attributes of this process; `mask` is an initialised set.
    unsafe {
        if ready.is_rank {
            libc::setpgid(0, 0);
        } else {
            for signal in FOR_THE_JOB {
                libc::signal(*signal, libc::SIG_IGN);
            }
        }
        // If the parent is killed, so is this process; a rank's descendants are found by mpiexec.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid().cast_unsigned() != parent {
            exit_now(127);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask.0, std::ptr::null_mut());
    }
    if let Err(errno) = arrange(descriptors) {
        return Some((Step::Descriptors, errno));
    }
    if let Some(directory) = &ready.directory {
        // SAFETY: a NUL-terminated string.
        if unsafe { libc::chdir(directory.as_ptr()) } != 0 {
            return Some((Step::Directory, last_errno()));
        }
    }
    if let Some(cpus) = &ready.cpus {
        let mut set = rustix::thread::CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        if let Err(e) = rustix::thread::sched_setaffinity(None, &set) {
            return Some((Step::Binding, e.raw_os_error()));
        }
    }
    None
}

/// Gives this process the standard descriptors and the kept ones, and no others after `exec`.
fn arrange(descriptors: &Descriptors<'_>) -> Result<(), i32> {
    for (number, fd) in (0..).zip(&descriptors.standard) {
        // SAFETY: both are open descriptors of this process; 0, 1 and 2 are about to be its own.
        if unsafe { libc::dup2(fd.as_raw_fd(), number) } < 0 {
            return Err(last_errno());
        }
    }
    close_others_on_exec();
    for fd in descriptors.kept {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).map_err(|e| e.raw_os_error())?;
    }
    Ok(())
}

/// Marks every descriptor from 3 close-on-exec, also those mpiexec itself inherited.
fn close_others_on_exec() {
    // SAFETY: only sets a flag on descriptors.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if rc == 0 {
        return;
    }
    // Linux before 5.11 does not know the flag.
    for fd in 3..4096 as RawFd {
        // SAFETY: only sets a flag; descriptors that are not open are refused.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
