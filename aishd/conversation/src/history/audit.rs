//! The audit trail, for those who may not see the store.

use std::ops::ControlFlow;

use aish_proto::id::{ConversationId, Seq};
use aishd_log::audit::AuditDraft;
use aishd_log::audit::chain::{ChainEntry, ChainHead, SealedRecord};
use aishd_log::audit::verdict::ChainVerdict;
use aishd_log::event::{Event, Record};
use aishd_log::tool::ContentDigest;
pub use aishd_store::TrailDirection;
use aishd_store::{ReadError, Store};

use crate::directory::ConversationDirectory;
use crate::request_error::RequestError;

/// Records that are read at once.
const PAGE: usize = 500;
/// As many are looked at for one page of an answer.
const LOOKED_AT: usize = 20_000;

/// A record that was wanted.
#[derive(Clone, Debug)]
pub struct AuditedRecord {
    pub sealed: SealedRecord,
    pub entry: ChainEntry,
    /// What would run or ran, where the conversation's log still has it.
    pub arguments: Option<String>,
}

/// Some records, and the number to go on from.
#[derive(Debug)]
pub struct AuditPage<T> {
    pub found: Vec<T>,
    pub next: Option<u64>,
}

impl ConversationDirectory {
    /// At most `limit` wanted records from number `from` on.
    pub async fn audit(
        &self,
        from: u64,
        limit: usize,
        direction: TrailDirection,
        wanted: impl Fn(&ChainEntry) -> bool + Send + 'static,
    ) -> Result<AuditPage<AuditedRecord>, RequestError> {
        let read = move |store: &Store| {
            walk(store, from, direction, |found, sealed| {
                // One that cannot be read is told of by a check of the trail.
                let Ok(entry) = sealed.entry() else {
                    return Ok(ControlFlow::Continue(()));
                };
                if wanted(&entry) {
                    found.push(AuditedRecord {
                        arguments: arguments(store, &entry)?,
                        sealed,
                        entry,
                    });
                }
                Ok(full(found.len(), limit))
            })
        };
        Ok(self.blocking(read).await??)
    }

    /// Adds what stands in no conversation's log. Returns once it is durable.
    pub async fn record(&self, draft: AuditDraft) -> Result<(), RequestError> {
        Ok(self.services.store.record_audit(vec![draft]).await?)
    }

    /// At most `limit` records as they were written.
    pub async fn audit_text(
        &self,
        from: u64,
        limit: usize,
    ) -> Result<AuditPage<SealedRecord>, RequestError> {
        let read = move |store: &Store| {
            walk(store, from, TrailDirection::OldestFirst, |found, sealed| {
                found.push(sealed);
                Ok(full(found.len(), limit))
            })
        };
        Ok(self.blocking(read).await??)
    }

    /// Whether the trail is what was written; `noted` is an end of it that somebody noted elsewhere.
    pub async fn verify_audit(
        &self,
        noted: Option<ChainHead>,
    ) -> Result<ChainVerdict, RequestError> {
        let verify = move |store: &Store| store.verify_trail(noted);
        Ok(self.blocking(verify).await??)
    }
}

fn full(found: usize, limit: usize) -> ControlFlow<()> {
    if found >= limit {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

fn walk<T>(
    store: &Store,
    mut from: u64,
    direction: TrailDirection,
    mut take: impl FnMut(&mut Vec<T>, SealedRecord) -> Result<ControlFlow<()>, ReadError>,
) -> Result<AuditPage<T>, ReadError> {
    let mut found = vec![];
    let mut looked_at = 0;
    while looked_at < LOOKED_AT {
        let page = store.trail(from, PAGE, direction)?;
        if page.is_empty() {
            return Ok(AuditPage { found, next: None });
        }
        for sealed in page {
            looked_at += 1;
            let next = match direction {
                TrailDirection::OldestFirst => sealed.n.checked_add(1),
                TrailDirection::NewestFirst => sealed.n.checked_sub(1).filter(|it| *it > 0),
            };
            let taken = take(&mut found, sealed)?;
            let Some(next) = next else {
                return Ok(AuditPage { found, next: None });
            };
            from = next;
            if taken.is_break() {
                return Ok(AuditPage {
                    found,
                    next: Some(from),
                });
            }
        }
    }
    Ok(AuditPage {
        found,
        next: Some(from),
    })
}

fn arguments(store: &Store, entry: &ChainEntry) -> Result<Option<String>, ReadError> {
    let draft = &entry.draft;
    let (Some(conversation), Some(seq), Some(fact)) = (draft.conversation, draft.seq, draft.fact)
    else {
        return Ok(None);
    };
    let event = event(store, conversation, seq, fact)?;
    Ok(match event {
        Some(Event::ToolStarted { arguments, .. }) => Some(arguments),
        Some(Event::ConfirmRequested(confirm)) => confirm.call().map(|it| it.arguments.clone()),
        Some(Event::ConfirmResolved(resolution)) => resolution.edited,
        Some(Event::ResourceChanged(it)) => Some(it.name.to_string()),
        Some(Event::ResourcePinned(it) | Event::ResourceUnpinned(it)) => Some(it.uri),
        Some(_) | None => None,
    })
}

/// The event, if it is what was told of.
fn event(
    store: &Store,
    conversation: ConversationId,
    seq: Seq,
    fact: ContentDigest,
) -> Result<Option<Event>, ReadError> {
    let bytes = store.stored_event(conversation, seq)?;
    let bytes = bytes.filter(|it| ContentDigest::of(it) == fact);
    let record = bytes.and_then(|it| serde_json::from_slice::<Record>(&it).ok());
    Ok(record.map(|it| it.event))
}
