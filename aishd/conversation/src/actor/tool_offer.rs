//! Which tools a model is offered.

use std::collections::HashSet;

use aish_proto::id::TurnId;
use aishd_log::event::Event;
use aishd_log::tool_name::ToolName;
use aishd_model::context_budget::{BytesPerToken, ContextLimit};
use aishd_model::preset::Preset;
use aishd_model::tool_limit;
use aishd_rules::catalog::ToolOffer;
use aishd_rules::tool_choice::{OfferBounds, OfferRoom, ToolChoice};
use aishd_tools::builtin;
use aishd_tools::builtin_kind::BuiltinKind;
use aishd_turn::transcript::{Transcript, TranscriptMessage};
use aishd_turn::turn::Turn;

use crate::actor::Conversation;
use crate::pending_commit::UncommittedFact;

impl Conversation {
    /// What the next request offers: all that neither policy nor the conversation's constraints deny, and of the daemon's own
    /// what serves here.
    pub(crate) fn offer(&self) -> ToolOffer {
        let preset = self.turn.as_ref().and_then(|it| it.preset.clone());
        // It may have been learned since the turn began.
        let preset = preset.map(|it| self.services.broker.adapted(it));
        self.offer_of(
            preset.as_deref(),
            self.offers_shell(),
            self.transcript.held.as_ref(),
        )
    }

    /// What a turn of this preset would be offered.
    pub(crate) fn offer_to(&self, preset: &Preset) -> ToolOffer {
        self.offer_of(
            Some(preset),
            self.offers_shell(),
            self.transcript.held.as_ref(),
        )
    }

    /// What models are offered, or one that is named, of a conversation that shows this, where it is known whether commands
    /// could run.
    pub(crate) fn offer_of(
        &self,
        preset: Option<&Preset>,
        offers_shell: bool,
        transcript: Option<&Transcript>,
    ) -> ToolOffer {
        let policy = self.services.policy.borrow().clone();
        let is_demo = preset.is_some_and(Preset::is_demo);
        let machine = self.turn.as_ref().map(|it| &it.machine);
        let runs_list = machine.is_some_and(Turn::runs_list);
        // It may work in layers, and they would read the files as they are.
        let is_run = machine.is_some_and(Turn::is_run);
        let profiles = self.services.tools.profiles();
        let is_usual = |kind: BuiltinKind| kind.is_offered_by(&policy, profiles.may_hold());
        let offers_shell = offers_shell && policy.shell.offers_tool;
        let offers_shell = offers_shell && !is_demo && !is_run && !runs_list;
        let constraints = &self.state.constraints;
        let catalog = self.services.tools.catalog();
        let keeps_results = transcript.is_none_or(Transcript::keeps_results);
        let offered = |reads_on: bool| {
            catalog.offer(&policy, |tool| {
                let is_open = constraints.bars(tool, policy.needs(tool)).is_none();
                is_open
                    && BuiltinKind::of(&tool.name).is_none_or(|kind| match kind {
                        BuiltinKind::Results => reads_on,
                        BuiltinKind::Finder => false,
                        BuiltinKind::Resources => runs_list,
                        BuiltinKind::Files => runs_list || (is_usual(kind) && !is_demo && !is_run),
                        BuiltinKind::Web | BuiltinKind::Todos => {
                            runs_list || (is_usual(kind) && !is_demo)
                        }
                        BuiltinKind::Jobs => offers_shell,
                        BuiltinKind::Other => is_demo || runs_list || is_usual(kind),
                    })
            })
        };
        // Where there are others it is among them from the start: any of them may give what is too long, and a tool that
        // comes later would be another beginning for what servers have read.
        let offer = offered(true);
        let is_alone = offer.iter().len() <= 1 && !offers_shell;
        let offer = if is_alone && !keeps_results {
            offered(false)
        } else {
            offer
        };
        let offer = if offers_shell {
            offer.with_shell()
        } else {
            offer
        };
        match preset {
            Some(preset) if !runs_list && preset.tools => self.chosen(offer, preset, transcript),
            Some(_) | None => offer,
        }
    }

    /// As much of it as a request of this preset may have.
    fn chosen(
        &self,
        offer: ToolOffer,
        preset: &Preset,
        transcript: Option<&Transcript>,
    ) -> ToolOffer {
        let most = tool_limit::limit(preset);
        if most == Some(0) {
            return ToolOffer::default();
        }
        let rules = self.rules();
        let room = ContextLimit::of(&rules, preset).tokens.map(|it| {
            let percent = rules.tools_percent;
            // Not by what the server has counted: the list is not another one because of that.
            let ratio = BytesPerToken::default();
            let tokens = it.whole.saturating_mul(percent) / 100;
            OfferRoom {
                bytes: ratio.bytes(tokens),
                percent,
                tokens,
            }
        });
        let bounds = OfferBounds {
            most,
            room: room.filter(|it| it.percent < 100),
        };
        let is_own = |it: &ToolName| builtin::is_builtin(it);
        let Some(because) = bounds.exceeded_by(&offer, is_own) else {
            return offer;
        };
        let (called, questions) = transcript.map(named).unwrap_or_default();
        offer.choose(&ToolChoice {
            bounds,
            because,
            is_own,
            pinned: &rules.pinned_tools,
            chosen: &self.state.chosen_tools,
            called: &called,
            questions: &questions,
            finder: &builtin::finder(),
        })
    }

    /// What is written down where a request has chosen tools that those before it had not.
    pub(crate) fn choice_fact(&self, turn: TurnId, offer: &ToolOffer) -> Option<UncommittedFact> {
        let selection = offer.selection()?;
        let known = |it: &&ToolName| self.state.chosen_tools.contains(it);
        let added = selection.added.iter().filter(|it| !known(it));
        let added: Vec<ToolName> = added.cloned().collect();
        let dropped: Vec<ToolName> = selection.dropped.iter().filter(known).cloned().collect();
        if added.is_empty() && dropped.is_empty() {
            return None;
        }
        Some(UncommittedFact {
            turn: Some(turn),
            by: None,
            event: Event::ToolsChosen { added, dropped },
        })
    }

    /// People are told of the first request that does not have all tools.
    pub(crate) fn remark_on(&mut self, offer: &ToolOffer, preset: &Preset) {
        let selection = offer.selection().map(|it| it.notice(&preset.model));
        self.told.remarks.extend(selection);
    }
}

/// The tools that the context shows calls of, and what was asked last.
fn named(transcript: &Transcript) -> (HashSet<String>, Vec<&str>) {
    let mut called = HashSet::new();
    for message in transcript.messages() {
        if let TranscriptMessage::Assistant { calls, .. } = message {
            called.extend(calls.iter().map(|it| it.name.clone()));
        }
    }
    let newest = transcript.exchanges().next_back();
    let asked = newest.iter().flat_map(|it| it.messages());
    let questions = asked.filter_map(|it| match it {
        TranscriptMessage::User { text, .. } => Some(&**text),
        TranscriptMessage::Assistant { .. } | TranscriptMessage::Tool { .. } => None,
    });
    (called, questions.collect())
}
