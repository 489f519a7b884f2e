//! What the kernel is to hold a server's program to, as arguments say it, or a person at the terminal.

use std::io::{self, BufRead as _, Write as _};
use std::path::Path;

use aish_proto::mcp::Profile;

use super::ConnectArgs;
use crate::exit::Exit;
use crate::failure::Failure;

const QUESTION: &str = "\
What may this program reach?
  o, open        whatever you can (Enter)
  w, workspace   it writes in this directory only, sees no keys
  r, read        it writes nowhere, sees no keys
The last two reach no hosts but those of --host.
[O/w/r] ";

pub(super) fn profile(word: &str) -> Result<Profile, String> {
    let mut all = [Profile::Read, Profile::Workspace, Profile::Open].into_iter();
    all.find(|it| it.word() == word)
        .ok_or_else(|| "it is read, workspace or open".to_owned())
}

/// What was said, or is answered now where somebody can be asked; nothing: as ever.
pub(super) fn chosen(
    args: &ConnectArgs,
    is_url: bool,
    may_prompt: bool,
) -> Result<Option<Profile>, Failure> {
    if args.contain.is_some() || is_url || !may_prompt {
        return Ok(args.contain);
    }
    let failed = |error: io::Error| Failure::new(Exit::FAILED, format!("cannot ask: {error}"));
    loop {
        let mut stderr = io::stderr();
        write!(stderr, "{QUESTION}").map_err(failed)?;
        stderr.flush().map_err(failed)?;
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line).map_err(failed)?;
        match line.trim() {
            // What ends the input is no answer.
            "" if read == 0 => return Err(Failure::new(Exit::USAGE, "nothing was answered")),
            "" | "o" | "open" => return Ok(None),
            "w" | "workspace" => return Ok(Some(Profile::Workspace)),
            "r" | "read" => return Ok(Some(Profile::Read)),
            _another_word => {}
        }
    }
}

/// From this directory, as the daemon wants them.
pub(super) fn written(cwd: &Path, args: &ConnectArgs) -> Vec<String> {
    let paths = args.write.iter().map(|it| cwd.join(it));
    paths.map(|it| it.display().to_string()).collect()
}
