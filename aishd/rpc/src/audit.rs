//! `audit/*`: the audit trail.

mod record;

use aish_proto::audit::{
    AuditExportResult, AuditFinding, AuditListParams, AuditListResult, AuditOrder, Export, List,
    Verify, VerifyResult,
};
use aishd_conversation::history::audit::TrailDirection;
use aishd_log::audit::chain::{ChainEntry, ChainHead};
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use jsonrpsee::RpcModule;

use self::record::{decided, record, subject};
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

const LIST_DEFAULT: u32 = 100;
const LIST_MOST: u32 = 500;
const EXPORT_MOST: u32 = 1000;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Verify, _, _>(module, verify);
    register::<Export, _, _>(module, export);
}

async fn list(call: MethodCall<List>) -> Result<AuditListResult, MethodError> {
    let AuditListParams {
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
    let youngest = max_age_ms.map(|it| Timestamp(clock::now().0.saturating_sub_unsigned(it)));
    let since = since.max(youngest);
    let direction = match order {
        AuditOrder::OldestFirst => TrailDirection::OldestFirst,
        AuditOrder::NewestFirst => TrailDirection::NewestFirst,
    };
    let start = match direction {
        TrailDirection::OldestFirst => 1,
        TrailDirection::NewestFirst => u64::MAX,
    };
    let from = cursor.map_or(Ok(start), |it| number(&it))?;
    let limit = limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MOST) as usize;
    let wanted = move |entry: &ChainEntry| {
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
    Ok(AuditListResult {
        records: records.collect(),
        next_cursor: page.next.map(|it| it.to_string()),
    })
}

async fn verify(call: MethodCall<Verify>) -> Result<VerifyResult, MethodError> {
    let noted = call.params.noted.as_deref().map(head).transpose()?;
    let verdict = call.server.directory.verify_audit(noted).await?;
    let findings = verdict.findings.iter().map(|it| AuditFinding {
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
        lost: verdict.lost,
    })
}

async fn export(call: MethodCall<Export>) -> Result<AuditExportResult, MethodError> {
    let from = call.params.cursor.map_or(Ok(1), |it| number(&it))?;
    let limit = call.params.limit.unwrap_or(EXPORT_MOST);
    let limit = limit.clamp(1, EXPORT_MOST) as usize;
    let page = call.server.directory.audit_text(from, limit).await?;
    let line = |it: &aishd_log::audit::chain::SealedRecord| {
        format!("{{\"hash\":\"{}\",\"entry\":{}}}", it.hash, it.text)
    };
    Ok(AuditExportResult {
        sealed: page.found.iter().map(line).collect(),
        next_cursor: page.next.map(|it| it.to_string()),
    })
}

fn number(cursor: &str) -> Result<u64, MethodError> {
    let number = cursor.parse();
    number.map_err(|_| MethodError::params("cursor is not one that this method gave"))
}

fn time(text: &str) -> Result<Timestamp, MethodError> {
    clock::parse(text).ok_or_else(|| {
        MethodError::params(&format!(
            "since: {text:?} is no time such as 2026-11-21T10:00:00Z"
        ))
    })
}

fn head(noted: &str) -> Result<ChainHead, MethodError> {
    let parts = noted.split_once(':');
    let parts = parts.and_then(|(n, hash)| Some((n.parse().ok()?, hash.parse().ok()?)));
    let (n, hash) = parts
        .ok_or_else(|| MethodError::params("noted is the `head` of a check: NUMBER:64 digits"))?;
    Ok(ChainHead { n, hash })
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
