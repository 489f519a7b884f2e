//! `ask`: one question, its answer on stdout.

pub(crate) mod pictures;
mod sending;
mod target;

use std::io::Read;

use aish_proto::attach::Cursor;
use aish_proto::event::{CalledTool, FallbackUsed};
use aish_proto::id::{ConversationId, Seq};
use aish_proto::turn::{SendResult, StopReason, TurnError};
use aish_proto::usage::{Usage, Usd};
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use crate::ask_args::AskArgs;
use crate::client::daemon_link::{DaemonLink, DaemonReach};
use crate::commands::ask::pictures::{PictureDrawer, TurnPictures};
pub(crate) use crate::commands::ask::sending::put_blob;
pub(crate) use crate::commands::ask::target::{AskTarget, may_prompt, on_confirm, place};
use crate::commands::ask_progress::{AskProgress, TurnBegin, or_stop};
use crate::commands::directory_listing::DirectoryLister;
use crate::commands::file_mention::PersonLocation;
use crate::commands::follow::{FollowAnswerer, FollowOptions, FollowOutcome, FollowTarget};
use crate::commands::result_picture::{self, ResultPicture};
use crate::commands::{input, norris, route};
use crate::exit::{self, Exit};
use crate::failure::{self, Failure};
use crate::global_args::GlobalArgs;
use crate::picture::protocol::PictureSupport;
use crate::render::call_frame::CallFrames;
use crate::render::command_frame::CommandFrames;
use crate::render::extract;
use crate::render::notice::Notices;
use crate::render::output::{AnswerOutput, AskReport, OutputForm, ReportedError, ReportedFallback};
use crate::render::screen;
use crate::render::turn_stream::StreamedAnswer;
use crate::signals::ClientSignals;

/// What `ask`, `retry` and `continue` work with.
#[derive(Debug)]
pub struct AskContext<'a, O> {
    pub reach: &'a DaemonReach,
    pub global: &'a GlobalArgs,
    pub notices: &'a mut Notices,
    pub output: &'a mut AnswerOutput<O>,
    pub signals: &'a mut ClientSignals,
    pub began: Instant,
    /// What lists directories that a question names.
    pub list: Option<DirectoryLister>,
    /// What draws pictures below an answer.
    pub(crate) draw: Option<PictureDrawer>,
}

/// Asks and prints the answer.
pub async fn run<O: AsyncWrite + Unpin>(
    mut asker: AskContext<'_, O>,
    args: &AskArgs,
    stdin: &mut dyn Read,
) -> Result<Exit, Failure> {
    let done = asker.ask(args, stdin).await;
    asker.report_failure(&done).await;
    done
}

