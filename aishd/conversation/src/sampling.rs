//! Requests of servers for a model while their calls run. A person allows one, the model is asked once, beside the
//! conversation and without tools, and the server is told the answer; nothing of it enters the transcript. All of it
//! belongs to the call: when that ends, the model is not listened to any more.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::TurnId;
use aishd_log::event::{PresetSource, ProviderLevel};
use aishd_log::spending::SpendingPurpose;
use aishd_log::tool_name::Alias;
use aishd_model::preset::Preset;
use aishd_rules::gate::ApprovedCall;
use aishd_rules::sampling::judge;
use aishd_rules::sampling_request::{SamplingRequest, limited, read, result};
use aishd_rules::server_request::ServerRequestJudgement;
use aishd_tools::{Filled, ForModel, SamplingOutcome};
use aishd_turn::request::completion;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::Conversation;
use super::call::StartedCall;
use super::elicitation::{ElicitAsker, ElicitKind, ElicitMessage};
use super::question_quota::Quota;

/// The whole answer, so that no server waits on a model for ever.
const WITHIN: Duration = Duration::from_secs(5 * 60);

/// A request on its way to people.
#[derive(Debug)]
pub(super) struct ModelWanted {
    alias: Alias,
    params: Value,
    consent: oneshot::Sender<SamplingConsent>,
}

/// What people said.
#[derive(Debug)]
pub(super) enum SamplingConsent {
    /// This preset may be asked, once.
    Given(Arc<Preset>),
    Declined,
    Dismissed,
    Refused(String),
}

impl SamplingConsent {
    /// The same as an answer to a form, in which nothing is filled in.
    pub(super) fn of(filled: Filled, preset: Arc<Preset>) -> Self {
        match filled {
            Filled::Accepted(_) | Filled::Agreed => Self::Given(preset),
            Filled::Declined => Self::Declined,
            Filled::Dismissed => Self::Dismissed,
            Filled::Refused(why) => Self::Refused(why),
        }
    }
}

/// Serves what a call's server wants of models, for as long as it is polled.
pub(super) async fn serve(
    started: &StartedCall,
    mut wanted: mpsc::Receiver<ForModel>,
    quota: &Quota,
) -> Infallible {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(one) = wanted.recv() => {
                if quota.take() {
                    running.push(serve_one(started, one));
                } else {
                    let _gone = one.answer.send(SamplingOutcome::Declined);
                }
            }
            Some(()) = running.next() => {}
            else => return pending().await,
        }
    }
}

/// Dropped, or not wanted any more: its confirm is taken back, and the connection to the model is closed.
async fn serve_one(started: &StartedCall, one: ForModel) {
    let ForModel {
        alias,
        params,
        mut answer,
    } = one;
    tokio::select! {
        () = answer.closed() => {}
        sampled = sampled(started, &alias, params) => {
            let _gone = answer.send(sampled);
        }
    }
}

async fn sampled(started: &StartedCall, alias: &Alias, params: Value) -> SamplingOutcome {
    let (consent, said) = oneshot::channel();
    let wanted = ModelWanted {
        alias: alias.clone(),
        params: params.clone(),
        consent,
    };
    let asking = ElicitMessage::of(started, ElicitKind::Model(wanted));
    if started.forms.send(asking).await.is_err() {
        return SamplingOutcome::Dismissed;
    }
    let preset = match said.await {
        Ok(SamplingConsent::Given(preset)) => started.broker.adapted(preset),
        Ok(SamplingConsent::Declined) => return SamplingOutcome::Declined,
        Ok(SamplingConsent::Refused(why)) => return SamplingOutcome::Refused(why),
        Ok(SamplingConsent::Dismissed) | Err(_) => return SamplingOutcome::Dismissed,
    };
    let asked = match read(alias.as_str(), &params, (&preset.name, &preset.model)) {
        Ok(asked) => limited(asked, &preset),
        Err(error) => return SamplingOutcome::Refused(error.to_string()),
    };
    let (sampled, level, text) = match ask(started, &preset, &asked).await {
        Ok(result) => {
            let text = format!("mcp {alias} got an answer of {}", preset.name);
            (SamplingOutcome::Answered(result), ProviderLevel::Info, text)
        }
        Err(why) => {
            let text = format!("mcp {alias} got no answer of {}: {why}", preset.name);
            // How the model is reached, and what its server said, is not for other servers.
            let failed = SamplingOutcome::Failed("the model gave no whole answer".to_owned());
            (failed, ProviderLevel::Warning, text)
        }
    };
    let (kept, told) = oneshot::channel();
    let told_people = ElicitMessage::of(started, ElicitKind::Told { level, text, kept });
    if started.forms.send(told_people).await.is_ok() {
        let _kept_or_gone = told.await;
    }
    sampled
}

/// Once: a request that fails is not repeated, for the yes was for one.
async fn ask(
    started: &StartedCall,
    preset: &Preset,
    asked: &SamplingRequest,
) -> Result<Value, String> {
    let body = completion::body(preset, asked);
    let bytes = body.len();
    let admitted = started
        .purse
        .admit_aside(preset, bytes as u64, SpendingPurpose::Sampling);
    let ticket = admitted.map_err(|reached| reached.to_string())?;
    let meter = ticket.meter();
    meter.sends(bytes);
    let answer = started.broker.stream(preset, body, |delta| {
        meter.receives(delta.text().len());
    });
    match timeout(WITHIN, answer).await {
        Ok(Ok(reply)) => {
            ticket.charge_aside(Some(&reply), None);
            Ok(result(&reply, &preset.model))
        }
        Ok(Err(broken)) => {
            ticket.charge_aside(Some(&broken.partial), Some(&broken.failure));
            Err(broken.failure.to_string())
        }
        Err(_elapsed) => Err(format!("none within {} seconds", WITHIN.as_secs())),
    }
}

impl Conversation {
    /// Puts a server's request for a model before people, or answers in their place.
    pub(super) async fn asked_for_model(
        &mut self,
        turn: TurnId,
        call: &str,
        go: &ApprovedCall,
        wanted: ModelWanted,
    ) {
        let ModelWanted {
            alias,
            params,
            consent,
        } = wanted;
        let preset = self.answering_preset();
        let Some(active) = &self.turn else { return };
        let request = self.server_request(active, call, go, &params);
        match (judge(request, preset.as_deref()), preset) {
            (ServerRequestJudgement::Ask(confirm), Some(preset)) => {
                self.show(turn, *confirm, ElicitAsker::Model(consent, preset))
                    .await;
            }
            (ServerRequestJudgement::Decline(text), _) => {
                self.tell_model(turn, ProviderLevel::Warning, text).await;
                let _gone = consent.send(SamplingConsent::Declined);
            }
            (ServerRequestJudgement::Refuse(why), _) => {
                let text = format!("mcp {alias} asked for a model in vain: {why}");
                self.tell_model(turn, ProviderLevel::Warning, text).await;
                let _gone = consent.send(SamplingConsent::Refused(why.to_string()));
            }
            // Nobody is asked where no model answers.
            (ServerRequestJudgement::Ask(_), None) => {}
        }
    }

    /// The preset of the turn. One that another daemon found by itself is not known here.
    fn answering_preset(&self) -> Option<Arc<Preset>> {
        let active = self.turn.as_ref()?;
        if active.preset.is_some() {
            return active.preset.clone();
        }
        let (name, source) = &active.model;
        match source {
            PresetSource::Configured => self.models().presets.get(name).cloned(),
            PresetSource::Demo => Some(Arc::new(Preset::demo())),
            PresetSource::Discovered | PresetSource::None | PresetSource::Imported => None,
        }
    }
}
