//! Which tools a model is offered.

use std::collections::HashSet;

use aishd_model::preset::Preset;
use aishd_rules::catalog::ToolOffer;
use aishd_tools::builtin;
use aishd_turn::transcript::TranscriptMessage;
use aishd_turn::turn::Turn;

use crate::actor::Conversation;

impl Conversation {
    /// What models are offered, or one that is named, where it is known whether commands could run.
    pub(crate) fn offer_of(&self, preset: Option<&Preset>, offers_shell: bool) -> ToolOffer {
        let policy = self.services.policy.borrow().clone();
        let is_demo = preset.is_some_and(Preset::is_demo);
        let machine = self.turn.as_ref().map(|it| &it.machine);
        let runs_list = machine.is_some_and(Turn::runs_list);
        // It may work in layers, and they would read the files as they are.
        let is_run = machine.is_some_and(Turn::is_run);
        let keeps_results = self
            .transcript
            .held
            .as_ref()
            .is_none_or(aishd_turn::transcript::Transcript::keeps_results);
        let profiles = self.services.tools.profiles();
        let offers_files = policy.file_tools && !is_demo && !is_run && profiles.may_hold();
        let constraints = &self.state.constraints;
        let offer = self.services.tools.catalog().offer(&policy, |tool| {
            if constraints.bars(tool, policy.needs(tool)).is_some() {
                false
            } else if builtin::reads_results(&tool.name) {
                keeps_results
            } else if builtin::reads_resources(&tool.name) {
                runs_list
            } else if builtin::is_for_files(&tool.name) {
                runs_list || offers_files
            } else if builtin::reads_web(&tool.name) {
                runs_list || (policy.web_tools && !is_demo && profiles.may_hold())
            } else if builtin::keeps_todos(&tool.name) {
                runs_list || (policy.todo_tools && !is_demo)
            } else {
                is_demo || runs_list || policy.builtin_tools || !builtin::is_builtin(&tool.name)
            }
        });
        let shell = offers_shell && policy.shell.offers_tool && !is_demo && !is_run && !runs_list;
        let offer = if shell { offer.with_shell() } else { offer };
        match preset {
            Some(preset) if !runs_list => offer.for_preset(preset, || self.named_calls()),
            Some(_) | None => offer,
        }
    }

    /// The tools that the context shows calls of.
    fn named_calls(&self) -> HashSet<String> {
        let transcript = self.transcript.held.iter();
        let calls = transcript
            .flat_map(|it| it.messages())
            .flat_map(|it| match it {
                TranscriptMessage::Assistant { calls, .. } => calls.as_slice(),
                TranscriptMessage::User { .. } | TranscriptMessage::Tool { .. } => &[],
            });
        calls.map(|it| it.name.clone()).collect()
    }
}
