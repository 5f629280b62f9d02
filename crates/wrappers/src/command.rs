//! What a wrapper does with its arguments: a pure function of them, its name and the environment.

/// A wrapper under one of its names.
pub struct Wrapper<'a> {
    /// The name it was called by: `mpicc`, `mpicxx_abi`, ...
    pub name: &'a str,
    /// The installation.
    pub prefix: &'a str,
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a program is in the search path.
    pub found: &'a dyn Fn(&str) -> bool,
    /// What a compiler answers to `-dumpversion`.
    pub version: &'a dyn Fn(&str) -> Option<String>,
}

/// What a wrapper compiles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cxx,
    Fortran,
}

/// Fortran compilers, the first of which that is found is taken.
const FORTRAN: [&str; 6] = ["gfortran", "flang-new", "flang", "ifx", "nvfortran", "f95"];

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Print a line.
    Print(String),
    /// Run a program with arguments.
    Run(Vec<String>),
}

/// Options of gcc and clang that are followed by a value of their own.
const WITH_VALUE: [&str; 24] = [
    "-o",
    "-I",
    "-L",
    "-l",
    "-D",
    "-U",
    "-x",
    "-T",
    "-u",
    "-z",
    "-e",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-arch",
    "-aux-info",
];

/// Options after which nothing is linked.
const NO_LINK: [&str; 7] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-r"];

/// The two ABIs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Abi {
    Standard,
    Mpich,
}

