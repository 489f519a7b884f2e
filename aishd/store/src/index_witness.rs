//! What an index remembers of a journal that may have lost something since: the journal alone cannot tell that its end is missing.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use aish_proto::id::{ConversationId, Seq};
use aishd_log::audit::chain::ChainHead;
use sled::Db;

use super::index::{self, IndexFault, guarded};
use super::line::JournalPosition;
use super::{audit_trail, disk, index_copy, values};

#[derive(Debug, Default)]
pub(super) struct IndexWitness {
    /// The last position of a commit that it has taken in.
    pub(super) committed: JournalPosition,
    /// The last record of the audit trail.
    pub(super) trail: ChainHead,
    /// The last record of each conversation.
    pub(super) last_seqs: HashMap<ConversationId, Seq>,
    /// Conversations that were deleted.
    pub(super) gone: HashSet<ConversationId>,
}

impl IndexWitness {
    pub(super) fn of(db: &Db) -> Result<Self, IndexFault> {
        let applied = index::applied(db)?;
        guarded(|| {
            let mut witness = Self {
                committed: applied.map_or(0, |it| it.committed),
                trail: audit_trail::head(db)?,
                ..Self::default()
            };
            for key in db.scan_prefix(values::all_gone()).keys() {
                witness.gone.extend(values::conversation_in(&key?));
            }
            for entry in db.scan_prefix(values::states()).keys() {
                let key = entry?;
                if let Some(conversation) = values::conversation_in(&key)
                    && key == values::first_part(&values::state(conversation))
                    && let Some((state, _)) = index::read_state(db, conversation)?
                {
                    witness.last_seqs.insert(conversation, state.last_seq);
                }
            }
            Ok(witness)
        })
    }

    /// Of a store that nobody has open. `None`: its index cannot be read.
    pub(super) fn of_store(dir: &Path) -> Option<Self> {
        let copy = index_copy::looked_at(dir);
        let witness = copy_index(dir).and_then(|()| {
            let db = index::open(&copy)?;
            let witness = Self::of(&db);
            index::close(db);
            witness
        });
        let _left_for_the_next_start = disk::remove_dir(&copy);
        witness.ok()
    }
}

/// Copies the index to where it can be looked at without a change of it.
pub(super) fn copy_index(dir: &Path) -> Result<(), IndexFault> {
    let (db, copy) = (dir.join("db"), index_copy::looked_at(dir));
    disk::remove_dir(&copy).map_err(IndexFault::disk)?;
    disk::make_dir(&copy).map_err(IndexFault::disk)?;
    if !db.exists() {
        return Err(IndexFault::garbled(
            "it is not there; the next start makes it anew",
        ));
    }
    for entry in fs::read_dir(db).map_err(IndexFault::disk)? {
        let entry = entry.map_err(IndexFault::disk)?;
        if entry.path().is_file() {
            let to = copy.join(entry.file_name());
            fs::copy(entry.path(), to).map_err(IndexFault::disk)?;
        }
    }
    Ok(())
}
