//! The names that the daemon knows now, for completion: asked of a daemon that runs, and given up soon.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::conversation::{ConversationListParams, ListState};
use aish_proto::daemon::ClientKind;
use aish_proto::method::{ClientRole, Empty};
use aish_proto::tool::ToolListParams;
use aish_proto::version::ProtocolRange;
use aish_proto::{changes, confirm, conversation, job, mcp, model, prompt, tool};

use crate::client::connect::{Caller, RpcCallError};
use crate::client::daemon_link::{DaemonReach, DaemonStart, DaemonWait};
use crate::completion::server_words::WantedCompletion;
use crate::environment::ClientEnvironment;
use crate::render::question;
use crate::safe;

/// How long a person waits for a name, at most. With the start of this program it stays below a fifth of a second.
const PATIENCE: Duration = Duration::from_millis(150);
/// More conversations are not looked through by pressing Tab.
const MOST: u32 = 200;
/// So much of the end of an id is unlike all others.
const END_OF_ID: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Conversation,
    ArchivedConversation,
    Model,
    Server,
    Tool,
    Provider,
    Confirm,
    OpenChanges,
    Job,
    KeptChanges,
    UndoneChanges,
    Prompt,
    /// What an MCP server says that the word may become.
    ServerWord,
}

#[derive(Debug)]
pub(super) struct LiveNames {
    reach: DaemonReach,
    /// A daemon that nobody has started yet would be started by being asked.
    is_there: bool,
    /// What the word at the end is about, where an MCP server knows more.
    wish: Option<WantedCompletion>,
}

type NamesAndWhat = Vec<(String, String)>;

impl LiveNames {
    /// The words say where the daemon is.
    pub(super) fn of(around: &ClientEnvironment, words: &[String]) -> Arc<Self> {
        let flag = socket_of(words);
        let reach = DaemonReach {
            socket: around.socket(flag.as_deref()),
            start: DaemonStart::Forbidden,
            kind: ClientKind::Ctl,
            role: ClientRole::Observer,
            deadline: PATIENCE,
            protocol: ProtocolRange::OURS,
            // Who only looks lends no keys, and sits at no terminal.
            around: ClientEnvironment::default(),
        };
        let is_there = flag.is_some() || !around.has_socket_unit() || holds_the_store(around);
        let wish = words
            .split_first()
            .and_then(|(_program, words)| WantedCompletion::of_command(words));
        Arc::new(Self {
            reach,
            is_there,
            wish,
        })
    }

    /// Names with what they are; none where nobody answers in time.
    pub(super) fn of_kind(&self, kind: NameKind) -> NamesAndWhat {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime.map_err(drop) else {
            return vec![];
        };
        if !self.is_there {
            return vec![];
        }
        let names = runtime.block_on(async {
            if kind == NameKind::ServerWord {
                return self.of_server().await.unwrap_or_default();
            }
            let asked = tokio::time::timeout(PATIENCE, async {
                let link = self.reach.open(DaemonWait::No).await.ok()?;
                names(&link.caller, kind).await.ok()
            });
            asked.await.ok().flatten().unwrap_or_default()
        });
        runtime.shutdown_background();
        names
    }
}

impl LiveNames {
    /// What a server says; it may be far away, so there is more time for it.
    async fn of_server(&self) -> Option<NamesAndWhat> {
        let wish = self.wish.as_ref()?;
        // To ask a server is more than to look.
        let reach = DaemonReach {
            role: ClientRole::Driver,
            ..self.reach.clone()
        };
        let link = tokio::time::timeout(PATIENCE, reach.open(DaemonWait::No)).await;
        Some(wish.candidates(&link.ok()?.ok()?.caller).await)
    }
}

/// The value of `--socket`, if it is among the words before the last.
fn socket_of(words: &[String]) -> Option<PathBuf> {
    let (_completed, before) = words.split_last()?;
    let mut before = before.iter();
    while let Some(word) = before.next() {
        if word == "--socket" {
            return before.next().map(PathBuf::from);
        }
        if let Some(path) = word.strip_prefix("--socket=") {
            return Some(path.into());
        }
    }
    None
}

/// Whether a daemon runs that the service manager would start: it has signed the lock of the store.
fn holds_the_store(around: &ClientEnvironment) -> bool {
    let lock = around.state_directory().map(|it| it.join("store/lock"));
    let pid = lock.and_then(|it| std::fs::read_to_string(it).ok());
    let pid = pid.and_then(|it| it.split_whitespace().next()?.parse::<u32>().ok());
    let name = pid.and_then(|it| std::fs::read_to_string(format!("/proc/{it}/comm")).ok());
    name.is_some_and(|it| it.trim_end() == "aishd")
}

