//! Making a conversation of messages from elsewhere: in commits of about a megabyte, seen by nobody before the last of
//! them. An import that ends early is taken out again, by its drop or by the next daemon.

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::audit::AuditDraft;
use aishd_log::event::{Event, ImportedFrom, Record};
use aishd_log::state::ConversationState;
use aishd_platform::{clock, failpoint};
use aishd_store::{Commit, DiskClaim, ReadError, Store};
use aishd_turn::import::{ImportFault, ImportedFact, TextImport};
use tokio::sync::OwnedSemaphorePermit;

use crate::directory::ConversationDirectory;
use crate::new_conversation::{NewConversation, place};
use crate::request_error::RequestError;

/// What waits for a commit, in bytes of the imported text.
const COMMIT_BYTES: u64 = 1 << 20;

/// Why nothing is imported.
#[derive(Debug, thiserror::Error)]
pub enum ConversationImportError {
    #[error("{0}")]
    Fault(ImportFault),
    #[error("too many imports at a time")]
    Crowded,
    #[error("{0}")]
    Request(RequestError),
}

impl From<RequestError> for ConversationImportError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// An import on its way.
#[derive(Debug)]
pub struct ImportSession {
    id: ConversationId,
    store: Store,
    text: TextImport,
    state: ConversationState,
    /// Facts that are not stored yet.
    records: Vec<Record>,
    /// Bytes of the text whose facts are stored.
    stored: u64,
    standing: ImportStatus,
    _permit: OwnedSemaphorePermit,
}

/// What the store has of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportStatus {
    Nothing,
    Half,
    Whole,
}

/// One that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedImport {
    pub imported: ImportedFrom,
    pub seq: Seq,
}

impl ConversationDirectory {
    /// Begins to import into a conversation of this id, which must be new.
    pub async fn begin_import(
        &self,
        id: ConversationId,
        new: NewConversation,
    ) -> Result<ImportSession, ConversationImportError> {
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining.into());
        }
        self.check_model(&new)?;
        let permit = self.imports.clone().try_acquire_owned();
        let permit = permit.map_err(|_full| ConversationImportError::Crowded)?;
        let known = self.blocking(move |store| known(store, id)).await?;
        match known.map_err(RequestError::from)? {
            KnownImport::New => {}
            KnownImport::Here => return Err(RequestError::Exists.into()),
            KnownImport::Deleted => return Err(RequestError::Deleted.into()),
        }
        let mut state = ConversationState::default();
        let mut created = new.created();
        if let Event::Created { importing, .. } = &mut created {
            *importing = true;
        }
        let records = vec![place(&mut state, None, created)];
        Ok(ImportSession {
            id,
            store: self.services.store.clone(),
            text: TextImport::default(),
            state,
            records,
            stored: 0,
            standing: ImportStatus::Nothing,
            _permit: permit,
        })
    }

    /// What was imported into this conversation, if it was.
    pub async fn imported(
        &self,
        id: ConversationId,
    ) -> Result<Option<CompletedImport>, RequestError> {
        let read = self.blocking(move |store| {
            let loaded = store.load(id)?;
            let seq = loaded.map_or(Seq(0), |it| it.state.imported);
            let record = store.record(id, seq)?;
            Ok::<_, ReadError>(record.and_then(|it| {
                if let Event::Imported(imported) = it.event {
                    Some(CompletedImport { imported, seq })
                } else {
                    None
                }
            }))
        });
        Ok(read.await??)
    }

    /// Of conversations that are unsettled: those that are half an import, and the others.
    pub(crate) fn half_imported(
        &self,
        unsettled: &[ConversationId],
    ) -> Result<(Vec<ConversationId>, Vec<ConversationId>), ReadError> {
        let (mut halves, mut whole) = (vec![], vec![]);
        for id in unsettled {
            let loaded = self.services.store.load(*id)?;
            if loaded.is_some_and(|it| it.state.importing) {
                halves.push(*id);
            } else {
                whole.push(*id);
            }
        }
        Ok((halves, whole))
    }
}

enum KnownImport {
    New,
    Here,
    Deleted,
}

fn known(store: &Store, id: ConversationId) -> Result<KnownImport, ReadError> {
    Ok(if store.load(id)?.is_some() {
        KnownImport::Here
    } else if store.is_deleted(id)? {
        KnownImport::Deleted
    } else {
        KnownImport::New
    })
}

impl ImportSession {
    pub fn id(&self) -> ConversationId {
        self.id
    }

    /// Bytes of the text so far.
    pub fn taken(&self) -> u64 {
        self.text.bytes_taken()
    }

    /// Takes the next piece in.
    pub async fn take(&mut self, piece: &str) -> Result<(), ConversationImportError> {
        let mut facts = vec![];
        let taken = self.text.take(piece, &mut new_turn, &mut facts);
        taken.map_err(ConversationImportError::Fault)?;
        self.add(facts);
        if self.text.bytes_taken() - self.stored >= COMMIT_BYTES && !self.records.is_empty() {
            self.stored = self.text.bytes_taken();
            self.standing = ImportStatus::Half;
            let records = std::mem::take(&mut self.records);
            self.commit(records, vec![]).await?;
            failpoint::pass("import.half");
        }
        Ok(())
    }

    /// The conversation is there, whole and durable.
    pub async fn finish(
        mut self,
        by: AnsweringPerson,
    ) -> Result<CompletedImport, ConversationImportError> {
        let mut facts = vec![];
        let text = std::mem::take(&mut self.text);
        let ended = text.finish(&mut new_turn, &mut facts);
        let imported = ended.map_err(ConversationImportError::Fault)?;
        self.add(facts);
        let before = self.state.clone();
        let end = place(&mut self.state, None, Event::Imported(imported));
        let seq = end.seq;
        let told = AuditDraft::of(self.id, &before, &end).map(|it| it.by(Some(by)));
        let mut records = std::mem::take(&mut self.records);
        records.push(end);
        failpoint::pass("import.before_commit");
        // Whoever asked may leave while it is on its way to the disk: then it stays, if it gets there.
        let before = std::mem::replace(&mut self.standing, ImportStatus::Whole);
        let committed = self.commit(records, told.into_iter().collect()).await;
        if committed.is_err() {
            self.standing = before;
        }
        committed?;
        failpoint::pass("import.after_commit");
        Ok(CompletedImport { imported, seq })
    }

    fn add(&mut self, facts: Vec<ImportedFact>) {
        for (turn, event) in facts {
            self.records.push(place(&mut self.state, Some(turn), event));
        }
    }

    async fn commit(
        &self,
        records: Vec<Record>,
        audit: Vec<AuditDraft>,
    ) -> Result<(), RequestError> {
        let commit = Commit::new(self.id, records, self.state.clone(), audit);
        Ok(self.store.commit(commit.claiming(DiskClaim::Begin)).await?)
    }
}

fn new_turn() -> TurnId {
    TurnId(clock::ulid())
}

/// An import that ends early leaves nothing behind.
impl Drop for ImportSession {
    fn drop(&mut self) {
        if self.standing == ImportStatus::Half {
            discard(&self.store, self.id);
        }
    }
}

/// Where the store does not take it now, it stays unseen, and the next daemon tries again.
pub(crate) fn discard(store: &Store, id: ConversationId) {
    if store.discard(id) {
        tracing::info!(conversation = %id, "half an import is taken out");
    } else {
        tracing::warn!(conversation = %id, "half an import could not be taken out");
    }
}
