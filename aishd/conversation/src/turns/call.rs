//! Running one call of a tool, outside the actor. It is started once: whoever drops it leaves an effect that
//! nobody knows.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_broker::Broker;
use aishd_files::FileCall;
use aishd_log::access::Access;
use aishd_log::confirm::{ConfirmCall, SignInSubject};
use aishd_log::server_task::ServerTask;
use aishd_log::state::shell::EndedJob;
use aishd_log::tool::ContentDigest;
use aishd_rules::catalog::ToolOffer;
use aishd_rules::gate::{AdmittedCall, spelled};
use aishd_rules::sign_in::RefusedSignIn;
use aishd_store::Store;
use aishd_tools::registry::CallPlace;
use aishd_tools::{
    CallProgress, CallWork, NetworkWish, ServerAsides, SignInWanted, ToolOutput, ToolRunner,
    builtin, returned,
};
use aishd_turn::turn::{CallReturn, TurnInput};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::commands::job::JobBook;
use crate::context::resource;
use crate::context::stored_results::find_kept;
use crate::context::todos;
use crate::questions::elicitation::ElicitMessage;
use crate::questions::question_quota::Quota;
use crate::questions::{elicitation, sampling};
use crate::spending::budget::BudgetMeter;
use crate::turns::file_change::{self, FileGround};
use crate::turns::job_call;
use crate::view::ProgressTeller;
use crate::view::tool_progress::ProgressMessage;

/// One call that was let through, with what it may need.
#[derive(Debug)]
pub(crate) struct StartedCall {
    pub(crate) conversation: ConversationId,
    /// The log as it was.
    pub(crate) head: Seq,
    /// Where its tasks stand.
    pub(crate) todos: Seq,
    pub(crate) call: String,
    /// The directories of the conversation.
    pub(crate) place: CallPlace,
    /// For calls that read and change files; none for others.
    pub(crate) files: Option<FileGround>,
    /// What a call that reads pages may reach.
    pub(crate) network: Option<NetworkWish>,
    /// Commands in the background, and where the log has those that ended.
    pub(crate) jobs: (JobBook, Vec<EndedJob>),
    /// What the request that led to it offered.
    pub(crate) offer: Arc<ToolOffer>,
    pub(crate) go: AdmittedCall,
    /// What its server made of it already; then it is asked for, and nothing is called.
    pub(crate) task: Option<ServerTask>,
    /// The daemon ends.
    pub(crate) stopping: CancellationToken,
    pub(crate) tools: ToolRunner,
    pub(crate) store: Store,
    pub(crate) broker: Broker,
    /// The level that it was let through with.
    pub(crate) needs: Access,
    /// Characters of the result that the model is shown.
    pub(crate) max_chars: usize,
    pub(crate) token: CancellationToken,
    pub(crate) doing: ProgressTeller,
    /// Where the questions of its server go.
    pub(crate) forms: mpsc::Sender<ElicitMessage>,
    /// Pays for models that its server wants.
    pub(crate) budget: BudgetMeter,
    pub(crate) turn: TurnId,
}

/// Runs it to its end, or until the turn is stopped. A panic in it is its failure and nothing worse.
pub(crate) async fn run(started: StartedCall) -> TurnInput {
    let begun = Instant::now();
    let call = started.call.clone();
    let token = started.token.clone();
    let (max_chars, needs) = (started.max_chars, started.needs);
    let sent = SentCall::of(&started);
    let doing = started.doing.clone();
    let work = AssertUnwindSafe(output(started)).catch_unwind();
    let returned = match token.run_until_cancelled(work).await {
        // What it says then is that it was dropped, which is no result.
        Some(Ok(output)) if token.is_cancelled() && output.way == CallProgress::Failed => {
            CallReturn::default()
        }
        Some(Ok(output)) => {
            let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let refused_sign_in = output.sign_in.clone().map(|it| Box::new(sent.refused(it)));
            CallReturn {
                needs,
                refused_sign_in,
                ..returned(output, ms, max_chars)
            }
        }
        Some(Err(_panic)) => failed("[aish] tool dispatch failed: internal error"),
        // The turn is over already; this is not heard any more.
        None => CallReturn::default(),
    };
    doing.forget(&call);
    let returned = Box::new(returned);
    TurnInput::ToolReturned { call, returned }
}

/// What a call is known by when it comes back.
struct SentCall {
    call: ConfirmCall,
    digest: ContentDigest,
    sign_ins: Option<u64>,
}

impl SentCall {
    fn of(started: &StartedCall) -> Self {
        let StartedCall {
            go, place, tools, ..
        } = started;
        let directory = go.tool.directory.as_deref();
        Self {
            call: ConfirmCall {
                id: started.call.clone(),
                tool: go.tool.name.clone(),
                arguments: spelled(&go.arguments),
                cwd: directory.unwrap_or(&place.cwd).to_owned(),
                server: go.tool.place.to_string(),
            },
            digest: go.digest,
            sign_ins: tools.sign_ins(go.tool.name.alias()),
        }
    }

