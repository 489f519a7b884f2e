//! A call that its server goes on with by itself: asked for again and again until it is over, over lost connections, new
//! sessions and new daemons. It is never called a second time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aishd_log::server_task::{ServerTask, TaskForm};
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::content;
use aishd_mcp_messages::outcome::ToolOutcome;
use aishd_mcp_messages::task::{self, TaskReport, TaskStatus};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::elicitation::PeopleLink;
use super::error::{RpcError, ToolCallError, WireFailure};
use super::hub::{Hub, SessionQuestion};
use super::inbox::CallNote;
use super::message;
use crate::call_listener::{BegunTask, CallListener};

/// However short a server says that it is: what it does takes longer than being asked.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
/// However long: a person waits for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Where it says nothing.
const USUAL_PAUSE: Duration = Duration::from_secs(1);
/// Between one try to reach its server and the next, at most.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// Of one question about it.
const ONE_ANSWER: Duration = Duration::from_secs(30);
/// Saying that it is called off is a courtesy.
const COURTESY: Duration = Duration::from_secs(5);
/// Questions of one task to people and models, all together.
const MAX_QUESTIONS: usize = 64;
/// Of them at a time.
const MAX_QUESTIONS_AT_ONCE: usize = 16;
/// Of an answer that its server refused and still asks for.
const MAX_REPEATS: u32 = 3;
const MAX_KEY_BYTES: usize = 256;
const MAX_WORD_CHARS: usize = 80;

/// The task, while it is asked for. Dropped because the call was cancelled, it is called off.
struct FollowedTask<'a> {
    hub: &'a Hub,
    alias: &'a Alias,
    task: ServerTask,
    since: Instant,
    /// When it is given up.
    end: Instant,
    /// When its server said last how it is.
    heard: Instant,
    ears: CallListener,
    cancel: &'a CancellationToken,
    is_over: bool,
    /// What of its questions has an answer.
    answered: BTreeSet<String>,
    /// Answers that its server has not taken yet.
    unsent: Map<String, Value>,
    /// Answers that it would not take.
    refused: BTreeMap<String, RefusedAnswer>,
    /// What it said last.
    said: Option<String>,
}

/// How asking for it went.
enum TaskReply {
    Answer(Value),
    /// It can be asked again.
    Unreached(String),
    /// The server answered with an error.
    Refused(RpcError),
}

/// A person's answer that a server would not take. It is sent again if the server still asks for it.
struct RefusedAnswer {
    answer: Value,
    times: u32,
    why: String,
}

impl Hub {
    /// Waits for what a task comes to that began in an earlier life of the daemon, while its server is the one that it was.
    pub async fn follow(
        &self,
        alias: &Alias,
        task: ServerTask,
        ears: CallListener,
        cancel: &CancellationToken,
    ) -> Result<ToolOutcome, ToolCallError> {
        let followed = FollowedTask::new(self, alias, task, ears, cancel);
        followed.until_over(SHORTEST_PAUSE).await
    }

    /// A call has become a task: it is kept, and then waited for.
    pub(super) async fn went_on(
        &self,
        alias: &Alias,
        task: ServerTask,
        said: &Value,
        ears: CallListener,
        cancel: &CancellationToken,
    ) -> Result<ToolOutcome, ToolCallError> {
        let mut followed = FollowedTask::new(self, alias, task, ears, cancel);
        followed.keep().await;
        let pause = match task::report(said) {
            Ok(report) => {
                let pause = pause(&report);
                followed.tell(report.message);
                pause
            }
            Err(_odd) => USUAL_PAUSE,
        };
        followed.until_over(pause).await
    }
}

