//! What is told of an event of a conversation's log.

#![warn(clippy::wildcard_enum_match_arm)]

use std::num::NonZeroU32;

use super::rules::RuleChange;
use super::{AuditFact, CallMark, CallOutcome};
use crate::access::Access;
use crate::confirm::{Confirm, ConfirmCall, ConfirmSubject, Denial, Resolution};
use crate::constraints::Constraints;
use crate::event::{Event, PresetSource, RefusedCall, TurnOrigin};
use crate::norris::NorrisEvent;
use crate::pinned_resource::PinnedEntry;
use crate::resource::ResourceChanged;
use crate::shell::TOOL;
use crate::state::ConversationState;
use crate::tool::{ContentDigest, DecisionSubject};

/// Whether the trail has a record of such an event.
pub fn is_audited(event: &Event) -> bool {
    audit_fact(&ConversationState::default(), event).is_some()
}

#[expect(
    clippy::too_many_lines,
    reason = "one arm for each kind of event, and nothing else"
)]
pub(super) fn audit_fact(before: &ConversationState, event: &Event) -> Option<AuditFact> {
    Some(match event {
        // What was imported had no effect here; of the import as a whole there is a record.
        Event::UserMessage {
            origin: TurnOrigin::Imported,
            ..
        }
        | Event::TurnStarted {
            source: PresetSource::Imported,
            ..
        } => return None,
        Event::UserMessage { on_confirm, .. } => AuditFact::TurnAsked {
            on_confirm: on_confirm.clone(),
        },
        Event::TurnStarted { model, source, .. } => AuditFact::ModelChosen {
            model: model.clone(),
            source: *source,
        },
        Event::RouteDecided(routed) => AuditFact::QuestionRouted(routed.clone()),
        Event::FellBack { .. } => return fell_back(event),
        Event::ConfirmRequested(confirm) => confirm_fact(confirm),
        Event::ConfirmResolved(resolution) => resolved(before, resolution),
        Event::ToolStarted {
            call,
            name,
            digest,
            rule,
            confirm,
            ..
        } => AuditFact::CallStarted {
            call: CallMark::of(call),
            subject: DecisionSubject::named(name, *digest),
            rule: rule.clone(),
            confirm: *confirm,
        },
        Event::CommandTried(tried) => AuditFact::CommandTried {
            confirm: tried.confirm,
            subject: match &tried.tool {
                Some(tool) => Some(DecisionSubject {
                    tool: tool.clone(),
                    digest: tried.digest,
                }),
                None => DecisionSubject::named(TOOL, tried.digest),
            },
            changed: tried.changed.count,
            ok: tried.ending.is_success(),
            network: tried.network.clone(),
        },
        Event::ChangesSettled(settled) => AuditFact::ChangesSettled {
            outcome: settled.outcome,
            kept: settled.count,
            confirm: settled.confirm,
        },
        Event::ChangesPart(part) => AuditFact::ChangesPart {
            act: part.act,
            stage: part.stage,
            changed: part.count,
        },
        Event::ToolResult { .. } => return ended(before, event),
        Event::ShellStarted {
            call,
            digest,
            rule,
            confirm,
            ..
        } => AuditFact::CallStarted {
            call: CallMark::of(call),
            subject: DecisionSubject::named(TOOL, *digest),
            rule: rule.clone(),
            confirm: *confirm,
        },
        Event::ShellFinished { .. } => return command_ended(before, event),
        Event::PermissionChanged {
            provider,
            from,
            to,
            revoked,
            confirm,
            by: _,
        } => AuditFact::PermissionChanged {
            provider: provider.clone(),
            from: *from,
            to: *to,
            revoked: *revoked,
            confirm: *confirm,
        },
        Event::ConstraintsChanged { constraints, .. } => limits(&before.constraints, constraints),
        Event::Created { constraints, .. } if !constraints.is_empty() => {
            limits(&Constraints::default(), constraints)
        }
        Event::ResourcePinned(PinnedEntry { alias, uri }) => {
            let (provider, resource) = (alias.clone(), ContentDigest::of(uri.as_bytes()));
            AuditFact::ResourcePinned { provider, resource }
        }
        Event::ResourceUnpinned(PinnedEntry { alias, uri }) => {
            let (provider, resource) = (alias.clone(), ContentDigest::of(uri.as_bytes()));
            AuditFact::ResourceUnpinned { provider, resource }
        }
        Event::ResourceChanged(changed) => resource_changed(changed),
        Event::Imported(imported) => AuditFact::ConversationImported {
            messages: imported.messages,
        },
        Event::Norris(NorrisEvent::Launched(launch)) => AuditFact::NorrisLaunched {
            levels: launch.levels.clone(),
            limits: launch.limits,
            second_opinion: launch.second_opinion,
        },
        Event::Norris(
            NorrisEvent::StepBegun { .. }
            | NorrisEvent::Nudged { .. }
            | NorrisEvent::Paused { .. }
            | NorrisEvent::Resumed
            | NorrisEvent::Ended { .. },
        )
        | Event::Created { .. }
        | Event::TurnQueued { .. }
        | Event::AssistantMessage { .. }
        | Event::AnswerPictures { .. }
        | Event::ResultKept { .. }
        // Its start and its reply are told, and between them it is one call.
        | Event::TaskBegan { .. }
        | Event::Evicted(_)
        | Event::Restored(_)
        | Event::ModelUsed(_)
        | Event::BudgetChanged(_)
        | Event::BudgetReached(_)
        | Event::SummaryUpdated(_)
        | Event::TodosChanged { .. }
        | Event::ToolsChosen { .. }
        | Event::CwdChanged { .. }
        // It was let run as a command, and of that there is a record.
        | Event::JobStarted(_)
        | Event::JobEnded(_)
        | Event::ModelChanged { .. }
        | Event::Renamed { .. }
        | Event::ArchivedChanged { .. }
        | Event::Status { .. }
        | Event::RecordLost {}
        // Whether it succeeded or not, there is a record of the wish.
        | Event::ChangesUndo(_)
        | Event::TurnFinished { .. } => return None,
    })
}

