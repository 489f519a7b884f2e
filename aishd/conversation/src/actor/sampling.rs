//! What a person allowed a server to ask of a model.

use std::sync::Arc;

use aish_proto::id::TurnId;
use aishd_log::event::{PresetSource, ProviderLevel};
use aishd_model::preset::Preset;
use aishd_rules::gate::AdmittedCall;
use aishd_rules::sampling::judge;
use aishd_rules::server_request::ServerRequestJudgement;

use crate::actor::Conversation;
use crate::questions::elicitation::ElicitAsker;
use crate::questions::sampling::{ModelWanted, SamplingConsent};

impl Conversation {
    /// Puts a server's request for a model before people, or answers in their place.
    pub(crate) async fn asked_for_model(
        &mut self,
        turn: TurnId,
        call: &str,
        go: &AdmittedCall,
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