impl<'a> FollowedTask<'a> {
    fn new(
        hub: &'a Hub,
        alias: &'a Alias,
        task: ServerTask,
        ears: CallListener,
        cancel: &'a CancellationToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            hub,
            alias,
            task,
            since: now,
            end: now + hub.shared().limits().longest_task,
            heard: now,
            ears,
            cancel,
            is_over: false,
            answered: BTreeSet::new(),
            unsent: Map::new(),
            refused: BTreeMap::new(),
            said: None,
        }
    }

    async fn keep(&self) {
        let Some(tasks) = &self.ears.tasks else {
            return;
        };
        let (kept, done) = oneshot::channel();
        let task = self.task.clone();
        if tasks.send(BegunTask { task, kept }).await.is_ok() {
            // One that cannot be kept is asked for all the same, by this daemon.
            let _kept_or_not = done.await;
        }
    }

    async fn until_over(mut self, first: Duration) -> Result<ToolOutcome, ToolCallError> {
        let limits = self.hub.shared().limits();
        let (mut pause, mut retry) = (first, SHORTEST_PAUSE);
        loop {
            let pausing = tokio::time::sleep(pause);
            if self.cancel.run_until_cancelled(pausing).await.is_none() {
                return Err(ToolCallError::Cancelled);
            }
            let why = match Box::pin(self.look()).await? {
                Ok(TaskStep::Over(outcome)) => {
                    self.is_over = true;
                    return Ok(*outcome);
                }
                Ok(TaskStep::GoesOn(next)) => {
                    (retry, pause) = (SHORTEST_PAUSE, next);
                    None
                }
                Err(why) => {
                    retry = (retry * 2).min(LONGEST_RETRY);
                    pause = retry;
                    Some(why)
                }
            };
            let now = Instant::now();
            if now >= self.end {
                self.call_off();
                let most = limits.longest_task.as_secs();
                return Err(self.lost(format!("it took longer than mcp.task_timeout, {most} s")));
            }
            if let Some(why) = why {
                if now >= self.heard + limits.longest_call {
                    return Err(self.lost(why));
                }
                self.tell(Some(format!("asked for again: {why}")));
            }
        }
    }

    /// Sends what people have answered. An error ends the task; the inner one is worth another try.
    async fn send_answers(&mut self) -> Result<Result<(), String>, ToolCallError> {
        if self.unsent.is_empty() {
            return Ok(Ok(()));
        }
        let answers = json!({"taskId": self.task.id, "inputResponses": self.unsent});
        match self.ask("tasks/update", answers, ONE_ANSWER).await? {
            TaskReply::Answer(_) => {
                for key in self.unsent.keys() {
                    self.refused.remove(key);
                }
                self.unsent.clear();
            }
            TaskReply::Unreached(why) => return Ok(Err(why)),
            // It may not wait for these answers any more; how it is, it says next.
            TaskReply::Refused(error) => self.note_refused(&error),
        }
        Ok(Ok(()))
    }

    fn note_refused(&mut self, error: &RpcError) {
        for (key, answer) in std::mem::take(&mut self.unsent) {
            let before = self.refused.get(&key).map_or(0, |it| it.times);
            let refused = RefusedAnswer {
                answer,
                times: before + 1,
                why: error.message.clone(),
            };
            self.refused.insert(key, refused);
        }
    }

    /// Asks once how far it is. An error ends it; the inner one is worth another try.
    async fn look(&mut self) -> Result<Result<TaskStep, String>, ToolCallError> {
        if let Err(why) = self.send_answers().await? {
            return Ok(Err(why));
        }
        let said = match self.ask("tasks/get", self.params(), ONE_ANSWER).await? {
            TaskReply::Answer(said) => said,
            TaskReply::Unreached(why) => return Ok(Err(why)),
            TaskReply::Refused(error) => return Err(self.lost(error.message)),
        };
        self.heard = Instant::now();
        let report = task::report(&said).map_err(|why| self.lost(why))?;
        let mut next = TaskStep::GoesOn(pause(&report));
        match (report.status, self.task.form) {
            (TaskStatus::Working, _) => self.tell(report.message),
            (TaskStatus::Completed, TaskForm::Extension) => {
                return self.result(said.get("result")).map(Ok);
            }
            (TaskStatus::Failed, TaskForm::Extension) => {
                self.is_over = true;
                return Err(match said.get("error") {
                    Some(error) => ToolCallError::Rpc(message::rpc_error(error)),
                    None => {
                        let why = report.message.unwrap_or_else(|| "it failed".to_owned());
                        ToolCallError::Rpc(message::rpc_error(&json!(why)))
                    }
                });
            }
            (TaskStatus::Completed | TaskStatus::Failed, TaskForm::Experimental) => {
                return self.fetch(report.status, ONE_ANSWER).await;
            }
            (TaskStatus::Cancelled, _) => {
                self.is_over = true;
                let more = report.message.map(|it| format!(": {it}"));
                let more = more.unwrap_or_default();
                return Err(self.lost(format!("its server says that it was cancelled{more}")));
            }
            (TaskStatus::InputRequired, TaskForm::Extension) => {
                self.tell(report.message);
                self.answer(said.get("inputRequests")).await?;
                // What was refused is not pressed upon it.
                if !self.unsent.is_empty() && self.refused.is_empty() {
                    next = TaskStep::GoesOn(SHORTEST_PAUSE);
                }
            }
            // There the questions come while the result is waited for.
            (TaskStatus::InputRequired, TaskForm::Experimental) => {
                self.tell(report.message);
                let left = self.end.saturating_duration_since(Instant::now());
                let patience = left.max(SHORTEST_PAUSE);
                return self.fetch(TaskStatus::InputRequired, patience).await;
            }
        }
        Ok(Ok(next))
    }

    /// Has the result of one that is in this state.
    async fn fetch(
        &mut self,
        status: TaskStatus,
        patience: Duration,
    ) -> Result<Result<TaskStep, String>, ToolCallError> {
        let reply = self.ask("tasks/result", self.params(), patience).await?;
        // The wait may have been a long one, and the server was there when it began.
        self.heard = Instant::now();
        match (reply, status) {
            (TaskReply::Answer(result), _) => self.result(Some(&result)).map(Ok),
            (TaskReply::Unreached(why), _) => Ok(Err(why)),
            // What the call failed with is its result.
            (TaskReply::Refused(error), TaskStatus::Failed) => {
                self.is_over = true;
                Err(ToolCallError::Rpc(error))
            }
            // What was done was done, and nobody can say what came of it.
            (TaskReply::Refused(error), TaskStatus::Completed | TaskStatus::Cancelled) => {
                self.is_over = true;
                Err(self.lost(format!(
                    "it is done, and its result is refused: {}",
                    error.message
                )))
            }
            (TaskReply::Refused(error), TaskStatus::Working | TaskStatus::InputRequired) => {
                Ok(Err(error.message))
            }
        }
    }

    fn result(&self, result: Option<&Value>) -> Result<TaskStep, ToolCallError> {
        let result = result.filter(|it| it.is_object());
        let result = result.ok_or_else(|| self.lost("it is done, and has no result".to_owned()))?;
        match result.get("resultType").and_then(Value::as_str) {
            None | Some("complete") => Ok(TaskStep::Over(Box::new(content::flatten(result)))),
            Some(other) => {
                let other = one_line(other, MAX_WORD_CHARS);
                Err(self.lost(format!("its result is of the type {other:?}")))
            }
        }
    }

    /// Puts what the server wants to know before people; each question once.
    async fn answer(&mut self, requests: Option<&Value>) -> Result<(), ToolCallError> {
        let Some(Value::Object(requests)) = requests else {
            return Ok(());
        };
        self.send_again(requests)?;
        let new = requests
            .iter()
            .filter(|(key, _)| !self.answered.contains(*key));
        let new: Vec<_> = new.take(MAX_QUESTIONS_AT_ONCE + 1).collect();
        if new.len() > MAX_QUESTIONS_AT_ONCE || self.answered.len() + new.len() > MAX_QUESTIONS {
            return Err(self.stop("it wants to know too much".to_owned()));
        }
        let Some(server) = self.hub.server(self.alias) else {
            return Ok(());
        };
        let shared = self.hub.shared();
        let people = PeopleLink::of(&self.ears);
        let respondent = shared.respondent(self.alias, shared.abilities(&server), people);
        for (key, request) in new {
            if key.len() > MAX_KEY_BYTES {
                return Err(self.stop("a question of it has an endless name".to_owned()));
            }
            let method = request.get("method").and_then(Value::as_str);
            let method = method.unwrap_or_default();
            let params = request.get("params").cloned().unwrap_or_default();
            let answering = respondent.answer(method, params);
            let Some(answer) = self.cancel.run_until_cancelled(answering).await else {
                return Err(ToolCallError::Cancelled);
            };
            match answer {
                Ok(answer) => {
                    self.answered.insert(key.clone());
                    self.unsent.insert(key.clone(), answer);
                }
                Err((_, why)) => {
                    let method = one_line(method, MAX_WORD_CHARS);
                    return Err(self.stop(format!("it wants {method:?} of us, and {why}")));
                }
            }
        }
        Ok(())
    }

    /// What the server refused and still asks for is sent again, a few times.
    fn send_again(&mut self, requests: &Map<String, Value>) -> Result<(), ToolCallError> {
        let mut spent = None;
        for (key, refused) in &self.refused {
            if !requests.contains_key(key) {
                continue;
            }
            if refused.times > MAX_REPEATS {
                spent = Some(refused.why.clone());
                break;
            }
            self.unsent.insert(key.clone(), refused.answer.clone());
        }
        match spent {
            Some(why) => Err(self.stop(format!("it refuses an answer that it asks for: {why}"))),
            None => Ok(()),
        }
    }

    async fn ask(
        &self,
        method: &'static str,
        params: Value,
        patience: Duration,
    ) -> Result<TaskReply, ToolCallError> {
        let asked = SessionQuestion {
            ears: self.ears.clone(),
            server: Some(self.task.server),
            patience: Some(patience),
            ..SessionQuestion::new(method, params, &self.task.id)
        };
        match self.hub.ask(self.alias, asked, self.cancel).await {
            Ok(answer) => Ok(TaskReply::Answer(answer)),
            Err(ToolCallError::Cancelled) => Err(ToolCallError::Cancelled),
            // A session that is being made, a server that starts anew, a person who has to sign in first: its work goes on.
            Err(error @ (ToolCallError::Transport { .. } | ToolCallError::TimedOut { .. }))
                if worth_another(&error) =>
            {
                Ok(TaskReply::Unreached(error.to_string()))
            }
            // A daemon that has just begun may not know its servers yet.
            Err(error @ ToolCallError::UnknownServer(_)) if self.since.elapsed() < ONE_ANSWER => {
                Ok(TaskReply::Unreached(error.to_string()))
            }
            Err(ToolCallError::Rpc(error)) => Ok(TaskReply::Refused(error)),
            Err(error) => Err(self.lost(error.to_string())),
        }
    }

    fn params(&self) -> Value {
        json!({"taskId": self.task.id})
    }

    fn tell(&mut self, message: Option<String>) {
        let news = message.filter(|it| self.said.as_ref() != Some(it));
        if let (Some(message), Some(notes)) = (news, &self.ears.notes) {
            self.said = Some(message.clone());
            // Who looks on too slowly misses some of it.
            let _slow = notes.try_send(CallNote::Status { message });
        }
    }

    /// What becomes of it is not known here any more.
    fn lost(&self, why: String) -> ToolCallError {
        ToolCallError::Task {
            alias: self.alias.clone(),
            task: self.task.id.clone(),
            why,
        }
    }

    /// As [`FollowedTask::lost`], and nobody wants it any more.
    fn stop(&mut self, why: String) -> ToolCallError {
        self.call_off();
        self.lost(why)
    }

    /// Tells its server, once.
    fn call_off(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let (hub, alias) = (self.hub.clone(), self.alias.clone());
        let asked = SessionQuestion {
            server: Some(self.task.server),
            patience: Some(COURTESY),
            ..SessionQuestion::new("tasks/cancel", self.params(), &self.task.id)
        };
        self.hub.aside(async move {
            let never = CancellationToken::new();
            let told = hub.ask(&alias, asked, &never);
            let told = tokio::time::timeout(COURTESY, told).await;
            if !matches!(told, Ok(Ok(_))) {
                tracing::debug!(mcp = %alias, ?told, "a task was not called off");
            }
        });
    }
}

impl Drop for FollowedTask<'_> {
    fn drop(&mut self) {
        if self.cancel.is_cancelled() && !self.ears.leaving.is_cancelled() {
            self.call_off();
        }
    }
}

/// What a look at it came to.
enum TaskStep {
    Over(Box<ToolOutcome>),
    /// It is asked again after this.
    GoesOn(Duration),
}

/// When it is asked again, within bounds.
fn pause(report: &TaskReport) -> Duration {
    match report.status {
        TaskStatus::Working | TaskStatus::InputRequired => report
            .poll
            .unwrap_or(USUAL_PAUSE)
            .clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
        // It was over when it began.
        TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled => SHORTEST_PAUSE,
    }
}

/// What its server said of it is its last word; what was lost on the way is not.
fn worth_another(error: &ToolCallError) -> bool {
    !matches!(
        error,
        ToolCallError::Transport {
            failure: WireFailure::Unreadable(_) | WireFailure::TooLarge(_),
            ..
        }
    )
}
