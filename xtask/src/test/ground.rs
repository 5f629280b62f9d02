//! Where programs under test run: a launcher, a library, and the way their messages take.

use crate::build;
use std::path::PathBuf;

/// Which way messages take, for `--over`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Over {
    /// As the library chooses: shared memory
    #[default]
    Shm,
    /// The network inside one machine, watched by epoll
    Tcp,
    /// The same, watched by io_uring
    IoUring,
    /// Two hosts of a network lab: shared memory inside, TCP between
    Hosts,
    /// The same, by IPv6
    Hosts6,
}

/// The lab's IPv6 network.
const IPV6: &str = "fd77::/64";

impl Over {
    /// How many hosts it needs beside this one.
    pub fn hosts(self) -> u32 {
        match self {
            Over::Shm | Over::Tcp | Over::IoUring => 0,
            Over::Hosts | Over::Hosts6 => 2,
        }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Over::Shm => "shm",
            Over::Tcp => "tcp",
            Over::IoUring => "io_uring",
            Over::Hosts => "two hosts",
            Over::Hosts6 => "two hosts by IPv6",
        }
    }

    /// The time limit for what may take so many seconds as the library chooses. A limit finds what hangs; ranks that
    /// talk over the network are slower, and on a busy machine much slower.
    pub fn limit_s(self, seconds: u64) -> u64 {
        match self {
            Over::Shm => seconds,
            _ => 5 * seconds,
        }
    }

    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Over::Shm | Over::Hosts => &[],
            Over::Hosts6 => &[("YAMABIKO_TCP_INTERFACE", IPV6)],
            Over::Tcp => &[
                ("YAMABIKO_FABRICS", "self,tcp"),
                ("YAMABIKO_TCP_REACTOR", "epoll"),
            ],
            Over::IoUring => &[
                ("YAMABIKO_FABRICS", "self,tcp"),
                ("YAMABIKO_TCP_REACTOR", "io_uring"),
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
    /// The command that runs another on a host, where there are hosts.
    pub reach: Option<PathBuf>,
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
            reach: None,
        }
    }

    /// The options that start `ranks` ranks here.
    pub fn start(&self, ranks: u32) -> Vec<String> {
        let mut options = vec!["-n".to_owned(), ranks.to_string()];
        for (name, value) in self.over.variables() {
            options.extend(["-genv", name, value].map(str::to_owned));
        }
        if let Some(reach) = &self.reach {
            let reach = reach.display().to_string();
            options.extend(["-launcher-exec".to_owned(), reach]);
            let hosts: Vec<String> = (1..=self.over.hosts()).map(|h| format!("h{h}")).collect();
            options.extend(["-hosts".to_owned(), hosts.join(",")]);
            // As many on each, the first half of the ranks on the first.
            let each = ranks.div_ceil(self.over.hosts());
            options.extend(["-ppn".to_owned(), each.to_string()]);
        }
        options
    }
}
