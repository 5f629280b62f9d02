//! A rank that joins a job as another version of Yamabiko would: for the test that versions are not mixed.
//!
//! It speaks to the launcher and to the other ranks with the library's own parts, and says a version that
//! never was. Whoever refuses it tells why; it waits until it is ended.

use std::process::ExitCode;
use std::time::Duration;

use mtmi::{Exchange, ExchangeError};
use shm::{Config, Shm};
use wireup::Job;

struct Kvs(Job);

fn failed(e: impl std::fmt::Display) -> ExchangeError {
    ExchangeError(e.to_string())
}

impl Exchange for Kvs {
    fn put(&mut self, key: &str, value: &str) -> Result<(), ExchangeError> {
        self.0.put(key, value).map_err(failed)
    }

    fn get(&mut self, key: &str) -> Result<String, ExchangeError> {
        let found = self.0.get(key).map_err(failed)?;
        found.ok_or_else(|| failed(format!("nobody published {key}")))
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.0.barrier().map_err(failed)
    }
}

fn main() -> ExitCode {
    let job = match Job::join() {
        Ok(job) => job,
        Err(e) => {
            eprintln!("other_version: {e}");
            return ExitCode::FAILURE;
        }
    };
    let config = Config {
        version: "9.9.9".into(),
        ..Config::new(job.rank(), job.size())
    };
    match Shm::init(&config, &mut Kvs(job)) {
        Ok(_) => println!("other_version: was let in"),
        Err(e) => {
            eprintln!("other_version: {e}");
            // The job is the others' to end, and their words are what the test reads.
            std::thread::sleep(Duration::from_secs(30));
        }
    }
    ExitCode::FAILURE
}
