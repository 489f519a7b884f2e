//! `aishctl record`: a person's shell on a terminal of its own, so that a question (`#?`) can take along what the last command
//! printed. Bytes, sizes, signals and the exit status pass as they are. The end of that output is held in this process's memory
//! and nowhere else, and is told over a socket that has no file to whoever of the same user knows the word that only the shell
//! was given.
//!
//! Whatever fails before the shell has begun makes this process the shell itself.

mod inner_terminal;
pub(crate) mod kept_output;
mod marks;
mod output_text;
mod recording;
mod relay;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use ulid::Ulid;

use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::recorder::inner_terminal::{InnerTerminal, OuterTerminal};
use crate::recorder::kept_output::{KeptOutputServer, RecorderAddress};
use crate::recorder::relay::Relay;

/// Tells a shell on which terminal it is recorded already, so that it does not begin again there.
const TERMINAL_VARIABLE: &str = "AISH_RECORDER_TTY";
/// Tells the shell its recorder and the word for it; the shell's script takes it out of the environment.
const ADDRESS_VARIABLE: &str = "AISH_RING";

#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// Whether a shell could be recorded here, as the exit code
    #[arg(long, exclusive = true)]
    check: bool,
    /// Become the shell, on the terminal that stdin is
    #[arg(long, hide = true, conflicts_with = "check")]
    on_terminal: bool,
    /// The shell's program
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    program: Option<PathBuf>,
    /// How the shell was called, its name first
    #[arg(last = true, value_name = "WORD")]
    words: Vec<OsString>,
}

impl RecordArgs {
    /// The shell with its own words and this environment.
    fn shell(&self) -> Command {
        let program = self.program.clone().unwrap_or_default();
        let mut shell = Command::new(&program);
        if let Some(name) = self.words.first() {
            shell.arg0(name);
        }
        shell.args(self.words.iter().skip(1));
        shell
    }
}

/// Runs the shell to its end; on failure there is no recorder, but there is a shell.
pub(crate) async fn run(around: &ClientEnvironment, args: &RecordArgs) -> Result<Exit, Failure> {
    if args.on_terminal {
        return Err(become_shell(args, inner_terminal::take_as_ours()));
    }
    let begun = begin(around, args);
    if args.check {
        return begun.map(|_ready| Exit::DONE).map_err(|error| {
            Failure::new(
                Exit::FAILED,
                format!("a shell cannot be recorded here: {error}"),
            )
        });
    }
    match begun {
        Ok(mut relay) => Ok(relay.run().await),
        Err(error) => {
            let name = OuterTerminal::name().unwrap_or_default();
            let unrecorded = format!("this shell is not recorded: {error}");
            let notice = Failure::new(Exit::FAILED, unrecorded).render("aishctl");
            drop(io::Write::write_all(&mut io::stderr(), notice.as_bytes()));
            let mut shell = args.shell();
            shell.env(TERMINAL_VARIABLE, name);
            shell.env_remove(ADDRESS_VARIABLE);
            Err(not_started(args, &shell.exec()))
        }
    }
}

/// All that is needed; with `--check` without the shell.
fn begin(around: &ClientEnvironment, args: &RecordArgs) -> io::Result<Relay> {
    let outer = OuterTerminal::open(around.variable(TERMINAL_VARIABLE))?;
    let inner = InnerTerminal::like(&outer)?;
    let address = RecorderAddress {
        name: format!("aish-record-{}", Ulid::new()),
        word: Ulid::new().to_string(),
    };
    let server = KeptOutputServer::open(&address)?;
    let child = if args.check {
        None
    } else {
        let program = around.program.clone();
        let mut command = Command::new(program.ok_or(io::ErrorKind::NotFound)?);
        command.arg0("aishctl").args(["record", "--on-terminal"]);
        command.arg("--program");
        command.arg(args.program.clone().unwrap_or_default());
        command.arg("--").args(&args.words);
        command.env(TERMINAL_VARIABLE, inner.name());
        command.env(ADDRESS_VARIABLE, address.to_string());
        Some(inner.start(command)?)
    };
    Relay::new(outer, inner, child, server, address.word)
}

/// In the child of a recorder: does not come back, unless there is no such shell.
fn become_shell(args: &RecordArgs, on_terminal: io::Result<()>) -> Failure {
    match on_terminal {
        Ok(()) => not_started(args, &args.shell().exec()),
        Err(error) => not_started(args, &error),
    }
}

fn not_started(args: &RecordArgs, error: &io::Error) -> Failure {
    let program = args.program.clone().unwrap_or_default();
    let message = format!("cannot start {}: {error}", program.display());
    Failure::new(Exit::FAILED, message)
        .hint("aishctl init SHELL without --ring leaves shells alone")
}
