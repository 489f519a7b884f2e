//! A record of the trail as the wire has it.

use std::num::NonZeroU32;

use aish_proto::audit::{AuditDecision, AuditKind, AuditOutcome, AuditRecord};
use aishd_conversation::history::audit::AuditedRecord;
use aishd_log::audit::rules::RuleChange;
use aishd_log::audit::{
    AuditFact as What, CallOutcome, NotifyOutcome, RoutedAs, RoutedAudit, ServerChange,
    SignInAudit, UndoOutcome,
};
use aishd_log::changes_undo::UndoAct;
use aishd_log::confirm::{ConfirmFate, Denial};
use aishd_log::grants::GrantScope;
use aishd_log::level_request::LevelStep;
use aishd_log::norris::launch::RunLimits;
use aishd_log::pattern::Patterns;
use aishd_log::routed;
use aishd_log::run_changes::{ChangesOutcome, PartAct, PartStage};
use aishd_log::tool::{ContentDigest, DecisionSubject};
use aishd_log::tool_name::Alias;
use aishd_logging::Redactor;
use aishd_platform::clock;

use crate::answerer::answerer;
use crate::confirm::decision;
use crate::event_conversion::denied;
use crate::provider_name::provider_or_all;

/// As much of a call's arguments is shown.
const ARGUMENT_BYTES: usize = 2000;

pub(super) fn subject(told: &What) -> Option<&DecisionSubject> {
    match told {
        What::ConfirmRequested { subject, .. } => Some(subject),
        What::ConfirmResolved { subject, .. }
        | What::NoticeGiven { subject, .. }
        | What::CommandTried { subject, .. }
        | What::CallStarted { subject, .. }
        | What::CallEnded { subject, .. }
        | What::CallRefused { subject, .. } => subject.as_ref(),
        _ => None,
    }
}

pub(super) fn decided(told: &What) -> Option<AuditDecision> {
    match told {
        What::ConfirmRequested { .. }
        | What::RaiseRequested { .. }
        | What::MemoryProposed { .. }
        | What::ChangesProposed { .. }
        | What::HostAsked { .. } => Some(AuditDecision::Ask),
        What::ConfirmResolved { fate, .. } => Some(match fate {
            ConfirmFate::Allowed => AuditDecision::Allow,
            ConfirmFate::Denied => AuditDecision::Deny,
            ConfirmFate::Expired => AuditDecision::Expire,
            ConfirmFate::Cancelled => AuditDecision::Cancel,
        }),
        What::CallStarted { .. } => Some(AuditDecision::Allow),
        What::CallRefused { denial, .. } => denial.map(|it| match it {
            Denial::Expired => AuditDecision::Expire,
            Denial::Person | Denial::Policy | Denial::NoApprover => AuditDecision::Deny,
        }),
        What::Routed(it) => it.contradiction.as_ref().map(|_| AuditDecision::Deny),
        _ => None,
    }
}

pub(super) fn record(it: AuditedRecord, redactor: &Redactor) -> AuditRecord {
    let AuditedRecord {
        sealed,
        entry,
        arguments,
    } = it;
    let draft = entry.draft;
    let subject = subject(&draft.told);
    let mut record = AuditRecord {
        n: entry.n,
        at: clock::rfc3339(draft.at),
        kind: AuditKind::ConversationDeleted,
        conversation: draft.conversation,
        seq: draft.seq,
        turn: draft.turn,
        client: draft.by.as_ref().map(|it| it.client),
        provider: subject.map(|it| it.tool.alias().to_string()),
        tool: subject.map(|it| it.tool.to_string()),
        digest: subject.map(|it| it.digest.to_string()),
        decision: decided(&draft.told),
        because: None,
        denied: None,
        confirm: None,
        changes: None,
        answer: None,
        by: draft.by.map(answerer),
        waited_ms: None,
        approved: vec![],
        call: None,
        outcome: None,
        bytes: None,
        ms: None,
        from: None,
        to: None,
        model: None,
        added: vec![],
        removed: vec![],
        network: None,
        arguments: arguments.map(|it| shortened(&redactor.redact(&it))),
        hash: sealed.hash.to_string(),
    };
    record.kind = fill(&mut record, draft.told);
    record
}

