//! Which conversations there are, in the order of their last use: keys in the index that follow from a conversation's state
//! and change with it in one batch, so that a page of a list costs what is on the page, however many conversations there are.

use std::iter::Peekable;
use std::ops::Bound;

use aish_proto::id::ConversationId;
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use sha2::{Digest as _, Sha256};
use sled::{Batch, Db};

use super::index::{IndexFault, read_state};
use super::{ReadError, Store, pages, values};

/// A longer path is one that no call of the system takes, and sled writes long values as files of their own.
const MOST_CWD_BYTES: usize = 4096;
/// How many states are read at once where all of them are gone through.
const STATES_AT_ONCE: usize = 64;
/// A page is read again so often while conversations are used, so that it is of one moment.
const ATTEMPTS: usize = 100;
/// The end of each key of the list: when it was used, and its id.
const PLACE_BYTES: usize = 8 + 16;

/// What is behind a name in a key: enough of its digest.
type NameDigest = [u8; 16];

/// Which conversations a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFilter {
    Open,
    Archived,
    All,
}

/// A place in the order of a list, which stays where it is when conversations come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    pub updated_at: Timestamp,
    pub conversation: ConversationId,
}

/// What is asked of the list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    pub filter: ListFilter,
    /// Only those that are called exactly so.
    pub title: Option<String>,
    /// Only what comes behind this.
    pub after: Option<ListPosition>,
    pub limit: usize,
}

impl ListQuery {
    fn has(&self, state: &ConversationState) -> bool {
        let is_of_filter = match self.filter {
            ListFilter::Open => !state.archived,
            ListFilter::Archived => state.archived,
            ListFilter::All => true,
        };
        let title = self.title.as_deref();
        is_of_filter && title.is_none_or(|it| it == state.title())
    }
}

/// A part of the list.
#[derive(Clone, Debug, Default)]
pub struct ListPage {
    /// Last used first.
    pub conversations: Vec<(ConversationId, ConversationState)>,
    /// Behind what the next page begins, if there is more.
    pub next: Option<ListPosition>,
}

impl Store {
    pub fn list(&self, query: &ListQuery) -> Result<ListPage, ReadError> {
        self.read(|db| page(db, query))
    }

    /// Conversations that a list of all has.
    pub fn count(&self) -> Result<u64, ReadError> {
        self.read(count)
    }

    /// Where the conversations are that nobody has put away; each directory once.
    pub fn directories(&self) -> Result<Vec<String>, ReadError> {
        self.read(directories)
    }

    /// The state of one.
    pub fn state(
        &self,
        conversation: ConversationId,
    ) -> Result<Option<ConversationState>, ReadError> {
        self.read(|db| Ok(read_state(db, conversation)?.map(|(state, _)| state)))
    }

    /// Every conversation with its state, also half an import, from `first` on: that with the greatest id comes first, which
    /// was made last. They are read as they are wanted. Blocks; ends with the first error.
    pub fn newest_conversations(
        &self,
        first: Option<ConversationId>,
    ) -> impl Iterator<Item = Result<(ConversationId, ConversationState), ReadError>> {
        let mut end = match first {
            Some(first) => values::behind_state(first),
            None => values::behind_states(),
        };
        pages(move || {
            let page = self.read(|db| states_before(db, &end))?;
            if let Some((last, _)) = page.last() {
                end = values::state(*last);
            }
            Ok(page)
        })
    }
}

/// What of a conversation's state says where lists have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListEntry {
    archived: bool,
    updated_at: Timestamp,
    title: NameDigest,
    /// None where it is archived, or cannot be a directory.
    directory: Option<NameDigest>,
}

impl ListEntry {
    /// `None`: nobody sees it.
    pub(super) fn of(state: &ConversationState) -> Option<Self> {
        if state.importing {
            return None;
        }
        let is_directory = !state.archived && state.cwd.len() <= MOST_CWD_BYTES;
        Some(Self {
            archived: state.archived,
            updated_at: state.updated_at,
            title: digest(state.title()),
            directory: is_directory.then(|| digest(&state.cwd)),
        })
    }

