//! `audit/*`: the audit trail (AUD-1).

use aish_proto::audit::{
    AuditDecision, AuditKind, AuditOrder, AuditOutcome, AuditRecord, Export, ExportResult, Finding,
    List, ListParams, ListResult, Verify, VerifyResult,
};
use jsonrpsee::RpcModule;

use super::confirm::{answerer, decision};
use super::convert::denied;
use super::refusal::Refusal;
use super::{Call, Server, register};
use crate::clock;
use crate::conversation::audit::{Direction, Told};
use crate::core::audit::chain::{Entry, Head};
use crate::core::audit::{Outcome, Told as What};
use crate::core::confirm::{Denial, Fate};
use crate::core::event::At;
use crate::core::tool::Subject;
use crate::logging::Redactor;

const LIST_DEFAULT: u32 = 100;
const LIST_MOST: u32 = 500;
const EXPORT_MOST: u32 = 1000;
/// As much of a call's arguments is shown.
const ARGUMENT_BYTES: usize = 2000;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<List, _, _>(module, list);
    register::<Verify, _, _>(module, verify);
    register::<Export, _, _>(module, export);
}

async fn list(call: Call<List>) -> Result<ListResult, Refusal> {
    let ListParams {
        since,
        max_age_ms,
        tool,
        decision,
        conversation,
        order,
        cursor,
        limit,
    } = call.params;
    let since = since.map(|it| time(&it)).transpose()?;
    let youngest = max_age_ms.map(|it| At(clock::now().0.saturating_sub_unsigned(it)));
    let since = since.max(youngest);
    let direction = match order {
        AuditOrder::OldestFirst => Direction::OldestFirst,
        AuditOrder::NewestFirst => Direction::NewestFirst,
    };
    let start = match direction {
        Direction::OldestFirst => 1,
        Direction::NewestFirst => u64::MAX,
    };
    let from = cursor.map_or(Ok(start), |it| number(&it))?;
    let limit = limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MOST) as usize;
    let wanted = move |entry: &Entry| {
        let draft = &entry.draft;
        since.is_none_or(|it| draft.at >= it)
            && conversation.is_none_or(|it| draft.conversation == Some(it))
            && decision.is_none_or(|it| decided(&draft.told) == Some(it))
            && tool.as_deref().is_none_or(|glob| {
                let subject = subject(&draft.told);
                subject.is_some_and(|it| fits(glob, &it.tool.to_string()))
            })
    };
    let page = call
        .server
        .directory
        .audit(from, limit, direction, wanted)
        .await?;
    let redactor = &call.server.redactor;
    let records = page.found.into_iter().map(|it| record(it, redactor));
    Ok(ListResult {
        records: records.collect(),
        next_cursor: page.next.map(|it| it.to_string()),
    })
}

async fn verify(call: Call<Verify>) -> Result<VerifyResult, Refusal> {
    let noted = call.params.noted.as_deref().map(head).transpose()?;
    let verdict = call.server.directory.verify_audit(noted).await?;
    let findings = verdict.findings.iter().map(|it| Finding {
        n: it.n,
        file: it.place.as_ref().map(|(file, _)| file.clone()),
        offset: it.place.as_ref().map(|(_, offset)| *offset),
        what: it.fault.to_string(),
    });
    Ok(VerifyResult {
        whole: verdict.is_whole(),
        records: verdict.head.n,
        head: format!("{}:{}", verdict.head.n, verdict.head.hash),
        findings: findings.collect(),
        more: verdict.more,
    })
}

async fn export(call: Call<Export>) -> Result<ExportResult, Refusal> {
    let from = call.params.cursor.map_or(Ok(1), |it| number(&it))?;
    let limit = call.params.limit.unwrap_or(EXPORT_MOST);
    let limit = limit.clamp(1, EXPORT_MOST) as usize;
    let page = call.server.directory.audit_text(from, limit).await?;
    let line = |it: &crate::core::audit::chain::Sealed| {
        format!("{{\"hash\":\"{}\",\"entry\":{}}}", it.hash, it.text)
    };
    Ok(ExportResult {
        sealed: page.found.iter().map(line).collect(),
        next_cursor: page.next.map(|it| it.to_string()),
    })
}

fn number(cursor: &str) -> Result<u64, Refusal> {
    let number = cursor.parse();
    number.map_err(|_| Refusal::params("cursor is not one that this method gave"))
}

fn time(text: &str) -> Result<At, Refusal> {
    clock::parse(text).ok_or_else(|| {
        Refusal::params(&format!(
            "since: {text:?} is no time such as 2026-11-21T10:00:00Z"
        ))
    })
}

fn head(noted: &str) -> Result<Head, Refusal> {
    let parts = noted.split_once(':');
    let parts = parts.and_then(|(n, hash)| Some((n.parse().ok()?, hash.parse().ok()?)));
    let (n, hash) =
        parts.ok_or_else(|| Refusal::params("noted is the `head` of a check: NUMBER:64 digits"))?;
    Ok(Head { n, hash })
}

