//! Which conversation is meant: by title or id, the last one, or the one of this project.

use std::path::Path;

use aish_proto::conversation::{
    ConversationCreateParams, ConversationListParams, ConversationParams, ConversationStatus,
    Create, List, ListState, StatusOf,
};
use aish_proto::id::ConversationId;

use crate::client::connect::Caller;
use crate::client::last_used::LastUsed;
use crate::environment::{ClientEnvironment, project_root_of};
use crate::exit::Exit;
use crate::failure::Failure;

/// How far off a title may be to be proposed instead.
const SIMILAR: f64 = 0.6;

/// A conversation by exact title or id.
pub async fn by_name(caller: &Caller, name: &str) -> Result<ConversationStatus, Failure> {
    if let Ok(id) = name.parse::<ConversationId>() {
        match caller.call::<StatusOf>(ConversationParams { id }).await {
            Ok(status) => return Ok(status),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    for state in [ListState::Open, ListState::Archived] {
        let mut found = list(caller, state, Some(name)).await?;
        if found.len() > 1 {
            let ids: Vec<String> = found.iter().map(|it| it.id.to_string()).collect();
            let message = format!("{} conversations are called \"{name}\"", ids.len());
            return Err(
                Failure::new(Exit::USAGE, message).hint(format!("use an id: {}", ids.join(", ")))
            );
        }
        if let Some(found) = found.pop() {
            return Ok(found);
        }
    }
    let all = list(caller, ListState::All, None).await?;
    let nearest = nearest(name, all.iter().map(|it| it.title.as_str()));
    let did_you_mean = nearest
        .map(|it| format!(" — did you mean \"{it}\"?"))
        .unwrap_or_default();
    Err(Failure::new(
        Exit::UNKNOWN,
        format!("unknown conversation \"{name}\"{did_you_mean}"),
    )
    .hint("aishctl conv ls"))
}

fn nearest<'a>(name: &str, titles: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    titles
        .map(|it| (strsim::jaro_winkler(name, it), it))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, title)| title)
}

/// The conversation used last.
pub async fn last(caller: &Caller) -> Result<ConversationStatus, Failure> {
    let params = ConversationListParams {
        limit: Some(1),
        ..ConversationListParams::default()
    };
    let page = caller.call::<List>(params).await?;
    page.conversations.into_iter().next().ok_or_else(|| {
        Failure::new(Exit::UNKNOWN, "there is no conversation yet")
            .hint("aishctl ask \"...\" makes one")
    })
}

/// The one that a command without a name means: `name`, AISH_CONVERSATION, the last one of this
/// project, the last one.
pub async fn resolve(
    caller: &Caller,
    around: &ClientEnvironment,
    name: Option<&str>,
) -> Result<ConversationStatus, Failure> {
    if let Some(name) = name.or_else(|| around.variable("AISH_CONVERSATION")) {
        return by_name(caller, name).await;
    }
    match of_project(caller, around).await? {
        Some(found) => Ok(found),
        None => last(caller).await,
    }
}