    fn refused(self, wanted: SignInWanted) -> RefusedSignIn {
        let SignInWanted {
            issuer,
            why,
            scopes,
        } = wanted;
        RefusedSignIn {
            subject: SignInSubject {
                call: self.call,
                issuer,
                why,
                scopes,
            },
            digest: self.digest,
            sign_ins: self.sign_ins,
        }
    }
}

fn failed(content: &str) -> CallReturn {
    CallReturn {
        content: content.to_owned(),
        notice: Some(content.to_owned()),
        ..CallReturn::default()
    }
}

async fn output(started: StartedCall) -> ToolOutput {
    let work = match started.task {
        Some(_) => CallWork::Mcp,
        None => started.tools.work(&started.go),
    };
    match work {
        CallWork::Refused(text) => ToolOutput::failed(text),
        CallWork::Mcp => {
            let said = |said| {
                started.doing.push(ProgressMessage {
                    turn: started.turn,
                    call: started.call.clone(),
                    name: started.go.tool.name.to_string(),
                    said,
                });
            };
            let (forms, asked) = mpsc::channel(1);
            let (models, wanted) = mpsc::channel(1);
            let (tasks, begun) = mpsc::channel(1);
            let hears = ServerAsides {
                forms,
                models,
                tasks,
                leaving: started.stopping.clone(),
            };
            let (tools, task) = (&started.tools, started.task.clone());
            let call = tools.ask((&started.go, task), &started.token, said, hears);
            let (of_forms, of_models) = (Quota::of_forms(), Quota::of_models());
            let output = tokio::select! {
                biased;
                output = call => output,
                never = elicitation::pass_on(&started, asked, &of_forms) => match never {},
                never = sampling::serve(&started, wanted, &of_models) => match never {},
                never = elicitation::pass_on_task(&started, begun) => match never {},
            };
            for quota in [of_forms, of_models] {
                quota.end(&started).await;
            }
            output
        }
        CallWork::Program(job) => {
            let reads = job.manifest.reads.clone();
            match resource::context(started.store, started.conversation, reads).await {
                Ok(context) => started.tools.run(&job, &started.place, &context).await,
                Err(output) => output,
            }
        }
        CallWork::Builtin(builtin::BuiltinCall::Time) => builtin::time(),
        CallWork::Builtin(builtin::BuiltinCall::FindTools { query }) => {
            ToolOutput::found(&started.offer, &query)
        }
        CallWork::Builtin(builtin::BuiltinCall::ReadResource { server, uri }) => {
            let (tools, token) = (&started.tools, &started.token);
            tools.read_resource(&server, &uri, token).await
        }
        CallWork::Builtin(builtin::BuiltinCall::File(call)) => file(call, &started).await,
        CallWork::Builtin(builtin::BuiltinCall::Fetch(call)) => {
            // Without a wish it reaches nothing.
            let reach = started.network.unwrap_or_default();
            Box::pin(started.tools.fetch(call, &started.place, reach)).await
        }
        CallWork::Builtin(builtin::BuiltinCall::Todo(builtin::TodoCall::Write(todos))) => {
            ToolOutput::with_todos(todos)
        }
        CallWork::Builtin(builtin::BuiltinCall::Todo(builtin::TodoCall::Read)) => {
            todos::read(started.store, started.conversation, started.todos).await
        }
        CallWork::Builtin(builtin::BuiltinCall::Job(call)) => job_call::run(call, &started).await,
        CallWork::Builtin(builtin::BuiltinCall::Data(call)) => {
            resource::data(started.store, started.conversation, call).await
        }
        CallWork::Builtin(builtin::BuiltinCall::Example(call)) => {
            resource::example(started.store, started.conversation, call).await
        }
        CallWork::Builtin(builtin::BuiltinCall::ReadResult(wanted)) => {
            kept_result(started, wanted).await
        }
    }
}

async fn kept_result(started: StartedCall, wanted: builtin::ReadResult) -> ToolOutput {
    let (store, id, head) = (started.store, started.conversation, started.head);
    let read = tokio::task::spawn_blocking(move || find_kept(&store, id, head, wanted)).await;
    match read {
        Ok(Ok(Some(part))) => match part.render(wanted) {
            Ok(text) => ToolOutput::from_text(text),
            Err(why) => ToolOutput::refused(why),
        },
        Ok(Ok(None)) => ToolOutput::refused(format!(
            "no result {} is kept in this conversation",
            wanted.result
        )),
        Ok(Err(error)) => ToolOutput::failed(format!("[aish] tool dispatch failed: {error}")),
        Err(panic) => ToolOutput::failed(format!("[aish] tool dispatch failed: {panic}")),
    }
}

async fn file(call: FileCall, started: &StartedCall) -> ToolOutput {
    let StartedCall {
        files,
        place,
        tools,
        go,
        conversation,
        turn,
        ..
    } = started;
    let Some(files) = files else {
        return ToolOutput::failed("[aish] tool dispatch failed: internal error".to_owned());
    };
    match call.access() {
        Access::Read => {
            let (output, seen) = Box::pin(tools.read_files(call, place)).await;
            seen.into_iter().for_each(|it| files.seen.note(it));
            output
        }
        Access::Write | Access::Execute => {
            Box::pin(file_change::make(
                call,
                files,
                tools,
                go,
                (*conversation, *turn),
            ))
            .await
        }
    }
}