    fn keys(&self, conversation: ConversationId) -> Vec<Vec<u8>> {
        let position = ListPosition {
            updated_at: self.updated_at,
            conversation,
        };
        let place = position.to_bytes();
        let place = [&[u8::from(self.archived)], &place[..]].concat();
        let mut keys = vec![
            [&values::listed()[..], &place].concat(),
            title_key(self.title, conversation),
        ];
        keys.extend(self.directory.map(|it| directory_key(it, conversation)));
        keys
    }
}

/// Puts a conversation where lists are to have it, and takes it out of where they had it.
pub(super) fn relist(
    batch: &mut Batch,
    conversation: ConversationId,
    before: Option<ListEntry>,
    after: Option<ListEntry>,
    cwd: &str,
) {
    let keys = |it: Option<ListEntry>| it.map_or(vec![], |it| it.keys(conversation));
    let (before, after) = (keys(before), keys(after));
    for key in before.iter().filter(|it| !after.contains(it)) {
        batch.remove(key.as_slice());
    }
    for key in after.into_iter().filter(|it| !before.contains(it)) {
        let is_directory = key.starts_with(&values::directories());
        batch.insert(key, if is_directory { cwd.as_bytes() } else { &[] });
    }
}

/// How many are listed, as the writer knows it.
#[derive(Debug, Default)]
pub(super) struct ListedCount(Option<u64>);

impl ListedCount {
    /// One of them has become listed, or is no more.
    pub(super) fn change(
        &mut self,
        db: &Db,
        batch: &mut Batch,
        before: Option<ListEntry>,
        after: Option<ListEntry>,
    ) -> Result<(), IndexFault> {
        let known = match self.0 {
            Some(known) => known,
            None => count(db)?,
        };
        let changed = match (before, after) {
            (None, Some(_)) => known.saturating_add(1),
            (Some(_), None) => known.saturating_sub(1),
            (None, None) | (Some(_), Some(_)) => known,
        };
        if changed != known {
            batch.insert(values::LISTED_COUNT, &changed.to_be_bytes());
        }
        self.0 = Some(changed);
        Ok(())
    }
}

fn count(db: &Db) -> Result<u64, IndexFault> {
    let Some(count) = db.get(values::LISTED_COUNT)? else {
        return Ok(0);
    };
    let count = <[u8; 8]>::try_from(&*count);
    let count = count.map_err(|_| IndexFault::garbled("the number of conversations"))?;
    Ok(u64::from_be_bytes(count))
}

fn page(db: &Db, query: &ListQuery) -> Result<ListPage, IndexFault> {
    if let Some(title) = &query.title {
        return titled(db, query, digest(title));
    }
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        // Somebody who is used while the keys are read goes from behind to before them. Each batch has another place.
        let applied = db.get(values::APPLIED)?;
        let keys = first_keys(db, query)?;
        let is_of_one_moment = db.get(values::APPLIED)? == applied;
        if !is_of_one_moment && attempts > 0 {
            continue;
        }
        let page = page_of(db, query, &keys)?;
        if page.conversations.len() == keys.len().min(query.limit) || attempts == 0 {
            return Ok(page);
        }
    }
}

/// Those of one title, in the order of the list. They are few, and their states say the order, so that a title is written only
/// when it changes.
fn titled(db: &Db, query: &ListQuery, title: NameDigest) -> Result<ListPage, IndexFault> {
    let prefix = [&values::titled()[..], &title].concat();
    let mut found = vec![];
    for key in db.scan_prefix(prefix).keys() {
        let key = key?;
        let conversation = key
            .last_chunk::<16>()
            .map(|it| ConversationId::from_bytes(*it));
        let conversation = conversation.ok_or_else(|| IndexFault::garbled("a key of a title"))?;
        let Some((state, _)) = read_state(db, conversation)? else {
            if db.contains_key(&key)? {
                return Err(listed_wrongly(conversation));
            }
            continue;
        };
        let position = ListPosition {
            updated_at: state.updated_at,
            conversation,
        };
        if query.has(&state) && query.after.is_none_or(|after| position < after) {
            found.push((position, state));
        }
    }
    found.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
    let next = found
        .get(query.limit.saturating_sub(1))
        .map(|(position, _)| *position);
    let next = next.filter(|_| found.len() > query.limit);
    found.truncate(query.limit);
    let conversations = found.into_iter();
    Ok(ListPage {
        conversations: conversations
            .map(|(it, state)| (it.conversation, state))
            .collect(),
        next,
    })
}

