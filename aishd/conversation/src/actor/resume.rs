//! A turn that another daemon left waiting for a person, or for servers that work by themselves, goes on here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aishd_broker::Discovery;
use aishd_log::access::Access;
use aishd_log::confirm::{Confirm, ConfirmSubject};
use aishd_log::event::{Event, PresetSource};
use aishd_log::server_task::ServerTask;
use aishd_log::state::turns::RunningTurn;
use aishd_log::tool::{ClaimSource, ContentDigest, NetworkUse, Tool, ToolReach};
use aishd_log::tool_name::ToolName;
use aishd_model::preset::Preset;
use aishd_model::reply::RequestFailure;
use aishd_rules::gate::{ApprovedCall, CallPace};
use aishd_store::ReadError;
use aishd_turn::turn::{CallListProgress, OwedReplies, Paused, PausedAt, StreamId, Turn};
use futures_util::FutureExt as _;
use serde_json::Value;

use crate::actor::request_context::abandoned;
use crate::actor::{Conversation, TaskOutcome, failed};
use crate::turns::active_turn::with_run;
use crate::turns::run_clock::RunClock;
use crate::turns::turn_options::TurnOptions;

/// What the log says of such a turn.
struct WaitingTurn {
    model: (String, PresetSource),
    terms: TurnOptions,
    text: Arc<str>,
    owing: Vec<OwedReplies>,
    called: bool,
    confirm: Confirm,
    course: Option<CallListProgress>,
}

/// What the log says of a turn that waits for servers.
struct LeftTurn {
    model: (String, PresetSource),
    terms: TurnOptions,
    text: Arc<str>,
    owing: Vec<OwedReplies>,
    called: bool,
    tasks: Vec<LeftTask>,
}

/// A call on which its server goes on working.
#[derive(Debug)]
pub(crate) struct LeftTask {
    pub(crate) call: String,
    pub(crate) go: ApprovedCall,
    pub(crate) task: ServerTask,
}

impl Conversation {
    /// Takes up a turn that waits for servers. What is to be asked of them; `None`: there is none that could go on.
    pub(crate) fn resume_tasks(&mut self) -> Option<Vec<LeftTask>> {
        let running = self.state.running.clone()?;
        if !self.state.waits_for_tasks() {
            return None;
        }
        let left = match self.read_left(&running) {
            Ok(left) => left?,
            Err(error) => {
                tracing::warn!(conversation = %self.id, %error, "a turn with tasks cannot be read");
                return None;
            }
        };
        let paused = Paused {
            items: running.items,
            depth: running.rounds.saturating_sub(1),
            usage: running.usage,
            text: left.text,
            owing: left.owing,
            called: left.called,
            at: PausedAt::Calls(left.tasks.iter().map(|it| it.call.clone()).collect()),
            course: None,
        };
        let policy = self.services.policy.borrow().clone();
        let mut machine = Turn::resume(paused, left.terms.max_depth(&policy));
        machine.set_feed_back(policy.shell.feed_back);
        let clock = RunClock::of(&self.state, &self.budget);
        let on_confirm = left.terms.on_confirm;
        self.set_turn(running.turn, machine, left.model, on_confirm, clock);
        tracing::info!(conversation = %self.id, turn = %running.turn, "a turn goes on waiting for its servers");
        Some(left.tasks)
    }

