//! Going through a log that is longer than what should be in memory at once.

use aish_proto::id::{ConversationId, Seq};
use aishd_log::event::Record;

use super::{ReadError, Store};

/// How much of a log is read at once, in bytes of its stored form.
pub const PAGE_BYTES: usize = 256 << 10;

impl Store {
    /// The records with seq > `after`, oldest first, read as they are wanted. Blocks; ends with the first error.
    pub fn records(
        &self,
        conversation: ConversationId,
        mut after: Seq,
    ) -> impl Iterator<Item = Result<Record, ReadError>> {
        pages(move || {
            let page = self.records_after(conversation, after, PAGE_BYTES)?;
            after = page.last().map_or(after, |it| it.seq);
            Ok(page)
        })
    }

    /// The records with seq < `before`, newest first, read as they are wanted. Blocks; ends with the first error.
    pub fn newest_records(
        &self,
        conversation: ConversationId,
        mut before: Seq,
    ) -> impl Iterator<Item = Result<Record, ReadError>> {
        pages(move || {
            let mut page = self.records_before(conversation, before, usize::MAX, PAGE_BYTES)?;
            page.reverse();
            before = page.last().map_or(before, |it| it.seq);
            Ok(page)
        })
    }
}

/// What `next_page` gives, page after page, until one is empty or cannot be read.
pub fn pages<T>(
    mut next_page: impl FnMut() -> Result<Vec<T>, ReadError>,
) -> impl Iterator<Item = Result<T, ReadError>> {
    let mut page = vec![].into_iter();
    let mut is_over = false;
    std::iter::from_fn(move || {
        if page.len() == 0 && !is_over {
            match next_page() {
                Ok(read) => page = read.into_iter(),
                Err(error) => {
                    is_over = true;
                    return Some(Err(error));
                }
            }
            is_over = page.len() == 0;
        }
        page.next().map(Ok)
    })
}
