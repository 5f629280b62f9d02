//! Stage `install`: an installation in a folder with a blank in its name, used in the ways in which other
//! projects find an MPI library: by the wrapper, by what the wrapper prints, by pkg-config and by CMake.

use super::job::Job;
use super::{Options, Tally, apt};
use crate::spec::root;
use crate::{Result, build, install, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A temporary folder with an installation in it, removed at the end.
struct Place(PathBuf);

impl Place {
    fn make() -> Result<Place> {
        let folder = std::env::temp_dir().join(format!("with blank {}", std::process::id()));
        let place = Place(folder);
        install::copy(&build::prefix(false), &place.prefix())?;
        for file in ["CMakeLists.txt", "hello.c", "hello.cc", "hello.f"] {
            let from = root().join("tests/install").join(file);
            let to = place.0.join(file);
            std::fs::copy(from, &to).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        Ok(place)
    }

    fn prefix(&self) -> PathBuf {
        self.0.join("my prefix")
    }

    /// Runs a script in the folder, with the installation's `bin` as `$bin`; gives what it prints.
    fn shell(&self, script: &str) -> Result<String> {
        process::output(
            Command::new("sh")
                .args(["-euc", script])
                .env("bin", self.prefix().join("bin"))
                .current_dir(&self.0),
        )
    }

    /// Runs a program that was built.
    fn runs(&self, program: &str) -> Result {
        let job = Job::new(self.prefix().join("bin/mpiexec"))
            .args(["-n", "2", program])
            .folder(&self.0);
        let said = ["hello from 0 of 2: Yamabiko", "hello from 1 of 2: Yamabiko"];
        job.passes(&said.map(str::to_owned)).map(|_| ())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the stage.
pub fn run(options: &Options, tally: &mut Tally) -> Result {
    apt::need(&[
        ("c++", "g++"),
        ("cmake", "cmake"),
        ("gfortran", "gfortran"),
        ("pkg-config", "pkg-config"),
    ])?;
    let place = Place::make()?;
    let mut test = |name: &str, body: &dyn Fn() -> Result| {
        let name = format!("install/{name}");
        if options.wants(&name) {
            tally.test(&name, body);
        }
    };
    test("make install", &make);
    test("mpicc", &|| {
        place.shell("\"$bin/mpicc\" hello.c -o by-wrapper")?;
        place.runs("./by-wrapper")
    });
    for abi in ["standard", "mpich"] {
        test(&format!("mpifort -show -abi={abi}"), &|| {
            place.shell(&format!(
                "eval \"$(\"$bin/mpifort\" -abi={abi} -show hello.f -o fortran-{abi})\""
            ))?;
            place.runs(&format!("./fortran-{abi}"))
        });
        test(&format!("mpicc -show -abi={abi}"), &|| {
            place.shell(&format!(
                "eval \"$(\"$bin/mpicc\" -abi={abi} -show hello.c -o shown-{abi})\""
            ))?;
            place.runs(&format!("./shown-{abi}"))
        });
    }
    for (module, compiler) in [
        ("yamabiko", "cc hello.c"),
        ("yamabiko-mpich", "cc hello.c"),
        ("yamabiko-fortran", "gfortran hello.f"),
        ("yamabiko-mpich-fortran", "gfortran hello.f"),
    ] {
        test(&format!("pkg-config {module}"), &|| {
            place.shell(&format!(
                "export PKG_CONFIG_PATH=\"$bin/../lib/pkgconfig\"\n\
                 eval \"{compiler} -o {module} $(pkg-config --cflags --libs {module})\""
            ))?;
            place.runs(&format!("./{module}"))
        });
    }
    test("CMake with MPI_HOME", &|| {
        cmake(&place, "home", "export MPI_HOME=\"$bin/..\"")
    });
    test("CMake with PATH", &|| {
        cmake(&place, "path", "export PATH=\"$bin:$PATH\"")
    });
    Ok(())
}

fn cmake(place: &Place, folder: &str, setting: &str) -> Result {
    // Old versions of CMake have no -S and -B.
    place.shell(&format!(
        "{setting}\nmkdir {folder}\ncd {folder}\ncmake .. >log\ncmake --build . >>log"
    ))?;
    for program in ["hello", "hello_cxx", "hello_fortran"] {
        let path = place.0.join(folder).join(program);
        linked_here(place, &path)?;
        place.runs(&format!("./{folder}/{program}"))?;
    }
    Ok(())
}

/// Whether a program finds this installation's library by itself.
fn linked_here(place: &Place, program: &Path) -> Result {
    let libraries = process::output(
        Command::new("ldd")
            .arg(program)
            .env_remove("LD_LIBRARY_PATH"),
    )?;
    let lib = place.prefix().join("lib");
    let lib = lib.to_string_lossy();
    match libraries.contains(lib.as_ref()) {
        true => Ok(()),
        false => Err(format!(
            "{} is not linked to {lib}:\n{libraries}",
            program.display()
        )),
    }
}

/// What `make install` would do with such a prefix.
fn make() -> Result {
    let shown = process::output(
        Command::new("make")
            .args(["-n", "install", "PREFIX=/opt/my prefix"])
            .current_dir(root()),
    )?;
    let wanted = "install --prefix \"/opt/my prefix\"";
    match shown.contains(wanted) {
        true => Ok(()),
        false => Err(format!("{wanted} expected in\n{shown}")),
    }
}