impl Wrapper<'_> {
    fn language(&self) -> Language {
        match self.name {
            n if n.starts_with("mpicxx") || n.starts_with("mpic++") => Language::Cxx,
            n if n.starts_with("mpif") => Language::Fortran,
            _ => Language::C,
        }
    }

    /// The environment variable that names the compiler.
    fn compiler_variable(&self) -> &'static str {
        match self.language() {
            Language::C => "YAMABIKO_CC",
            Language::Cxx => "YAMABIKO_CXX",
            Language::Fortran => "YAMABIKO_FC",
        }
    }

    /// What to do where the compiler can't be run.
    pub fn advice(&self) -> String {
        let variable = self.compiler_variable();
        match self.language() {
            Language::Fortran => format!(
                "there is no Fortran compiler here: install one (such as gfortran), or set {variable} to yours"
            ),
            _ => format!("set {variable} to your compiler"),
        }
    }

    fn compiler(&self, chosen: Option<&str>) -> Vec<String> {
        let (others, default) = match self.language() {
            Language::C => (["MPICH_CC", "OMPI_CC"], "cc"),
            Language::Cxx => (["MPICH_CXX", "OMPI_CXX"], "c++"),
            Language::Fortran => {
                let found = FORTRAN.into_iter().find(|name| (self.found)(name));
                (["MPICH_FC", "OMPI_FC"], found.unwrap_or(FORTRAN[0]))
            }
        };
        let variables = [self.compiler_variable()].into_iter().chain(others);
        let from_env = || {
            variables
                .map(self.env)
                .find_map(|v| v.filter(|v| !v.is_empty()))
        };
        let compiler = chosen.map(String::from).or_else(from_env);
        // More than one word, as in "ccache gcc".
        compiler
            .as_deref()
            .unwrap_or(default)
            .split_whitespace()
            .map(String::from)
            .collect()
    }

    fn extra(&self, variable: &str) -> Vec<String> {
        let value = (self.env)(variable).unwrap_or_default();
        value.split_whitespace().map(String::from).collect()
    }

    fn include(&self, abi: Abi) -> String {
        match abi {
            Abi::Standard => format!("{}/include", self.prefix),
            Abi::Mpich => format!("{}/include/mpich", self.prefix),
        }
    }

    /// What mpif.h asks of gfortran, from its version 10 on: a call without an interface has data of
    /// one type here and of another there.
    fn mismatch(&self, compiler: &[String]) -> Option<String> {
        let program = compiler.last()?;
        let name = program.rsplit('/').next().unwrap_or(program);
        if self.language() != Language::Fortran || !name.contains("gfortran") {
            return None;
        }
        let version = (self.version)(program)?;
        let major: u32 = version.split('.').next()?.trim().parse().ok()?;
        (major >= 10).then(|| "-fallow-argument-mismatch".into())
    }

    fn compile_flags(&self, abi: Abi, compiler: &[String]) -> Vec<String> {
        let mut flags = vec![format!("-I{}", self.include(abi))];
        flags.extend(self.mismatch(compiler));
        flags.extend(self.extra(match self.language() {
            Language::C => "YAMABIKO_CFLAGS",
            Language::Cxx => "YAMABIKO_CXXFLAGS",
            Language::Fortran => "YAMABIKO_FCFLAGS",
        }));
        flags
    }

    /// The libraries, each before those that it needs.
    fn libraries(&self, abi: Abi) -> Vec<&'static str> {
        let fortran = match abi {
            Abi::Mpich => "mpifort",
            Abi::Standard => "mpifort_abi",
        };
        let of_fortran = (self.language() == Language::Fortran).then_some(fortran);
        of_fortran.into_iter().chain([Self::library(abi)]).collect()
    }

    fn library(abi: Abi) -> &'static str {
        if abi == Abi::Mpich { "mpi" } else { "mpi_abi" }
    }

    fn link_flags(&self, abi: Abi) -> Vec<String> {
        let lib = format!("{}/lib", self.prefix);
        let mut flags = vec![format!("-L{lib}"), format!("-Wl,-rpath,{lib}")];
        flags.extend(self.extra("YAMABIKO_LDFLAGS"));
        flags.extend(
            self.libraries(abi)
                .iter()
                .map(|library| format!("-l{library}")),
        );
        flags
    }

    /// What to do with `args`.
    pub fn answer(&self, args: &[String]) -> Result<Answer, String> {
        let mut abi = Abi::Standard;
        let mut chosen = None;
        let mut question = None;
        let mut rest = Vec::new();
        for arg in args {
            let plain = arg
                .strip_prefix("--")
                .filter(|_| arg.starts_with("--showme"));
            let word = plain.map_or(arg.clone(), |p| format!("-{p}"));
            if let Some(which) = word.strip_prefix("-abi=") {
                abi = match which {
                    "mpich" => Abi::Mpich,
                    "standard" | "mpi" => Abi::Standard,
                    other => {
                        return Err(format!("-abi={other}: the ABIs are `standard` and `mpich`"));
                    }
                };
            } else if let Some(compiler) = word
                .strip_prefix("-cc=")
                .or_else(|| word.strip_prefix("-cxx="))
                .or_else(|| word.strip_prefix("-fc="))
                .or_else(|| word.strip_prefix("-f77="))
                .or_else(|| word.strip_prefix("-f90="))
            {
                chosen = Some(compiler.to_string());
            } else if word == "-mpi-abi" {
                abi = Abi::Standard;
            } else if is_question(&word) {
                question = Some(word);
            } else {
                rest.push(arg.clone());
            }
        }
        let compiler = self.compiler(chosen.as_deref());
        match question {
            Some(question) => self.reply(&question, abi, compiler, &rest),
            None => Ok(Answer::Run(self.command(abi, compiler, &rest))),
        }
    }

    /// The whole command for the compiler.
    fn command(&self, abi: Abi, compiler: Vec<String>, rest: &[String]) -> Vec<String> {
        let flags = self.compile_flags(abi, &compiler);
        let mut command = compiler;
        command.extend(flags);
        command.extend(rest.iter().cloned());
        if links(rest) {
            command.extend(self.link_flags(abi));
        }
        command
    }

    fn reply(
        &self,
        question: &str,
        abi: Abi,
        compiler: Vec<String>,
        rest: &[String],
    ) -> Result<Answer, String> {
        let with = |flags: Vec<String>| line(&[compiler.clone(), flags].concat());
        let compile = self.compile_flags(abi, &compiler);
        let text = match question {
            "-show" | "-showme" if rest.is_empty() => {
                with([compile, self.link_flags(abi)].concat())
            }
            "-show" | "-showme" => line(&self.command(abi, compiler, rest)),
            "-showme:command" => line(&compiler),
            "-showme:compile" => line(&compile),
            "-showme:link" => line(&self.link_flags(abi)),
            "-showme:incdirs" => quoted(&self.include(abi)),
            "-showme:libdirs" => quoted(&format!("{}/lib", self.prefix)),
            "-showme:libs" => self.libraries(abi).join(" "),
            "-showme:version" => format!(
                "{}: Yamabiko {} (Language: {})",
                self.name,
                env!("CARGO_PKG_VERSION"),
                match self.language() {
                    Language::C => "C",
                    Language::Cxx => "C++",
                    Language::Fortran => "Fortran",
                }
            ),
            "-compile_info" | "-compile-info" => with(compile),
            "-link_info" | "-link-info" => with([compile, self.link_flags(abi)].concat()),
            other => {
                return Err(format!(
                    "{other}: the questions are -show, -showme, -showme:command, :compile, :link, \
                     :incdirs, :libdirs, :libs, :version, -compile_info and -link_info"
                ));
            }
        };
        Ok(Answer::Print(text))
    }
}