fn limits(before: &Constraints, after: &Constraints) -> AuditFact {
    AuditFact::ConstraintsChanged(between(before, after))
}

/// What is told of a request that went to another preset: no word of a server.
fn fell_back(event: &Event) -> Option<AuditFact> {
    let Event::FellBack {
        from,
        to,
        reason,
        status,
        ..
    } = event
    else {
        return None;
    };
    Some(AuditFact::FellBack {
        from: from.clone(),
        to: to.clone(),
        reason: reason.clone(),
        status: *status,
    })
}

fn confirm_fact(confirm: &Confirm) -> AuditFact {
    let asked = |call: &ConfirmCall, needs, raise_to| AuditFact::ConfirmRequested {
        confirm: confirm.id,
        subject: DecisionSubject {
            tool: call.tool.clone(),
            digest: confirm.digest,
        },
        needs,
        raise_to,
        why: confirm.why_told.as_ref().unwrap_or(&confirm.why).clone(),
    };
    match &confirm.subject {
        ConfirmSubject::Call(subject) => asked(&subject.call, subject.needs, subject.raise_to),
        ConfirmSubject::Command(subject) => asked(&subject.call, subject.needs, None),
        ConfirmSubject::Form(subject) => asked(&subject.call, Access::Read, None),
        ConfirmSubject::Model(subject) => asked(&subject.call, Access::Read, None),
        ConfirmSubject::SignIn(subject) => asked(&subject.call, Access::Read, None),
        ConfirmSubject::Level(subject) => AuditFact::RaiseRequested {
            confirm: confirm.id,
            upgrade: subject.step.clone(),
            wanted_for: subject.wanted_for.clone(),
        },
        ConfirmSubject::Memory(subject) => AuditFact::MemoryProposed {
            confirm: confirm.id,
            digest: confirm.digest,
            preset: subject.preset.clone(),
        },
        ConfirmSubject::Changes(subject) => AuditFact::ChangesProposed {
            confirm: confirm.id,
            changed: subject.changed.count,
        },
        ConfirmSubject::Host(subject) => AuditFact::HostAsked {
            confirm: confirm.id,
            host: subject.host.clone(),
        },
    }
}

