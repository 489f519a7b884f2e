//! What was said, page by page, as of the moment in which an export began: reads only, so that a turn may go on meanwhile.

use std::collections::HashSet;
use std::sync::Arc;

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_log::event::Record;
use aishd_store::ReadError;
use aishd_turn::export::{ExportPage, ExportPaging, ExportPart, ExportProgress};

use crate::context::evicted_exchanges;
use crate::directory::ConversationDirectory;
use crate::handle::ConversationHandle;
use crate::request_error::RequestError;

/// How much of the log is read in one go, and about how much a page has.
const PAGE_BYTES: usize = 1 << 20;

/// What an export is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportExtent {
    All,
    /// Only exchanges that left the context, those that are back too.
    Archive,
}

impl ConversationDirectory {
    /// The export of a conversation as it is stored now.
    pub async fn begin_export(&self, id: ConversationId) -> Result<ExportProgress, RequestError> {
        let handle = self.open(id).await?;
        let view = handle.view();
        let view = view.borrow();
        Ok(ExportProgress {
            through: view.state.last_seq,
            last_eviction: view.state.last_eviction,
            read: Seq(0),
            told: Seq(0),
            messages: 0,
        })
    }

    /// Its next events.
    pub async fn exported_events(
        &self,
        id: ConversationId,
        progress: ExportProgress,
        extent: ExportExtent,
    ) -> Result<ExportPage<Arc<Record>>, RequestError> {
        let handle = self.open(id).await?;
        let page = self.blocking(move |_| events(&handle, progress, extent));
        Ok(page.await??)
    }

    /// Its next messages.
    pub async fn exported_messages(
        &self,
        id: ConversationId,
        progress: ExportProgress,
        extent: ExportExtent,
    ) -> Result<ExportPage<ExportPart>, RequestError> {
        let handle = self.open(id).await?;
        let page = self.blocking(move |_| messages(&handle, progress, extent));
        Ok(page.await??)
    }
}

/// Turns whose exchanges left the context. `None`: all turns are wanted.
fn wanted(
    handle: &ConversationHandle,
    progress: ExportProgress,
    extent: ExportExtent,
) -> Result<Option<HashSet<TurnId>>, ReadError> {
    match extent {
        ExportExtent::All => Ok(None),
        ExportExtent::Archive => {
            evicted_exchanges::turns(&handle.store, handle.id, progress.last_eviction).map(Some)
        }
    }
}

fn events(
    handle: &ConversationHandle,
    progress: ExportProgress,
    extent: ExportExtent,
) -> Result<ExportPage<Arc<Record>>, ReadError> {
    let wanted = wanted(handle, progress, extent)?;
    let mut items = vec![];
    let mut read = progress.read;
    while items.is_empty() && read < progress.through {
        let page = handle.records_after(read, PAGE_BYTES)?;
        let Some(last) = page.last() else { break };
        read = last.seq;
        let is_wanted = |it: &Arc<Record>| {
            let turns = wanted.as_ref();
            it.seq <= progress.through
                && turns.is_none_or(|turns| it.turn.is_some_and(|turn| turns.contains(&turn)))
        };
        items.extend(page.into_iter().filter(is_wanted));
    }
    let next = (read < progress.through).then_some(ExportProgress { read, ..progress });
    Ok(ExportPage { items, next })
}

fn messages(
    handle: &ConversationHandle,
    progress: ExportProgress,
    extent: ExportExtent,
) -> Result<ExportPage<ExportPart>, ReadError> {
    let wanted = wanted(handle, progress, extent)?;
    let mut paging = ExportPaging::new(progress, wanted, PAGE_BYTES);
    for record in handle.records(progress.read) {
        let record = record?;
        if record.seq > progress.through || paging.take(&record).is_break() {
            break;
        }
    }
    Ok(paging.end())
}