/// The keys of a page, and one more if there is more.
fn first_keys(db: &Db, query: &ListQuery) -> Result<Vec<ListKey>, IndexFault> {
    let archived: &[bool] = match query.filter {
        ListFilter::Open => &[false],
        ListFilter::Archived => &[true],
        ListFilter::All => &[false, true],
    };
    let orders = archived.iter();
    let orders = orders.map(|it| order(db, *it, query.after).peekable());
    let mut orders: Vec<_> = orders.collect();
    let keys = std::iter::from_fn(|| first_of(&mut orders));
    keys.take(query.limit.saturating_add(1)).collect()
}

/// The conversations of these keys, but for those that are none of the list any more.
fn page_of(db: &Db, query: &ListQuery, keys: &[ListKey]) -> Result<ListPage, IndexFault> {
    let (keys, more) = keys.split_at(query.limit.min(keys.len()));
    let last = keys.last().map(|it| it.position);
    let mut page = ListPage {
        conversations: Vec::with_capacity(keys.len()),
        next: last.filter(|_| !more.is_empty()),
    };
    for key in keys {
        let state = listed_under(db, key)?.filter(|it| query.has(it));
        let conversation = key.position.conversation;
        page.conversations
            .extend(state.map(|it| (conversation, it)));
    }
    Ok(page)
}

/// The state of a key's conversation, which may be changed, and deleted, between the one and the other.
fn listed_under(db: &Db, key: &ListKey) -> Result<Option<ConversationState>, IndexFault> {
    let conversation = key.position.conversation;
    let state = read_state(db, conversation)?.map(|(state, _)| state);
    let entry = state.as_ref().and_then(ListEntry::of);
    let is_here = entry.is_some_and(|it| it.keys(conversation).contains(&key.bytes));
    if !is_here && db.contains_key(&key.bytes)? {
        return Err(listed_wrongly(conversation));
    }
    Ok(state)
}

fn listed_wrongly(conversation: ConversationId) -> IndexFault {
    IndexFault::Garbled(format!(
        "conversation {conversation} is listed where it is not"
    ))
}

/// A key of the list.
#[derive(Debug)]
struct ListKey {
    bytes: Vec<u8>,
    position: ListPosition,
}

impl ListKey {
    fn of(bytes: Vec<u8>) -> Result<Self, IndexFault> {
        let place = bytes.last_chunk::<PLACE_BYTES>();
        let position = place.and_then(|it| ListPosition::from_bytes(it));
        let position = position.ok_or_else(|| IndexFault::garbled("a key of the list"))?;
        Ok(Self { bytes, position })
    }
}

/// The keys of one order behind `after`.
fn order(
    db: &Db,
    archived: bool,
    after: Option<ListPosition>,
) -> impl Iterator<Item = Result<ListKey, IndexFault>> {
    let prefix = [&values::listed()[..], &[u8::from(archived)]].concat();
    let behind = |place: &[u8; PLACE_BYTES]| [&prefix[..], place].concat();
    let begin = match after {
        Some(after) => Bound::Excluded(behind(&after.to_bytes())),
        None => Bound::Included(prefix.clone()),
    };
    let end = Bound::Included(behind(&[0xff; PLACE_BYTES]));
    let keys = db.range::<Vec<u8>, _>((begin, end)).keys();
    keys.map(|key| ListKey::of(key?.to_vec()))
}

/// The next key of several orders.
fn first_of<I>(orders: &mut [Peekable<I>]) -> Option<I::Item>
where
    I: Iterator<Item = Result<ListKey, IndexFault>>,
{
    let mut first: Option<(usize, ListPosition)> = None;
    for (at, order) in orders.iter_mut().enumerate() {
        let Some(next) = order.peek() else { continue };
        let Ok(next) = next else {
            return order.next();
        };
        if first.is_none_or(|(_, known)| next.position > known) {
            first = Some((at, next.position));
        }
    }
    let (at, _) = first?;
    orders.get_mut(at)?.next()
}

