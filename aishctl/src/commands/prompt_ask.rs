//! What a prompt says, asked as a question: one of a server, or one that people keep.

use aish_proto::id::ConversationId;
use aish_proto::mcp::{CallPrompt, CallPromptParams};
use aish_proto::prompt;
use aish_proto::turn::{OnConfirm, SendMode, SendResult};
use tokio::io::AsyncWrite;
use ulid::Ulid;

use crate::ask_args::AskArgs;
use crate::client::connect::{Caller, RpcCallError};
use crate::client::daemon_link::{DaemonReach, DaemonWait};
use crate::commands::ask::{self, AskContext, AskTarget};
use crate::commands::ask_progress::{AskProgress, SentTurn, TurnBegin, or_stop};
use crate::commands::mcp::{ASK_DEADLINE, AskPrompt};
use crate::commands::saved_prompt::AskSaved;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;

/// Which prompt, and what it is to be made with.
#[derive(Clone, Debug)]
pub enum PromptRequest {
    Served(AskPrompt),
    Saved(AskSaved),
}

/// A question, the same one however often it is sent.
struct PromptedAsk<'a> {
    prompted: &'a PromptRequest,
    place: AskTarget,
    key: String,
    model: Option<String>,
    on_confirm: Option<OnConfirm>,
}

/// Asks, and prints the answer.
pub async fn run<O: AsyncWrite + Unpin>(
    mut asker: AskContext<'_, O>,
    prompted: &PromptRequest,
) -> Result<Exit, Failure> {
    let done = ask(&mut asker, prompted).await;
    asker.report_failure(&done).await;
    done
}

async fn ask<O: AsyncWrite + Unpin>(
    asker: &mut AskContext<'_, O>,
    prompted: &PromptRequest,
) -> Result<Exit, Failure> {
    asker.listen()?;
    let progress = AskProgress::default();
    let asking = begin(asker.reach, asker.global, prompted, &progress);
    match or_stop(asker.signals, asker.give_up(), &progress, asking).await? {
        TurnBegin::Sent(sent) => {
            let (link, conversation, sent) = *sent;
            asker.answer(link, conversation, &sent).await
        }
        TurnBegin::Stopped(exit) => ask::stopped_by(exit),
    }
}

async fn begin(
    reach: &DaemonReach,
    global: &GlobalArgs,
    prompted: &PromptRequest,
    progress: &AskProgress,
) -> Result<SentTurn, Failure> {
    let mut link = reach.open(DaemonWait::No).await?;
    let usual = AskArgs::default();
    let place = ask::place(reach, global, &link.caller, &usual).await?;
    let on_confirm = ask::on_confirm(&usual, ask::may_prompt(&reach.around, global));
    let question = PromptedAsk {
        prompted,
        place,
        key: Ulid::new().to_string(),
        model: global.model.clone(),
        on_confirm: Some(on_confirm),
    };
    loop {
        progress.sending();
        let within = global.timeout.unwrap_or(ASK_DEADLINE);
        match question.send(&link.caller, within).await {
            Ok(sent) => return Ok((link, question.place.id, sent)),
            // The key makes it the same turn, whether or not it had arrived.
            Err(error) if error.is_transient() && !progress.is_stopped() => {
                link = reach.open(DaemonWait::UntilBack).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Asks in a conversation that somebody looks at.
pub async fn send(
    caller: &Caller,
    conversation: ConversationId,
    prompted: &PromptRequest,
    model: Option<String>,
) -> Result<SendResult, Failure> {
    let question = PromptedAsk {
        prompted,
        place: AskTarget {
            id: conversation,
            new: None,
        },
        key: Ulid::new().to_string(),
        model,
        on_confirm: None,
    };
    Ok(question.send(caller, ASK_DEADLINE).await?)
}

impl PromptedAsk<'_> {
    async fn send(
        &self,
        caller: &Caller,
        within: std::time::Duration,
    ) -> Result<SendResult, RpcCallError> {
        let within = Some(within);
        match self.prompted {
            PromptRequest::Served(args) => {
                let params = CallPromptParams {
                    conversation: self.place.id,
                    alias: args.alias.clone(),
                    name: args.prompt.clone(),
                    arguments: args.arguments.iter().cloned().collect(),
                    new: self.place.new.clone(),
                    idempotency_key: self.key.clone(),
                    mode: SendMode::Queue,
                    model: self.model.clone(),
                    on_confirm: self.on_confirm.clone(),
                    accept_cost: args.accept_cost,
                };
                caller.call_within::<CallPrompt>(params, within).await
            }
            PromptRequest::Saved(args) => {
                let params = prompt::CallParams {
                    conversation: self.place.id,
                    name: args.name.clone(),
                    arguments: args.arguments.iter().cloned().collect(),
                    new: self.place.new.clone(),
                    idempotency_key: self.key.clone(),
                    mode: SendMode::Queue,
                    model: self.model.clone(),
                    on_confirm: self.on_confirm.clone(),
                    accept_cost: args.accept_cost,
                };
                caller.call_within::<prompt::Call>(params, within).await
            }
        }
    }
}