/// `*` stands for any characters.
fn fits(glob: &str, name: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else {
        return glob == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let mut rest = rest;
    while let Some((middle, after)) = rest.split_once('*') {
        let Some(at) = name.find(middle) else {
            return false;
        };
        name = name.get(at + middle.len()..).unwrap_or_default();
        rest = after;
    }
    name.ends_with(rest)
}

fn subject(told: &What) -> Option<&Subject> {
    match told {
        What::ConfirmRequested { subject, .. } => Some(subject),
        What::ConfirmResolved { subject, .. }
        | What::CallStarted { subject, .. }
        | What::CallEnded { subject, .. }
        | What::CallRefused { subject, .. } => subject.as_ref(),
        What::TurnAsked { .. }
        | What::ModelChosen { .. }
        | What::PermissionChanged { .. }
        | What::PolicyChanged(_)
        | What::ConversationDeleted { .. } => None,
    }
}

fn decided(told: &What) -> Option<AuditDecision> {
    match told {
        What::ConfirmRequested { .. } => Some(AuditDecision::Ask),
        What::ConfirmResolved { fate, .. } => Some(match fate {
            Fate::Allowed => AuditDecision::Allow,
            Fate::Denied => AuditDecision::Deny,
            Fate::Expired => AuditDecision::Expire,
            Fate::Cancelled => AuditDecision::Cancel,
        }),
        What::CallStarted { .. } => Some(AuditDecision::Allow),
        What::CallRefused { denial, .. } => denial.map(|it| match it {
            Denial::Expired => AuditDecision::Expire,
            Denial::Person | Denial::Policy | Denial::NoApprover => AuditDecision::Deny,
        }),
        What::TurnAsked { .. }
        | What::ModelChosen { .. }
        | What::CallEnded { .. }
        | What::PermissionChanged { .. }
        | What::PolicyChanged(_)
        | What::ConversationDeleted { .. } => None,
    }
}

fn record(it: Told, redactor: &Redactor) -> AuditRecord {
    let Told {
        sealed,
        entry,
        arguments,
    } = it;
    let draft = entry.draft;
    let subject = subject(&draft.told);
    let mut record = AuditRecord {
        n: entry.n,
        at: clock::rfc3339(draft.at),
        kind: kind(&draft.told),
        conversation: draft.conversation,
        seq: draft.seq,
        turn: draft.turn,
        client: draft.client,
        provider: subject.map(|it| it.tool.alias().to_string()),
        tool: subject.map(|it| it.tool.to_string()),
        digest: subject.map(|it| it.digest.to_string()),
        decision: decided(&draft.told),
        because: None,
        denied: None,
        confirm: None,
        answer: None,
        by: None,
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
        arguments: arguments.map(|it| shortened(&redactor.redact(&it))),
        hash: sealed.hash.to_string(),
    };
    fill(&mut record, draft.told);
    record
}

fn kind(told: &What) -> AuditKind {
    match told {
        What::TurnAsked { .. } => AuditKind::TurnAsked,
        What::ModelChosen { .. } => AuditKind::ModelChosen,
        What::ConfirmRequested { .. } => AuditKind::ConfirmRequested,
        What::ConfirmResolved { .. } => AuditKind::ConfirmResolved,
        What::CallStarted { .. } => AuditKind::CallStarted,
        What::CallEnded { .. } => AuditKind::CallEnded,
        What::CallRefused { .. } => AuditKind::CallRefused,
        What::PermissionChanged { .. } => AuditKind::PermissionChanged,
        What::PolicyChanged(_) => AuditKind::PolicyChanged,
        What::ConversationDeleted { .. } => AuditKind::ConversationDeleted,
    }
}

/// What only some kinds have.
fn fill(record: &mut AuditRecord, told: What) {
    match told {
        What::TurnAsked { on_confirm } => {
            let allowed = on_confirm.iter().flat_map(|it| it.allow.iter());
            record.approved = allowed.map(ToString::to_string).collect();
        }
        What::ModelChosen { model, .. } => record.model = Some(model),
        What::ConfirmRequested {
            confirm,
            raise_to,
            why,
            ..
        } => {
            record.confirm = Some(confirm);
            record.to = raise_to.map(crate::core::access::Access::number);
            record.because = Some(why);
        }
        What::ConfirmResolved {
            confirm,
            decision: answer,
            by,
            waited_ms,
            approved,
            ..
        } => {
            record.confirm = Some(confirm);
            record.answer = answer.map(decision);
            record.by = by.map(answerer);
            record.waited_ms = waited_ms;
            record.approved = approved.iter().map(|(tool, _)| tool.to_string()).collect();
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
        }
        What::CallEnded { call, outcome, .. } => {
            record.call = Some(call.0);
            ended(record, outcome);
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
        }
        What::PermissionChanged {
            provider,
            from,
            to,
            revoked,
            by,
            confirm,
        } => {
            record.provider = Some(provider.to_string());
            (record.from, record.to) = (Some(from.number()), Some(to.number()));
            record.because = revoked.then(|| "revoked".to_owned());
            record.by = by.map(answerer);
            record.confirm = confirm;
        }
        What::PolicyChanged(change) => {
            record.digest = Some(change.digest.to_string());
            let unnamed = (change.unnamed > 0).then_some(change.unnamed);
            record.because = unnamed.map(|it| format!("{it} more rules changed"));
            (record.added, record.removed) = (change.added, change.removed);
        }
        What::ConversationDeleted { by } => record.by = by.map(answerer),
    }
}

fn ended(record: &mut AuditRecord, outcome: Outcome) {
    let (outcome, bytes, ms) = match outcome {
        Outcome::Ok { bytes, ms } => (AuditOutcome::Ok, Some(bytes), Some(ms)),
        Outcome::Failed { bytes, ms } => (AuditOutcome::Failed, Some(bytes), Some(ms)),
        Outcome::Unknown => (AuditOutcome::Unknown, None, None),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (glob, name, expected) in [
            ("fs__read", "fs__read", true),
            ("fs__read", "fs__reads", false),
            ("fs__*", "fs__read", true),
            ("fs__*", "git__read", false),
            ("*__read", "fs__read", true),
            ("*e*d", "fs__read", true),
            ("f*__r*d", "fs__read", true),
            ("fs__r*rd", "fs__rd", false),
            ("*", "x__y", true),
            ("", "x__y", false),
        ] {
            assert_eq!(expected, fits(glob, name), "{glob} {name}");
        }
    }
}
