//! One request for somebody: asked, asked again with what the server wanted to know, and answered exactly once.

use std::time::Duration;

use aishd_log::server_task::ServerTask;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::server::{ServerEntry, ServerOffers};
use aishd_mcp_messages::task::TaskSupport;
use aishd_mcp_messages::tool_approval::{ApprovedTool, StillOffered};
use aishd_signin::{SignInNeed, SignInReason};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client_session::{
    AbandonedQuestion, PeerCall, PeerQuestion, PeerQuestionKind, ServerClient,
};
use super::elicitation::ElicitRespondent;
use super::era::Era;
use super::error::{ExchangeError, ToolCallError, WireFailure};
use super::message::{RpcError, URL_ELICITATION_REQUIRED};
use crate::call_clock::ReplyPatience;
use crate::call_listener::CallListener;

/// Rounds of questions for one request (2026-07-28, input_required).
const MAX_ROUNDS: usize = 8;
const MAX_INPUT_REQUESTS: usize = 16;
/// Of what a server calls something.
const MAX_WORD_CHARS: usize = 80;

/// What somebody wants of a server.
#[derive(Debug)]
pub(super) struct RequestedWork {
    pub(super) method: &'static str,
    pub(super) params: Map<String, Value>,
    /// The tool, the prompt or the URI.
    pub(super) about: Option<String>,
    pub(super) mirrored: Vec<(String, String)>,
    pub(super) patience: ReplyPatience,
    pub(super) ears: CallListener,
    /// What was let through; `None`: it is no call of a tool.
    pub(super) approved: Option<Box<ApprovedTool>>,
    /// The only server that it is for, whatever is called so when it is sent.
    pub(super) server: Option<ContentDigest>,
    /// Its server wants it as a task, where there are such tasks.
    pub(super) task_support: TaskSupport,
    pub(super) cancel: CancellationToken,
    pub(super) reply: oneshot::Sender<Result<Value, ToolCallError>>,
    /// Until when it may wait for a session that is connecting.
    pub(super) wait_until: Instant,
    /// It was sent once to a server that had forgotten our session, and did nothing with it.
    pub(super) repeated: bool,
}

impl RequestedWork {
    pub(super) fn answer(self, alias: &Alias, result: Result<Value, ExchangeError>) {
        let result = result.map_err(|it| it.of(alias, self.patience.quiet));
        // Who asked may have left.
        let _gone = self.reply.send(result);
    }

    /// Gives it back if it is for this server, where only one may have it. Otherwise it is answered so, and goes nowhere.
    pub(super) fn for_server(self, server: &ServerEntry) -> Option<Self> {
        if (self.server).is_some_and(|it| it != ServerTask::server(&server.identity)) {
            let another = ToolCallError::AnotherServer(server.alias.clone());
            let _left = self.reply.send(Err(another));
            return None;
        }
        Some(self)
    }

    /// Gives it back if it is what was approved, however long it waited and however often it was sent before.
    /// Otherwise it is answered so, and nothing runs.
    pub(super) fn still_approved(self, server: &ServerEntry) -> Option<Self> {
        let Some(approved) = &self.approved else {
            return Some(self);
        };
        let name = approved.name.clone();
        let error = match approved.still(server) {
            StillOffered::Same => return Some(self),
            StillOffered::Changed => ToolCallError::Changed(name),
            StillOffered::Gone => ToolCallError::Gone(name),
        };
        let _left = self.reply.send(Err(error));
        None
    }

    /// Asks for a task where the tool is called in no other way. Where it may be either, it is called as ever: most calls
    /// are over sooner than a task would be asked for.
    pub(super) fn as_task(&mut self, peer: &ServerClient, offers: ServerOffers, ttl: Duration) {
        let wants = self.task_support == TaskSupport::Required && offers.tasks;
        if wants && peer.era == Era::Session {
            let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            self.params.insert("task".to_owned(), json!({"ttl": ttl}));
        }
    }

