//! `mcp ask`: what a prompt of a server says, asked as a question (MCP-14).

use aish_proto::id::ConversationId;
use aish_proto::mcp::{CallPrompt, CallPromptParams};
use aish_proto::turn::{OnConfirm, SendMode, SendResult};
use tokio::io::AsyncWrite;
use ulid::Ulid;

use super::{ASK_DEADLINE, AskPrompt};
use crate::args::{AskArgs, Global};
use crate::ask::{self, Asker, Place};
use crate::connect::Caller;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hello::{Reach, Wait};
use crate::receipt::{Begun, Progress, Sent, or_stop};

/// Asks, and prints the answer.
pub async fn run<O: AsyncWrite + Unpin>(
    mut asker: Asker<'_, O>,
    args: &AskPrompt,
) -> Result<Exit, Failure> {
    let done = answered(&mut asker, args).await;
    asker.report_failure(&done).await;
    done
}

async fn answered<O: AsyncWrite + Unpin>(
    asker: &mut Asker<'_, O>,
    args: &AskPrompt,
) -> Result<Exit, Failure> {
    asker.listen()?;
    let progress = Progress::default();
    let asking = begin(asker.reach, asker.global, args, &progress);
    match or_stop(asker.signals, asker.give_up(), &progress, asking).await? {
        Begun::Sent(sent) => {
            let (link, conversation, sent) = *sent;
            asker.answer(link, conversation, &sent).await
        }
        Begun::Stopped(exit) => ask::stopped_by(exit),
    }
}

async fn begin(
    reach: &Reach,
    global: &Global,
    args: &AskPrompt,
    progress: &Progress,
) -> Result<Sent, Failure> {
    let mut link = reach.open(Wait::No).await?;
    let usual = AskArgs::default();
    let place = ask::place(reach, global, &link.caller, &usual).await?;
    let on_confirm = ask::on_confirm(&usual, ask::may_prompt(&reach.around, global));
    let conversation = place.id;
    let params = params(args, place, global.model.clone(), Some(on_confirm));
    loop {
        progress.sending();
        let deadline = Some(global.timeout.unwrap_or(ASK_DEADLINE));
        let asking = link
            .caller
            .call_within::<CallPrompt>(params.clone(), deadline);
        match asking.await {
            Ok(sent) => return Ok((link, conversation, sent)),
            // The key makes it the same turn, whether or not it had arrived.
            Err(error) if error.is_transient() && !progress.is_stopped() => {
                link = reach.open(Wait::UntilBack).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Asks in a conversation that somebody looks at.
pub async fn send(
    caller: &Caller,
    conversation: ConversationId,
    args: &AskPrompt,
    model: Option<String>,
) -> Result<SendResult, Failure> {
    let place = Place {
        id: conversation,
        new: None,
    };
    let params = params(args, place, model, None);
    let sent = caller.call_within::<CallPrompt>(params, Some(ASK_DEADLINE));
    Ok(sent.await?)
}

fn params(
    args: &AskPrompt,
    place: Place,
    model: Option<String>,
    on_confirm: Option<OnConfirm>,
) -> CallPromptParams {
    CallPromptParams {
        conversation: place.id,
        alias: args.alias.clone(),
        name: args.prompt.clone(),
        arguments: args.arguments.iter().cloned().collect(),
        new: place.new,
        idempotency_key: Ulid::new().to_string(),
        mode: SendMode::Queue,
        model,
        on_confirm,
    }
}
