//! FMPL's part of `build`: `libfmpl.so.0`, its headers and its module for pkg-config.

use std::path::Path;

use crate::build::{self, link_shared, make_folder, symlink, target, write};
use crate::spec::root;
use crate::{Result, process};
use std::process::Command;

/// File of the library; the number counts incompatible changes of its functions.
const LIBRARY: &str = "libfmpl.so.0";

/// Exports every name of FMPL and nothing else; without a version's name, as the MPI libraries.
const SCRIPT: &str = "{\n  global:\n    fmpl_*;\n  local:\n    *;\n};\n";

/// Links the library and lays it out.
pub fn link(compiled: &Path, prefix: &Path) -> Result {
    let script = target().join("fmpl-exports.map");
    make_folder(&target())?;
    write(&script, SCRIPT)?;
    let lib = prefix.join("lib");
    let archive = compiled.join("libfmpl_lib.a");
    link_shared(&archive, &script, &lib.join(LIBRARY), None)?;
    symlink(LIBRARY, &lib.join("libfmpl.so"))?;
    check(&lib.join(LIBRARY))?;
    for header in ["fmpl.h", "fmplf.h"] {
        build::header(header, prefix)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let module = format!(
        "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: fmpl\nDescription: FMPL, messages that are matched at the sender\nVersion: {version}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -Wl,-rpath,${{libdir}} -lfmpl\n"
    );
    write(&lib.join("pkgconfig/fmpl.pc"), &module)
}

/// Every function of the header is exported, for C and for Fortran.
fn check(library: &Path) -> Result {
    let nm = process::output(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    )?;
    let path = root().join("include/fmpl.h");
    let header = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let missing = missing(&header, &nm);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{} does not export {}",
            library.display(),
            missing.join(" ")
        )),
    }
}

/// What the header declares and `nm` does not list.
fn missing(header: &str, nm: &str) -> Vec<String> {
    let exported: Vec<_> = nm.lines().filter_map(|l| l.split(' ').nth(2)).collect();
    let mut missing = Vec::new();
    for name in declared(header) {
        for name in [name.clone(), format!("{name}_")] {
            if !exported.contains(&name.as_str()) {
                missing.push(name);
            }
        }
    }
    missing
}

/// The functions that the header declares.
fn declared(header: &str) -> Vec<String> {
    let lines = header.lines();
    let declarations = lines.filter(|l| {
        [
            "int fmpl_",
            "double fmpl_",
            "const char *fmpl_",
            "fmpl_function fmpl_",
        ]
        .iter()
        .any(|start| l.starts_with(start))
    });
    let mut names = Vec::new();
    for line in declarations {
        let list = line.strip_prefix("fmpl_function ");
        let words = list.unwrap_or(line).split(['(', ',', ' ', '*', ';']);
        let words = words.filter(|word| word.starts_with("fmpl_"));
        let most = if list.is_some() { usize::MAX } else { 1 };
        names.extend(words.take(most).map(str::to_owned));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_read() {
        let header = "int fmpl_a(void *fmpl_x, int *ier);\nfmpl_function fmpl_b, fmpl_c;\n\
                      typedef void fmpl_function(void);\nconst char *fmpl_d(int code);\n";
        assert_eq!(declared(header), ["fmpl_a", "fmpl_b", "fmpl_c", "fmpl_d"]);
        let nm = "10 T fmpl_a\n10 T fmpl_a_\n10 T fmpl_b\n10 T fmpl_b_\n10 T fmpl_c\n10 T fmpl_d\n";
        assert_eq!(missing(header, nm), ["fmpl_c_", "fmpl_d_"]);
    }
}
