//! Requests of servers for a model while their calls run. A person allows one, the model is asked once, beside the
//! conversation and without tools, and the server is told the answer; nothing of it enters the transcript. All of it
//! belongs to the call: when that ends, the model is not listened to any more.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use aishd_log::event::ProviderLevel;
use aishd_log::spending::SpendingPurpose;
use aishd_log::tool_name::Alias;
use aishd_model::preset::Preset;
use aishd_rules::sampling_request::{SamplingRequest, limited, read, result};
use aishd_tools::{Filled, ForModel, SamplingOutcome};
use aishd_turn::request::completion;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::questions::elicitation::{ElicitKind, ElicitMessage};
use crate::questions::question_quota::Quota;
use crate::turns::call::StartedCall;

/// The whole answer, so that no server waits on a model for ever.
pub(crate) const WITHIN: Duration = Duration::from_secs(5 * 60);

/// A request on its way to people.
#[derive(Debug)]
pub(crate) struct ModelWanted {
    pub(crate) alias: Alias,
    pub(crate) params: Value,
    pub(crate) consent: oneshot::Sender<SamplingConsent>,
}

/// What people said.
#[derive(Debug)]
pub(crate) enum SamplingConsent {
    /// This preset may be asked, once.
    Given(Arc<Preset>),
    Declined,
    Dismissed,
    Refused(String),
}

impl SamplingConsent {
    /// The same as an answer to a form, in which nothing is filled in.
    pub(crate) fn of(filled: Filled, preset: Arc<Preset>) -> Self {
        match filled {
            Filled::Accepted(_) | Filled::Agreed => Self::Given(preset),
            Filled::Declined => Self::Declined,
            Filled::Dismissed => Self::Dismissed,
            Filled::Refused(why) => Self::Refused(why),
        }
    }
}

/// Serves what a call's server wants of models, for as long as it is polled.
pub(crate) async fn serve(
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
pub(crate) async fn serve_one(started: &StartedCall, one: ForModel) {
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

pub(crate) async fn sampled(
    started: &StartedCall,
    alias: &Alias,
    params: Value,
) -> SamplingOutcome {
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
pub(crate) async fn ask(
    started: &StartedCall,
    preset: &Preset,
    asked: &SamplingRequest,
) -> Result<Value, String> {
    let body = completion::body(preset, asked);
    let bytes = body.len();
    let admitted = started
        .budget
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
