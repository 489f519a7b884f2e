//! One change of files: made in layers by a program of our own, where it is a proposal.

use std::sync::Arc;

use aish_proto::id::{ConversationId, TurnId};
use aishd_files::FileCall;
use aishd_log::command_result::CommandResult;
use aishd_log::confirm::Confirm;
use aishd_log::ending::CommandEnding;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::ToolName;
use aishd_platform::clock;
use aishd_rules::command_setting::CommandSetting;
use aishd_rules::gate::AdmittedCall;
use aishd_tools::registry::CallPlace;
use aishd_tools::trial::{ChangeFailure, KeptAbout, TrialRoom};
use aishd_tools::{ToolOutput, ToolRunner, TriedFileChange};
use aishd_turn::turn::OwedReplies;
use tokio::time::Instant;

use crate::commands::trial::{TrialEnd, kept_remark, not_kept};
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

impl ProposedChange {
    pub(crate) fn is_of(&self, call: &str, confirm: &Confirm) -> bool {
        self.call == call && self.digest == confirm.digest
    }
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
        tool: Option<ToolName>,
        digest: ContentDigest,
    ) -> Result<TrialEnd, String> {
        let begun = Instant::now();
        let call = call?;
        let name = tool.as_ref().map_or_else(String::new, ToolName::to_string);
        let command = format!("{name} {}", call.path());
        let Self {
            place,
            setting,
            room,
            seen,
        } = self;
        let tried = tools.try_file_change(call, &place, seen.all(), &setting, &room);
        let (text, proposed, held, trial) = match Box::pin(tried).await? {
            TriedFileChange::Refused(why) => return Err(why),
            TriedFileChange::Held {
                text,
                seen,
                held,
                trial,
            } => (text, seen, held, trial),
        };
        if let Some(proposed) = proposed {
            seen.propose(trial.id, proposed);
        }
        Ok(TrialEnd {
            trial,
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
            difference_lines: held.difference.lines().count() as u64,
            tool,
        })
    }
}

/// A change that a rule lets through, or that somebody has agreed to without looking at it: it is real at once, and can be
/// taken back like any other.
pub(crate) async fn make(
    call: FileCall,
    ground: &FileGround,
    tools: &ToolRunner,
    go: &AdmittedCall,
    (conversation, turn): (ConversationId, TurnId),
) -> ToolOutput {
    let tool = Some(go.tool.name.clone());
    let tried = ground.clone().tried(tools, Ok(call), tool, go.digest);
    let end = match tried.await {
        Ok(end) => end,
        Err(why) => return ToolOutput::refused(why),
    };
    let about = KeptAbout {
        conversation: Some(conversation),
        turn: Some(turn),
        number: None,
        paths: end.changed.paths(),
    };
    let (room, changes, trial) = (ground.room.clone(), end.trial.id, end.trial);
    let keeping = tokio::task::spawn_blocking(move || {
        trial.hold();
        room.keep_or_drop(changes, &[], clock::now(), &about)
    });
    let kept = keeping.await;
    let kept = kept.unwrap_or_else(|panic| Err(ChangeFailure::Unfinished(panic.to_string())));
    match kept {
        Ok(report) => {
            ground.seen.keep(changes);
            let remark = kept_remark(&report);
            ToolOutput::from_text(format!("{}{remark}", end.ended.output))
        }
        Err(why) => ToolOutput::failed(not_kept(&why)),
    }
}

/// As much of a difference as stands beside a question.
fn shown(difference: &str) -> String {
    let mut shown = String::new();
    for line in difference.lines().take(SHOWN_LINES) {
        if shown.len() + line.len() > SHOWN_BYTES {
            break;
        }
        shown.push_str(line);
        shown.push('\n');
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
        assert_eq!(SHOWN_LINES, shown(&lines).lines().count());
        let wide = format!("+a\n+{}\n", "b".repeat(SHOWN_BYTES));
        assert_eq!("+a\n", shown(&wide));
    }
}
