//! A remote shell for tests, where no ssh server is at hand: `serve` on a host of the lab, and `to` as
//! mpiexec's launcher command. It protects nothing and is for namespaces only. Its use is that the link
//! between mpiexec and a daemon then is a real TCP connection, which can break.

use crate::Result;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

const PORT: u16 = 7_514;

/// Arguments of `reach`.
#[derive(clap::Subcommand)]
pub enum Args {
    /// Run commands for whoever connects
    Serve,
    /// Run a command on a host
    To {
        /// Without X11, as ssh would take it: Hydra says so
        #[arg(short)]
        x: bool,
        /// Name or address
        host: String,
        /// The command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result {
    match args {
        Args::Serve => serve(),
        Args::To { host, command, .. } => to(host, &command.join(" ")),
    }
}

fn serve() -> Result {
    // The unspecified IPv6 address takes connections of both kinds.
    let listener = TcpListener::bind(("::", PORT)).map_err(|e| e.to_string())?;
    println!("ready");
    for connection in listener.incoming().flatten() {
        thread::spawn(move || {
            if let Err(e) = one(connection) {
                eprintln!("{e}");
            }
        });
    }
    Ok(())
}

fn one(connection: TcpStream) -> std::io::Result<()> {
    let mut back = connection.try_clone()?;
    let mut input = BufReader::new(connection);
    let mut line = String::new();
    input.read_line(&mut line)?;
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec {}", line.trim_end())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            pump(&mut input, &mut stdin);
        }
    });
    if let Some(mut stdout) = stdout {
        pump(&mut stdout, &mut back);
    }
    let _ = back.shutdown(Shutdown::Both);
    child.wait().map(|_| ())
}

fn to(host: &str, command: &str) -> Result {
    let text = |e: std::io::Error| format!("{host}: {e}");
    let mut connection = TcpStream::connect((host, PORT)).map_err(text)?;
    connection.set_nodelay(true).map_err(text)?;
    writeln!(connection, "{command}").map_err(text)?;
    let mut up = connection.try_clone().map_err(text)?;
    thread::spawn(move || {
        pump(&mut std::io::stdin(), &mut up);
        let _ = up.shutdown(Shutdown::Write);
    });
    pump(&mut connection, &mut std::io::stdout());
    Ok(())
}

/// Copies until either end is gone, each piece at once.
fn pump(from: &mut impl Read, to: &mut impl Write) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to
            .write_all(&bytes[..count])
            .and_then(|()| to.flush())
            .is_err()
        {
            return;
        }
    }
}
