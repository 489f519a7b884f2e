//! Which conversation is meant: by title or id, the last one, or the one of this project.

use std::collections::HashSet;
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
use crate::safe;

/// How far off a title may be to be proposed instead.
const SIMILAR: f64 = 0.6;
/// So many titles are looked at for that, of those used last.
const MOST_PROPOSED: u32 = 200;
/// So many of one title are told apart; who has more of them looks at the list.
const MOST_NAMESAKES: u32 = 20;
/// Where a list is gone through until something is found, which as a rule was used not long ago.
const FEW: u32 = 100;
const MANY: u32 = 500;

/// Less of an id is not looked for.
const LEAST_OF_AN_ID: usize = 4;
/// So many are named where a part of an id is that of several.
const MOST_CANDIDATES: usize = 10;

/// A conversation by exact title, by id, or by the beginning or the end of its id, where no other one has that too.
pub async fn by_name(caller: &Caller, name: &str) -> Result<ConversationStatus, Failure> {
    if let Ok(id) = name.parse::<ConversationId>() {
        match caller.call::<StatusOf>(ConversationParams { id }).await {
            Ok(status) => return Ok(status),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    for state in [ListState::Open, ListState::Archived] {
        let mut pages = ListPages::of(caller, state, Some(name), MOST_NAMESAKES);
        let mut found = pages.next().await?.unwrap_or_default();
        if found.len() > 1 {
            let ids: Vec<String> = found.iter().map(|it| it.id.to_string()).collect();
            let (count, listed) = (ids.len(), ids.join(", "));
            let (count, hint) = if pages.is_over {
                (count.to_string(), format!("use an id: {listed}"))
            } else {
                let hint = format!("use an id; of those used last: {listed}");
                (format!("more than {count}"), hint)
            };
            let message = format!("{count} conversations are called \"{name}\"");
            return Err(Failure::new(Exit::USAGE, message).hint(hint));
        }
        if let Some(found) = found.pop() {
            return Ok(found);
        }
    }
    if let Some(found) = by_part_of_id(caller, name).await? {
        return Ok(found);
    }
    let mut pages = ListPages::of(caller, ListState::All, None, MOST_PROPOSED);
    let used_last = pages.next().await?.unwrap_or_default();
    let nearest = nearest(name, used_last.iter().map(|it| it.title.as_str()));
    let did_you_mean = nearest
        .map(|it| format!(" — did you mean \"{it}\"?"))
        .unwrap_or_default();
    Err(Failure::new(
        Exit::UNKNOWN,
        format!("unknown conversation \"{name}\"{did_you_mean}"),
    )
    .hint("aishctl conv ls"))
}

/// A conversation is meant by the whole of its title or id.
pub fn is_whole(name: &str, found: &ConversationStatus) -> bool {
    name == found.title || name.eq_ignore_ascii_case(&found.id.to_string())
}

async fn by_part_of_id(caller: &Caller, part: &str) -> Result<Option<ConversationStatus>, Failure> {
    if part.len() < LEAST_OF_AN_ID || !part.bytes().all(|it| it.is_ascii_alphanumeric()) {
        return Ok(None);
    }
    let wanted = part.to_ascii_uppercase();
    let mut found = list(caller, ListState::All).await?;
    found.retain(|it| {
        let id = it.id.to_string();
        id.starts_with(&wanted) || id.ends_with(&wanted)
    });
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let candidates = found.iter().take(MOST_CANDIDATES);
    let candidates: Vec<String> = candidates
        .map(|it| format!("{} ({})", it.id, safe::one_line(&it.title)))
        .collect();
    let more = match found.len().saturating_sub(MOST_CANDIDATES) {
        0 => String::new(),
        more => format!(", and {more} more: aishctl conv ls --all"),
    };
    let message = format!("{} conversations have \"{part}\" in their ids", found.len());
    let hint = format!("use more of one: {}{more}", candidates.join(", "));
    Err(Failure::new(Exit::USAGE, message).hint(hint))
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
    new(caller, Some(title), around.cwd_text()).await
}

/// One that begins now.
pub async fn new(
    caller: &Caller,
    title: Option<String>,
    cwd: String,
) -> Result<ConversationId, Failure> {
    let params = ConversationCreateParams {
        title,
        model: None,
        cwd,
        constraints: None,
        budget: None,
        temporary: false,
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
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let plain = name.chars().filter(|it| !it.is_control());
    let name: String = plain.take(MOST_NAME_CHARS).collect();
    let name = name.trim();
    let more = (2..).map(|number| format!("{name} {number}"));
    let titles = [DEFAULT.to_owned(), name.to_owned()].into_iter();
    for title in titles.chain(more).filter(|it| !it.is_empty()) {
        let mut pages = ListPages::of(caller, ListState::All, Some(&title), FEW);
        let mut is_free = true;
        while let Some(called) = pages.next().await? {
            is_free &= called.is_empty();
            let mut open = called.iter().filter(|it| !it.archived);
            if let Some(found) = open.find(|it| is_of(&it.cwd, root)) {
                return Ok(UnusedWindow::Found(found.id));
            }
        }
        if is_free {
            return Ok(UnusedWindow::Title(title));
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
    let mut pages = ListPages::of(caller, ListState::Open, None, FEW);
    // Many are in few directories, and each of those is looked at once.
    let mut elsewhere = HashSet::new();
    while let Some(page) = pages.next().await? {
        for status in page {
            if elsewhere.contains(&status.cwd) {
                continue;
            }
            if is_of(&status.cwd, root) {
                return Ok(Some(status));
            }
            elsewhere.insert(status.cwd);
        }
    }
    Ok(None)
}

/// The whole list, last used first.
pub async fn list(caller: &Caller, state: ListState) -> Result<Vec<ConversationStatus>, Failure> {
    let mut pages = ListPages::of(caller, state, None, MANY);
    let mut all = Vec::new();
    while let Some(page) = pages.next().await? {
        all.extend(page);
    }
    Ok(all)
}

/// The list, last used first, page by page as they are wanted.
struct ListPages<'a> {
    caller: &'a Caller,
    params: ConversationListParams,
    is_over: bool,
}

impl<'a> ListPages<'a> {
    fn of(caller: &'a Caller, state: ListState, title: Option<&str>, limit: u32) -> Self {
        Self {
            caller,
            params: ConversationListParams {
                state,
                title: title.map(str::to_owned),
                cursor: None,
                limit: Some(limit),
            },
            is_over: false,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<ConversationStatus>>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        let page = self.caller.call::<List>(self.params.clone()).await?;
        self.is_over = page.next_cursor.is_none();
        self.params.cursor = page.next_cursor;
        self.params.limit = Some(MANY);
        Ok(Some(page.conversations))
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
                let limit = call.params["limit"].as_u64().unwrap_or(u64::MAX);
                let mut found: Vec<Value> = titles
                    .iter()
                    .zip(1..)
                    .filter(|(title, _)| wanted.is_none_or(|it| it == **title) && !archived)
                    .map(|(title, byte)| test_daemon::status(title, byte))
                    .collect();
                let is_more = found.len() as u64 > limit;
                found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
                let next = is_more.then_some("behind");
                let page = json!({"conversations": found, "nextCursor": next});
                link.reply(&call, page).await;
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
    async fn a_part_of_an_id_is_enough_where_it_is_of_one() {
        let id = |byte| ConversationId::from_bytes([byte; 16]).to_string();
        let titles = ["a", "b", "c"];
        let whole = id(2);
        for part in [&whole[..6], &whole[20..], &whole[..6].to_lowercase()] {
            assert_eq!(Ok("b".to_owned()), resolve(part, &titles).await, "{part}");
        }
        // A title comes first.
        let titled = resolve(&whole[..6], &["a", "b", &whole[..6]]).await;
        assert_eq!(Ok(whole[..6].to_owned()), titled);
        let failure = resolve(&whole[..3], &titles).await.unwrap_err();
        assert_eq!(Exit::UNKNOWN, failure.exit);
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
    #[tokio::test]
    async fn where_there_are_many_a_few_of_those_used_last_are_looked_at() {
        let failure = resolve("a", &["a"; 30]).await.unwrap_err();
        let expected = "more than 20 conversations are called \"a\"";
        assert_eq!(expected, failure.message);
        let hint = failure.hint.unwrap();
        let is_named = |byte| hint.contains(&ConversationId::from_bytes([byte; 16]).to_string());
        assert!(is_named(1) && is_named(20) && !is_named(21), "{hint}");
        let mut titles = vec!["zzz"; 220];
        titles.push("proj");
        let failure = resolve("prjo", &titles).await.unwrap_err();
        assert_eq!("unknown conversation \"prjo\"", failure.message);
    }
}