impl<O: AsyncWrite + Unpin> AskContext<'_, O> {
    async fn ask(&mut self, args: &AskArgs, stdin: &mut dyn Read) -> Result<Exit, Failure> {
        let mut given = input::read(args, stdin, self.reach.around.stdin_terminal)?;
        if !args.as_it_stands {
            given.add_named(&PersonLocation::of(&self.reach.around, self.list))?;
        }
        self.listen()?;
        let give_up = self.give_up();
        let progress = AskProgress::default();
        let asking = sending::begin(
            self.reach,
            self.global,
            self.notices,
            args,
            given,
            &progress,
        );
        let begun = or_stop(self.signals, give_up, &progress, asking).await?;
        let (link, conversation, sent) = match begun {
            TurnBegin::Sent(sent) => *sent,
            TurnBegin::Stopped(exit) => return stopped_by(exit),
        };
        if args.detach {
            return self.detached(conversation, &sent).await;
        }
        self.answer(link, conversation, &sent).await
    }

    /// When `--timeout` is over.
    pub fn give_up(&self) -> Option<Instant> {
        self.global.timeout.map(|it| self.began + it)
    }

    /// From here on a signal cancels the turn instead of ending the process.
    pub fn listen(&mut self) -> Result<(), Failure> {
        let failed =
            |error| Failure::new(Exit::FAILED, format!("cannot listen for signals: {error}"));
        self.signals.listen().map_err(failed)
    }

    /// Says which turn it is, and leaves it to itself.
    pub(crate) async fn detached(
        &mut self,
        conversation: ConversationId,
        sent: &SendResult,
    ) -> Result<Exit, Failure> {
        let turn = sent.turn;
        let line = match self.output.form {
            OutputForm::Json | OutputForm::Events => {
                serde_json::json!({"v": 1, "conversation": conversation, "turn": turn, "position": sent.position}).to_string()
            }
            OutputForm::Text | OutputForm::Code | OutputForm::Commands | OutputForm::Line | OutputForm::Results => turn.to_string(),
        };
        self.output
            .json_line(&line)
            .await
            .map_err(|it| Failure::output(&it))?;
        self.notices
            .print(&format!("the answer: aishctl log {conversation}"));
        Ok(Exit::DONE)
    }

    /// Follows a turn that was sent and prints its answer.
    pub async fn answer(
        &mut self,
        link: DaemonLink,
        conversation: ConversationId,
        sent: &SendResult,
    ) -> Result<Exit, Failure> {
        let followed = self.follow(link, conversation, sent).await?;
        self.finish(conversation, followed).await
    }

    /// Follows a turn that was sent to its end.
    pub(crate) async fn follow(
        &mut self,
        link: DaemonLink,
        conversation: ConversationId,
        sent: &SendResult,
    ) -> Result<FollowOutcome, Failure> {
        let before = Seq(sent.seq.0.saturating_sub(1));
        let target = FollowTarget {
            conversation,
            turn: sent.turn,
            cursor: Cursor {
                epoch: link.hello.epoch,
                seq: before,
            },
        };
        let give_up = self.give_up();
        let asks = self.asks();
        let glyphs = screen::glyphs(self.global.looks, &self.reach.around);
        let follow = FollowOptions {
            reach: self.reach,
            signals: self.signals,
            notices: self.notices,
            output: self.output,
            give_up,
            began: self.began,
            asks,
            frames: CommandFrames::drawn_with(glyphs),
            calls: CallFrames::default()
                .drawn_with(glyphs)
                .in_columns(self.reach.around.stdout_columns),
        };
        let followed = follow.run(link, target).await;
        self.notices.settle();
        if followed.is_err() {
            // What was held back is all that there will be.
            drop(self.output.end_text().await);
        }
        followed
    }

    fn asks(&self) -> FollowAnswerer {
        if may_prompt(&self.reach.around, self.global) {
            FollowAnswerer::Here
        } else {
            FollowAnswerer::Elsewhere
        }
    }

    async fn finish(
        &mut self,
        conversation: ConversationId,
        followed: FollowOutcome,
    ) -> Result<Exit, Failure> {
        let FollowOutcome {
            link,
            answer,
            stopped,
            stuck,
        } = followed;
        if let (true, Some(exit)) = (stuck, stopped) {
            return Ok(exit);
        }
        let ended = answer.ended.as_ref();
        let error = ended.and_then(|it| it.error.as_ref());
        // Whoever wants commands to read wanted none of them to run.
        let denied = match self.output.form {
            OutputForm::Code | OutputForm::Commands | OutputForm::Line => {
                answer.denied.saturating_sub(answer.commands_denied)
            }
            OutputForm::Text | OutputForm::Json | OutputForm::Events | OutputForm::Results => {
                answer.denied
            }
        };
        let done = match (stopped, ended) {
            (Some(exit), _) => stopped_by(exit),
            (None, Some(ended)) => answer
                .run
                .as_ref()
                .and_then(|it| norris::concluded(it, answer.budget_hint.is_some()))
                .or_else(|| self.only_proposed(ended.stop_reason, &answer))
                .unwrap_or_else(|| outcome(conversation, ended.stop_reason, error, &answer))
                .map(|exit| with_denials(exit, denied))
                .map_err(|failure| match &answer.budget_hint {
                    Some(hint) if failure.exit == Exit::BUDGET => failure.hint(hint),
                    Some(_) | None => failure,
                }),
            (None, None) => Err(Failure::new(Exit::FAILED, "the answer did not end").hint(
                format!("aishctl log {conversation} shows what there is of it"),
            )),
        };
        let written = match self.output.form {
            OutputForm::Text | OutputForm::Results => {
                let well = done.is_ok().then_some(&answer);
                self.end_text(&link, conversation, well).await
            }
            OutputForm::Json => {
                let report = AskReport {
                    conversation: Some(conversation),
                    turn: Some(answer.turn),
                    model: answer.model.as_deref(),
                    routed: answer.routed.map(route::name),
                    answered: answer.answered.as_ref(),
                    fallback: answer.fell_back.iter().map(in_vain).collect(),
                    text: answer.text(),
                    tool_calls: &answer.tool_calls,
                    pictures: &answer.pictures,
                    denied: answer.denied,
                    usage: ended.and_then(|it| it.usage).map(Into::into),
                    cost_usd: ended.and_then(|it| it.usage).and_then(cost_usd),
                    stop_reason: ended.map(|it| it.stop_reason),
                    error: error
                        .map(reported)
                        .or_else(|| done.as_ref().err().map(failed)),
                    ..self.blank(&[])
                };
                self.print(&report).await.map(|()| true)
            }
            OutputForm::Events => Ok(true),
            OutputForm::Code | OutputForm::Commands | OutputForm::Line => {
                self.output
                    .extracted(answer.text(), &answer.tool_calls)
                    .await
            }
        };
        match written {
            Ok(false) if done.is_ok() => Err(nothing_extracted(self.output.form, conversation)),
            Ok(_) => done,
            Err(error) => Err(Failure::output(&error)),
        }
    }

    /// The end of the line, and below it the pictures of an answer that ended well, where the terminal draws them.
    async fn end_text(
        &mut self,
        link: &DaemonLink,
        conversation: ConversationId,
        answer: Option<&StreamedAnswer>,
    ) -> std::io::Result<bool> {
        self.output.end_line().await?;
        let draw = self.draw.filter(|_| link.hello.ui.pictures);
        let (Some(draw), Some(answer)) = (draw, answer) else {
            return Ok(true);
        };
        let results = answer.results.iter();
        let results = results.map(|it| (&*it.name, &it.blocks));
        let made = (result_picture::MODEL, &answer.pictures);
        let pictures: Vec<_> = results
            .chain([made])
            .flat_map(|(tool, blocks)| ResultPicture::of(conversation, tool, blocks))
            .collect();
        if pictures.is_empty() {
            return Ok(true);
        }
        let drawn = draw(TurnPictures {
            caller: link.caller.clone(),
            support: PictureSupport::of(self.global.looks, &self.reach.around),
            pictures,
        });
        for picture in drawn.await {
            self.output.picture(&picture.name, &picture.drawing).await?;
        }
        Ok(true)
    }

    /// Whoever wants commands to read has them, also where the model said nothing else and none of them ran.
    fn only_proposed(
        &self,
        reason: StopReason,
        answer: &StreamedAnswer,
    ) -> Option<Result<Exit, Failure>> {
        let ended_well = matches!(
            reason,
            StopReason::End | StopReason::Denied | StopReason::NoApprover
        );
        let proposed = self.output.form == OutputForm::Commands
            && !extract::called_commands(&answer.tool_calls).is_empty();
        (ended_well && proposed).then_some(Ok(Exit::DONE))
    }

    /// A script that asked for JSON gets JSON, also where no turn came to be.
    pub async fn report_failure(&mut self, done: &Result<Exit, Failure>) {
        let Err(failure) = done else { return };
        if self.output.form != OutputForm::Json
            || self.output.open_line
            || failure.message.is_empty()
        {
            return;
        }
        if self.output.reported {
            return;
        }
        let report = AskReport {
            error: Some(failed(failure)),
            ..self.blank(&[])
        };
        drop(self.print(&report).await);
    }

    async fn print(&mut self, report: &AskReport<'_>) -> std::io::Result<()> {
        self.output.reported = true;
        let line = serde_json::to_string(report)?;
        self.output.json_line(&line).await
    }

    fn blank<'a>(&self, tool_calls: &'a [CalledTool]) -> AskReport<'a> {
        AskReport {
            v: 1,
            conversation: None,
            turn: None,
            model: None,
            routed: None,
            answered: None,
            fallback: vec![],
            text: "",
            tool_calls,
            pictures: &[],
            denied: 0,
            usage: None,
            cost_usd: None,
            ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            stop_reason: None,
            error: None,
        }
    }
}

