//! What the kernel holds programs to: a column of tables that have more to say, and rows of questions.

use aish_proto::mcp::Profile;
use aish_proto::shell::RunHolding;

use crate::render::table;

/// A table with that column at this place, where it has anything to tell.
pub(crate) fn columns(
    head: &[&str],
    mut rows: Vec<Vec<String>>,
    at: usize,
    held: &[Option<Profile>],
) -> String {
    let mut head = head.to_vec();
    if held.iter().any(Option::is_some) {
        head.insert(at, "held to");
        for (row, profile) in rows.iter_mut().zip(held) {
            let word = profile.unwrap_or(Profile::Open).word();
            row.insert(at, word.to_owned());
        }
    }
    table::columns(&head, &rows)
}

/// Of a command that was tried.
pub(crate) const TRIED: &str = "held to `try`: what it changed is a proposal; it saw no keys, no other programs, and no hosts but those that are allowed";

/// Of a command that a run is asked about: what it would not be held to.
pub(crate) fn beyond(held: RunHolding) -> &'static str {
    match held {
        RunHolding::Reads => {
            "  the run's other commands can write nothing; a yes lets this one run held to nothing\n"
        }
        RunHolding::Workspace => {
            "  the run's other commands are held to its directories, without a network; a yes lets this one run held to nothing\n"
        }
        RunHolding::Try => {
            "  what the run's other commands change is a proposal, and they reach only hosts that are allowed; a yes lets this one run for real, held to nothing\n"
        }
    }
}