/// The one that `aish` and `attach` open without a name: what a window used last in this project, and never what only a
/// script asked; else one of the project's own that is made for windows.
pub async fn to_attach(
    caller: &Caller,
    around: &ClientEnvironment,
    name: Option<&str>,
) -> Result<ConversationId, Failure> {
    if let Some(name) = name.or_else(|| around.variable("AISH_CONVERSATION")) {
        let found = by_name(caller, name).await.map_err(|failure| {
            if failure.exit != Exit::UNKNOWN {
                return failure;
            }
            failure.hint(format!(
                "aishctl conv ls; this makes it: aishctl conv new {name}"
            ))
        });
        return Ok(found?.id);
    }
    let root = around.project_root();
    let used = around.state_directory().map(|it| LastUsed::at(&it));
    for id in used.map(|it| it.of(root)).unwrap_or_default() {
        match caller.call::<StatusOf>(ConversationParams { id }).await {
            Ok(status) if !status.archived => return Ok(id),
            Ok(_archived) => {}
            // Deleted, or of another daemon.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let title = match for_windows(caller, root).await? {
        UnusedWindow::Found(id) => return Ok(id),
        UnusedWindow::Title(title) => title,
    };
    let params = ConversationCreateParams {
        title: Some(title),
        model: None,
        cwd: around.cwd_text(),
        constraints: None,
        budget: None,
    };
    Ok(caller.call::<Create>(params).await?.id)
}

/// What there is for a window where none has been.
enum UnusedWindow {
    /// Called as it would be, and of this project.
    Found(ConversationId),
    /// A title that nothing has.
    Title(String),
}

/// `default`, or where another project has that, the project's name.
async fn for_windows(caller: &Caller, root: &Path) -> Result<UnusedWindow, Failure> {
    const DEFAULT: &str = "default";
    /// More of a directory's name is no title.
    const MOST_NAME_CHARS: usize = 100;
    let all = list(caller, ListState::All, None).await?;
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let plain = name.chars().filter(|it| !it.is_control());
    let name: String = plain.take(MOST_NAME_CHARS).collect();
    let name = name.trim();
    let more = (2..).map(|number| format!("{name} {number}"));
    let titles = [DEFAULT.to_owned(), name.to_owned()].into_iter();
    for title in titles.chain(more).filter(|it| !it.is_empty()) {
        let mut called = all.iter().filter(|it| it.title == title).peekable();
        if called.peek().is_none() {
            return Ok(UnusedWindow::Title(title));
        }
        if let Some(found) = called.find(|it| !it.archived && is_of(&it.cwd, root)) {
            return Ok(UnusedWindow::Found(found.id));
        }
    }
    Ok(UnusedWindow::Title(DEFAULT.to_owned()))
}

/// Whether a conversation's directory is of this project, and not of another one within it.
fn is_of(cwd: &str, root: &Path) -> bool {
    project_root_of(Path::new(cwd)) == root
}

/// The conversation of this project root that was used last.
async fn of_project(
    caller: &Caller,
    around: &ClientEnvironment,
) -> Result<Option<ConversationStatus>, Failure> {
    let root = around.project_root();
    let all = list(caller, ListState::Open, None).await?;
    Ok(all.into_iter().find(|it| is_of(&it.cwd, root)))
}

/// Every page of the list, last used first.
pub async fn list(
    caller: &Caller,
    state: ListState,
    title: Option<&str>,
) -> Result<Vec<ConversationStatus>, Failure> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let params = ConversationListParams {
            state,
            title: title.map(str::to_owned),
            cursor,
            limit: Some(500),
        };
        let page = caller.call::<List>(params).await?;
        all.extend(page.conversations);
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::client::daemon_link::DaemonWait;
    use crate::client::daemon_link::tests::reach;
    use crate::test_daemon::{self, GatewayPeer};

    /// Resolves `name` where the daemon has these conversations.
    async fn resolve(name: &str, titles: &[&str]) -> Result<String, Failure> {
        let peer = GatewayPeer::new();
        let reach = reach(&peer.socket);
        let script = async {
            let mut link = peer.greet().await;
            loop {
                let call = link.expect("conversation/list").await;
                let wanted = call.params["title"].as_str();
                let archived = call.params["state"] == "archived";
                let found: Vec<Value> = titles
                    .iter()
                    .zip(1..)
                    .filter(|(title, _)| wanted.is_none_or(|it| it == **title) && !archived)
                    .map(|(title, byte)| test_daemon::status(title, byte))
                    .collect();
                link.reply(&call, json!({"conversations": found})).await;
            }
        };
        let resolving = async {
            let link = reach.open(DaemonWait::No).await.unwrap();
            by_name(&link.caller, name).await.map(|it| it.title)
        };
        tokio::select! {
            found = resolving => found,
            () = script => unreachable!(),
        }
    }

    #[tokio::test]
    async fn an_exact_title_is_found_and_a_near_one_proposed() {
        assert_eq!(
            Ok("proj".to_owned()),
            resolve("proj", &["proj", "other"]).await
        );
        let failure = resolve("prjo", &["proj", "other"]).await.unwrap_err();
        assert_eq!(Exit::UNKNOWN, failure.exit);
        assert_eq!(
            "unknown conversation \"prjo\" — did you mean \"proj\"?",
            failure.message
        );
        let failure = resolve("zzz", &["proj"]).await.unwrap_err();
        assert_eq!("unknown conversation \"zzz\"", failure.message);
    }

    #[tokio::test]
    async fn two_of_a_name_are_listed_by_id() {
        let failure = resolve("a", &["a", "b", "a"]).await.unwrap_err();
        let hint = failure.hint.unwrap();
        for byte in [1, 3] {
            assert!(
                hint.contains(&ConversationId::from_bytes([byte; 16]).to_string()),
                "{hint}"
            );
        }
    }
}
