//! `mcp show`: one server, with all that is known of it. Nothing is asked of it but how many prompts and resources it has.

use aish_proto::mcp::{
    List, McpServerStatus, McpTransport, Prompts, Resources, ServerState, ToolLeftOut, ToolSummary,
    Tools, ToolsParams,
};
use aish_proto::mcp_login::SignInStatus;
use aish_proto::method::Empty;
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::{of, patience, revision_of, state_word, told_of_network};
use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

const COLUMNS: usize = 80;
const LABEL_COLUMNS: usize = 12;

/// What `--json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownServer {
    server: McpServerStatus,
    tools: Vec<ToolSummary>,
    left_out: Vec<ToolLeftOut>,
    /// Absent where it has none to tell of, or is not there to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    templates: Option<usize>,
}

pub(super) async fn show(context: &CommandContext, alias: &str) -> PrintResult {
    // A name that is no server's is refused here, with the next command.
    let params = ToolsParams {
        alias: Some(alias.to_owned()),
    };
    let tools = context.call::<Tools>(params).await?;
    let servers = context.call::<List>(Empty {}).await?.servers;
    let server = servers.into_iter().find(|it| it.alias == alias);
    let server = server.ok_or_else(|| {
        Failure::new(Exit::FAILED, format!("there is no MCP server {alias}"))
            .hint("aishctl mcp list")
    })?;
    let mut shown = ShownServer {
        tools: tools.tools,
        left_out: tools.left_out,
        prompts: None,
        resources: None,
        templates: None,
        server,
    };
    if shown.server.state == ServerState::Ready {
        let (caller, within) = (&context.caller, Some(patience(context)));
        if shown.server.prompts {
            let found = caller.call_within::<Prompts>(of(alias), within).await;
            shown.prompts = found.ok().map(|it| it.prompts.len());
        }
        if shown.server.resources {
            let found = caller
                .call_within::<Resources>(of(alias), within)
                .await
                .ok();
            shown.resources = found.as_ref().map(|it| it.resources.len());
            shown.templates = found.map(|it| it.templates.len());
        }
    }
    context.print(&shown, || text(&shown))
}

/// Lines of what is known, each with its name before it.
#[derive(Debug, Default)]
struct LabelledLines(String);

impl LabelledLines {
    /// Nothing, where there is nothing to say. What is too long goes on below.
    fn line(&mut self, label: &str, said: &str) {
        let said = safe::one_line(said);
        if said.is_empty() {
            return;
        }
        let mut head = label.to_owned();
        for row in wrapped(&said, COLUMNS - LABEL_COLUMNS) {
            self.0.push_str(&format!("{head:<LABEL_COLUMNS$}{row}\n"));
            head.clear();
        }
    }
}