/// An answer that has nothing of what was to be taken out of it.
fn nothing_extracted(form: OutputForm, conversation: ConversationId) -> Failure {
    let (problem, flag) = match form {
        OutputForm::Code => ("the answer has no code block", "; ask again without --code"),
        OutputForm::Line => ("the answer is not one plain line of code", ""),
        OutputForm::Commands
        | OutputForm::Text
        | OutputForm::Json
        | OutputForm::Events
        | OutputForm::Results => ("the answer has no command", "; ask again without --cmd"),
    };
    let hint = format!("aishctl log {conversation} shows it{flag}");
    Failure::new(Exit::FAILED, problem).hint(hint)
}

/// Of all requests of a turn, or nothing: a part of it would be taken for the whole.
fn cost_usd(usage: Usage) -> Option<f64> {
    let cost = usage.cost_usd.filter(|_| usage.unpriced == 0);
    cost.map(Usd::dollars)
}

/// A complete answer in whose making something was not permitted has a code of its own.
fn with_denials(exit: Exit, denied: u32) -> Exit {
    if exit == Exit::DONE && denied > 0 {
        Exit::DENIED
    } else {
        exit
    }
}

pub fn stopped_by(exit: Exit) -> Result<Exit, Failure> {
    if exit == Exit::TIMEOUT {
        return Err(Failure::new(
            exit,
            "the time is over; the answer was stopped where it was",
        )
        .hint("give it longer with --timeout"));
    }
    Ok(exit)
}

