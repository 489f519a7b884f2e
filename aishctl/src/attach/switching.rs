//! From one conversation to another: by name, picked from a list, or into a branch in which the last question is asked anew.

use aish_proto::attach::{Detach, DetachParams};
use aish_proto::conversation::{ConversationStatus, Fork, ForkParams, ListState};
use aish_proto::id::{ConversationId, SubscriptionId};

use super::connection::ReplayProgress;
use super::outbox::TypedAsk;
use super::ui::{EditorErrand, UserInterface};
use super::{CompletedCall, OpenWindow};
use crate::client::connect::Caller;
use crate::client::conversation_choice;
use crate::client::editor::{self, TextDraft};
use crate::commands::file_mention::{self, AttachedFile, AttachedKind};
use crate::commands::last_said::{self, LastQuestion};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::picker::Picker;
use crate::safe;

/// A question of more rows is edited in an editor, and not in the line.
const MOST_ROWS: usize = 8;
const MOST_CHARS: usize = 600;

/// A question that is asked in a branch.
#[derive(Debug)]
pub(super) struct BranchedAsk {
    pub(super) branch: Result<QuestionBranch, Failure>,
    pub(super) text: String,
    pub(super) files: Vec<AttachedFile>,
}

/// Where it is asked.
#[derive(Debug)]
pub(super) struct QuestionBranch {
    id: ConversationId,
    /// What went along with the question before and does so still.
    taken: Vec<AttachedFile>,
    /// Pictures of it: a client is not told their bytes.
    left: Vec<String>,
}

/// A question that did not get to the daemon.
#[derive(Debug)]
pub(super) struct KeptQuestion {
    conversation: ConversationId,
    text: String,
    files: Vec<AttachedFile>,
    place: KeptPlace,
}

/// Where it was to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptPlace {
    /// In the conversation itself.
    Here,
    /// In a branch of it, which there is not.
    Branch,
}

/// What a text is that is brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastText {
    Asked,
    /// It may stay as it is.
    NotSent,
}

impl KeptQuestion {
    /// What the daemon did not take.
    pub(super) fn refused(refused: TypedAsk) -> Self {
        Self {
            conversation: refused.conversation,
            text: refused.text,
            files: refused.files,
            place: KeptPlace::Here,
        }
    }
}

impl<U: UserInterface> OpenWindow<U> {
    pub(super) fn look_for(&mut self, name: String) {
        let caller = self.connection.caller();
        self.go_to(async move { Ok(conversation_choice::by_name(&caller, &name).await?.id) });
    }

    /// Makes another conversation, of this directory, and goes there. Without a title its first question gives it one.
    pub(super) fn begin_new(&mut self, title: Option<String>) {
        let caller = self.connection.caller();
        let cwd = self.window.reach.around.cwd_text();
        self.go_to(async move { conversation_choice::new(&caller, title, cwd).await });
    }

    /// Has another conversation and ends the subscription of this one. Only then is the other one
    /// attached to: its reply must not wait behind events that nobody takes.
    fn go_to(
        &mut self,
        other: impl Future<Output = Result<ConversationId, Failure>> + Send + 'static,
    ) {
        self.switching = true;
        let caller = self.connection.caller();
        let subscription = self.connection.subscription();
        self.calls.spawn(async move {
            let found = async {
                let subscription = subscription?;
                let found = other.await?;
                detach(&caller, subscription).await;
                Ok(found)
            };
            CompletedCall::Switched(found.await)
        });
    }

    /// The other conversation was found or it was not. Lines typed meanwhile are for the one that the window is on now.
    pub(super) async fn switched(
        &mut self,
        found: Result<ConversationId, Failure>,
    ) -> Result<(), Failure> {
        self.switching = false;
        match found {
            Ok(conversation) => self.switch(conversation),
            Err(failure) => self.display.refuse(&failure).await?,
        }
        // One of them may begin the next switch.
        while !self.switching
            && let Some(line) = self.held.pop_front()
        {
            self.line(&line).await?;
        }
        Ok(())
    }

    fn switch(&mut self, conversation: ConversationId) {
        self.window.uses(conversation);
        self.conversation = conversation;
        self.own.clear();
        self.own_undo.clear();
        self.turns = super::TurnTracker::default();
        self.running_model = None;
        self.live.clear();
        self.display.forget();
        // If the connection is lost here, the next one begins with this conversation.
        self.connection.begin_anew();
        self.attach(ReplayProgress::First);
    }

