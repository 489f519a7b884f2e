//! `aishctl` as scripts run it a thousand times: a question whose answer nobody lays out.
//!
//! Most of such a question's time goes into starting a program: the kernel maps it, and the loader goes through every
//! pointer in its tables. The line editor, the grammars that colour code and all other commands are many times what
//! a question needs, so they are in the program `aish` beside this one, which this one becomes for everything else.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use tokio::time::Instant;

use crate::commands::file_mention::{self, PersonLocation};
use crate::commands::program_context::{self, AskProgram};
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::parse;
use crate::render::screen;

/// The name of this program.
pub(crate) const ALONE: &str = "aishctl";
/// The program that has everything.
pub(crate) const ALL: &str = "aish";

/// The whole of the small program.
pub fn main() -> ExitCode {
    let began = Instant::now();
    let around = ClientEnvironment::ours();
    let args: Vec<OsString> = std::env::args_os().collect();
    let here = PersonLocation::of(&around, None);
    let asked = parse::ask_alone(&args).filter(|(global, ask)| {
        // An answer that is laid out is one for the program that can, and so is a directory that is listed.
        let is_laid_out = screen::markdown(global.looks, global.color, &around).is_some();
        !is_laid_out && !file_mention::names_folder(&ask.text.join(" "), &here)
    });
    let done = match asked {
        None => Err(become_all(&around, &args)),
        Some((global, ask)) => {
            let program = AskProgram {
                around,
                global,
                began,
                typeset: None,
                list: None,
                draw: None,
            };
            program.block_on(program.ask(&ask))
        }
    };
    program_context::ended(ALONE, done)
}

/// Does not come back, unless there is no such program.
fn become_all(around: &ClientEnvironment, args: &[OsString]) -> Failure {
    let ours = around.program.as_deref();
    let all = ours.map(|it| it.with_file_name(ALL)).unwrap_or(ALL.into());
    let real = |path: &std::path::Path| std::fs::canonicalize(path).ok();
    let problem = if ours.and_then(real).is_some_and(|it| real(&all) == Some(it)) {
        "it is the same file as this one".to_owned()
    } else {
        let mut command = Command::new(&all);
        command.arg0(ALONE).args(args.iter().skip(1));
        command.exec().to_string()
    };
    let message = format!("cannot start {}: {problem}", all.display());
    Failure::new(Exit::FAILED, message).hint(
        "aishctl, aish and aishd belong into one directory; .ci/dist of a checkout makes all three",
    )
}
