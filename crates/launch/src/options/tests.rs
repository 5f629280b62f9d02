//! Command lines of both dialects.

use super::*;
use proptest::prelude::*;

fn run(line: &str) -> Result<Options, String> {
    let file = |path: &OsStr| match path.to_str() {
        Some("jobs") => Ok("# two programs\n-n 2 ./a 'x y'\n\n-n 1 ./b\n".to_string()),
        Some("hosts") => Ok("localhost slots=4\n# other\n".to_string()),
        Some("bad") => Ok("node7\nnode8:x\n".to_string()),
        Some("loop") => Ok("-configfile loop\n".to_string()),
        _ => Err("no such file".to_string()),
    };
    let words = words::split_quoted(line).unwrap();
    match parse(words, &file)? {
        Request::Run(options) => Ok(*options),
        other => Err(format!("{other:?}")),
    }
}

fn argv(program: &Program) -> Vec<&str> {
    program.argv.iter().map(|a| a.to_str().unwrap()).collect()
}

#[test]
fn hydras_dialect() {
    let o = run("-genv A 1 -genvlist P,Q -l -ppn 2 -n 3 -env B 2 -wdir /tmp ./a -n 7 : -np 2 ./b")
        .unwrap();
    assert_eq!(o.variables, [("A".into(), "1".into())]);
    assert_eq!(o.inherit, Inherit::Listed(vec!["P".into(), "Q".into()]));
    assert!(o.label && o.cleanup && o.stdin);
    assert_eq!(o.programs.len(), 2);
    assert_eq!(
        (o.programs[0].count, o.programs[1].count),
        (Some(3), Some(2))
    );
    assert_eq!(argv(&o.programs[0]), ["./a", "-n", "7"]);
    assert_eq!(o.programs[0].variables, [("B".into(), "2".into())]);
    assert_eq!(o.programs[0].directory.as_deref(), Some("/tmp".as_ref()));
    assert_eq!(o.programs[1].variables, []);
}

#[test]
fn open_mpis_dialect() {
    let line = "--oversubscribe --allow-run-as-root --mca btl self,vader --bind-to core --map-by slot:PE=1 \
                --host localhost:4 --tag-output -np 2 -x Z=a=b --timeout=1.5 -- -odd";
    let o = run(line).unwrap();
    assert_eq!(o.binding, Binding::Core);
    let limit = Limit {
        time: Duration::from_millis(1500),
        source: "-timeout",
    };
    assert_eq!(o.timeout, Some(limit));
    assert_eq!(o.programs[0].variables, [("Z".into(), "a=b".into())]);
    assert_eq!(argv(&o.programs[0]), ["-odd"]);
}

#[test]
fn variables_in_one_word() {
    let o = run("-genv A=1 --genv=B=2 -genv C 3=x -n 2 -env D= -env=E 5 -x F=a=b x=y").unwrap();
    let pairs = |list: &[(OsString, OsString)]| -> Vec<String> {
        let text = |word: &OsString| word.to_str().unwrap().to_string();
        list.iter()
            .map(|(n, v)| format!("{}|{}", text(n), text(v)))
            .collect()
    };
    assert_eq!(pairs(&o.variables), ["A|1", "B|2", "C|3=x"]);
    assert_eq!(pairs(&o.programs[0].variables), ["D|", "E|5", "F|a=b"]);
    assert_eq!(argv(&o.programs[0]), ["x=y"]);
}

#[test]
fn configuration_files() {
    let o = run("-configfile jobs").unwrap();
    assert_eq!(
        o.programs.iter().map(|p| p.count).collect::<Vec<_>>(),
        [Some(2), Some(1)]
    );
    assert_eq!(argv(&o.programs[0]), ["./a", "x y"]);
    assert!(run("-configfile none").is_err());
    assert!(run("-configfile loop").unwrap_err().contains("deeply"));
}

#[test]
fn bindings() {
    let bound = |b: &str| run(&format!("-bind-to {b} x")).map(|o| o.binding);
    assert_eq!(bound("none"), Ok(Binding::None));
    assert_eq!(bound("hwthread"), Ok(Binding::Thread));
    assert_eq!(
        bound("user:0,1+3"),
        Ok(Binding::Listed(vec![vec![0], vec![1, 3]]))
    );
    assert!(bound("user:").is_err());
    assert!(bound("user:99999999").is_err());
    assert!(bound("moon").is_err());
}

