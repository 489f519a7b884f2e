//! `norris/*`: launching and leading a run that works by itself, and how one looks on the wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use aish_proto::event as wire;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::norris::{
    Halt, HaltResult, NorrisActivity, NorrisHold, NorrisLevels, NorrisLimits, NorrisOutcome,
    NorrisPause, NorrisRun, NorrisRunParams, NorrisSpent, Pause, Resume, Start, StartParams,
    StartResult,
};
use aishd_conversation::handle::ConversationHandle;
use aishd_conversation::request_error::RequestError;
use aishd_conversation::requests::{AskMode, AskPlace, AskRequest, NorrisLaunch, RunControl};
use aishd_log::access::Access;
use aishd_log::event::{IdempotencyKey, Record};
use aishd_log::norris;
use aishd_log::norris::NorrisEvent;
use aishd_log::norris::launch::{MAX_GOAL_BYTES, RunHold, RunLaunch, RunLimits, UnaskedLevels};
use aishd_log::norris::status::RunStatus;
use aishd_log::run_changes::{RunChanges, RunChangesStage, of_run};
use aishd_log::spending::NanoUsd;
use aishd_log::state::ConversationState;
use aishd_log::tool_name::Alias;
use aishd_model::model_settings::ModelSettings;
use aishd_model::norris_settings::second;
use aishd_model::preset::Preset;
use jsonrpsee::RpcModule;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::turn::{check_key, digest};
use super::usage::usd;
use super::{MethodCall, RpcServer, register};
use crate::log_owner::LogOwner;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Start, _, _>(module, start);
    register::<Pause, _, _>(module, |call: MethodCall<Pause>| async move {
        lead(
            &call.server,
            &call.connection,
            call.params,
            RunControl::Pause,
        )
        .await
    });
    register::<Resume, _, _>(module, |call: MethodCall<Resume>| async move {
        lead(
            &call.server,
            &call.connection,
            call.params,
            RunControl::Resume,
        )
        .await
    });
    register::<Halt, _, _>(module, halt);
}

async fn start(call: MethodCall<Start>) -> Result<StartResult, MethodError> {
    let MethodCall {
        server,
        connection,
        params,
        ..
    } = call;
    let conversation = params.conversation;
    let handle = server.directory.open(conversation).await?;
    let state = handle.view().borrow().state.clone();
    let models = server.directory.models();
    let models = models.within(&state.cwd);
    let launching = launching(&server, params, &connection, models)?;
    let launch = launching.launch.clone();
    let model = launching.ask.model.clone();
    let accepted = server
        .directory
        .with(conversation, |handle| {
            let launching = launching.clone();
            async move { handle.launch(launching).await }
        })
        .await?;
    let handle = server.directory.open(conversation).await?;
    let state = handle.view().borrow().state.clone();
    let run = if accepted.duplicate {
        run(&state).filter(|it| it.turn == accepted.turn)
    } else {
        // As it was launched: it may be further by now.
        Some(run_of(
            &RunStatus::launched(accepted.turn, launch.clone()),
            &ConversationState::default(),
        ))
    };
    Ok(StartResult {
        turn: accepted.turn,
        seq: accepted.seq,
        duplicate: accepted.duplicate,
        run,
        notices: notices(
            &server,
            (&launch, accepted.turn),
            models,
            model.or_else(|| state.model.clone()),
            &state,
        ),
    })
}

fn launching(
    server: &RpcServer,
    params: StartParams,
    connection: &ClientConnection,
    models: &ModelSettings,
) -> Result<NorrisLaunch, MethodError> {
    let spelled = serde_json::to_string(&params).unwrap_or_default();
    let StartParams {
        conversation: _,
        goal,
        idempotency_key,
        model,
        levels,
        steps,
        time_ms,
        tokens,
        cost_usd,
    } = params;
    check_key(&idempotency_key)?;
    let goal = goal.trim().to_owned();
    if goal.is_empty() {
        return Err(MethodError::params("the goal is empty"));
    }
    if goal.len() > MAX_GOAL_BYTES {
        let message = format!(
            "the goal has {} bytes; at most {MAX_GOAL_BYTES} are taken",
            goal.len()
        );
        return Err(MethodError::params(&message));
    }
    let configured = models.norris.limits;
    let limits = RunLimits {
        steps: steps.unwrap_or(configured.steps),
        ms: time_ms.or(configured.ms),
        tokens: tokens.or(configured.tokens),
        cost: cost_usd.map(|it| NanoUsd(it.nanos)).or(configured.cost),
    };
    let nothing = [limits.ms, limits.tokens, limits.cost.map(|it| it.0)];
    if limits.steps == 0 || nothing.contains(&Some(0)) {
        return Err(MethodError::params("a limit of a run is more than 0"));
    }
    let launch = RunLaunch {
        goal: goal.clone(),
        levels: levels.map(read_levels).transpose()?.unwrap_or_default(),
        limits,
        second_opinion: models.norris.second_opinion,
        contain: models.norris.contain,
    };
    let ask = AskRequest {
        text: goal,
        attachments: vec![],
        key: IdempotencyKey {
            body: digest(&spelled, &[], None),
            key: idempotency_key,
        },
        mode: AskMode::Reject,
        expected: None,
        model,
        by: connection.person(),
        place: AskPlace::Existing,
        on_confirm: None,
        max_tool_depth: None,
        calls: None,
        environment: connection.environment(server),
        // A run has limits of its own, which were said with its launch.
        accepts_cost: true,
    };
    Ok(NorrisLaunch { ask, launch })
}