/// Words as a line for a shell.
fn line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// A word as a shell reads it. Quotes stand after the option's letters (`-I"/a b"`), because that is where
/// CMake's FindMPI, which reads such lines with regular expressions, looks for them.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+./:,@%^".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    let options = ["-Wl,", "-I", "-L", "-D"];
    let option = options.iter().find(|o| word.starts_with(*o)).unwrap_or(&"");
    let mut inside = String::new();
    for c in word[option.len()..].chars() {
        if "\\\"$`".contains(c) {
            inside.push('\\');
        }
        inside.push(c);
    }
    format!("{option}\"{inside}\"")
}

fn is_question(word: &str) -> bool {
    let known = [
        "-show",
        "-showme",
        "-compile_info",
        "-compile-info",
        "-link_info",
        "-link-info",
    ];
    known.contains(&word) || word.starts_with("-showme:")
}

/// Whether the compiler will link: there is something to link and nothing says stop before.
fn links(args: &[String]) -> bool {
    let mut inputs = false;
    let mut skip = false;
    for arg in args {
        if std::mem::take(&mut skip) {
            continue;
        }
        if NO_LINK.contains(&arg.as_str()) {
            return false;
        }
        skip = WITH_VALUE.contains(&arg.as_str());
        inputs |= !arg.starts_with('-') || arg == "-";
    }
    inputs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &str, args: &str) -> Result<Answer, String> {
        answer_at("/p", name, args)
    }

    fn answer_at(prefix: &str, name: &str, args: &str) -> Result<Answer, String> {
        let env = |key: &str| (key == "OMPI_CXX").then(|| "ccache g++".to_string());
        let wrapper = Wrapper {
            name,
            prefix,
            env: &env,
            found: &|program| program == "flang",
            version: &|program| {
                Some(
                    if program == "gfortran-9" {
                        "9.4.0"
                    } else {
                        "12"
                    }
                    .into(),
                )
            },
        };
        let args: Vec<_> = args.split_whitespace().map(String::from).collect();
        wrapper.answer(&args)
    }

    fn run(name: &str, args: &str) -> String {
        match answer(name, args).unwrap() {
            Answer::Run(words) => words.join(" "),
            Answer::Print(text) => format!("prints {text}"),
        }
    }

    #[test]
    fn compiles_and_links() {
        let link = "-L/p/lib -Wl,-rpath,/p/lib";
        assert_eq!(
            run("mpicc", "a.c -o a"),
            format!("cc -I/p/include a.c -o a {link} -lmpi_abi")
        );
        assert_eq!(run("mpicc", "-c a.c"), "cc -I/p/include -c a.c");
        assert_eq!(run("mpicc", "-v"), "cc -I/p/include -v");
        assert_eq!(
            run("mpicc", "-o out -I x -l m"),
            "cc -I/p/include -o out -I x -l m"
        );
        assert_eq!(
            run("mpicc", "-abi=mpich a.o"),
            format!("cc -I/p/include/mpich a.o {link} -lmpi")
        );
        assert_eq!(
            run("mpic++", "a.cc"),
            format!("ccache g++ -I/p/include a.cc {link} -lmpi_abi")
        );
        assert_eq!(
            run("mpicc_abi", "-cc=tcc -E a.c"),
            "tcc -I/p/include -E a.c"
        );
        assert!(answer("mpicc", "-abi=openmpi a.c").is_err());
    }

    #[test]
    fn fortran_has_a_library_more() {
        let link = "-L/p/lib -Wl,-rpath,/p/lib";
        assert_eq!(
            run("mpifort", "a.f90"),
            format!("flang -I/p/include a.f90 {link} -lmpifort_abi -lmpi_abi")
        );
        assert_eq!(
            run("mpif90", "-abi=mpich -fc=gfortran a.o"),
            format!(
                "gfortran -I/p/include/mpich -fallow-argument-mismatch a.o {link} -lmpifort -lmpi"
            )
        );
        assert_eq!(
            run("mpif77", "-f77=gfortran-9 -c a.f"),
            "gfortran-9 -I/p/include -c a.f"
        );
        assert_eq!(run("mpifort", "-showme:libs"), "prints mpifort_abi mpi_abi");
        assert!(run("mpifort", "-showme:version").contains("(Language: Fortran)"));
    }

    #[test]
    fn what_is_printed_can_be_read_by_a_shell() {
        let shown = |args| match answer_at("/a $b", "mpicc", args) {
            Ok(Answer::Print(text)) => text,
            other => panic!("{other:?}"),
        };
        let link = r#"-L"/a \$b/lib" -Wl,"-rpath,/a \$b/lib" -lmpi_abi"#;
        assert_eq!(shown("-show"), format!(r#"cc -I"/a \$b/include" {link}"#));
        assert_eq!(shown("-showme:link"), link);
        assert_eq!(shown("-showme:incdirs"), r#""/a \$b/include""#);
        assert_eq!(
            shown("-show -DX=(1) -c 'y"),
            r#"cc -I"/a \$b/include" -D"X=(1)" -c "'y""#
        );
        // What is run is not read by a shell.
        let run = answer_at("/a $b", "mpicc", "-c x.c").unwrap();
        let words = ["cc", "-I/a $b/include", "-c", "x.c"].map(String::from);
        assert_eq!(run, Answer::Run(words.to_vec()));
    }

    #[test]
    fn answers_questions_of_both_dialects() {
        let link = "-L/p/lib -Wl,-rpath,/p/lib -lmpi_abi";
        assert_eq!(
            run("mpicc", "-show"),
            format!("prints cc -I/p/include {link}")
        );
        assert_eq!(
            run("mpicc", "-show -c a.c"),
            "prints cc -I/p/include -c a.c"
        );
        assert_eq!(run("mpicc", "--showme:compile"), "prints -I/p/include");
        assert_eq!(run("mpicc", "-showme:link"), format!("prints {link}"));
        assert_eq!(
            run("mpicc", "-showme:incdirs -abi=mpich"),
            "prints /p/include/mpich"
        );
        assert_eq!(run("mpicc", "-showme:libdirs"), "prints /p/lib");
        assert_eq!(run("mpicc", "-showme:libs"), "prints mpi_abi");
        assert_eq!(run("mpicc", "-compile-info"), "prints cc -I/p/include");
        assert_eq!(
            run("mpicc", "-link_info"),
            format!("prints cc -I/p/include {link}")
        );
        assert!(run("mpicxx", "-showme:version").contains("(Language: C++)"));
        assert!(answer("mpicc", "-showme:nonsense").is_err());
    }
}