#[test]
fn hosts_and_launchers() {
    let names = |hosts: &[Host]| hosts.iter().map(|h| h.name.clone()).collect::<Vec<_>>();
    let o =
        run("-f hosts -hosts a:2,b -launcher-exec 'reach -p 2' -host c -n 1 x : -ppn 3 y").unwrap();
    assert_eq!(names(&o.hosts), ["localhost", "a", "b"]);
    assert_eq!((o.hosts[0].slots, o.hosts[1].slots), (Some(4), Some(2)));
    assert_eq!(names(&o.programs[0].hosts), ["c"]);
    assert_eq!(o.programs[1].hosts, []);
    assert_eq!(o.per_host, Some(3));
    let words = ["reach", "-p", "2"].map(OsString::from).to_vec();
    assert_eq!(o.launcher, Launcher::Command(words));
    // Whichever comes first.
    for line in [
        "-launcher rsh -launcher-exec reach x",
        "-launcher-exec reach -launcher ssh x",
    ] {
        let command = Launcher::Command(vec!["reach".into()]);
        assert_eq!(run(line).unwrap().launcher, command, "{line}");
    }
    assert_eq!(run("--map-by ppr:2:node x").unwrap().per_host, Some(2));
    assert_eq!(run("--map-by node x").unwrap().per_host, Some(1));
    assert_eq!(run("--map-by core:PE=2 x").unwrap().per_host, None);
    assert_eq!(run("-launcher fork x").unwrap().launcher, Launcher::Fork);
}

#[test]
fn errors_are_sentences() {
    let cases = [
        ("", "no program"),
        ("-n 2", "no program after it"),
        ("-n", "needs 1 argument"),
        ("-env A", "needs 2 arguments"),
        ("-env =1 x", "-env needs the name of a variable"),
        ("-genv= 1 x", "needs the name"),
        ("-x =1 x", "-x needs the name of a variable"),
        ("-envlist A,B=1 x", "B=1 is no name of a variable"),
        ("-n 1 x :", "a program is missing"),
        (": x", "a program is missing"),
        ("x : : y", "a program is missing"),
        ("-n 0 x", "from 1 to"),
        ("-n -3 x", "from 1 to"),
        ("-n 99999999999 x", "from 1 to"),
        ("-frobnicate x", "unknown option -frobnicate"),
        ("--oversubscribe=3 x", "takes no argument"),
        ("-host node1:x x", "-host node1:x: x is no number of slots"),
        ("-hosts a,b: x", "-hosts a,b:: a number of slots is missing"),
        ("--hosts a:-1 x", "--hosts a:-1: -1 is no number of slots"),
        ("-f bad x", "bad: line 2: x is no number"),
        ("-ppn 0 x", "ranks on each host"),
        ("--map-by ppr:2:socket x", "ppr:N:node"),
        ("-launcher slurm x", "-launcher-exec"),
        (
            "-launcher-exec reach -launcher fork x",
            "so -launcher-exec would do nothing",
        ),
        (
            "-launcher fork -rsh-agent reach x",
            "so -rsh-agent would do nothing",
        ),
        ("-timeout never x", "seconds"),
        ("-timeout -1 x", "seconds"),
        (
            "-timeout 0 x",
            "-timeout 0: expected a number of seconds above 0",
        ),
        ("-stdin all x", "only rank 0"),
        ("-outfile-pattern f x", "not supported"),
    ];
    for (line, part) in cases {
        let error = run(line).unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
    assert!(run("-f hosts -host localhost,::1 x").is_ok());
    assert_eq!(run("--help").unwrap_err(), "Help");
    assert_eq!(run("-n 2 -info x").unwrap_err(), "Version");
}

#[test]
fn limits_of_the_environment() {
    let of = |milliseconds| Limit {
        time: Duration::from_millis(milliseconds),
        source: "MPIEXEC_TIMEOUT",
    };
    assert_eq!(limit("2"), Ok(Some(of(2000))));
    assert_eq!(limit(" 0.5 "), Ok(Some(of(500))));
    for none in ["", " ", "0", "0.0", "-1"] {
        assert_eq!(limit(none), Ok(None), "{none:?}");
    }
    for wrong in ["soon", "5s", "nan", "inf", "1e300"] {
        let told = limit(wrong).unwrap_err();
        assert!(
            told.contains(&format!("{wrong:?}, which is no number")),
            "{told}"
        );
    }
}

#[test]
fn quoting() {
    let split = |line| words::split_quoted(line).map(|w| w.join("|".as_ref()));
    assert_eq!(
        split(r#"a "b c" d\ e '' f"g"h"#),
        Ok("a|b c|d e||fgh".into())
    );
    assert!(split("a 'b").is_err());
    assert!(split("a\\").is_err());
}

proptest! {
    #[test]
    fn never_panics(words in proptest::collection::vec("(-n|-env|-x|-l|:|--|-bind-to|[a-z=:,+0-9-]{0,6})", 0..12)) {
        let words = words.into_iter().map(OsString::from).collect();
        let _ = parse(words, &|_| Err(String::new()));
    }
}
