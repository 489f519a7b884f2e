//! Hosts that people have answered for: in the conversation, and in a run for as long as what it changed is not settled.

use aish_proto::id::TurnId;
use serde::{Deserialize, Serialize};

use super::ConversationState;
use super::confirms::AsideSubject;
use crate::confirm::{ConfirmFate, Decision, Resolution};
use crate::network::NetworkUse;

/// The host of an open question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedHost {
    /// With its port.
    pub host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<TurnId>,
    /// The turn of the call that wants it. `None`: it is a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
}

/// What commands of one run reached, and may reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHosts {
    pub turn: TurnId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// Said no to, or not answered: nobody is asked again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    #[serde(default, skip_serializing_if = "NetworkUse::is_empty")]
    pub used: NetworkUse,
}

impl ConversationState {
    pub fn hosts_of(&self, turn: TurnId) -> Option<&RunHosts> {
        self.run_hosts.iter().find(|it| it.turn == turn)
    }

    /// What commands of a run did is told when it is over.
    pub(super) fn network_used(&mut self, turn: Option<TurnId>, used: &NetworkUse) {
        if let Some(hosts) = turn.and_then(|it| self.hosts_of_layers(it)) {
            hosts.used.add(used);
        }
    }

    pub(super) fn host_answered(&mut self, resolution: &Resolution) {
        let asked = self.open_confirm(resolution.confirm);
        let Some(AsideSubject::Host(wanted)) = asked.and_then(|it| it.aside.clone()) else {
            return;
        };
        if resolution.decision == Some(Decision::AllowConversation) {
            self.grants.hosts.insert(wanted.host);
            return;
        }
        let Some(hosts) = wanted.run.and_then(|it| self.hosts_of_layers(it)) else {
            return;
        };
        match resolution.fate {
            ConfirmFate::Allowed => hosts.allowed.push(wanted.host),
            ConfirmFate::Denied | ConfirmFate::Expired => hosts.denied.push(wanted.host),
            // Its command ended before.
            ConfirmFate::Cancelled => {}
        }
    }

    /// Of a run that has layers, whose changes are settled some day.
    fn hosts_of_layers(&mut self, turn: TurnId) -> Option<&mut RunHosts> {
        self.changes_of(turn)?;
        let at = self.run_hosts.iter().position(|it| it.turn == turn);
        let at = at.unwrap_or_else(|| {
            self.run_hosts.push(RunHosts {
                turn,
                allowed: vec![],
                denied: vec![],
                used: NetworkUse::default(),
            });
            self.run_hosts.len() - 1
        });
        self.run_hosts.get_mut(at)
    }
}