impl ListPosition {
    /// As bytes whose order is that of the list: greater ones first.
    fn to_bytes(self) -> [u8; PLACE_BYTES] {
        // The sign's bit turned, negative times are the lesser ones.
        let at = self.updated_at.0.cast_unsigned() ^ (1 << 63);
        let id = u128::from_be_bytes(self.conversation.to_bytes());
        let mut bytes = [0; PLACE_BYTES];
        bytes[..8].copy_from_slice(&(!at).to_be_bytes());
        bytes[8..].copy_from_slice(&(!id).to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (at, id) = bytes.split_first_chunk::<8>()?;
        let at = !u64::from_be_bytes(*at) ^ (1 << 63);
        let id = !u128::from_be_bytes(id.try_into().ok()?);
        Some(Self {
            updated_at: Timestamp(at.cast_signed()),
            conversation: ConversationId::from_bytes(id.to_be_bytes()),
        })
    }
}

fn title_key(title: NameDigest, conversation: ConversationId) -> Vec<u8> {
    [&values::titled()[..], &title, &conversation.to_bytes()].concat()
}

fn directory_key(directory: NameDigest, conversation: ConversationId) -> Vec<u8> {
    let id = conversation.to_bytes();
    [&values::directories()[..], &directory, &id].concat()
}

fn directories(db: &Db) -> Result<Vec<String>, IndexFault> {
    let mut found = vec![];
    let mut begin = Bound::Included(values::directories().to_vec());
    loop {
        let end = Bound::Excluded(values::behind_directories().to_vec());
        let Some(entry) = db.range::<Vec<u8>, _>((begin, end)).next() else {
            return Ok(found);
        };
        let (key, cwd) = entry?;
        let garbled = || IndexFault::garbled("a directory of conversations");
        found.push(String::from_utf8(cwd.to_vec()).map_err(|_| garbled())?);
        // The others of this directory are passed over.
        let of_directory = key.len().checked_sub(16).ok_or_else(garbled)?;
        begin = Bound::Excluded([&key[..of_directory], &[0xff; 16]].concat());
    }
}

/// The states whose keys come before `end`, the last one first.
fn states_before(
    db: &Db,
    end: &[u8],
) -> Result<Vec<(ConversationId, ConversationState)>, IndexFault> {
    let mut found = vec![];
    let mut end = end.to_vec();
    while found.len() < STATES_AT_ONCE {
        let Some(entry) = db.range(values::states().to_vec()..end).next_back() else {
            break;
        };
        let (key, _) = entry?;
        let conversation = values::conversation_in(&key);
        let conversation = conversation.ok_or_else(|| IndexFault::garbled("a state's key"))?;
        end = values::state(conversation);
        // One that is not there was deleted meanwhile.
        let state = read_state(db, conversation)?;
        found.extend(state.map(|(state, _)| (conversation, state)));
    }
    Ok(found)
}

fn digest(name: &str) -> NameDigest {
    let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    let mut first = NameDigest::default();
    first.copy_from_slice(&digest[..16]);
    first
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    #[test]
    fn the_order_of_the_bytes_is_that_of_the_list() {
        let times = [i64::MIN, -1, 0, 1, 1_700_000_000_000, i64::MAX];
        let ids = [0, 1, u128::MAX / 2, u128::MAX];
        let mut all = vec![];
        for at in times {
            all.extend(ids.map(|id| ListPosition {
                updated_at: Timestamp(at),
                conversation: ConversationId(Ulid(id)),
            }));
        }
        for position in &all {
            let back = ListPosition::from_bytes(&position.to_bytes());
            assert_eq!(Some(*position), back);
        }
        let mut listed = all.clone();
        listed.sort_by_key(|it| std::cmp::Reverse(*it));
        all.sort_by_key(|it| it.to_bytes());
        assert_eq!(listed, all);
    }
}