    fn read_left(&self, running: &RunningTurn) -> Result<Option<LeftTurn>, ReadError> {
        let event = |seq| {
            let record = self.services.store.record(self.id, seq);
            record.map(|it| it.map(|it| it.event))
        };
        let (
            Some(Event::UserMessage {
                on_confirm,
                max_tool_depth,
                calls: None,
                ..
            }),
            Some(Event::TurnStarted { model, source, .. }),
            Some(Event::AssistantMessage {
                text,
                calls,
                commands,
                ..
            }),
        ) = (
            event(running.message_seq)?,
            event(running.started_seq)?,
            event(running.answer_seq)?,
        )
        else {
            return Ok(None);
        };
        let called = !calls.is_empty();
        let mut owing = OwedReplies::of_answer(calls, commands);
        owing.retain(|it| running.open_calls.iter().any(|open| open.id == it.id()));
        let mut tasks = vec![];
        for record in self.services.store.records(self.id, running.answer_seq) {
            if let Event::ToolStarted {
                call,
                name,
                arguments,
                digest,
                rule,
                ..
            } = record?.event
            {
                let mut open = running.open_calls.iter();
                let open = open.find(|it| it.id == call);
                if let Some(task) = open.and_then(|it| it.task.clone())
                    && let Some(go) = self.begun_call(&name, &arguments, digest, rule)
                {
                    tasks.push(LeftTask { call, go, task });
                }
            }
        }
        let begun = running.open_calls.iter().filter(|it| it.started).count();
        Ok((tasks.len() == begun).then_some(LeftTurn {
            model: (model, source),
            terms: TurnOptions {
                on_confirm: on_confirm.unwrap_or_default(),
                max_tool_depth,
            },
            text,
            owing,
            called,
            tasks,
        }))
    }

    /// A call that began, as far as it is needed to hear what came of it. It is not made again, so that its server need not
    /// offer it any more.
    fn begun_call(
        &self,
        name: &str,
        arguments: &str,
        digest: ContentDigest,
        rule: String,
    ) -> Option<ApprovedCall> {
        let name: ToolName = name.parse().ok()?;
        let offered = self.services.tools.catalog().get(&name).cloned();
        let tool = offered.unwrap_or_else(|| {
            Arc::new(Tool {
                place: name.alias().as_str().into(),
                name,
                description: String::new(),
                schema: Value::Null,
                annotations: Value::Null,
                server: "".into(),
                needs: Access::Execute,
                needs_by: ClaimSource::Ours,
                reads_only: false,
                reach: ToolReach::World,
                network: NetworkUse::MayLeave,
                packages: Arc::default(),
                directory: None,
            })
        });
        Some(ApprovedCall {
            tool,
            arguments: serde_json::from_str(arguments).ok()?,
            digest,
            rule,
            allowance: None,
            binds: None,
            pace: CallPace::Alone,
        })
    }

