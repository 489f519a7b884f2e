//! A turn that another daemon left waiting for a person, or for servers that work by themselves, goes on here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::Seq;
use aishd_broker::Discovery;
use aishd_log::access::Access;
use aishd_log::call_list::CallList;
use aishd_log::confirm::{Confirm, ConfirmSubject};
use aishd_log::event::{Event, PresetSource, TurnOrigin};
use aishd_log::server_task::ServerTask;
use aishd_log::state::turns::RunningTurn;
use aishd_log::tool::{ClaimSource, ContentDigest, NetworkUse, Tool, ToolReach};
use aishd_log::tool_name::ToolName;
use aishd_model::preset::Preset;
use aishd_model::reply::RequestFailure;
use aishd_rules::gate::{AdmittedCall, CallPace};
use aishd_store::ReadError;
use aishd_turn::turn::{CallListProgress, OwedReplies, Paused, PausedAt, StreamId, Turn};
use futures_util::FutureExt as _;
use serde_json::Value;

use crate::actor::request_context::abandoned;
use crate::actor::{Conversation, TaskOutcome, failed};
use crate::turns::active_turn::with_run;
use crate::turns::run_clock::RunClock;
use crate::turns::turn_options::TurnOptions;

/// What the log says of a turn that another daemon began.
struct BegunTurn {
    model: (String, PresetSource),
    terms: TurnOptions,
    /// Its calls, where it runs a list of them.
    list: Option<CallList>,
    origin: TurnOrigin,
    text: Arc<str>,
    /// What of the last answer has no reply.
    owing: Vec<OwedReplies>,
    called: bool,
}

type WaitingTurn = (BegunTurn, Box<Confirm>, Option<CallListProgress>);

/// A call on which its server goes on working.
#[derive(Debug)]
pub(crate) struct LeftTask {
    pub(crate) call: String,
    pub(crate) go: AdmittedCall,
    pub(crate) task: ServerTask,
}

impl Conversation {
    /// Takes up a turn that waits for servers. What is to be asked of them; `None`: there is none that could go on.
    pub(crate) fn resume_tasks(&mut self) -> Option<Vec<LeftTask>> {
        let running = self.state.running.clone()?;
        if !self.state.waits_for_tasks() {
            return None;
        }
        let (begun, tasks) = match self.read_tasks(&running) {
            Ok(left) => left?,
            Err(error) => {
                tracing::warn!(conversation = %self.id, %error, "a turn with tasks cannot be read");
                return None;
            }
        };
        let at = PausedAt::Calls(tasks.iter().map(|it| it.call.clone()).collect());
        self.take_up(&running, begun, at, None);
        tracing::info!(conversation = %self.id, turn = %running.turn, "a turn goes on waiting for its servers");
        Some(tasks)
    }

    fn take_up(
        &mut self,
        running: &RunningTurn,
        begun: BegunTurn,
        at: PausedAt,
        course: Option<CallListProgress>,
    ) {
        let paused = Paused {
            items: running.items,
            depth: running.rounds.saturating_sub(1),
            usage: running.usage,
            text: begun.text,
            owing: begun.owing,
            called: begun.called,
            at,
            course: course.map(Box::new),
        };
        let policy = self.services.policy.borrow().clone();
        let mut machine = Turn::resume(paused, begun.terms.max_depth(&policy));
        machine.set_feed_back(policy.shell.feed_back);
        let machine = with_run(machine, &self.state, running.turn);
        let clock = RunClock::of(&self.state, &self.budget);
        let on_confirm = begun.terms.on_confirm;
        self.set_turn(running.turn, machine, begun.model, on_confirm, clock);
    }

    fn event(&self, seq: Seq) -> Result<Option<Event>, ReadError> {
        let record = self.services.store.record(self.id, seq);
        record.map(|it| it.map(|it| it.event))
    }

    fn read_begun(&self, running: &RunningTurn) -> Result<Option<BegunTurn>, ReadError> {
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
        ) = (
            self.event(running.message_seq)?,
            self.event(running.started_seq)?,
            self.event(running.answer_seq)?,
        )
        else {
            return Ok(None);
        };
        let called = !calls.is_empty();
        let mut owing = OwedReplies::of_answer(calls, commands);
        owing.retain(|it| running.open_calls.iter().any(|open| open.id == it.id()));
        Ok(Some(BegunTurn {
            model: (model, source),
            terms: TurnOptions {
                on_confirm: on_confirm.unwrap_or_default(),
                max_tool_depth,
            },
            list,
            origin,
            text,
            owing,
            called,
        }))
    }

    /// The turn with the calls that servers work on, where these are all that it has begun; a list of calls ends with its daemon.
    fn read_tasks(
        &self,
        running: &RunningTurn,
    ) -> Result<Option<(BegunTurn, Vec<LeftTask>)>, ReadError> {
        let begun = self.read_begun(running)?.filter(|it| it.list.is_none());
        let Some(begun) = begun else {
            return Ok(None);
        };
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
        let started = running.open_calls.iter().filter(|it| it.started).count();
        Ok((tasks.len() == started).then_some((begun, tasks)))
    }

    /// A call that began, as far as it is needed to hear what came of it. It is not made again, so that its server need not
    /// offer it any more.
    fn begun_call(
        &self,
        name: &str,
        arguments: &str,
        digest: ContentDigest,
        rule: String,
    ) -> Option<AdmittedCall> {
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
        Some(AdmittedCall {
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
        let (begun, confirm, course) = match self.read_waiting(&running) {
            Ok(Some(waiting)) => waiting,
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!(conversation = %self.id, %error, "a waiting turn cannot be read");
                return false;
            }
        };
        let at = PausedAt::Confirm(confirm.clone());
        self.take_up(&running, begun, at, course);
        self.wait_for_sign_in(&confirm, None);
        tracing::info!(conversation = %self.id, turn = %running.turn, "a turn goes on waiting for a person");
        true
    }

    /// The turn with the confirm that it waits for, and the list that it runs as far as it has come.
    fn read_waiting(&self, running: &RunningTurn) -> Result<Option<WaitingTurn>, ReadError> {
        let Some(open) = self.state.turn_confirms().next() else {
            return Ok(None);
        };
        let (Some(mut begun), Some(Event::ConfirmRequested(confirm))) =
            (self.read_begun(running)?, self.event(open.seq)?)
        else {
            return Ok(None);
        };
        let course = match &begun.list {
            Some(list) => self.course(list, begun.origin, Some(running))?,
            None => None,
        };
        // The one that is asked about comes first, or the log is not what this program writes.
        let is_asked = |it: &OwedReplies| confirm.call().is_some_and(|call| call.id == it.id());
        // Others that only read were sent beside a call that waits for a sign-in.
        if let ConfirmSubject::SignIn(_) = &confirm.subject {
            begun.owing.sort_by_key(|it| !is_asked(it));
        }
        let fits = begun.owing.first().is_some_and(is_asked);
        Ok(fits.then_some((begun, confirm, course)))
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
