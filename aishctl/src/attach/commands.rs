//! Lines: what a person said, done.

use std::time::Duration;

use aish_proto::changes::UndoAct;
use aish_proto::shell::{Cancel as CancelOwn, CancelParams, Run, ShellRunParams};
use aish_proto::turn::AgainParams;
use ulid::Ulid;

use super::names::{FoundNames, NamesHurry};
use super::ui::UserInterface;
use super::{CompletedCall, OpenWindow};
use crate::args::CtlCommand;
use crate::colon_line::{self, ColonLine};
use crate::commands::command_context::CommandContext;
use crate::commands::file_mention::{self, AttachedFile, PersonLocation};
use crate::commands::permission::{self, PermissionCommand};
use crate::commands::queue::{self, RepeatKind};
use crate::commands::tools::{self, ToolsCommand};
use crate::commands::undo::WantedChanges;
use crate::commands::{directory_listing, last_said, prompt_ask};
use crate::completion::server_words::WantedCompletion;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::question;

/// A disk that is far away does not hold up a window for long.
const FILES_WITHIN: Duration = Duration::from_secs(2);

impl<U: UserInterface> OpenWindow<U> {
    pub(super) async fn line(&mut self, line: &str) -> Result<(), Failure> {
        match colon_line::read(line, self.conversation) {
            ColonLine::Nothing => {}
            ColonLine::Leave => {
                self.input_ended = true;
                self.leaving = true;
            }
            ColonLine::Told(text) => self.display.print_notice(&text).await?,
            ColonLine::Question(_)
            | ColonLine::Now(_)
            | ColonLine::Run(_)
            | ColonLine::Edit(_)
            | ColonLine::New(_)
                if self.window.args.read_only =>
            {
                self.display
                    .print_notice("this window is read-only")
                    .await?;
            }
            ColonLine::Question(text) => self.question(text).await?,
            ColonLine::Run(command) => {
                if self.has_editor() {
                    self.display.typed(&format!("!{command}"));
                }
                self.run_command(command);
            }
            ColonLine::Now(text) => {
                let Some(files) = self.files(&text).await? else {
                    return Ok(());
                };
                self.cancel();
                self.outbox.put_first(self.conversation, text, files);
            }
            ColonLine::SendCostly => {
                if !self.outbox.accept_cost() {
                    let told = "no question waits for that";
                    self.display.print_notice(told).await?;
                }
            }
            ColonLine::Switch(name) => self.look_for(name),
            ColonLine::New(title) => self.begin_new(title),
            ColonLine::Pick if self.has_editor() => self.list_to_pick(),
            ColonLine::Pick => {
                let told = "where? (:switch NAME, :conv ls)";
                self.display.print_notice(told).await?;
            }
            ColonLine::Edit(Some(text)) => self.ask_anew(text).await?,
            ColonLine::Edit(None) if self.has_editor() => self.begin_edit().await?,
            ColonLine::Edit(None) => {
                let told = "what? (:edit TEXT is asked instead of the last question, in a branch)";
                self.display.print_notice(told).await?;
            }
            ColonLine::Copy(part) => self.look_up_to_copy(part),
            ColonLine::Thinking(None) => self.look_up_thought(),
            ColonLine::Thinking(Some(shows)) => self.show_thinking(shows).await?,
            ColonLine::Command(parsed) => {
                if !self.allowed(&parsed.1).await? {
                    self.command(parsed.0, parsed.1);
                }
            }
        }
        Ok(())
    }

    async fn question(&mut self, text: String) -> Result<(), Failure> {
        let Some(files) = self.files(&text).await? else {
            return Ok(());
        };
        if self.has_editor() {
            self.display.typed(&text);
            let waits = self.asked.holding();
            if let Some(waits) = waits.filter(|_| self.turns.running.is_some()) {
                let yes = if question::wants_whole_word(waits) {
                    "yes"
                } else {
                    "y"
                };
                let number = waits.number;
                let told = format!("c{number} waits ({yes}, n, n WHY, ?): this is asked after it");
                self.display.print_notice(&told).await?;
            }
        }
        if self.connection.is_lost() {
            self.display
                .print_notice("kept until aishd is back")
                .await?;
        }
        self.outbox.put(self.conversation, text, files);
        Ok(())
    }

    async fn show_thinking(&mut self, shows: bool) -> Result<(), Failure> {
        self.shows_thinking = shows;
        self.rows.show_thinking(shows);
        let told = if shows {
            "what models think is shown as it comes; :thinking off"
        } else {
            "what models think is one row while it lasts; :thinking shows the last of it"
        };
        self.display.print_notice(told).await
    }