    /// Takes up a turn whose only open work is a confirm. False: there is none that could go on.
    pub(crate) fn resume(&mut self) -> bool {
        let Some(running) = self.state.running.clone() else {
            return false;
        };
        let began = running.open_calls.iter().any(|it| it.started);
        if began || !self.state.requires_action() {
            return false;
        }
        let waiting = match self.read_waiting() {
            Ok(Some(waiting)) => waiting,
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!(conversation = %self.id, %error, "a waiting turn cannot be read");
                return false;
            }
        };
        let asked = waiting.confirm.clone();
        let paused = Paused {
            items: running.items,
            depth: running.rounds.saturating_sub(1),
            usage: running.usage,
            text: waiting.text,
            owing: waiting.owing,
            called: waiting.called,
            at: PausedAt::Confirm(Box::new(waiting.confirm)),
            course: waiting.course.map(Box::new),
        };
        let policy = self.services.policy.borrow().clone();
        let mut machine = Turn::resume(paused, waiting.terms.max_depth(&policy));
        machine.set_feed_back(policy.shell.feed_back);
        let machine = with_run(machine, &self.state, running.turn);
        let clock = RunClock::of(&self.state, &self.budget);
        let on_confirm = waiting.terms.on_confirm;
        self.set_turn(running.turn, machine, waiting.model, on_confirm, clock);
        self.wait_for_sign_in(&asked, None);
        tracing::info!(conversation = %self.id, turn = %running.turn, "a turn goes on waiting for a person");
        true
    }

    fn read_waiting(&self) -> Result<Option<WaitingTurn>, ReadError> {
        let Some(running) = &self.state.running else {
            return Ok(None);
        };
        let Some(open) = self.state.turn_confirms().next() else {
            return Ok(None);
        };
        let event = |seq| {
            let record = self.services.store.record(self.id, seq);
            record.map(|it| it.map(|it| it.event))
        };
        let (
            Some(Event::UserMessage {
                on_confirm,
                max_tool_depth,
                calls: list,
                origin,
                ..
            }),
            Some(Event::TurnStarted { model, source, .. }),
            Some(Event::AssistantMessage {
                text,
                calls,
                commands,
                ..
            }),
            Some(Event::ConfirmRequested(confirm)),
        ) = (
            event(running.message_seq)?,
            event(running.started_seq)?,
            event(running.answer_seq)?,
            event(open.seq)?,
        )
        else {
            return Ok(None);
        };
        let course = match &list {
            Some(list) => self.course(list, origin, Some(running))?,
            None => None,
        };
        let called = !calls.is_empty();
        let owed = |it: &OwedReplies| running.open_calls.iter().any(|open| open.id == it.id());
        let mut owing = OwedReplies::of_answer(calls, commands);
        owing.retain(owed);
        // The one that is asked about comes first, or the log is not what this program writes.
        let is_asked = |it: &OwedReplies| confirm.call().is_some_and(|call| call.id == it.id());
        // Others that only read were sent beside a call that waits for a sign-in.
        if let ConfirmSubject::SignIn(_) = &confirm.subject {
            owing.sort_by_key(|it| !is_asked(it));
        }
        let fits = owing.first().is_some_and(is_asked);
        Ok(fits.then_some(WaitingTurn {
            model: (model, source),
            terms: TurnOptions {
                on_confirm: on_confirm.unwrap_or_default(),
                max_tool_depth,
            },
            text,
            owing,
            called,
            confirm: *confirm,
            course,
        }))
    }

    /// Opens a stream, with the preset that the turn began with.
    pub(crate) async fn open_stream_of(&mut self, stream: StreamId) {
        let models = self.models();
        let Some(active) = &mut self.turn else { return };
        if active.preset.is_some() {
            return self.open_stream(stream).await;
        }
        let (turn, (name, source)) = (active.id, active.model.clone());
        let preset = match source {
            PresetSource::Configured => models.presets.get(&name).cloned(),
            PresetSource::Demo => Some(Arc::new(Preset::demo())),
            // A list of calls opens no stream, and nothing is imported into a turn.
            PresetSource::None | PresetSource::Imported => None,
            PresetSource::Discovered => {
                let broker = self.services.broker.clone();
                let token = active.token.clone();
                self.io.spawn(async move {
                    let looking = AssertUnwindSafe(broker.discover(&models)).catch_unwind();
                    let Some(looked) = token.run_until_cancelled(looking).await else {
                        return abandoned(turn, stream);
                    };
                    let discovery = looked.unwrap_or_else(|_panic| Discovery {
                        preset: Arc::new(Preset::demo()),
                        notices: vec![],
                    });
                    TaskOutcome::Found(turn, stream, Box::new(discovery))
                });
                return;
            }
        };
        match preset {
            Some(preset) => {
                active.preset = Some(preset);
                self.find_way();
                self.open_stream(stream).await;
            }
            None => {
                let gone = format!("no model preset is called {name:?} any more");
                self.spawn(turn, stream, async move {
                    failed(stream, RequestFailure::Config(gone))
                });
            }
        }
    }

    /// A local server was found to go on with.
    pub(crate) async fn found(
        &mut self,
        turn: aish_proto::id::TurnId,
        stream: StreamId,
        discovery: Discovery,
    ) {
        let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) else {
            return;
        };
        if active.token.is_cancelled() {
            return Box::pin(self.apply_done(abandoned(turn, stream))).await;
        }
        if discovery.preset.is_demo() {
            let gone = "the local server that answered before is not there any more".to_owned();
            self.spawn(turn, stream, async move {
                failed(stream, RequestFailure::Config(gone))
            });
            return;
        }
        active.preset = Some(discovery.preset);
        self.find_way();
        self.open_stream(stream).await;
    }
}