/// Fills in what only some kinds have; the kind.
#[expect(
    clippy::too_many_lines,
    reason = "one arm for each kind of record, and nothing else"
)]
fn fill(record: &mut AuditRecord, told: What) -> AuditKind {
    match told {
        What::TurnAsked { on_confirm } => {
            let allowed = on_confirm.iter().flat_map(|it| it.allow.iter());
            record.approved = allowed.map(ToString::to_string).collect();
            AuditKind::TurnAsked
        }
        What::ModelChosen { model, .. } => {
            record.model = Some(model);
            AuditKind::ModelChosen
        }
        What::ConfirmRequested {
            confirm,
            raise_to,
            why,
            ..
        } => {
            record.confirm = Some(confirm);
            record.to = raise_to.map(aishd_log::access::Access::number);
            record.because = Some(why);
            AuditKind::ConfirmRequested
        }
        What::RaiseRequested {
            confirm,
            upgrade,
            wanted_for,
        } => {
            record.confirm = Some(confirm);
            record.digest = Some(upgrade.digest().to_string());
            record.because = Some(match wanted_for {
                Some(tool) => format!("{}, for {tool}", upgrade.why()),
                None => upgrade.why(),
            });
            fill_of_upgrade(record, Some(upgrade));
            AuditKind::ConfirmRequested
        }
        What::MemoryProposed {
            confirm,
            digest,
            preset,
        } => {
            record.confirm = Some(confirm);
            record.digest = Some(digest.to_string());
            record.because = Some("a fact to remember".to_owned());
            record.model = Some(preset);
            AuditKind::ConfirmRequested
        }
        What::ConfirmResolved {
            confirm,
            decision: answer,
            waited_ms,
            approved,
            upgrade,
            only,
            subject: _,
            fate: _,
        } => {
            fill_of_upgrade(record, upgrade);
            record.because = only.map(|it| format!("only what was named: {it}"));
            record.confirm = Some(confirm);
            record.answer = answer.map(decision);
            record.waited_ms = waited_ms;
            record.approved = approved.iter().map(|(tool, _)| tool.to_string()).collect();
            AuditKind::ConfirmResolved
        }
        What::ChangesProposed { confirm, changed } => {
            record.confirm = Some(confirm);
            record.because = Some(format!("{changed} changed by a run in layers"));
            AuditKind::ConfirmRequested
        }
        What::HostAsked { confirm, host } => {
            record.confirm = Some(confirm);
            record.because = Some(format!("a command in layers wants {host}"));
            AuditKind::ConfirmRequested
        }
        What::ChangesSettled {
            outcome,
            kept,
            confirm,
        } => {
            record.confirm = confirm;
            record.because = Some(match outcome {
                ChangesOutcome::Nothing => "the run changed nothing".to_owned(),
                ChangesOutcome::Kept => format!("kept: {kept} paths"),
                ChangesOutcome::KeptInPart => format!("kept in part: {kept} paths"),
                ChangesOutcome::Dropped => "dropped".to_owned(),
                ChangesOutcome::Failed => "they could not be kept".to_owned(),
            });
            AuditKind::ChangesSettled
        }
        What::ChangesPart {
            act,
            stage,
            changed,
        } => {
            let act = match act {
                PartAct::Keep => "kept",
                PartAct::Drop => "dropped",
            };
            record.because = Some(match stage {
                PartStage::Ordered => format!("{changed} paths are to be {act}"),
                PartStage::Done => format!("{act}: {changed} paths"),
                PartStage::Failed => format!("{changed} paths could not be {act}"),
            });
            AuditKind::ChangesPart
        }
        What::ChangesUndone {
            act,
            changes,
            outcome,
            paths,
        } => {
            record.changes = Some(changes);
            let (kind, done) = match act {
                UndoAct::Undo => (AuditKind::ChangesUndone, "undone"),
                UndoAct::Redo => (AuditKind::ChangesRedone, "done again"),
            };
            fill_of_undo(record, done, outcome, paths);
            kind
        }
        What::CommandTried {
            confirm,
            changed,
            ok,
            network,
            subject: _,
        } => {
            record.network = network.and_then(|it| crate::tried::network(*it));
            record.confirm = Some(confirm);
            record.because = Some(format!("{changed} changed in layers"));
            record.outcome = Some(if ok {
                AuditOutcome::Ok
            } else {
                AuditOutcome::Failed
            });
            AuditKind::CommandTried
        }
        What::CallStarted {
            call,
            rule,
            confirm,
            ..
        } => {
            record.call = Some(call.0);
            record.because = Some(rule);
            record.confirm = confirm;
            AuditKind::CallStarted
        }
        What::CallEnded {
            call,
            outcome,
            network,
            ..
        } => {
            record.network = network.and_then(|it| crate::tried::network(*it));
            record.call = Some(call.0);
            ended(record, outcome);
            AuditKind::CallEnded
        }
        What::CallRefused {
            call,
            denial,
            because,
            ..
        } => {
            record.call = Some(call.0);
            record.denied = denial.map(denied);
            record.because = Some(because);
            AuditKind::CallRefused
        }
        What::PermissionChanged {
            provider,
            from,
            to,
            revoked,
            confirm,
        } => {
            record.provider = Some(provider_or_all(provider.as_ref()));
            (record.from, record.to) = (Some(from.number()), Some(to.number()));
            record.because = revoked.then(|| "revoked".to_owned());
            record.confirm = confirm;
            AuditKind::PermissionChanged
        }
        What::NoticeGiven {
            confirm,
            outcome,
            upgrade,
            subject: _,
        } => {
            fill_of_upgrade(record, upgrade);
            record.confirm = Some(confirm);
            record.outcome = Some(match outcome {
                NotifyOutcome::Given => AuditOutcome::Ok,
                NotifyOutcome::Failed => AuditOutcome::Failed,
            });
            AuditKind::NoticeGiven
        }
        What::ProgramHeld {
            provider,
            profile,
            landlock,
        } => {
            record.provider = provider.map(|it| it.to_string());
            let second = if landlock { " and Landlock" } else { "" };
            let by = format!("{profile}, by namespaces, a filter of system calls{second}");
            record.because = Some(by);
            AuditKind::ProgramHeld
        }
        What::ProgramReached { provider, network } => {
            record.provider = provider.map(|it| it.to_string());
            record.network = crate::tried::network(*network);
            AuditKind::ProgramReached
        }
        What::AutoApproveSet {
            patterns,
            scope,
            count,
        } => {
            record.approved = patterns.iter().map(ToString::to_string).collect();
            record.because = Some(how_long(&patterns, scope, count));
            AuditKind::AutoApproveSet
        }
        What::ResourcePinned { provider, resource } => {
            fill_of_resource(record, &provider, resource);
            AuditKind::ResourcePinned
        }
        What::ResourceUnpinned { provider, resource } => {
            fill_of_resource(record, &provider, resource);
            AuditKind::ResourceUnpinned
        }
        What::ResourceRead { provider, resource } => {
            fill_of_resource(record, &provider, resource);
            AuditKind::ResourceRead
        }
        What::ResourceChanged {
            provider,
            resource,
            change,
            revision,
            bytes,
        } => {
            record.provider = provider.map(|it| it.to_string());
            record.digest = Some(resource.to_string());
            record.because = Some(format!("{}, revision {revision}", change.as_str()));
            record.bytes = Some(bytes);
            AuditKind::ResourceChanged
        }
        What::PromptAsked {
            provider,
            prompt,
            digest,
            outcome,
        } => {
            record.provider = Some(provider.to_string());
            record.tool = prompt.map(|it| it.to_string());
            record.digest = Some(digest.to_string());
            ended(record, outcome);
            AuditKind::PromptAsked
        }
        What::ServerChanged {
            provider,
            change,
            place,
            sign_in,
        } => {
            record.provider = Some(provider.to_string());
            record.digest = place.map(|it| it.to_string());
            record.because = Some(done_to_server(change, sign_in.as_deref()));
            AuditKind::ServerChanged
        }
        What::Routed(routed) => {
            fill_of_routing(record, routed);
            AuditKind::Routed
        }
        What::QuestionRouted(routed) => {
            fill_of_class(record, routed);
            AuditKind::QuestionRouted
        }
        What::FellBack {
            from, to, reason, ..
        } => {
            record.because = Some(format!("{from}: {reason}"));
            record.model = Some(to);
            AuditKind::FellBack
        }
        What::RoutingSwitched { which, on } => {
            fill_of_switch(record, which, on);
            AuditKind::RoutingSwitched
        }
        What::NorrisLaunched {
            levels,
            limits,
            second_opinion,
        } => {
            record.approved = levels.spelled();
            record.because = Some(bounds(limits, second_opinion));
            AuditKind::NorrisLaunched
        }
        What::ConversationImported { messages } => {
            record.because = Some(format!("{messages} messages"));
            AuditKind::ConversationImported
        }
        What::MemoryChanged { what } => {
            record.because = Some(what);
            AuditKind::MemoryChanged
        }
        What::PolicyChanged(change) => {
            fill_of_rules(record, change);
            AuditKind::PolicyChanged
        }
        What::ConstraintsChanged(change) => {
            fill_of_rules(record, change);
            AuditKind::ConstraintsChanged
        }
        What::ConversationDeleted => AuditKind::ConversationDeleted,
        What::StoreRepaired { records, trail } => {
            let of_trail: u64 = trail.iter().map(|(first, last)| last - first + 1).sum();
            let lost =
                format!("{records} records of conversations and {of_trail} of the trail lost");
            record.because = Some(lost);
            AuditKind::StoreRepaired
        }
    }
}