    pub(super) fn is_unwanted(&self) -> bool {
        self.reply.is_closed() || self.cancel.is_cancelled()
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum PerformedWork {
    Answered,
    /// It has to be done again, because the server did not know our session any more.
    Again(Box<RequestedWork>, String),
    /// It was answered so: the server knows nobody of us any more.
    SignedOut(SignInNeed),
}

pub(super) async fn perform(
    peer: &ServerClient,
    respondent: ElicitRespondent<'_>,
    work: RequestedWork,
) -> PerformedWork {
    let (result, abandoned) = rounds(peer, &respondent, &work).await;
    let lost = match &result {
        Err(ExchangeError::Failure(WireFailure::SessionLost(why))) if !work.repeated => {
            Some(why.clone())
        }
        Ok(_) | Err(_) => None,
    };
    if let Some(why) = lost {
        return PerformedWork::Again(Box::new(work), why);
    }
    let signed_out = match &result {
        Err(ExchangeError::Failure(WireFailure::SignIn(need)))
            if need.why != SignInReason::Scope =>
        {
            Some(need.clone())
        }
        Ok(_) | Err(_) => None,
    };
    work.answer(respondent.alias, result);
    if let Some(abandoned) = abandoned {
        peer.call_off(abandoned).await;
    }
    signed_out.map_or(PerformedWork::Answered, PerformedWork::SignedOut)
}

async fn rounds(
    peer: &ServerClient,
    respondent: &ElicitRespondent<'_>,
    work: &RequestedWork,
) -> (Result<Value, ExchangeError>, Option<AbandonedQuestion>) {
    let mut params = work.params.clone();
    for _ in 0..MAX_ROUNDS {
        let question = PeerQuestion {
            method: work.method,
            params: params.clone(),
            about: work.about.as_deref(),
            mirrored: &work.mirrored,
            patience: work.patience,
            kind: PeerQuestionKind::Call(PeerCall {
                ears: &work.ears,
                cancel: &work.cancel,
            }),
        };
        let result = match peer.ask(question).await {
            Ok(result) => result,
            Err(unanswered) => {
                let before = match &unanswered.broken {
                    ExchangeError::Rpc(error) => before_it(error),
                    ExchangeError::Failure(_)
                    | ExchangeError::TimedOut
                    | ExchangeError::Cancelled => &[],
                };
                let again = tokio::select! {
                    agreed = visited(respondent, before) => agreed,
                    () = work.cancel.cancelled() => false,
                };
                if again {
                    continue;
                }
                return (Err(unanswered.broken), unanswered.abandoned);
            }
        };
        match result.get("resultType").and_then(Value::as_str) {
            None | Some("complete") => return (Ok(result), None),
            Some("input_required") => {}
            // Whoever asked goes on with it.
            Some("task") if work.method == "tools/call" => return (Ok(result), None),
            Some(other) => {
                let why = format!("a result of the type {:?}", one_line(other, MAX_WORD_CHARS));
                return (Err(WireFailure::Unreadable(why).into()), None);
            }
        }
        let inputs = tokio::select! {
            inputs = inputs(respondent, &result) => inputs,
            () = work.cancel.cancelled() => Err(ExchangeError::Cancelled),
        };
        let inputs = match inputs {
            Ok(inputs) => inputs,
            Err(broken) => return (Err(broken), None),
        };
        // The original params, with these answers and this state and no others.
        params.clone_from(&work.params);
        params.insert("inputResponses".to_owned(), Value::Object(inputs));
        if let Some(state) = result.get("requestState") {
            params.insert("requestState".to_owned(), state.clone());
        }
    }
    let why = format!("it wants to know something for the {MAX_ROUNDS}th time");
    (Err(WireFailure::Unreadable(why).into()), None)
}

/// What a person has to do at a URL before the server does what it was asked (2025-11-25, elicitation, URL mode).
fn before_it(error: &RpcError) -> &[Value] {
    let wanted = error.data.get("elicitations").and_then(Value::as_array);
    match wanted {
        Some(wanted) if error.code == URL_ELICITATION_REQUIRED => wanted,
        Some(_) | None => &[],
    }
}

/// Whether there was something to do and a person has agreed to all of it, so that the request can be made again.
async fn visited(respondent: &ElicitRespondent<'_>, wanted: &[Value]) -> bool {
    for params in wanted.iter().take(MAX_INPUT_REQUESTS) {
        let answer = respondent.answer("elicitation/create", params.clone());
        if !answer.await.is_ok_and(|it| it["action"] == "accept") {
            return false;
        }
    }
    (1..=MAX_INPUT_REQUESTS).contains(&wanted.len())
}

/// The answers to what a server wants to know before it goes on.
async fn inputs(
    respondent: &ElicitRespondent<'_>,
    result: &Value,
) -> Result<Map<String, Value>, ExchangeError> {
    let mut inputs = Map::new();
    let Some(Value::Object(requests)) = result.get("inputRequests") else {
        return Ok(inputs);
    };
    if requests.len() > MAX_INPUT_REQUESTS {
        let why = format!("it wants to know {} things at once", requests.len());
        return Err(WireFailure::Unreadable(why).into());
    }
    for (name, request) in requests {
        let method = request.get("method").and_then(Value::as_str);
        let method = method.unwrap_or_default();
        let params = request.get("params").cloned().unwrap_or_default();
        let answer = respondent.answer(method, params).await;
        let answer = answer.map_err(|(_, why)| {
            let method = one_line(method, MAX_WORD_CHARS);
            WireFailure::Unreadable(format!("it wants {method:?} of us, and {why}"))
        })?;
        inputs.insert(name.clone(), answer);
    }
    Ok(inputs)
}
