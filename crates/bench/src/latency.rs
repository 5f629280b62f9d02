//! `yamabiko bench latency`: time one way between two ranks, ours beside a peer's. Called by the
//! command `yamabiko`.

use crate::side::{self, Side};
use crate::table::{Comparison, Pair};
use crate::{Result, busy, stats};
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A library to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// MPICH 5.0.2, as the Python package index has it
    Mpich,
}

/// Arguments of `bench latency`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The library to compare with
    #[arg(long, value_enum)]
    pub against: Peer,
    /// Message sizes in bytes
    #[arg(long, value_delimiter = ',', default_value = "8,64,1024,8192,65536,1048576",
          value_parser = clap::value_parser!(u32).range(0..=1 << 30))]
    pub sizes: Vec<u32>,
    /// Pairs of runs, ours and the peer's in turn
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Folder in which to keep the peer, installed there with pip when it is not (default: yamabiko in
    /// $XDG_CACHE_HOME or in ~/.cache)
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// An installation of the peer, instead of installing one
    #[arg(long, value_name = "FOLDER", conflicts_with = "cache")]
    pub peer_prefix: Option<PathBuf>,
    /// Also write everything measured as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Compares the installation `prefix` with a peer; gives the text to print.
///
/// # Errors
/// When a side cannot be installed, compiled or run.
pub fn run(args: &Args, prefix: &Path) -> Result<String> {
    let peer = match (&args.peer_prefix, &args.cache) {
        (Some(prefix), _) => prefix.clone(),
        (None, Some(cache)) => side::install_mpich(cache)?,
        (None, None) => side::install_mpich(&default_cache(&|name| std::env::var_os(name))?)?,
    };
    let work = Work::new()?;
    let kernels = prefix.join("share/yamabiko/bench");
    let source = kernels.join("latency.c");
    let sides = [
        Side::new(prefix, &source, work.0.join("ours"))?,
        Side::new(&peer, &source, work.0.join("peer"))?,
    ];
    let flag = side::calibration(&kernels.join("flag.c"), work.0.join("flag"))?;
    let comparison = measure(args, &sides, &flag)?;
    if let Some(path) = &args.json {
        let text = comparison.json().map_err(|e| e.to_string())?;
        std::fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(comparison.text())
}

/// Where peers are kept unless something else is said, given the environment: as the XDG base directory
/// specification has it, which also says that a relative path there means nothing.
fn default_cache(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let folder = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|f| f.is_absolute())
    };
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    match caches {
        Some(caches) => Ok(caches.join("yamabiko")),
        None => Err("there is no home folder to keep the peer in; name one with --cache".into()),
    }
}

fn measure(args: &Args, [ours, peer]: &[Side; 2], flag: &Path) -> Result<Comparison> {
    let mut comparison = Comparison {
        ours: String::new(),
        peer: String::new(),
        processors: sys::cpus::allowed(),
        load: [load(), None],
        busy: busy::sample().into_iter().collect(),
        sizes: args.sizes.clone(),
        pairs: Vec::new(),
    };
    if let Some(warning) = comparison.warning() {
        // At once: whoever reads it may rather wait than measure.
        eprintln!("{warning}");
    }
    let bar = progress(u64::from(args.pairs));
    let mut dropped = 0;
    for _ in 0..args.pairs {
        let before = side::calibrate(flag)?;
        let a = ours.run(&args.sizes)?;
        let b = peer.run(&args.sizes)?;
        let after = side::calibrate(flag)?;
        dropped += u32::from(stats::drifted(before, after));
        bar.set_message(format!("flag {after:.0} ns, {dropped} left out"));
        bar.inc(1);
        comparison.pairs.push(Pair {
            before,
            after,
            ours: a.latencies,
            peer: b.latencies,
        });
        (comparison.ours, comparison.peer) = (a.library, b.library);
        comparison.busy.extend(busy::sample());
    }
    bar.finish_and_clear();
    comparison.load[1] = load();
    Ok(comparison)
}

/// A bar on standard error; nothing where that is not a terminal.
fn progress(pairs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} pairs, {eta} left; {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(pairs).with_style(style)
}

/// The machine's load, average of one minute.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// A folder for what is compiled, removed at the end.
struct Work(PathBuf);

impl Work {
    fn new() -> Result<Work> {
        let path = std::env::temp_dir().join(format!("yamabiko-bench-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Work(path))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_kept_where_caches_are() {
        let cache = |xdg: Option<&str>, home: Option<&str>| {
            let variable = |name: &str| match name {
                "XDG_CACHE_HOME" => xdg.map(OsString::from),
                _ => home.map(OsString::from),
            };
            default_cache(&variable).map(|path| path.display().to_string())
        };
        assert_eq!(cache(Some("/c"), Some("/h")), Ok("/c/yamabiko".into()));
        assert_eq!(
            cache(Some("relative"), Some("/h")),
            Ok("/h/.cache/yamabiko".into())
        );
        assert_eq!(cache(None, Some("/h")), Ok("/h/.cache/yamabiko".into()));
        assert!(cache(None, None).unwrap_err().contains("--cache"));
    }
}