fn fill_of_undo(record: &mut AuditRecord, done: &str, outcome: UndoOutcome, paths: Option<u64>) {
    let said = paths.map_or_else(|| "paths".to_owned(), |it| format!("{it} paths"));
    let (outcome, because) = match outcome {
        UndoOutcome::Undone => (AuditOutcome::Ok, format!("{said} {done}")),
        UndoOutcome::Conflict => (
            AuditOutcome::Failed,
            format!("nothing {done}: {said} were changed since"),
        ),
        UndoOutcome::Unfinished => (AuditOutcome::Unknown, "it did not end".to_owned()),
        UndoOutcome::Failed => (AuditOutcome::Failed, format!("nothing {done}")),
    };
    (record.outcome, record.because) = (Some(outcome), Some(because));
}

fn fill_of_resource(record: &mut AuditRecord, provider: &Alias, resource: ContentDigest) {
    record.provider = Some(provider.to_string());
    record.digest = Some(resource.to_string());
}

fn fill_of_rules(record: &mut AuditRecord, change: RuleChange) {
    record.digest = Some(change.digest.to_string());
    let unnamed = (change.unnamed > 0).then_some(change.unnamed);
    record.because = unnamed.map(|it| format!("{it} more rules changed"));
    (record.added, record.removed) = (change.added, change.removed);
}

