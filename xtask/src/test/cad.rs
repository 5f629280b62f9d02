//! Stage `cad`: the programs of `tests/cad`, which are linked with libcad and no MPI library, over shared
//! memory and over the network.

use super::ground::{Ground, Over};
use super::job::Job;
use super::{Options, Tally, apt};
use crate::spec::root;
use crate::{Result, build, process};
use std::path::Path;
use std::process::Command;

const RANKS: [u32; 4] = [1, 2, 3, 5];

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    apt::need(&[("pkg-config", "pkg-config"), ("c++", "g++")])?;
    let bin = build::target().join("test/cad");
    build::make_folder(&bin)?;
    tally.test("cad/compile", || compile(&bin));
    for over in [Over::Shm, Over::Tcp] {
        let ground = Ground::ours(over);
        for ranks in RANKS {
            let name = format!("cad/{}/pipeline -n {ranks}", ground.over.name());
            if !options.wants(&name) {
                continue;
            }
            tally.test(&name, || {
                Job::new(&ground.launcher)
                    .args(ground.start(ranks))
                    .args([bin.join("pipeline")])
                    .limit_s(90)
                    .watches(&ground.library)
                    .env("LD_LIBRARY_PATH", &ground.library)
                    .passes(&["ok pipeline".to_owned()])
                    .map(|_| ())
            });
        }
    }
    Ok(())
}

fn compile(bin: &Path) -> Result {
    let prefix = build::prefix(false);
    let found = process::output(
        Command::new("pkg-config")
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
            .args(["--cflags", "--libs", "cad"]),
    )?;
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
    cc.arg(root().join("tests/cad/pipeline.c"));
    cc.arg("-o").arg(bin.join("pipeline"));
    cc.args(found.split_whitespace());
    process::run(&mut cc)?;
    // The header is C++, too.
    let mut cxx = Command::new("c++");
    cxx.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    cxx.args(["-x", "c++"]).arg(prefix.join("include/cad.h"));
    process::run(&mut cxx)
}