    fn look_up_thought(&mut self) {
        let (caller, conversation) = (self.connection.caller(), self.conversation);
        self.calls.spawn(async move {
            let thought = last_said::thought(&caller, conversation).await;
            let thought = thought.map_err(Failure::from).and_then(|it| {
                let none = "no model has said here what it thinks";
                it.ok_or_else(|| Failure::new(Exit::USAGE, none))
            });
            CompletedCall::Thought(thought)
        });
    }

    /// A command of this person, run by the daemon where the conversation is.
    fn run_command(&mut self, command: String) {
        self.own.submitted();
        let caller = self.connection.caller();
        let params = ShellRunParams {
            conversation: self.conversation,
            command: command.clone(),
            cwd: None,
            into_context: true,
        };
        self.calls
            .spawn(async move { CompletedCall::Ran(command, caller.call::<Run>(params).await) });
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
        self.calls.spawn(async move {
            CompletedCall::Quiet(caller.call::<CancelOwn>(params).await.map(drop))
        });
    }

    /// What a question names with an `@`; `None`: it cannot be taken along, and a person was told why.
    pub(super) async fn files(
        &mut self,
        question: &str,
    ) -> Result<Option<Vec<AttachedFile>>, Failure> {
        if !question.contains('@') {
            return Ok(Some(vec![]));
        }
        let (question, here) = (
            question.to_owned(),
            PersonLocation::of(&self.window.reach.around, Some(directory_listing::of)),
        );
        let reading = tokio::task::spawn_blocking(move || file_mention::read(&question, &here));
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
                    self.display.print_notice(&file_mention::note(file)).await?;
                }
                Ok(Some(files))
            }
            Err(failure) => self.display.refuse(&failure).await.map(|()| None),
        }
    }

    fn command(&mut self, global: GlobalArgs, command: CtlCommand) {
        let caller = self.connection.caller();
        if let CtlCommand::Retry(args) | CtlCommand::Continue(args) = &command {
            let again = if matches!(command, CtlCommand::Retry(_)) {
                RepeatKind::Retry
            } else {
                RepeatKind::Continue
            };
            let params = AgainParams {
                conversation: self.conversation,
                turn: args.turn.as_deref().and_then(|it| it.parse().ok()),
                idempotency_key: Ulid::new().to_string(),
                model: global.model,
                accept_cost: args.accept_cost,
            };
            let conversation = self.conversation;
            self.calls.spawn(async move {
                CompletedCall::Again(conversation, queue::send(&caller, again, params).await)
            });
            return;
        }
        if let Some(prompted) = crate::dispatch::prompt_request(&command) {
            let conversation = self.conversation;
            self.calls.spawn(async move {
                let sent = prompt_ask::send(&caller, conversation, &prompted, global.model);
                CompletedCall::Again(conversation, sent.await)
            });
            return;
        }
        if let CtlCommand::Tools {
            command: Some(ToolsCommand::Run(args)),
        } = command
        {
            let conversation = self.conversation;
            self.calls.spawn(async move {
                CompletedCall::Again(
                    conversation,
                    tools::send(&caller, conversation, &args).await,
                )
            });
            return;
        }
        let mut around = self.window.reach.around.clone();
        around.stdout_columns = self.display.ui.columns();
        let context = CommandContext {
            caller,
            around,
            global,
            may_prompt: false,
            editor: self.connection.link.hello.ui.editor.clone(),
            draws: self.pictures.support(),
            picture_area: self.picture_area(),
        };
        if !context.global.json && !context.global.jsonl {
            match command {
                CtlCommand::Undo { changes, earlier } => {
                    let wanted = WantedChanges::new(changes, earlier);
                    return self.undo(context, UndoAct::Undo, wanted);
                }
                CtlCommand::Redo { changes } => {
                    let wanted = WantedChanges::new(changes, false);
                    return self.undo(context, UndoAct::Redo, wanted);
                }
                _ => {}
            }
        }
        self.calls.spawn(async move {
            // It is this window that stays.
            let printed = if let CtlCommand::Perm {
                command: Some(PermissionCommand::Auto(args)),
            } = &command
            {
                permission::set(&context, args).await
            } else {
                context.run(&command).await
            };
            CompletedCall::Printed(printed)
        });
    }

    /// Asks for the names that Tab and the prompt show, and a server for what it knows of the word that is typed.
    pub(super) fn look_up_names(&mut self, wish: Option<WantedCompletion>, hurry: NamesHurry) {
        let asked = FoundNames::ask(self.connection.caller(), wish, hurry);
        self.calls
            .spawn(async move { CompletedCall::Named(asked.await) });
    }

    pub(super) fn names_came(&mut self, found: FoundNames) {
        let asks_again = self.names.take(found);
        self.display.ui.names(self.names.known.clone());
        if asks_again {
            self.look_up_names(None, NamesHurry::Whenever);
        }
    }
}