fn read_levels(levels: NorrisLevels) -> Result<UnaskedLevels, MethodError> {
    let NorrisLevels { all, providers } = levels;
    let level = |number| {
        let wrong = || MethodError::params("a level is 1, 2 or 3");
        Access::from_number(number).ok_or_else(wrong)
    };
    let mut named: BTreeMap<Alias, Access> = BTreeMap::new();
    for (alias, number) in providers {
        let wrong = |_| {
            MethodError::params(&format!(
                "levels.providers: {alias:?} is no provider's name"
            ))
        };
        named.insert(alias.parse().map_err(wrong)?, level(number)?);
    }
    Ok(UnaskedLevels {
        all: level(all)?,
        providers: named,
    })
}

/// What somebody should know who launches a run like this.
fn notices(
    server: &RpcServer,
    (launch, turn): (&RunLaunch, TurnId),
    models: &ModelSettings,
    model: Option<String>,
    state: &ConversationState,
) -> Vec<String> {
    let mut notices = vec![];
    notices.extend(unheld(server, launch));
    // One that has just ended may have changed nothing.
    let is_asked = |it: &&RunChanges| matches!(it.stage, RunChangesStage::Asked(_));
    let earlier = state.run_changes.iter().filter(|it| it.turn != turn);
    let earlier = earlier.filter(is_asked);
    notices.extend(earlier.map(|it| {
        format!(
            "what an earlier run changed waits, and this one works on the files as they are, without it: aishctl changes show {}",
            of_run(it.turn)
        )
    }));
    let planner = model.or_else(|| models.default.clone()).unwrap_or_default();
    if launch.second_opinion && second(models, &planner).is_none() {
        notices.push(
            "there is no other preset for a second opinion (norris.second_opinion_model), so a person is asked about \
every action"
                .to_owned(),
        );
    }
    if launch.limits.cost.is_some() {
        let opinion = second(models, &planner).filter(|_| launch.second_opinion);
        let asked = models.presets.get(&planner).cloned().into_iter();
        let unpriced = |it: &Arc<Preset>| it.price.is_none() && !it.is_free();
        for preset in asked.chain(opinion).filter(unpriced) {
            notices.push(format!(
                "nobody knows what {0} costs, so the limit of cost does not count it (models.{0}.price)",
                preset.name
            ));
        }
    }
    let policy = server.directory.policy();
    for (provider, granted) in &launch.levels.providers {
        let max = policy.max_level(provider);
        if *granted > max {
            let max = max.number();
            notices.push(format!(
                "max_level of {provider} is {max}: what needs more is denied"
            ));
        }
    }
    notices
}

/// That nothing holds its commands, which is never taken in silence.
fn unheld(server: &RpcServer, launch: &RunLaunch) -> Option<String> {
    let no_wall = &server.directory.ground().missing;
    let (why, way) = match launch.hold() {
        RunHold::Wall => (no_wall.clone()?, "aishctl doctor"),
        RunHold::Layers | RunHold::Reads => {
            let why = server.directory.trials().known_missing()?;
            let way = match (launch.hold(), no_wall) {
                (RunHold::Layers, None) => "aishctl doctor, or norris.contain = \"workspace\"",
                _ => "aishctl doctor",
            };
            (why, way)
        }
    };
    Some(format!(
        "nothing on this machine holds the commands of the run ({why}), so a person is asked about each: {way}"
    ))
}

async fn lead(
    server: &RpcServer,
    connection: &ClientConnection,
    params: NorrisRunParams,
    lead: RunControl,
) -> Result<NorrisRun, MethodError> {
    let by = connection.person();
    let handled = server
        .directory
        .with(params.conversation, |handle: ConversationHandle| {
            let by = by.clone();
            async move {
                let standing = handle.lead(lead, by).await?;
                let state = handle.view().borrow().state.clone();
                Ok(run_of(&standing, &state))
            }
        });
    Ok(handled.await?)
}