    /// Has all conversations listed, for a person who picks one.
    pub(super) fn list_to_pick(&mut self) {
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            CompletedCall::ToPick(conversation_choice::list(&caller, ListState::Open).await)
        });
    }

    pub(super) async fn pick(
        &mut self,
        found: Result<Vec<ConversationStatus>, Failure>,
    ) -> Result<(), Failure> {
        match found {
            Ok(found) => {
                let mut around = self.window.reach.around.clone();
                around.stdout_columns = self.display.ui.columns();
                let global = &self.window.global;
                let picker = Picker::new(found, Some(self.conversation), global, &around);
                self.display.ui.errand(EditorErrand::Pick(Box::new(picker)));
                Ok(())
            }
            Err(failure) => self.display.refuse(&failure).await,
        }
    }

    pub(super) async fn picked(
        &mut self,
        picked: Result<Option<ConversationId>, Failure>,
    ) -> Result<(), Failure> {
        match picked {
            Ok(Some(picked)) if picked != self.conversation => self.look_for(picked.to_string()),
            Ok(_) => {}
            Err(failure) => self.display.refuse(&failure).await?,
        }
        Ok(())
    }

    /// Brings back what was not sent, or looks the last question up, so that it can be edited.
    pub(super) async fn begin_edit(&mut self) -> Result<(), Failure> {
        let (caller, conversation) = (self.connection.caller(), self.conversation);
        let kept = self.kept.as_ref();
        if let Some(kept) = kept.filter(|it| it.conversation == conversation) {
            let text = kept.text.clone();
            return self.edit_question(Ok(text), LastText::NotSent).await;
        }
        self.calls.spawn(async move {
            CompletedCall::ToEdit(last_question(&caller, conversation).await.map(|it| it.text))
        });
        Ok(())
    }

    /// A question that did not get to the daemon is at hand, where somebody could edit it.
    pub(super) async fn keep(&mut self, kept: KeptQuestion) -> Result<(), Failure> {
        if !self.has_editor() {
            return Ok(());
        }
        self.kept = Some(kept);
        self.display
            .print_notice("the text is kept; :edit brings it back")
            .await
    }

    /// Brings the last question back: into the line, or into an editor where it is long.
    pub(super) async fn edit_question(
        &mut self,
        text: Result<String, Failure>,
        last: LastText,
    ) -> Result<(), Failure> {
        let errand = text.and_then(|text| {
            let is_long = text.lines().count() > MOST_ROWS || text.chars().count() > MOST_CHARS;
            // A backslash there would mean that the line goes on.
            if !is_long && !text.contains("\\\n") {
                return Ok(EditorErrand::Line(format!(":edit {text}")));
            }
            let configured = &self.connection.link.hello.ui.editor;
            let words = editor::program(&self.window.reach.around, configured)?;
            let draft = TextDraft::new(&text, ".md", words)?;
            let before = match last {
                LastText::Asked => text,
                LastText::NotSent => String::new(),
            };
            Ok(EditorErrand::Question(before, draft))
        });
        match errand {
            Ok(errand) => {
                self.display.ui.errand(errand);
                Ok(())
            }
            Err(failure) => self.display.refuse(&failure).await,
        }
    }

    pub(super) async fn rewritten(
        &mut self,
        text: Result<Option<String>, Failure>,
    ) -> Result<(), Failure> {
        match text.map(|it| it.filter(|it| !it.trim().is_empty())) {
            Ok(Some(text)) => self.ask_anew(text.trim().to_owned()).await,
            Ok(None) => {
                let told = "the question is as it was, and is not asked again";
                self.display.print_notice(told).await
            }
            Err(failure) => self.display.refuse(&failure).await,
        }
    }

    /// Asks this instead of the last question, in a copy of the conversation that ends before it; or instead of one that was not
    /// sent, where that was to be.
    pub(super) async fn ask_anew(&mut self, text: String) -> Result<(), Failure> {
        let here = self.conversation;
        let kept = self.kept.take().filter(|it| it.conversation == here);
        let place = kept.as_ref().map_or(KeptPlace::Branch, |it| it.place);
        let before = kept.map(|it| (it.text, it.files));
        let Some(mut files) = self.files(&text).await? else {
            let kept = KeptQuestion {
                conversation: here,
                text,
                files: before.map(|it| it.1).unwrap_or_default(),
                place,
            };
            return self.keep(kept).await;
        };
        if let (KeptPlace::Here, Some((asked, attached))) = (place, before) {
            let taken = taken_along(&asked, attached, &text, &files);
            files.extend(taken);
            self.outbox.put(here, text, files);
            return Ok(());
        }
        self.switching = true;
        let (caller, conversation) = (self.connection.caller(), self.conversation);
        let subscription = self.connection.subscription();
        self.calls.spawn(async move {
            let branch = async {
                let subscription = subscription?;
                let LastQuestion {
                    before,
                    text: asked,
                    attachments,
                } = last_question(&caller, conversation).await?;
                let params = ForkParams {
                    id: conversation,
                    at_seq: Some(before),
                };
                let made = caller.call::<Fork>(params).await?;
                detach(&caller, subscription).await;
                let pictures: Vec<String> = attachments
                    .iter()
                    .filter(|it| it.picture.is_some())
                    .map(|it| it.name.clone())
                    .collect();
                let attached = attachments.into_iter().map(|it| AttachedFile {
                    name: it.name,
                    text: it.text,
                    kind: AttachedKind::File { lossy: false },
                });
                let all = taken_along(&asked, attached.collect(), &text, &files);
                let (left, taken): (Vec<_>, _) =
                    all.into_iter().partition(|it| pictures.contains(&it.name));
                Ok(QuestionBranch {
                    id: made.id,
                    taken,
                    left: left.into_iter().map(|it| it.name).collect(),
                })
            };
            CompletedCall::Branched(BranchedAsk {
                branch: branch.await,
                text,
                files,
            })
        });
        Ok(())
    }

    pub(super) async fn branched(&mut self, asked: BranchedAsk) -> Result<(), Failure> {
        let BranchedAsk {
            branch,
            text,
            mut files,
        } = asked;
        let branch = match branch {
            Ok(QuestionBranch { id, taken, left }) => {
                for file in &taken {
                    self.display.print_notice(&file_mention::note(file)).await?;
                }
                for name in left {
                    let name = safe::one_line(&name);
                    let told = format!("without the picture {name}; @{name} takes one along");
                    self.display.print_notice(&told).await?;
                }
                files.extend(taken);
                self.outbox.put(id, text, files);
                Ok(id)
            }
            Err(failure) => {
                let kept = KeptQuestion {
                    conversation: self.conversation,
                    text,
                    files,
                    place: KeptPlace::Branch,
                };
                self.keep(kept).await?;
                Err(failure)
            }
        };
        if branch.is_ok() {
            let told = format!(
                "asked anew in a branch; what was answered before stays in {} (:switch)",
                self.title
            );
            self.display.print_notice(&told).await?;
        }
        self.switched(branch).await
    }
}

