//! CAD's part of `build`: `libcad.so.0`, its header and its module for pkg-config.

use std::path::Path;

use crate::Result;
use crate::build::{self, link_shared, make_folder, symlink, target, write};

/// File of the library; the number counts incompatible changes of its functions.
const LIBRARY: &str = "libcad.so.0";

/// Exports every name of CAD and nothing else.
const SCRIPT: &str = "{\n  global:\n    cad_*;\n  local:\n    *;\n};\n";

/// Links the library and lays it out.
pub fn link(compiled: &Path, prefix: &Path) -> Result {
    let script = target().join("cad-exports.map");
    make_folder(&target())?;
    write(&script, SCRIPT)?;
    let lib = prefix.join("lib");
    let archive = compiled.join("libcad_lib.a");
    link_shared(&archive, &script, &lib.join(LIBRARY), None)?;
    symlink(LIBRARY, &lib.join("libcad.so"))?;
    build::header("cad.h", prefix)?;
    let version = env!("CARGO_PKG_VERSION");
    let module = format!(
        "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: cad\nDescription: CAD, collective action descriptors\nVersion: {version}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -Wl,-rpath,${{libdir}} -lcad\n"
    );
    write(&lib.join("pkgconfig/cad.pc"), &module)
}
