//! What people keep across conversations (MEM-1): one book for all of them, kept in the store.

use std::sync::{Arc, Mutex, PoisonError};

use super::handle::RequestError;
use crate::clock;
use crate::core::audit::{self, Told};
use crate::core::confirm::Person;
use crate::core::memory::{Change, Draft, Memories, Memory, MemoryId, Refused};
use crate::store::{Note, ReadError, Store};

/// Where the book is kept.
const KEY: &str = "memory";

/// A handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct Book(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    /// `None`: it could not be read, so nothing is written over it.
    memories: Mutex<Option<Arc<Memories>>>,
    /// Held by who changes it, until that is durable.
    changing: tokio::sync::Mutex<()>,
}

/// Why the book is as it was.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("there is no fact {0}")]
    Unknown(MemoryId),
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Book {
    #[must_use]
    pub fn new(store: &Store) -> Self {
        let book = Self(Arc::new(Inner {
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
    pub fn read(&self) -> Result<Arc<Memories>, RequestError> {
        if let Some(known) = &*self.lock() {
            return Ok(known.clone());
        }
        let note = self.0.store.note(KEY);
        let text = note.map_err(|error: ReadError| RequestError::Storage(error.to_string()))?;
        let read = text.map_or_else(|| Ok(Memories::default()), |it| serde_json::from_str(&it));
        let read: Memories = read.map_err(|error| RequestError::Storage(error.to_string()))?;
        let mut known = self.lock();
        Ok(known.get_or_insert_with(|| Arc::new(read)).clone())
    }

    /// What models are shown of it.
    #[must_use]
    pub fn background(&self, max_chars: usize) -> Option<Arc<str>> {
        let memories = self.read().ok()?;
        memories.background(max_chars).map(Arc::from)
    }

    /// Returns once it is durable, with whether anything is different now.
    pub async fn add(&self, draft: Draft, by: Option<Person>) -> Result<(Memory, bool), BookError> {
        let told = |id: MemoryId| match &draft.from {
            Some(_) => format!("{id} proposed"),
            None => format!("{id} kept"),
        };
        self.change(by, |memories| {
            let (id, changed) = memories.add(draft.clone(), clock::now())?;
            let memory = memories.get(id).cloned().ok_or(BookError::Unknown(id))?;
            Ok(((memory, changed), changed.then(|| told(id))))
        })
        .await
    }

    pub async fn remove(&self, id: MemoryId, by: Person) -> Result<(), BookError> {
        self.change(Some(by), |memories| {
            if !memories.remove(id) {
                return Err(BookError::Unknown(id));
            }
            Ok(((), Some(format!("{id} forgotten"))))
        })
        .await
    }

    pub async fn alter(
        &self,
        id: MemoryId,
        change: Change,
        by: Person,
    ) -> Result<Memory, BookError> {
        self.change(Some(by), |memories| {
            let changed = memories.change(id, change);
            let changed = changed.ok_or(BookError::Unknown(id))?;
            let memory = memories.get(id).cloned().ok_or(BookError::Unknown(id))?;
            let told = match change {
                Change::Keep => format!("{id} kept"),
                Change::Pin(true) => format!("{id} pinned"),
                Change::Pin(false) => format!("{id} unpinned"),
            };
            Ok((memory, changed.then_some(told)))
        })
        .await
    }

    /// Changes a copy, writes it down, and makes it what counts. The closure says what the audit trail is told; nothing,
    /// where nothing is different.
    async fn change<T>(
        &self,
        by: Option<Person>,
        change: impl FnOnce(&mut Memories) -> Result<(T, Option<String>), BookError>,
    ) -> Result<T, BookError> {
        let _alone = self.0.changing.lock().await;
        let mut memories = Memories::clone(&*self.read()?);
        let (result, told) = change(&mut memories)?;
        let Some(what) = told else {
            return Ok(result);
        };
        let text = serde_json::to_string(&memories).unwrap_or_default();
        let note = Note {
            key: KEY.to_owned(),
            text,
        };
        let draft = audit::Draft {
            by,
            ..audit::Draft::beside(clock::now(), Told::MemoryChanged { what })
        };
        let durable = self.0.store.keep(note, vec![draft]).await;
        durable.map_err(RequestError::from)?;
        *self.lock() = Some(Arc::new(memories));
        Ok(result)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Memories>>> {
        self.0
            .memories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
