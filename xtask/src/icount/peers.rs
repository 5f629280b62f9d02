//! What to count in: our libraries, over which fabric, and other people's.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test::peers;
use crate::{Result, build};

/// A library to count in.
pub struct Subject {
    /// How it is called.
    pub name: String,
    /// Options of our mpicc, where that compiles for it; else its own does.
    pub options: Option<Vec<String>>,
    /// The folder that it is installed in.
    pub home: PathBuf,
    /// Variables that its processes get.
    pub variables: Vec<(String, String)>,
    /// Words for its mpiexec, before the ranks.
    pub words: Vec<String>,
    /// Part of the name of the library's file.
    pub library: &'static str,
    /// Whether it is ours, and has a limit.
    pub ours: bool,
}

/// Both of our libraries over shared memory, and that of the standard ABI over TCP.
pub fn ours(prefix: &Path) -> Vec<Subject> {
    let one = |abi: &str, options: &[&str], library, fabric: &str| Subject {
        name: format!("{abi} {fabric}"),
        options: Some(options.iter().map(|&o| o.to_owned()).collect()),
        home: prefix.to_owned(),
        variables: Vec::new(),
        words: ["-genv", "YAMABIKO_FABRICS", &format!("self,{fabric}")]
            .map(str::to_owned)
            .to_vec(),
        library,
        ours: true,
    };
    vec![
        one("standard", &[], "libmpi_abi.so", "shm"),
        one("mpich", &["-abi=mpich"], "libmpi.so", "shm"),
        one("standard", &[], "libmpi_abi.so", "tcp"),
    ]
}

/// Another implementation, as it comes.
pub fn other(name: &str) -> Result<Subject> {
    let subject = |home: PathBuf, options: Option<&str>| Subject {
        name: name.to_owned(),
        options: options.map(|o| vec![o.to_owned()]),
        variables: Vec::new(),
        words: Vec::new(),
        library: "libmpi",
        ours: false,
        home,
    };
    let set = |name: &str, value: String| (name.to_owned(), value);
    match name {
        "mpich" => Ok(subject(peers::mpich()?, None)),
        "openmpi" => {
            let allowed = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
            let variables = allowed.map(|name| set(name, "1".into())).to_vec();
            let words = ["--bind-to", "none"].map(str::to_owned).to_vec();
            Ok(Subject {
                variables,
                words,
                ..subject(peers::openmpi()?, None)
            })
        }
        // It comes without a compiler, and its ABI is MPICH's.
        "impi" => {
            let home = peers::intel()?;
            let at = |path: &str| home.join(path).display().to_string();
            let variables = vec![
                set("LD_LIBRARY_PATH", at("lib")),
                set("FI_PROVIDER_PATH", at("lib")),
                set("I_MPI_ROOT", at("")),
                set("I_MPI_FABRICS", "shm".into()),
            ];
            Ok(Subject {
                variables,
                ..subject(home, Some("-abi=mpich"))
            })
        }
        _ => Err(format!("`{name}` is none of mpich, openmpi, impi")),
    }
}

impl Subject {
    /// The compiler, with its options.
    pub fn compiler(&self) -> Command {
        let home = match self.options {
            Some(_) if !self.ours => build::prefix(false),
            _ => self.home.clone(),
        };
        let mut mpicc = Command::new(home.join("bin/mpicc"));
        mpicc.args(self.options.iter().flatten());
        mpicc
    }

    /// A job of two ranks; the first has `before` in front of its program.
    pub fn job(&self, before: &[String], program: &Path, words: [&str; 2]) -> Command {
        let mut job = Command::new(self.home.join("bin/mpiexec"));
        job.envs(self.variables.iter().map(|(name, value)| (name, value)));
        job.args(&self.words).args(["-n", "1"]).args(before);
        job.arg(program).args(words).args([":", "-n", "1"]);
        job.arg(program).args(words);
        job
    }
}
