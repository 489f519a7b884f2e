//! What people keep across conversations: one book for all of them, kept in the store.

use std::sync::Arc;

use aishd_log::answering_person::AnsweringPerson;
use aishd_log::audit;
use aishd_log::audit::AuditFact;
use aishd_log::memory::{MemoryDraft, MemoryId, MemoryList, MemoryRefusal, StoredMemory};
use aishd_platform::clock;
use aishd_store::{Note, ReadError, Store};
use parking_lot::Mutex;

use crate::request_error::RequestError;

/// Where the book is kept.
const KEY: &str = "memory";

/// A handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryBook(Arc<MemoryBookInner>);

#[derive(Debug)]
struct MemoryBookInner {
    store: Store,
    /// `None`: it could not be read, so nothing is written over it.
    memories: Mutex<Option<Arc<MemoryList>>>,
    /// Held by who changes it, until that is durable.
    changing: tokio::sync::Mutex<()>,
}

/// Why the book is as it was.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    #[error(transparent)]
    Refused(#[from] MemoryRefusal),
    #[error("there is no fact {0}")]
    Unknown(MemoryId),
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl MemoryBook {
    pub fn new(store: &Store) -> Self {
        let book = Self(Arc::new(MemoryBookInner {
            store: store.clone(),
            memories: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }));
        if let Err(error) = book.read() {
            tracing::warn!(%error, "what is remembered cannot be read; it is tried again when it is wanted");
        }
        book
    }

    /// All of it. Reads it, where that was not possible before.
    pub fn read(&self) -> Result<Arc<MemoryList>, RequestError> {
        if let Some(known) = &*self.lock() {
            return Ok(known.clone());
        }
        let note = self.0.store.note(KEY);
        let text = note.map_err(|error: ReadError| RequestError::Storage(error.to_string()))?;
        let read = text.map_or_else(|| Ok(MemoryList::default()), |it| serde_json::from_str(&it));
        let read: MemoryList = read.map_err(|error| RequestError::Storage(error.to_string()))?;
        let mut known = self.lock();
        Ok(known.get_or_insert_with(|| Arc::new(read)).clone())
    }

    /// What models are shown of it.
    pub fn background(&self, max_chars: usize) -> Option<Arc<str>> {
        let memories = self.read().ok()?;
        memories.background(max_chars).map(Arc::from)
    }

    /// Returns once it is durable, with whether anything is different now.
    pub async fn add(
        &self,
        draft: MemoryDraft,
        by: AnsweringPerson,
    ) -> Result<(StoredMemory, bool), BookError> {
        let (memory, page) = self.write(by, |it| added(it, draft)).await?;
        let changed = page.written.is_some();
        self.store(page).await?;
        Ok((memory, changed))
    }

    pub async fn remove(&self, id: MemoryId, by: AnsweringPerson) -> Result<(), BookError> {
        let forget = |memories: &mut MemoryList| {
            if !memories.remove(id) {
                return Err(BookError::Unknown(id));
            }
            Ok(((), Some(format!("{id} forgotten"))))
        };
        let ((), page) = self.write(by, forget).await?;
        self.store(page).await
    }

    pub async fn pin(
        &self,
        id: MemoryId,
        pinned: bool,
        by: AnsweringPerson,
    ) -> Result<StoredMemory, BookError> {
        let pin = |memories: &mut MemoryList| {
            let changed = memories.pin(id, pinned);
            let changed = changed.ok_or(BookError::Unknown(id))?;
            let memory = memories.get(id).cloned().ok_or(BookError::Unknown(id))?;
            let how = if pinned { "pinned" } else { "unpinned" };
            Ok((memory, changed.then(|| format!("{id} {how}"))))
        };
        let (memory, page) = self.write(by, pin).await?;
        self.store(page).await?;
        Ok(memory)
    }

    /// The book with a fact that becomes durable together with something else: see [`MemoryBookPage`].
    pub(crate) async fn page(
        &self,
        draft: MemoryDraft,
        by: AnsweringPerson,
    ) -> Result<(StoredMemory, MemoryBookPage<'_>), BookError> {
        self.write(by, |it| added(it, draft)).await
    }

    /// Changes a copy. The closure says what the audit trail is told; nothing, where nothing is different.
    async fn write<T>(
        &self,
        by: AnsweringPerson,
        change: impl FnOnce(&mut MemoryList) -> Result<(T, Option<String>), BookError>,
    ) -> Result<(T, MemoryBookPage<'_>), BookError> {
        let alone = self.0.changing.lock().await;
        let mut memories = MemoryList::clone(&*self.read()?);
        let before = memories.iter().len();
        let (result, told) = change(&mut memories)?;
        let forgets = memories.iter().len() < before;
        let page = MemoryBookPage {
            book: self,
            _alone: alone,
            written: told.map(|what| WrittenMemory {
                note: Note {
                    key: KEY.to_owned(),
                    text: serde_json::to_string(&memories).unwrap_or_default(),
                    forgets,
                },
                memories,
                draft: audit::AuditDraft {
                    by: Some(by),
                    ..audit::AuditDraft::outside_conversation(
                        clock::now(),
                        AuditFact::MemoryChanged { what },
                    )
                },
            }),
        };
        Ok((result, page))
    }

    /// Returns once it is durable.
    async fn store(&self, page: MemoryBookPage<'_>) -> Result<(), BookError> {
        if let Some((note, draft)) = page.note().zip(page.audit_draft()) {
            let durable = self.0.store.keep(note, vec![draft]).await;
            durable.map_err(RequestError::from)?;
            page.counts();
        }
        Ok(())
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<Arc<MemoryList>>> {
        self.0.memories.lock()
    }
}

/// The book as somebody wants it. Until it is dropped nobody else writes in the book; what was not stored changes nothing.
#[derive(Debug)]
pub(crate) struct MemoryBookPage<'a> {
    book: &'a MemoryBook,
    _alone: tokio::sync::MutexGuard<'a, ()>,
    /// `None`: it is as it was.
    written: Option<WrittenMemory>,
}

#[derive(Debug)]
struct WrittenMemory {
    memories: MemoryList,
    note: Note,
    draft: audit::AuditDraft,
}

impl MemoryBookPage<'_> {
    /// What is to be stored.
    pub(crate) fn note(&self) -> Option<Note> {
        self.written.as_ref().map(|it| it.note.clone())
    }

    /// What the audit trail is told of it.
    pub(crate) fn audit_draft(&self) -> Option<audit::AuditDraft> {
        self.written.as_ref().map(|it| it.draft.clone())
    }

    /// It is stored, and counts from now on.
    pub(crate) fn counts(self) {
        if let Some(written) = self.written {
            *self.book.lock() = Some(Arc::new(written.memories));
        }
    }
}

/// A book with this fact in it, and what is told of that.
fn added(
    memories: &mut MemoryList,
    draft: MemoryDraft,
) -> Result<(StoredMemory, Option<String>), BookError> {
    let (id, changed) = memories.add(draft, clock::now())?;
    let memory = memories.get(id).cloned().ok_or(BookError::Unknown(id))?;
    Ok((memory, changed.then(|| format!("{id} kept"))))
}