fn text(shown: &ShownServer) -> String {
    let server = &shown.server;
    let mut lines = LabelledLines::default();
    let kind = match server.transport {
        McpTransport::Http => "http",
        McpTransport::Stdio => "stdio",
    };
    lines.line("server", &format!("{} ({kind})", server.alias));
    lines.line("where", &server.endpoint);
    lines.line("held to", server.contain.map_or("", |it| it.word()));
    let state = state_word(server.state);
    lines.line("state", &format!("{state} since {}", server.since));
    lines.line("why", server.why.as_deref().unwrap_or_default());
    if server.why.is_some() && server.state != ServerState::Off {
        let logs = format!("aishctl mcp logs {}", server.alias);
        lines.line("next", server.hint.as_deref().unwrap_or(&logs));
    }
    let took = server.connect_ms.map(|it| format!("within {it} ms"));
    lines.line("connected", &took.unwrap_or_default());
    lines.line(
        "it is",
        format!("{} {}", server.name, server.version).trim(),
    );
    lines.line("revision", &revision_of(server));
    let abilities = [
        ("tools", server.tools > 0 || server.left_out > 0),
        ("resources", server.resources),
        ("prompts", server.prompts),
        ("completions", server.completions),
        ("log messages", server.logging),
        ("tasks", server.tasks),
    ];
    let can: Vec<&str> = abilities.iter().filter(|it| it.1).map(|it| it.0).collect();
    lines.line("it has", &can.join(", "));
    if let Some(it) = &server.sign_in {
        signed_in(&mut lines, &server.alias, it);
    }
    let counted = |count: Option<usize>| count.map_or_else(String::new, |it| it.to_string());
    lines.line("prompts", &counted(shown.prompts));
    let templates = match shown.templates {
        Some(count) if count > 0 => format!(", {count} of them to be filled in"),
        Some(_) | None => String::new(),
    };
    let resources = shown
        .resources
        .map(|it| it + shown.templates.unwrap_or_default());
    if let Some(count) = resources {
        lines.line("resources", &format!("{count}{templates}"));
    }
    lines.line("tools", &shown.tools.len().to_string());
    let own = |name: &str| {
        name.split_once("__")
            .map_or(name, |(_, tool)| tool)
            .to_owned()
    };
    for (level, word) in [(1, "read"), (2, "write"), (3, "execute")] {
        let of_level = shown.tools.iter().filter(|it| it.level == Some(level));
        let names: Vec<String> = of_level.map(|it| own(&it.name)).collect();
        lines.line(&format!("  {level} {word}"), &names.join(", "));
    }
    if !shown.left_out.is_empty() {
        lines.line("left out", &shown.left_out.len().to_string());
        for key in ["tools", "without_tools"] {
            let by_key = shown.left_out.iter().filter(|it| it.key == key);
            let names: Vec<String> = by_key.map(|it| own(&it.name)).collect();
            if !names.is_empty() {
                lines.line("", &format!("by `{key}`: {}", names.join(", ")));
            }
        }
    }
    for remark in &server.remarks {
        lines.line("remark", remark);
    }
    let network = server.network.as_ref();
    let network = network.map(|it| told_of_network(&server.alias, it));
    lines.0 + &network.unwrap_or_default()
}

fn signed_in(lines: &mut LabelledLines, alias: &str, it: &SignInStatus) {
    let account = if it.account.is_empty() {
        String::new()
    } else {
        format!(", account {}", it.account)
    };
    if !it.signed_in {
        let out = format!("nobody is signed in at {}{account}", it.issuer);
        lines.line("sign-in", &out);
        lines.line("", &format!("aishctl mcp login {alias}"));
        return;
    }
    lines.line("sign-in", &format!("at {}{account}", it.issuer));
    if !it.scopes.is_empty() {
        lines.line("", &format!("for {}", it.scopes.join(" ")));
    }
    let ends = match (&it.expires_at, it.renews) {
        (Some(at), true) => format!("its token is over at {at}, and is renewed"),
        (Some(at), false) => format!("its token is over at {at}"),
        (None, _) => "its token says no end".to_owned(),
    };
    lines.line("", &ends);
    if !it.wanted.is_empty() {
        let wanted = it.wanted.join(" ");
        lines.line("", &format!("it wanted more than was granted: {wanted}"));
        lines.line("", &format!("aishctl mcp login {alias}"));
    }
}

/// Rows of at most so many columns, broken between words, and inside one only where it has no room.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.to_owned();
        loop {
            let Some(row) = rows.last_mut() else {
                return rows;
            };
            let gap = usize::from(!row.is_empty());
            if row.width() + gap + word.width() <= columns {
                row.push_str(&" ".repeat(gap));
                row.push_str(&word);
                break;
            }
            if !row.is_empty() {
                rows.push(String::new());
                continue;
            }
            let mut room = columns;
            let fits = |it: &(usize, char)| {
                let width = it.1.to_string().width();
                let has_room = width <= room;
                room = room.saturating_sub(width);
                has_room
            };
            let taken: String = word
                .char_indices()
                .take_while(fits)
                .map(|it| it.1)
                .collect();
            word = word[taken.len()..].to_owned();
            row.push_str(&taken);
            rows.push(String::new());
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_room_for_what_they_hold() {
        assert_eq!(vec!["ab cd", "efgh"], wrapped("ab cd efgh", 5));
        assert_eq!(vec!["abcde", "fgh i"], wrapped("abcdefgh i", 5));
        assert_eq!(vec!["日本", "語"], wrapped("日本語", 5));
        assert_eq!(vec![""], wrapped("", 5));
    }
}