/// What went along with the question that was asked and does so still: not what is read anew, nor what the text named and names no
/// longer.
fn taken_along(
    asked: &str,
    attached: Vec<AttachedFile>,
    text: &str,
    files: &[AttachedFile],
) -> Vec<AttachedFile> {
    let names = |text: &str, it: &AttachedFile| {
        text.contains(&format!("@{}", it.name)) || text.contains(&format!("@\"{}\"", it.name))
    };
    let is_read = |it: &AttachedFile| files.iter().any(|file| file.name == it.name);
    let attached = attached.into_iter();
    attached
        .filter(|it| !is_read(it) && (names(text, it) || !names(asked, it)))
        .collect()
}

async fn last_question(
    caller: &Caller,
    conversation: ConversationId,
) -> Result<LastQuestion, Failure> {
    let found = last_said::question(caller, conversation).await?;
    found.ok_or_else(|| Failure::new(Exit::USAGE, "nothing has been asked here yet"))
}

async fn detach(caller: &Caller, subscription: SubscriptionId) {
    // Gone already, as that of a conversation that was deleted: it comes to the same.
    drop(caller.call::<Detach>(DetachParams { subscription }).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(asked: &str, text: &str, read: &[&str], expected: &[&str]) {
        let file = |name: &&str| AttachedFile {
            name: (*name).to_owned(),
            text: String::new(),
            kind: AttachedKind::File { lossy: false },
        };
        let attached = ["stdin", "a.txt", "b c.txt"].iter().map(file);
        let read: Vec<AttachedFile> = read.iter().map(file).collect();
        let taken = taken_along(asked, attached.collect(), text, &read);
        let taken: Vec<&str> = taken.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(expected, taken);
    }

    #[test]
    fn what_went_along_does_so_unless_the_text_names_it_no_longer() {
        let asked = "why does @a.txt not fit @\"b c.txt\"";
        check(asked, "why @a.txt", &["a.txt"], &["stdin"]);
        check(asked, "why @a.txt", &[], &["stdin", "a.txt"]);
        check(asked, "why", &[], &["stdin"]);
        check("why", "why so", &[], &["stdin", "a.txt", "b c.txt"]);
    }
}