fn bounds(limits: RunLimits, second_opinion: bool) -> String {
    let opinion = if second_opinion { "with" } else { "without" };
    let cost = limits.cost.map(|it| format!(", {it}")).unwrap_or_default();
    format!("{} steps{cost}, {opinion} a second opinion", limits.steps)
}

fn fill_of_upgrade(record: &mut AuditRecord, upgrade: Option<LevelStep>) {
    if let Some(LevelStep { provider, from, to }) = upgrade {
        record.provider = Some(provider.to_string());
        (record.from, record.to) = (Some(from.number()), Some(to.number()));
    }
}

fn fill_of_class(record: &mut AuditRecord, routed: routed::RoutingDecision) {
    record.because = Some(format!("{}: {}", routed.class.name(), routed.rule));
    record.model = Some(routed.preset);
}

fn done_to_server(change: ServerChange, sign_in: Option<&SignInAudit>) -> String {
    let done = match change {
        ServerChange::Connected => "connected to by hand",
        ServerChange::Disconnected => "disconnected",
        ServerChange::Restarted => "restarted",
        ServerChange::SignedIn => "signed in to",
        ServerChange::SignedOut => "signed out of",
        ServerChange::NotRenewed => "not renewed: its sign-in",
    };
    match sign_in {
        None => done.to_owned(),
        Some(SignInAudit {
            issuer,
            error: Some(error),
            ..
        }) => format!("{done}, at {issuer}: {error}"),
        Some(at) if at.scopes.is_empty() => format!("{done}, at {}", at.issuer),
        Some(at) => format!("{done}, at {}, for {}", at.issuer, at.scopes.join(" ")),
    }
}

