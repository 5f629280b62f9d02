//! What a wrapper does with its arguments: a pure function of them, its name and the environment.

/// A wrapper under one of its names.
pub struct Wrapper<'a> {
    /// The name it was called by: `mpicc`, `mpicxx_abi`, ...
    pub name: &'a str,
    /// The installation.
    pub prefix: &'a str,
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

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
    fn is_cxx(&self) -> bool {
        self.name.starts_with("mpicxx") || self.name.starts_with("mpic++")
    }

    /// The environment variable that names the compiler.
    pub fn compiler_variable(&self) -> &'static str {
        if self.is_cxx() {
            "YAMABIKO_CXX"
        } else {
            "YAMABIKO_CC"
        }
    }

    fn compiler(&self, chosen: Option<&str>) -> Vec<String> {
        let (others, default) = match self.is_cxx() {
            true => (["MPICH_CXX", "OMPI_CXX"], "c++"),
            false => (["MPICH_CC", "OMPI_CC"], "cc"),
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

    fn compile_flags(&self, abi: Abi) -> Vec<String> {
        let mut flags = vec![format!("-I{}", self.include(abi))];
        flags.extend(self.extra(if self.is_cxx() {
            "YAMABIKO_CXXFLAGS"
        } else {
            "YAMABIKO_CFLAGS"
        }));
        flags
    }

    fn library(abi: Abi) -> &'static str {
        if abi == Abi::Mpich { "mpi" } else { "mpi_abi" }
    }

    fn link_flags(&self, abi: Abi) -> Vec<String> {
        let lib = format!("{}/lib", self.prefix);
        let mut flags = vec![format!("-L{lib}"), format!("-Wl,-rpath,{lib}")];
        flags.extend(self.extra("YAMABIKO_LDFLAGS"));
        flags.push(format!("-l{}", Self::library(abi)));
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
        let mut command = compiler;
        command.extend(self.compile_flags(abi));
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
        let text = match question {
            "-show" | "-showme" if rest.is_empty() => {
                with([self.compile_flags(abi), self.link_flags(abi)].concat())
            }
            "-show" | "-showme" => line(&self.command(abi, compiler, rest)),
            "-showme:command" => line(&compiler),
            "-showme:compile" => line(&self.compile_flags(abi)),
            "-showme:link" => line(&self.link_flags(abi)),
            "-showme:incdirs" => quoted(&self.include(abi)),
            "-showme:libdirs" => quoted(&format!("{}/lib", self.prefix)),
            "-showme:libs" => Self::library(abi).into(),
            "-showme:version" => format!(
                "{}: Yamabiko {} (Language: {})",
                self.name,
                env!("CARGO_PKG_VERSION"),
                if self.is_cxx() { "C++" } else { "C" }
            ),
            "-compile_info" | "-compile-info" => with(self.compile_flags(abi)),
            "-link_info" | "-link-info" => {
                with([self.compile_flags(abi), self.link_flags(abi)].concat())
            }
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
