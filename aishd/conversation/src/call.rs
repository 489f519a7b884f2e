//! Running one call of a tool, outside the actor. It is started once: whoever drops it leaves an effect that
//! nobody knows.

use std::panic::AssertUnwindSafe;

use aish_proto::id::{ConversationId, Seq, TurnId};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::doing::Word;
use super::elicit::{self, Asking};
use super::kept::kept;
use super::purse::Purse;
use super::quota::Quota;
use super::view::Teller;
use super::{resource, sample};
use aishd_broker::Broker;
use aishd_log::access::Access;
use aishd_rules::gate::Go;
use aishd_store::Store;
use aishd_tools::builtin;
use aishd_tools::{Output, Tools, Work, returned};
use aishd_turn::turn::{Input, Returned};

/// One call that was let through, with what it may need.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) conversation: ConversationId,
    /// The log as it was.
    pub(super) head: Seq,
    pub(super) call: String,
    /// The directory of the conversation.
    pub(super) cwd: String,
    pub(super) go: Go,
    pub(super) tools: Tools,
    pub(super) store: Store,
    pub(super) broker: Broker,
    /// The level that it was let through with.
    pub(super) needs: Access,
    /// Characters of the result that the model is shown.
    pub(super) max_chars: usize,
    pub(super) token: CancellationToken,
    pub(super) doing: Teller,
    /// Where the questions of its server go.
    pub(super) forms: mpsc::Sender<Asking>,
    /// Pays for models that its server wants.
    pub(super) purse: Purse,
    pub(super) turn: TurnId,
}

/// Runs it to its end, or until the turn is stopped. A panic in it is its failure and nothing worse.
pub(super) async fn run(started: Started) -> Input {
    let begun = Instant::now();
    let call = started.call.clone();
    let token = started.token.clone();
    let (max_chars, needs) = (started.max_chars, started.needs);
    let doing = started.doing.clone();
    let work = AssertUnwindSafe(output(started)).catch_unwind();
    let returned = match token.run_until_cancelled(work).await {
        Some(Ok(output)) => {
            let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            Returned {
                needs,
                ..returned(output, ms, max_chars)
            }
        }
        Some(Err(_panic)) => failed("[aish] tool dispatch failed: internal error"),
        // The turn is over already; this is not heard any more.
        None => Returned::default(),
    };
    doing.forget(&call);
    let returned = Box::new(returned);
    Input::ToolReturned { call, returned }
}

fn failed(content: &str) -> Returned {
    Returned {
        content: content.to_owned(),
        notice: Some(content.to_owned()),
        ..Returned::default()
    }
}

async fn output(started: Started) -> Output {
    match started.tools.work(&started.go) {
        Work::Refused(text) => Output::failed(text),
        Work::Mcp => {
            let said = |said| {
                started.doing.say(Word {
                    turn: started.turn,
                    call: started.call.clone(),
                    name: started.go.tool.name.to_string(),
                    said,
                });
            };
            let (forms, asked) = mpsc::channel(1);
            let (models, wanted) = mpsc::channel(1);
            let tools = &started.tools;
            let call = tools.ask(&started.go, &started.token, said, forms, models);
            let (of_forms, of_models) = (Quota::of_forms(), Quota::of_models());
            let output = tokio::select! {
                biased;
                output = call => output,
                never = elicit::pass_on(&started, asked, &of_forms) => match never {},
                never = sample::serve(&started, wanted, &of_models) => match never {},
            };
            for quota in [of_forms, of_models] {
                quota.end(&started).await;
            }
            output
        }
        Work::Program(job) => {
            let reads = job.manifest.reads.clone();
            match resource::context(started.store, started.conversation, reads).await {
                Ok(context) => started.tools.run(&job, &started.cwd, &context).await,
                Err(output) => output,
            }
        }
        Work::Builtin(builtin::Call::Time) => builtin::time(),
        Work::Builtin(builtin::Call::ReadResource { server, uri }) => {
            let (tools, token) = (&started.tools, &started.token);
            tools.read_resource(&server, &uri, token).await
        }
        Work::Builtin(builtin::Call::Data(call)) => {
            resource::data(started.store, started.conversation, call).await
        }
        Work::Builtin(builtin::Call::Example(call)) => {
            resource::example(started.store, started.conversation, call).await
        }
        Work::Builtin(builtin::Call::ReadResult(wanted)) => {
            let (store, id, head) = (started.store, started.conversation, started.head);
            let read = tokio::task::spawn_blocking(move || kept(&store, id, head, wanted)).await;
            match read {
                Ok(Ok(Some(part))) => match part.shown(wanted) {
                    Ok(text) => Output::answered(text),
                    Err(why) => Output::refused(why),
                },
                Ok(Ok(None)) => Output::refused(format!(
                    "no result {} is kept in this conversation",
                    wanted.result
                )),
                Ok(Err(error)) => Output::failed(format!("[aish] tool dispatch failed: {error}")),
                Err(panic) => Output::failed(format!("[aish] tool dispatch failed: {panic}")),
            }
        }
    }
}