async fn names(caller: &Caller, kind: NameKind) -> Result<NamesAndWhat, RpcCallError> {
    Ok(match kind {
        NameKind::Conversation => conversations(caller, ListState::Open).await?,
        NameKind::ArchivedConversation => conversations(caller, ListState::Archived).await?,
        NameKind::Model => {
            let found = caller.call::<model::List>(Empty {}).await?.models;
            found.into_iter().map(|it| (it.name, it.model)).collect()
        }
        NameKind::Server => {
            let found = caller.call::<mcp::List>(Empty {}).await?.servers;
            found
                .into_iter()
                .map(|it| (it.alias, it.endpoint))
                .collect()
        }
        NameKind::Tool => {
            let found = tools(caller).await?.into_iter();
            found.map(|it| (it.name, it.description)).collect()
        }
        NameKind::Provider => {
            let mut found: NamesAndWhat = tools(caller)
                .await?
                .into_iter()
                .map(|it| (it.provider, String::new()))
                .collect();
            found.sort();
            found.dedup();
            found
        }
        NameKind::Confirm => confirms(caller).await?,
        NameKind::OpenChanges => {
            let found = caller.call::<changes::List>(Empty {}).await?.open;
            let found = found.into_iter();
            found.map(|it| (it.changes.to_string(), it.text)).collect()
        }
        NameKind::KeptChanges | NameKind::UndoneChanges => {
            let all = caller.call::<changes::List>(Empty {}).await?;
            let found = match kind {
                NameKind::UndoneChanges => all.undone,
                _ => all.kept,
            };
            found
                .into_iter()
                .map(|it| (it.changes.to_string(), it.paths.join(" ")))
                .collect()
        }
        NameKind::Job => {
            let params = job::JobsListParams { conversation: None };
            let found = caller.call::<job::List>(params).await?.jobs;
            let found = found.into_iter();
            found.map(|it| (it.job.to_string(), it.command)).collect()
        }
        NameKind::Prompt => {
            let found = caller.call::<prompt::List>(Empty {}).await?.prompts;
            found.into_iter().map(|it| (it.name, it.begins)).collect()
        }
        // Asked for on a way of its own.
        NameKind::ServerWord => vec![],
    })
}

/// Those used last first, by their titles; by id where a title says no single one, or cannot be typed.
async fn conversations(caller: &Caller, state: ListState) -> Result<NamesAndWhat, RpcCallError> {
    let params = ConversationListParams {
        state,
        limit: Some(MOST),
        ..ConversationListParams::default()
    };
    let found = caller
        .call::<conversation::List>(params)
        .await?
        .conversations;
    let mut count: HashMap<String, usize> = HashMap::new();
    for it in &found {
        *count.entry(it.title.clone()).or_default() += 1;
    }
    let named = found.into_iter().map(|it| {
        let is_hard = it.title.starts_with('-') || safe::one_line(&it.title) != it.title;
        if it.title.is_empty() || is_hard || count.get(&it.title) != Some(&1) {
            (it.id.to_string(), it.title)
        } else {
            (it.title, it.cwd)
        }
    });
    Ok(named.collect())
}

/// The first page: who has more types some letters anyway.
async fn tools(caller: &Caller) -> Result<Vec<tool::ToolDescription>, RpcCallError> {
    let params = ToolListParams {
        conversation: None,
        cursor: None,
    };
    Ok(caller.call::<tool::List>(params).await?.tools)
}

/// By their numbers; where two conversations have the same one, by the ends of their ids.
async fn confirms(caller: &Caller) -> Result<NamesAndWhat, RpcCallError> {
    let params = confirm::ConfirmListParams { conversation: None };
    let found = caller.call::<confirm::List>(params).await?.confirms;
    let numbers: Vec<u32> = found.iter().map(|it| it.request.number).collect();
    let named = found.iter().map(|it| {
        let number = it.request.number;
        let id = it.request.confirm.to_string();
        let end = id.len().saturating_sub(END_OF_ID);
        let name = match numbers.iter().filter(|it| **it == number).count() {
            1 => format!("c{number}"),
            _ => id.get(end..).unwrap_or(&id).to_owned(),
        };
        let (what, more) = question::in_short(&it.request);
        (name, format!("{what}  {more}"))
    });
    Ok(named.collect())
}