/// How the program ends, and what it says, after the turn ended like this.
fn outcome(
    conversation: ConversationId,
    reason: StopReason,
    error: Option<&TurnError>,
    answer: &StreamedAnswer,
) -> Result<Exit, Failure> {
    let exit = exit::of_turn(reason, error);
    let again = format!("aishctl retry {conversation}   or   aishctl continue {conversation}");
    let (what, hint) = match reason {
        StopReason::End if answer.text().is_empty() && answer.pictures.is_empty() => {
            return Err(
                Failure::new(Exit::FAILED, "the model answered with nothing")
                    .hint(format!("aishctl retry {conversation}")),
            );
        }
        StopReason::End => return Ok(exit),
        StopReason::ToolDepth => ("the limit of tool calls in a row is reached", again),
        StopReason::MaxTokens => (
            "the answer was cut at the model's limit of tokens",
            format!("aishctl continue {conversation}"),
        ),
        StopReason::Refusal => ("the model refused", String::new()),
        StopReason::Cancelled => ("the turn was cancelled elsewhere", again),
        StopReason::Denied => ("an action was not permitted", String::new()),
        StopReason::NoApprover => (
            "an action needed approval and nobody was there to give it",
            String::new(),
        ),
        StopReason::Budget => (
            "the budget is used up",
            format!(
                "aishctl conv budget {conversation}   and   aishctl usage   show what was spent"
            ),
        ),
        StopReason::Upstream => (
            "the model's server failed",
            error.and_then(|it| it.hint.clone()).unwrap_or_else(|| {
                let answers = error.is_some_and(failure::is_of_server);
                upstream_hint(exit, &again, answer.model.as_deref(), answers)
            }),
        ),
        StopReason::Interrupted => (
            "the answer was interrupted: aishd ended while it was being written",
            again,
        ),
    };
    let message = error.map_or_else(|| what.to_owned(), failure::of_turn);
    let failure = Failure::new(exit, message);
    Err(if hint.is_empty() {
        failure
    } else {
        failure.hint(hint)
    })
}

/// `answers`: there is a server, and it has an error of its own.
fn upstream_hint(exit: Exit, again: &str, preset: Option<&str>, answers: bool) -> String {
    match exit {
        Exit::UNREACHABLE if answers => {
            format!("its server has an error of its own: {again}, or use another with -m")
        }
        Exit::KEY => {
            "set the key's variable in this shell (aishctl lends it to aishd), then ask again"
                .to_owned()
        }
        Exit::UNREACHABLE => {
            let start = preset.map_or_else(String::new, |it| {
                format!("start the server of models.{it}: ")
            });
            format!("{start}aishctl model probe shows what answers; or use another with -m")
        }
        _ => again.to_owned(),
    }
}

fn in_vain(used: &FallbackUsed) -> ReportedFallback<'_> {
    ReportedFallback {
        from: &used.from,
        to: &used.to,
        reason: &used.reason,
    }
}

fn reported(error: &TurnError) -> ReportedError {
    let class = serde_json::to_value(error.class)
        .ok()
        .and_then(|it| it.as_str().map(str::to_owned));
    ReportedError {
        class: class.unwrap_or_default(),
        message: error.message.clone(),
        cause: error.cause.clone(),
        hint: error.hint.clone(),
    }
}

fn failed(failure: &Failure) -> ReportedError {
    let class = match failure.exit {
        Exit::USAGE => "usage",
        Exit::NO_DAEMON => "noDaemon",
        Exit::LIMIT => "limit",
        Exit::UNKNOWN => "notFound",
        Exit::BUDGET => "budget",
        Exit::CONFIG => "invalidConfig",
        Exit::TIMEOUT => "timeout",
        _ => "failed",
    };
    ReportedError {
        class: class.to_owned(),
        message: failure.message.clone(),
        cause: None,
        hint: failure.hint.clone(),
    }
}

#[cfg(test)]
mod tests;
