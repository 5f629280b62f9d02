//! Stage `icount`: no short call takes more instructions than `tests/icount.toml` says.

use super::{Options, Tally, apt};
use crate::{Result, icount};
use std::time::Instant;

/// Runs the stage.
pub fn run(_options: &Options, tally: &mut Tally) -> Result {
    apt::need(&[("valgrind", "valgrind"), ("addr2line", "binutils")])?;
    let mut started = Instant::now();
    icount::check(|name, result| {
        tally.record(&format!("icount {name}"), started, result);
        started = Instant::now();
    })
}
