//! `yamabiko kaccd`: the privileged helper for collectives in the kernel's receive path, which is crate `cad-softirq`'s daemon, of one host or of several
//! hosts of a [site](cad_softirq::site); and for [steering](crate::steer).

use crate::node::allow_descriptors;
use crate::steer::Steering;
use cad_softirq::client::NAME;
use cad_softirq::daemon::{Daemon, Limits, NotRunning, PORT};
use cad_softirq::site::Key;
use clap::builder::RangedU64ValueParser;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a name that an abstract Unix socket can't have any more.
const NAME_TOO_LONG: usize = 108;
/// Most contexts and inputs that can be asked for: their maps take memory of the kernel's.
const MOST: u64 = 65_536;

/// The command's options.
#[derive(clap::Args)]
pub struct Args {
    /// Its name, where it isn't the only one: YAMABIKO_KACCD says it to ranks
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// UDP port whose packets the program takes, of those that are Yamabiko's
    #[arg(long, default_value_t = PORT, value_parser = RangedU64ValueParser::<u16>::new().range(1..=65_535))]
    port: u16,
    /// Collectives that can be under way at once, of all users
    #[arg(long, default_value_t = Limits::default().contexts, value_parser = amount())]
    contexts: u32,
    /// Processes in these, of all users
    #[arg(long, default_value_t = Limits::default().inputs, value_parser = amount())]
    processes: u32,
    /// Of the collectives, how many a user may have
    #[arg(long, default_value_t = Limits::default().user_contexts, value_parser = amount())]
    user_contexts: u32,
    /// Of the processes, how many a user may have; so many ranks of his, of all his jobs here, may be connected at once
    #[arg(long, default_value_t = Limits::default().user_inputs, value_parser = amount())]
    user_processes: u32,
    /// Have collectives of several hosts too, through these interfaces of this network namespace (and no others; lo is always looked at): their program takes
    /// what other kaccds of the site send to the port there, everything else passes as ever. To hosts of the same network segment, by
    /// Ethernet, IPv4 or IPv6
    #[arg(
        long,
        value_name = "INTERFACE",
        value_delimiter = ',',
        requires = "site_key"
    )]
    interface: Vec<String>,
    /// File with the site's key, the same for the kaccds of all its hosts, and the reason why these trust each other: 32 bytes or more that nobody can
    /// guess, which only its owner can read (mode 0600). No rank gets to see it
    #[arg(long, value_name = "FILE", requires = "interface")]
    site_key: Option<PathBuf>,
    /// Have what these interfaces of this network namespace bring for a rank received on the processor that it runs on, until this ends: useful where
    /// interrupts of a network come to few processors, see `yamabiko info`. Of lo: where it is sent
    #[arg(long, value_name = "INTERFACE", value_delimiter = ',')]
    steer: Vec<String>,
}

/// A name that a socket can have and a rank can be told: the kernel would choose one in place of an empty one.
fn name(given: &str) -> Result<String, String> {
    match given.len() {
        0 => Err("it is empty".to_owned()),
        NAME_TOO_LONG.. => Err(format!("it has {NAME_TOO_LONG} bytes or more")),
        _ => Ok(given.to_owned()),
    }
}

fn amount() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..=MOST)
}

/// Runs until it is killed: everything it holds ends with it.
///
/// # Errors
/// Why it does not start, in words for a person.
pub fn run(args: &Args) -> Result<Infallible, String> {
    let limits = Limits {
        contexts: args.contexts,
        inputs: args.processes,
        user_contexts: args.user_contexts,
        user_inputs: args.user_processes,
    };
    let key = args.site_key.as_deref().map(Key::read).transpose();
    let key = key.map_err(|why| format!("kaccd: --site-key: {why}"))?;
    let steering = steering(&args.steer)?;
    allow_descriptors(limits.descriptors());
    let name = args.name.as_deref().map_or(NAME, str::as_bytes);
    let daemon = Daemon::new(name, args.port, limits);
    let daemon = match key {
        Some(key) => daemon.and_then(|daemon| daemon.of_site(key, &args.interface)),
        None => daemon,
    };
    let mut daemon = match (daemon, &steering) {
        (Ok(daemon), _) => Some(daemon),
        // Steering needs no such program.
        (Err(why @ NotRunning::Refused(_)), Some(_)) => {
            sys::say::line(&format!(
                "yamabiko: kaccd: steers, and does nothing else: {why}"
            ));
            None
        }
        (Err(why), _) => return Err(format!("kaccd: {why}")),
    };
    if let Some(why) = daemon.as_ref().and_then(Daemon::lacks) {
        sys::say::line(&format!(
            "yamabiko: kaccd: nothing calculates in chains of io_uring: {why}"
        ));
    }
    if let Some(steering) = steering {
        steering.keep();
    }
    loop {
        match &mut daemon {
            Some(daemon) => daemon.step(Duration::from_secs(3600)),
            None => std::thread::park(),
        }
    }
}

/// Steers, if there are interfaces, and says what lacks.
fn steering(interfaces: &[String]) -> Result<Option<Steering>, String> {
    if interfaces.is_empty() {
        return Ok(None);
    }
    let steering = Steering::begin(interfaces).map_err(|e| format!("kaccd: --steer: {e}"))?;
    for lack in &steering.lacks {
        sys::say::line(&format!("yamabiko: kaccd: --steer: {lack}"));
    }
    Ok(Some(steering))
}
