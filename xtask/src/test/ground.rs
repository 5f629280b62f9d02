//! Where programs under test run: a launcher, a library, and the way their messages take.

use crate::build;
use std::path::PathBuf;

/// Which way messages take, for `--over`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Over {
    /// As the library chooses: shared memory
    #[default]
    Shm,
    /// The network inside one machine
    Tcp,
    /// The same where io_uring is refused
    Epoll,
}

impl Over {
    /// Its name, as `--over` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Over::Shm => "shm",
            Over::Tcp => "tcp",
            Over::Epoll => "epoll",
        }
    }

    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Over::Shm => &[],
            Over::Tcp => &[("YAMABIKO_FABRICS", "self,tcp")],
            Over::Epoll => &[
                ("YAMABIKO_FABRICS", "self,tcp"),
                ("YAMABIKO_TCP_REACTOR", "epoll"),
            ],
        }
    }
}

/// A launcher, and the folder of the MPI library that its programs get.
#[derive(Clone)]
pub struct Ground {
    /// The mpiexec.
    pub launcher: PathBuf,
    /// The folder of the library.
    pub library: PathBuf,
    /// Whether the table's `peer_args` hold: for another implementation, and where a short run does.
    pub short: bool,
    /// Which way messages take.
    pub over: Over,
}

impl Ground {
    /// Our own.
    pub fn ours(over: Over) -> Ground {
        let prefix = build::prefix(false);
        Ground {
            launcher: prefix.join("bin/mpiexec"),
            library: prefix.join("lib"),
            short: false,
            over,
        }
    }

    /// The options that start `ranks` ranks here.
    pub fn start(&self, ranks: u32) -> Vec<String> {
        let mut options = vec!["-n".to_owned(), ranks.to_string()];
        for (name, value) in self.over.variables() {
            options.extend(["-genv", name, value].map(str::to_owned));
        }
        options
    }
}