/// What it was about is known from before, when it was open.
fn resolved(before: &ConversationState, resolution: &Resolution) -> AuditFact {
    let open = before.open_confirm(resolution.confirm);
    AuditFact::ConfirmResolved {
        confirm: resolution.confirm,
        subject: open.and_then(|it| it.subject.clone()),
        upgrade: open.and_then(|it| it.level().cloned()),
        fate: resolution.fate,
        decision: resolution.decision,
        waited_ms: resolution.waited_ms,
        approved: resolution.approved.clone(),
        only: u32::try_from(
            resolution
                .hunks
                .as_ref()
                .map_or(resolution.only.len(), |it| it.numbers.len()),
        )
        .ok()
        .and_then(NonZeroU32::new),
    }
}

fn resource_changed(changed: &ResourceChanged) -> AuditFact {
    AuditFact::ResourceChanged {
        provider: changed.by.provider().cloned(),
        resource: ContentDigest::of(changed.name.as_str().as_bytes()),
        change: changed.change,
        revision: changed.revision,
        bytes: changed.bytes(),
    }
}

fn between(before: &Constraints, now: &Constraints) -> RuleChange {
    RuleChange::between(&before.lines(), &now.lines())
}

/// What is told of a call's reply.
fn ended(before: &ConversationState, event: &Event) -> Option<AuditFact> {
    let Event::ToolResult {
        call,
        ok,
        content,
        denial,
        ms,
        kept,
        refused,
        ..
    } = event
    else {
        return None;
    };
    Some(match refused {
        Some(refused) if refused.imported => return None,
        Some(refused) => never_began(call, refused, *denial),
        None => AuditFact::CallEnded {
            call: CallMark::of(call),
            subject: started(before, call),
            outcome: outcome(*ok, kept.map_or(content.len() as u64, |it| it.bytes), *ms),
            network: None,
        },
    })
}

fn never_began(call: &str, refused: &RefusedCall, denial: Option<Denial>) -> AuditFact {
    AuditFact::CallRefused {
        call: CallMark::of(call),
        subject: refused.subject.clone(),
        denial,
        because: refused.because.clone(),
    }
}

/// The same for a command.
fn command_ended(before: &ConversationState, event: &Event) -> Option<AuditFact> {
    let Event::ShellFinished {
        call,
        ending,
        bytes,
        ms,
        denial,
        refused,
        network,
        ..
    } = event
    else {
        return None;
    };
    Some(match refused {
        Some(refused) => never_began(call, refused, *denial),
        None => AuditFact::CallEnded {
            call: CallMark::of(call),
            subject: started(before, call),
            outcome: outcome(ending.is_as_wanted(), *bytes, *ms),
            network: network.clone(),
        },
    })
}

/// What the call was when it began.
fn started(before: &ConversationState, call: &str) -> Option<DecisionSubject> {
    let mut open = before.running.iter().flat_map(|it| &it.open_calls);
    let in_turn = open.find(|it| it.id == call);
    let own = || {
        let mut own = before.shell.own.iter();
        let own = own.find(|it| it.call == call)?;
        DecisionSubject::named(TOOL, own.digest)
    };
    in_turn.map_or_else(own, |it| it.subject.clone())
}

fn outcome(ok: bool, bytes: u64, ms: Option<u64>) -> CallOutcome {
    match (ms, ok) {
        (None, _) => CallOutcome::Unknown,
        (Some(ms), true) => CallOutcome::Ok { bytes, ms },
        (Some(ms), false) => CallOutcome::Failed { bytes, ms },
    }
}
