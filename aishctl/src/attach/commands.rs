//! Lines: what a person said, done.

use std::time::Duration;

use aish_proto::conversation::{List, ListParams};
use aish_proto::method::Empty;
use aish_proto::shell::{Cancel as CancelOwn, CancelParams, Run, RunParams};
use aish_proto::turn::AgainParams;
use ulid::Ulid;

use super::ui::{Names, Ui};
use super::{Done, Open};
use crate::args::{Command, Global};
use crate::colon::{self, Said};
use crate::desk::Desk;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::listing;
use crate::named_file::{self, Attached, Here};
use crate::permission::Perm;
use crate::prompted::{self, Prompted};
use crate::queue::{self, Again};
use crate::tools::{self, Tools};
use crate::unasked;

/// A disk that is far away does not hold up a window for long.
const FILES_WITHIN: Duration = Duration::from_secs(2);
/// Tab does not wait for a slow daemon.
const NAMES_WITHIN: Duration = Duration::from_millis(100);

impl<U: Ui> Open<U> {
    pub(super) async fn line(&mut self, line: &str) -> Result<(), Failure> {
        match colon::read(line, self.conversation) {
            Said::Nothing => {}
            Said::Leave => {
                self.input_ended = true;
                self.leaving = true;
            }
            Said::Told(text) => self.display.tell(&text).await?,
            Said::Question(_) | Said::Now(_) | Said::Run(_) if self.window.args.read_only => {
                self.display.tell("this window is read-only").await?;
            }
            Said::Question(text) => {
                let Some(files) = self.files(&text).await? else {
                    return Ok(());
                };
                if self.has_editor() {
                    self.display.typed(&text);
                }
                if self.connection.is_lost() {
                    self.display.tell("kept until aishd is back").await?;
                }
                self.outbox.put(self.conversation, text, files);
            }
            Said::Run(command) => {
                if self.has_editor() {
                    self.display.typed(&format!("!{command}"));
                }
                self.run_command(command);
            }
            Said::Now(text) => {
                let Some(files) = self.files(&text).await? else {
                    return Ok(());
                };
                self.cancel();
                self.outbox.put_first(self.conversation, text, files);
            }
            Said::Switch(name) => self.look_for(name),
            Said::Command(parsed) => {
                if !self.allowed(&parsed.1).await? {
                    self.command(parsed.0, parsed.1);
                }
            }
        }
        Ok(())
    }

    /// A command of this person, run by the daemon where the conversation is.
    fn run_command(&mut self, command: String) {
        self.own.asks();
        let caller = self.connection.caller();
        let params = RunParams {
            conversation: self.conversation,
            command: command.clone(),
            cwd: None,
            into_context: true,
        };
        self.calls
            .spawn(async move { Done::Ran(command, caller.call::<Run>(params).await) });
    }

    /// Ctrl-C ends the command of this person that runs, before anything of a model.
    pub(super) fn cancel_command(&mut self) -> bool {
        let Some(call) = self.own.to_cancel().cloned() else {
            return false;
        };
        self.cancel_call(call);
        true
    }

    /// Where nothing else runs, it ends the command that runs, whoever began it.
    pub(super) fn cancel_anybodys(&mut self) -> bool {
        let Some(command) = &self.turns.command else {
            return false;
        };
        self.cancel_call(command.call.clone());
        true
    }

    fn cancel_call(&mut self, call: String) {
        let params = CancelParams {
            conversation: self.conversation,
            call,
        };
        let caller = self.connection.caller();
        self.calls
            .spawn(async move { Done::Quiet(caller.call::<CancelOwn>(params).await.map(drop)) });
    }

    /// What a question names with an `@`; `None`: it cannot be taken along, and a person was told why.
    async fn files(&mut self, question: &str) -> Result<Option<Vec<Attached>>, Failure> {
        if !question.contains('@') {
            return Ok(Some(vec![]));
        }
        let (question, here) = (
            question.to_owned(),
            Here::of(&self.window.reach.around, Some(listing::of)),
        );
        let reading = tokio::task::spawn_blocking(move || named_file::read(&question, &here));
        let read = match tokio::time::timeout(FILES_WITHIN, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(_)) | Err(_) => Err(Failure::new(
                Exit::FAILED,
                "a file that is named with @ does not answer; the line was not sent",
            )
            .hint("send it without that file; \\@ is an @ that names nothing")),
        };
        match read {
            Ok(files) => {
                for file in &files {
                    self.display.tell(&named_file::note(file)).await?;
                }
                Ok(Some(files))
            }
            Err(failure) => self.display.refuse(&failure).await.map(|()| None),
        }
    }

    fn command(&mut self, global: Global, command: Command) {
        let caller = self.connection.caller();
        if let Command::Retry(args) | Command::Continue(args) = &command {
            let again = if matches!(command, Command::Retry(_)) {
                Again::Retry
            } else {
                Again::Continue
            };
            let params = AgainParams {
                conversation: self.conversation,
                turn: args.turn.as_deref().and_then(|it| it.parse().ok()),
                idempotency_key: Ulid::new().to_string(),
                model: global.model,
            };
            let conversation = self.conversation;
            self.calls.spawn(async move {
                Done::Again(conversation, queue::send(&caller, again, params).await)
            });
            return;
        }
        if let Some(prompted) = Prompted::of(&command) {
            let conversation = self.conversation;
            self.calls.spawn(async move {
                let sent = prompted::send(&caller, conversation, &prompted, global.model);
                Done::Again(conversation, sent.await)
            });
            return;
        }
        if let Command::Tools {
            command: Tools::Run(args),
        } = command
        {
            let conversation = self.conversation;
            self.calls.spawn(async move {
                Done::Again(
                    conversation,
                    tools::send(&caller, conversation, &args).await,
                )
            });
            return;
        }
        let desk = Desk {
            caller,
            around: self.window.reach.around.clone(),
            global,
            may_prompt: false,
            editor: self.connection.link.hello.ui.editor.clone(),
        };
        self.calls.spawn(async move {
            // It is this window that stays.
            let printed = if let Command::Perm {
                command: Some(Perm::Auto(args)),
            } = &command
            {
                unasked::set(&desk, args).await
            } else {
                desk.run(&command).await
            };
            Done::Printed(printed)
        });
    }

    /// Asks for the names that Tab and the prompt show.
    pub(super) fn look_up_names(&mut self) {
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            let conversations =
                caller.call_within::<List>(ListParams::default(), Some(NAMES_WITHIN));
            let models =
                caller.call_within::<aish_proto::model::List>(Empty {}, Some(NAMES_WITHIN));
            let (conversations, models) = tokio::join!(conversations, models);
            let mut names = Names::default();
            if let Ok(found) = conversations {
                names.conversations = found.conversations.into_iter().map(|it| it.title).collect();
            }
            let mut chosen = None;
            if let Ok(found) = models {
                chosen = found
                    .models
                    .iter()
                    .find(|it| it.default)
                    .map(|it| it.name.clone());
                names.models = found.models.into_iter().map(|it| it.name).collect();
            }
            Done::Named(names, chosen)
        });
    }
}
