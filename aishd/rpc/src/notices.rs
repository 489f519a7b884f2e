//! What a person should know who works in a directory, such as that its project is not trusted yet, or who comes to a
//! conversation.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aish_proto::changes::OpenChanges;
use aish_proto::conversation::ConversationNotice;
use aish_proto::id::ConversationId;
use aishd_conversation::handle::ConversationHandle;
use aishd_log::shell::UNASKED;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{RpcServer, config, open_changes};

/// A notice is worth no more of somebody's time: the directory may be on a disk far away.
const WITHIN: Duration = Duration::from_millis(200);

/// Looks at the directory.
pub(super) async fn of(server: &RpcServer, cwd: &str) -> Vec<ConversationNotice> {
    let cwd = PathBuf::from(cwd);
    let asked = config::read(server, move |it| it.notice(&cwd));
    let answered = tokio::time::timeout(WITHIN, asked).await;
    let notice = answered.ok().and_then(Result::ok).flatten();
    let unasked = !server.directory.policy().shell.confirm;
    let unasked = unasked.then(|| ConversationNotice {
        text: UNASKED.to_owned(),
        hint: None,
    });
    let notice = notice.map(|it| ConversationNotice {
        text: it.text,
        hint: it.root.as_deref().and_then(trust),
    });
    notice.into_iter().chain(unasked).collect()
}

/// Facts wait to be kept whose conversations were put away, so that nobody may look at those again.
pub(super) fn proposed(server: &RpcServer, here: ConversationId) -> Option<ConversationNotice> {
    let open = server.directory.pending().snapshot();
    let elsewhere = open.values().filter(|it| it.conversation != here);
    let count = elsewhere.filter(|it| it.memory().is_some()).count();
    let text = match count {
        0 => return None,
        1 => "a fact to remember is proposed".to_owned(),
        2.. => format!("{count} facts to remember are proposed"),
    };
    Some(ConversationNotice {
        text,
        hint: Some("aishctl confirm ls".to_owned()),
    })
}

/// What runs changed here waits.
pub(super) async fn changes(
    server: &RpcServer,
    handle: &ConversationHandle,
) -> Vec<ConversationNotice> {
    let state = handle.view().borrow().state.clone();
    if state.run_changes.is_empty() {
        return vec![];
    }
    let (here, room) = (handle.id(), server.directory.trials().clone());
    let looking = tokio::task::spawn_blocking(move || open_changes::of_runs(here, &state, &room));
    // Where a command writes long, or there is much, the next look says more.
    let Ok(Ok(found)) = tokio::time::timeout(WITHIN, looking).await else {
        return vec![];
    };
    let waits = |it: &OpenChanges| it.size.is_none_or(|it| it.count > 0);
    let found = found.into_iter().filter(waits);
    let told = found.map(|it| ConversationNotice {
        text: match it.number {
            Some(number) => format!("what a run changed waits for an answer (c{number})"),
            None => "what the run has changed so far waits to be kept or dropped".to_owned(),
        },
        hint: Some(format!("aishctl changes show {}", it.changes)),
    });
    told.collect()
}

/// The command that trusts a project, safe to be copied into a shell.
fn trust(root: &Path) -> Option<String> {
    let root = shlex::try_quote(root.to_str()?).ok()?;
    Some(format!("aishctl config trust {root}"))
}

/// The look that goes on while a conversation is made, because who makes one attaches to it next.
#[derive(Default)]
pub(super) struct NoticeLookahead(
    Mutex<Option<(ConversationId, JoinSet<Vec<ConversationNotice>>)>>,
);

impl NoticeLookahead {
    pub(super) fn look(&self, server: &Arc<RpcServer>, conversation: ConversationId, cwd: &str) {
        let (server, cwd) = (server.clone(), cwd.to_owned());
        let mut looking = JoinSet::new();
        looking.spawn(async move { of(&server, &cwd).await });
        *self.0.lock() = Some((conversation, looking));
    }

    /// What that look finds, if there was one for this conversation.
    pub(super) async fn take(
        &self,
        conversation: ConversationId,
    ) -> Option<Vec<ConversationNotice>> {
        let (_, mut looking) = self.0.lock().take_if(|(of, _)| *of == conversation)?;
        looking.join_next().await?.ok()
    }
}
