//! `perm auto`: what a window lets run unasked while it is there, and how all windows are told of it.

use std::num::NonZeroU32;

use aish_proto::event::PresentClient;
use aish_proto::id::ClientId;
use aish_proto::permission::{AutoApproveScope, AutoApproves, ClientAutoApproves};
use clap::Args;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::question;
use crate::safe;

#[derive(Clone, Debug, Args)]
pub struct AutoArgs {
    /// Exact names, or whole providers: fs__read_file, fs__*
    #[arg(required_unless_present = "off", value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
    /// No longer than the running turn, or the next one where none runs
    #[arg(long)]
    pub(crate) turn: bool,
    /// So many calls
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<NonZeroU32>,
    /// Ask about every call again
    #[arg(long, conflicts_with_all = ["patterns", "turn", "count"])]
    pub(crate) off: bool,
}

/// Why a command that ends at once lets nothing run.
pub fn only_in_a_window() -> Failure {
    let message =
        "what a client lets run unasked ends with the client, and this one would be gone at once";
    Failure::new(Exit::USAGE, message).hint(
        "in a window: :perm auto; for one question: ask --confirm=allow:NAME; for good: mcp.auto_approve",
    )
}

/// For `perm ls`.
pub fn lines(clients: &[ClientAutoApproves]) -> String {
    let line = |it: &ClientAutoApproves| {
        format!(
            "{} lets run unasked while attached: {}{}\n",
            question::who(&it.by),
            what(&it.auto_approves),
            bounds(&it.auto_approves)
        )
    };
    clients.iter().map(line).collect()
}

/// What a window is told of others, and of its own word where that ended by itself. Calls that are used up one by one
/// are told where they run.
pub fn auto_approve_line(
    before: &[PresentClient],
    now: &[PresentClient],
    us: Option<ClientId>,
    name: impl Fn(ClientId) -> String,
) -> Vec<String> {
    let allowed = |client: &PresentClient| {
        let mut before = before.iter();
        let before = before.find(|it| it.client_id == client.client_id);
        before.and_then(|it| it.auto_approves.clone())
    };
    let said = |client: &PresentClient| {
        let ours = us == Some(client.client_id);
        match (allowed(client), &client.auto_approves) {
            (before, Some(now)) if !ours && !before.as_ref().is_some_and(|it| is_same(it, now)) => {
                let who = name(client.client_id);
                Some(format!(
                    "{who} lets run unasked: {}{}",
                    what(now),
                    bounds(now)
                ))
            }
            (Some(before), None) if ours => {
                let by_itself = before.scope == AutoApproveScope::Turn || before.left.is_some();
                by_itself.then(|| "what you let run unasked is asked about again".to_owned())
            }
            (Some(_), None) => {
                let who = name(client.client_id);
                Some(format!("{who} lets nothing run unasked any more"))
            }
            (Some(_) | None, Some(_)) | (None, None) => None,
        }
    };
    now.iter().filter_map(said).collect()
}

fn is_same(one: &AutoApproves, other: &AutoApproves) -> bool {
    // More calls than before are a new word.
    let used_up = match (one.left, other.left) {
        (Some(before), Some(now)) => now <= before,
        (before, now) => before == now,
    };
    used_up && one.patterns == other.patterns && one.scope == other.scope
}

pub(crate) fn what(it: &AutoApproves) -> String {
    let calls = match it.left.map(NonZeroU32::get) {
        None => String::new(),
        Some(1) => " (1 call)".to_owned(),
        Some(count) => format!(" ({count} calls)"),
    };
    safe::one_line(&it.patterns.join(" ")) + &calls
}

fn bounds(it: &AutoApproves) -> &'static str {
    match it.scope {
        AutoApproveScope::Turn => ", for one turn",
        AutoApproveScope::Client => "",
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::method::ClientRole;

    use super::*;

    fn client(number: u8, allows: Option<(&str, Option<u32>, AutoApproveScope)>) -> PresentClient {
        PresentClient {
            client_id: ClientId::from_bytes([number; 16]),
            name: "aish".to_owned(),
            tty: None,
            pid: None,
            role: ClientRole::Driver,
            auto_approves: allows.map(|(pattern, left, scope)| AutoApproves {
                patterns: vec![pattern.to_owned()],
                scope,
                left: left.and_then(NonZeroU32::new),
            }),
        }
    }

    #[test]
    fn others_are_told_once_and_calls_are_not_counted_aloud() {
        let us = ClientId::from_bytes([1; 16]);
        let stays = AutoApproveScope::Client;
        let steps = [
            (None, ""),
            (
                Some(("fs__*", Some(2), stays)),
                "pts/2 lets run unasked: fs__* (2 calls)",
            ),
            (Some(("fs__*", Some(1), stays)), ""),
            (
                Some(("fs__*", Some(3), stays)),
                "pts/2 lets run unasked: fs__* (3 calls)",
            ),
            (
                Some(("fs__rm", None, AutoApproveScope::Turn)),
                "pts/2 lets run unasked: fs__rm, for one turn",
            ),
            (None, "pts/2 lets nothing run unasked any more"),
        ];
        let mut before = vec![];
        for (allows, expected) in steps {
            let now = vec![client(1, None), client(2, allows)];
            let said = auto_approve_line(&before, &now, Some(us), |_| "pts/2".to_owned());
            assert_eq!(expected, said.join("|"));
            before = now;
        }
    }

    #[test]
    fn a_window_is_told_of_its_own_word_when_that_ends_by_itself() {
        let us = ClientId::from_bytes([1; 16]);
        let check = |left, scope, expected: &str| {
            let before = [client(1, Some(("fs__*", left, scope)))];
            let after = [client(1, None)];
            let name = |_| String::new();
            assert!(auto_approve_line(&[], &before, Some(us), name).is_empty());
            let said = auto_approve_line(&before, &after, Some(us), name);
            assert_eq!(expected, said.join("|"));
        };
        let again = "what you let run unasked is asked about again";
        check(None, AutoApproveScope::Client, "");
        check(Some(1), AutoApproveScope::Client, again);
        check(None, AutoApproveScope::Turn, again);
    }
}