fn fill_of_switch(record: &mut AuditRecord, which: routed::RoutedSide, on: Option<bool>) {
    let how = match on {
        Some(true) => "on",
        Some(false) => "off",
        None => "as configured",
    };
    record.because = Some(format!("{} {how}", which.key()));
}

fn fill_of_routing(record: &mut AuditRecord, routed: RoutedAudit) {
    let RoutedAudit {
        action,
        outcome,
        tool,
        confidence,
        contradiction,
    } = routed;
    record.digest = Some(action.to_string());
    record.provider = tool.as_ref().map(|it| it.alias().to_string());
    record.tool = tool.map(|it| it.to_string());
    record.because = Some(how_sure(outcome, confidence, contradiction));
}

fn how_sure(outcome: RoutedAs, confidence: u16, contradiction: Option<String>) -> String {
    let outcome = match outcome {
        RoutedAs::Found => "found",
        RoutedAs::Ambiguous => "ambiguous",
        RoutedAs::Unknown => return "unknown".to_owned(),
    };
    let (whole, part) = (confidence / 1000, confidence % 1000);
    let sure = format!("{outcome}, confidence {whole}.{part:03}");
    match contradiction {
        Some(rule) => format!("{sure}; contradicts {rule}"),
        None => sure,
    }
}

fn how_long(patterns: &Patterns, scope: GrantScope, count: Option<NonZeroU32>) -> String {
    if patterns.is_empty() {
        return "taken back".to_owned();
    }
    let scope = match scope {
        GrantScope::Turn => "for a turn",
        GrantScope::Client => "while the client is attached",
    };
    match count {
        Some(count) => format!("{scope}, {count} calls"),
        None => scope.to_owned(),
    }
}

fn ended(record: &mut AuditRecord, outcome: CallOutcome) {
    let (outcome, bytes, ms) = match outcome {
        CallOutcome::Ok { bytes, ms } => (AuditOutcome::Ok, Some(bytes), Some(ms)),
        CallOutcome::Failed { bytes, ms } => (AuditOutcome::Failed, Some(bytes), Some(ms)),
        CallOutcome::Unknown => (AuditOutcome::Unknown, None, None),
    };
    (record.outcome, record.bytes, record.ms) = (Some(outcome), bytes, ms);
}

fn shortened(text: &str) -> String {
    if text.len() <= ARGUMENT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(ARGUMENT_BYTES);
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}… ({} bytes)", text.len())
}
