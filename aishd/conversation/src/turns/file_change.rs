//! One change of files: made in layers by a program of our own, where it is a proposal.

use std::sync::Arc;

use aish_proto::id::ConversationId;
use aishd_files::FileCall;
use aishd_log::command_result::CommandResult;
use aishd_log::ending::CommandEnding;
use aishd_log::tool::ContentDigest;
use aishd_platform::clock;
use aishd_rules::command_setting::CommandSetting;
use aishd_rules::gate::ApprovedCall;
use aishd_tools::registry::CallPlace;
use aishd_tools::trial::{KeptAbout, TrialRoom};
use aishd_tools::{ToolOutput, ToolRunner, TriedFileChange};
use aishd_turn::turn::OwedReplies;
use tokio::time::Instant;

use crate::commands::trial::{TrialEnd, kept_remark};
use crate::turns::seen_files::SeenFiles;

/// Lines and bytes of a difference that stand beside its question; there is a command for the rest.
const SHOWN_LINES: usize = 120;
const SHOWN_BYTES: usize = 8 << 10;

/// Where a change is made, and what may be changed.
#[derive(Clone, Debug)]
pub(crate) struct FileGround {
    pub(crate) place: CallPlace,
    pub(crate) setting: Arc<CommandSetting>,
    pub(crate) room: TrialRoom,
    pub(crate) seen: SeenFiles,
}

/// A change that was made in layers before its question.
#[derive(Debug)]
pub(crate) struct ProposedChange {
    pub(crate) call: String,
    pub(crate) digest: ContentDigest,
    /// What is held of it, or what the model is told.
    pub(crate) came: Result<TrialEnd, String>,
}

/// The same when it has ended, with what waits for it.
#[derive(Debug)]
pub(crate) struct TriedFirst {
    pub(crate) change: ProposedChange,
    pub(crate) owing: Vec<OwedReplies>,
}

impl FileGround {
    /// Makes it, and holds what it came to.
    ///
    /// # Errors
    /// What the model is told where it came to nothing.
    pub(crate) async fn tried(
        self,
        tools: &ToolRunner,
        call: Result<FileCall, String>,
        name: &str,
        digest: ContentDigest,
    ) -> Result<TrialEnd, String> {
        let begun = Instant::now();
        let call = call?;
        let command = format!("{name} {}", call.path());
        let Self {
            place,
            setting,
            room,
            seen,
        } = self;
        let tried = tools.try_file_change(call, &place, seen.all(), &setting, &room);
        let (text, proposed, held) = match Box::pin(tried).await? {
            TriedFileChange::Refused(why) => return Err(why),
            TriedFileChange::Held { text, seen, held } => (text, seen, held),
        };
        if let Some(proposed) = proposed {
            seen.propose(held.changes, proposed);
        }
        Ok(TrialEnd {
            changes: held.changes,
            command,
            digest,
            ended: CommandResult {
                ending: CommandEnding::Exited { code: 0 },
                bytes: text.len() as u64,
                ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
                ..CommandResult::failed(text, &place.cwd)
            },
            changed: held.summary,
            difference: shown(&held.difference),
        })
    }
}

/// A change that a rule lets through, or that somebody has agreed to without looking at it: it is real at once, and can be
/// taken back like any other.
pub(crate) async fn make(
    call: FileCall,
    ground: &FileGround,
    tools: &ToolRunner,
    go: &ApprovedCall,
    conversation: ConversationId,
) -> ToolOutput {
    let name = go.tool.name.to_string();
    let tried = ground.clone().tried(tools, Ok(call), &name, go.digest);
    let end = match tried.await {
        Ok(end) => end,
        Err(why) => return ToolOutput::refused(why),
    };
    let about = KeptAbout {
        conversation: Some(conversation),
        number: None,
        paths: end.changed.paths(),
    };
    let (room, changes) = (ground.room.clone(), end.changes);
    let keeping = tokio::task::spawn_blocking(move || {
        let kept = room.keep_or_drop(changes, &[], clock::now(), &about);
        kept.map_err(|it| it.to_string())
    });
    let kept = keeping.await.unwrap_or_else(|panic| Err(panic.to_string()));
    match kept {
        Ok(report) => {
            ground.seen.keep(changes);
            let remark = kept_remark(&report);
            ToolOutput::from_text(format!("{}{remark}", end.ended.output))
        }
        Err(why) => ToolOutput::failed(format!("[aish] nothing was changed: {why}")),
    }
}

/// As much of a difference as stands beside a question.
fn shown(difference: &str) -> String {
    let mut shown = String::new();
    let mut lines = difference.lines();
    for line in lines.by_ref().take(SHOWN_LINES) {
        if shown.len() + line.len() > SHOWN_BYTES {
            shown.push_str("(and more)\n");
            return shown;
        }
        shown.push_str(line);
        shown.push('\n');
    }
    match lines.count() {
        0 => {}
        more => shown.push_str(&format!("(and {more} lines more)\n")),
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_difference_is_shown_by_its_beginning() {
        assert_eq!("-a\n+b\n", shown("-a\n+b\n"));
        let lines = "+line\n".repeat(SHOWN_LINES + 3);
        assert!(shown(&lines).ends_with("+line\n(and 3 lines more)\n"));
        let wide = format!("+a\n+{}\n", "b".repeat(SHOWN_BYTES));
        assert_eq!("+a\n(and more)\n", shown(&wide));
    }
}
