//! What another model says of an action of a run before it begins.

use std::sync::Arc;
use std::time::Duration;

use aishd_broker::Broker;
use aishd_log::canonical::canonical;
use aishd_log::shell;
use aishd_log::spending::SpendingPurpose;
use aishd_model::preset::Preset;
use aishd_model::second_opinion::{Opinion, PlannedAction, read, too_long};
use aishd_rules::autonomy::SecondOpinion;
use aishd_rules::gate::{AdmittedCall, AdmittedCommand, spelled};
use aishd_turn::opinion_request::body;
use aishd_turn::turn::OwedReplies;
use tokio::time::timeout;

use crate::spending::budget::BudgetMeter;

/// What another model said, and what waits for it.
#[derive(Debug)]
pub(crate) struct ReceivedOpinion {
    pub(crate) heard: SecondOpinion,
    pub(crate) owing: Vec<OwedReplies>,
}

/// One question to another model.
pub(crate) struct OpinionRequest {
    pub(crate) broker: Broker,
    /// `None`: there is no other.
    pub(crate) preset: Option<Arc<Preset>>,
    pub(crate) budget: BudgetMeter,
    pub(crate) goal: String,
    pub(crate) action: JudgedAction,
    pub(crate) within: Duration,
}

/// What it is about, as it would run.
pub(crate) struct JudgedAction {
    pub(crate) tool: String,
    pub(crate) description: String,
    pub(crate) arguments: String,
}

impl JudgedAction {
    pub(crate) fn of_call(go: &AdmittedCall) -> Self {
        Self {
            tool: go.tool.name.to_string(),
            description: go.tool.description.clone(),
            arguments: spelled(&go.arguments),
        }
    }

    pub(crate) fn of_command(run: &AdmittedCommand) -> Self {
        let arguments = serde_json::json!({"command": run.command, "directory": run.setting.cwd});
        Self {
            tool: shell::TOOL.to_owned(),
            description: shell::tool().description.clone(),
            arguments: canonical(&arguments),
        }
    }
}

impl OpinionRequest {
    pub(crate) async fn ask(self) -> Opinion {
        let Some(preset) = self.preset else {
            return Opinion::Missing("there is no other preset that could be asked".to_owned());
        };
        let planned = PlannedAction {
            goal: &self.goal,
            tool: &self.action.tool,
            description: &self.action.description,
            arguments: &self.action.arguments,
        };
        if let Some(opinion) = too_long(planned) {
            return opinion;
        }
        let preset = self.broker.adapted(preset);
        let body = body(&preset, planned);
        let bytes = body.len();
        let admitted = self
            .budget
            .admit_aside(&preset, bytes as u64, SpendingPurpose::Opinion);
        let ticket = match admitted {
            Ok(ticket) => ticket,
            Err(reached) => return Opinion::Missing(reached.to_string()),
        };
        let meter = ticket.meter();
        meter.sends(bytes);
        let answer = self.broker.stream(&preset, body, |delta| {
            meter.receives(delta.text().len());
        });
        match timeout(self.within, answer).await {
            Ok(Ok(reply)) => {
                ticket.charge_aside(Some(&reply), None);
                read(&reply.text)
            }
            // What its server said is not for the log of a conversation.
            Ok(Err(broken)) => {
                ticket.charge_aside(Some(&broken.partial), Some(&broken.failure));
                Opinion::Missing(format!("{} failed", preset.name))
            }
            Err(_elapsed) => Opinion::Missing(format!(
                "{} said nothing within {} s",
                preset.name,
                self.within.as_secs()
            )),
        }
    }
}