async fn halt(call: MethodCall<Halt>) -> Result<HaltResult, MethodError> {
    let by = call.connection.person();
    let conversation: ConversationId = call.params.conversation;
    let halted = call
        .server
        .directory
        .with(conversation, |handle: ConversationHandle| {
            let by = by.clone();
            async move {
                let turn = handle
                    .view()
                    .borrow()
                    .state
                    .norris
                    .as_ref()
                    .map(|it| it.turn);
                let turn = turn.ok_or(RequestError::NoRun)?;
                let halted = handle.cancel(turn, by).await?;
                Ok(HaltResult { turn, halted })
            }
        });
    Ok(halted.await?)
}

/// The run of a conversation.
pub(super) fn run(state: &ConversationState) -> Option<NorrisRun> {
    state.norris.as_ref().map(|it| run_of(it, state))
}

fn run_of(standing: &RunStatus, state: &ConversationState) -> NorrisRun {
    let RunStatus {
        turn,
        launch,
        step,
        spent,
        paused,
    } = standing;
    let open = state.running.iter().flat_map(|it| &it.open_calls);
    let begun = open.clone().find(|it| it.started);
    let next = begun.or_else(|| open.clone().next());
    let asked = state.turn_confirms().next();
    let activity = match (paused, asked, next) {
        (Some(_), ..) => NorrisActivity::Paused,
        (None, Some(_), _) => NorrisActivity::Asking,
        (None, None, Some(_)) => NorrisActivity::Acting,
        (None, None, None) => NorrisActivity::Planning,
    };
    NorrisRun {
        turn: *turn,
        goal: launch.goal.clone(),
        levels: levels(&launch.levels),
        limits: limits(launch.limits),
        second_opinion: launch.second_opinion,
        step: *step,
        spent: used(*spent),
        activity,
        tool: next.map(|it| it.name.clone()),
        paused: paused.map(pause),
    }
}

fn levels(levels: &UnaskedLevels) -> NorrisLevels {
    let UnaskedLevels { all, providers } = levels;
    let named = providers.iter();
    NorrisLevels {
        all: all.number(),
        providers: named
            .map(|(it, level)| (it.to_string(), level.number()))
            .collect(),
    }
}

fn limits(limits: RunLimits) -> NorrisLimits {
    let RunLimits {
        steps,
        ms,
        tokens,
        cost,
    } = limits;
    NorrisLimits {
        steps,
        time_ms: ms,
        tokens,
        cost_usd: cost.map(usd),
    }
}

fn used(spent: norris::RunSpending) -> NorrisSpent {
    let norris::RunSpending { ms, tokens, cost } = spent;
    NorrisSpent {
        time_ms: ms,
        tokens,
        cost_usd: usd(cost),
    }
}

fn pause(pause: norris::RunPause) -> NorrisPause {
    match pause {
        norris::RunPause::Person => NorrisPause::Person,
        norris::RunPause::Interrupted => NorrisPause::Interrupted,
    }
}

fn outcome(outcome: norris::RunOutcome) -> NorrisOutcome {
    match outcome {
        norris::RunOutcome::Done => NorrisOutcome::Done,
        norris::RunOutcome::Halted => NorrisOutcome::Halted,
        norris::RunOutcome::Limit => NorrisOutcome::Limit,
        norris::RunOutcome::Stopped => NorrisOutcome::Stopped,
        norris::RunOutcome::Failed => NorrisOutcome::Failed,
    }
}

impl LogOwner {
    /// A fact of a run, as JSON.
    pub(super) fn norris(self, record: &Record, event: NorrisEvent) -> String {
        match event {
            NorrisEvent::Launched(launch) => {
                let data = wire::NorrisLaunched {
                    levels: levels(&launch.levels),
                    limits: limits(launch.limits),
                    second_opinion: launch.second_opinion,
                    hold: Some(match launch.hold() {
                        RunHold::Reads => NorrisHold::Read,
                        RunHold::Wall => NorrisHold::Workspace,
                        RunHold::Layers => NorrisHold::Layers,
                    }),
                    goal: launch.goal,
                };
                self.encode_record(record, &data)
            }
            NorrisEvent::StepBegun { step, spent } => {
                let spent = used(spent);
                self.encode_record(record, &wire::NorrisStep { step, spent })
            }
            NorrisEvent::Nudged { text } => {
                self.encode_record(record, &wire::NorrisNudged { text })
            }
            NorrisEvent::Paused { pause: why, spent } => {
                let (pause, spent) = (pause(why), used(spent));
                self.encode_record(record, &wire::NorrisPaused { pause, spent })
            }
            NorrisEvent::Resumed => self.encode_record(record, &wire::NorrisResumed {}),
            NorrisEvent::Ended {
                outcome: how,
                reason,
                step,
                spent,
            } => {
                let data = wire::NorrisEnded {
                    outcome: outcome(how),
                    reason,
                    step,
                    spent: used(spent),
                };
                self.encode_record(record, &data)
            }
        }
    }
}
