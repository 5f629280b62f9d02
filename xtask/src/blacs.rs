//! `libblacs.so`: its exported names, and how it is linked.

use std::path::Path;
use std::process::Command;

use crate::build::{self, link_shared, symlink, write};
use crate::{Result, process};

/// The name that programs are linked with; the number is that of the ScaLAPACK whose BLACS it replaces.
pub const LIBRARY: &str = "libblacs.so.2";

/// Names of which C's have a `C` in front and Fortran's a `_` behind.
const SUPPORT: [&str; 23] = [
    "blacs_pinfo",
    "blacs_setup",
    "blacs_get",
    "blacs_set",
    "blacs_gridinit",
    "blacs_gridmap",
    "blacs_gridinfo",
    "blacs_gridexit",
    "blacs_pnum",
    "blacs_pcoord",
    "blacs_barrier",
    "blacs_freebuff",
    "blacs_exit",
    "blacs_abort",
    "sys2blacs_handle",
    "blacs2sys_handle",
    "free_blacs_system_handle",
    "dwalltime00",
    "dcputime00",
    "ksendid",
    "krecvid",
    "kbsid",
    "kbrid",
];

/// Names with a letter for the type of elements in front.
const MATRICES: [&str; 11] = [
    "gesd2d", "gerv2d", "trsd2d", "trrv2d", "gebs2d", "gebr2d", "trbs2d", "trbr2d", "gsum2d",
    "gamx2d", "gamn2d",
];

/// All exported names, sorted.
pub fn names() -> Vec<String> {
    let matrices = ["i", "s", "d", "c", "z"]
        .iter()
        .flat_map(|letter| MATRICES.map(|name| format!("{letter}{name}")));
    let plain: Vec<_> = SUPPORT
        .iter()
        .map(|name| name.to_string())
        .chain(matrices)
        .collect();
    let c = plain.iter().map(|name| format!("C{name}"));
    let mut names: Vec<_> = c
        .chain(plain.iter().map(|name| format!("{name}_")))
        .collect();
    names.sort();
    names
}

/// Links the library from its static one and puts it, its header and its pkg-config file into the installation.
pub fn lay_out(compiled: &Path, prefix: &Path) -> Result {
    let names = names();
    let script = compiled.join("blacs-exports.map");
    let exported: String = names.iter().map(|name| format!("    {name};\n")).collect();
    write(
        &script,
        &format!("{{\n  global:\n{exported}  local: *;\n}};\n"),
    )?;
    let library = prefix.join("lib").join(LIBRARY);
    let archive = compiled.join("libblacs_lib.a");
    link_shared(&archive, &script, &library, None)?;
    check(&names, &library)?;
    symlink(LIBRARY, &prefix.join("lib/libblacs.so"))?;
    build::header("blacs.h", prefix)?;
    let version = env!("CARGO_PKG_VERSION");
    write(
        &prefix.join("lib/pkgconfig/yamabiko-blacs.pc"),
        &format!(
            "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
             Name: yamabiko-blacs\nDescription: BLACS, to be put in front of ScaLAPACK and beside an MPI library of \
             Yamabiko\nVersion: {version}\n\
             Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -Wl,-rpath,${{libdir}} -lblacs\n"
        ),
    )
}

/// The names exported are these and no others: a program may have functions of its own by any other.
fn check(expected: &[String], library: &Path) -> Result {
    let nm = process::output(
        Command::new("nm")
            .args(["-D", "--defined-only", "-j"])
            .arg(library),
    )?;
    let mut found: Vec<_> = nm.lines().map(str::to_owned).collect();
    found.sort();
    if found == expected {
        return Ok(());
    }
    let lacks = expected.iter().filter(|name| !found.contains(name));
    let lacks: Vec<_> = lacks.collect();
    let extra = found.iter().filter(|name| !expected.contains(name));
    let extra: Vec<_> = extra.collect();
    Err(format!(
        "{}: not exported: {lacks:?}, exported for nothing: {extra:?}",
        library.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages() {
        let names = names();
        assert_eq!(names.len(), 2 * (23 + 5 * 11));
        for name in ["Cblacs_pinfo", "blacs_pinfo_", "Czgamx2d", "ztrbr2d_"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
