//! Looking for a text in what people and models have said.

use aish_proto::id::{ConversationId, Seq};
use aishd_log::event::{Event, Record};
use aishd_log::shell::OutputUse;
use aishd_log::state::ConversationState;
use aishd_store::{ReadError, Store};
use aishd_turn::search_filter::{SearchFilter, folded};

use crate::context::evicted_exchanges::{joined_at, taken_along_at};
use crate::directory::ConversationDirectory;
use crate::request_error::RequestError;

/// How much of a log is gone through while the index is held, and before it is looked whether that is enough.
const PAGE_BYTES: usize = 256 << 10;
/// Characters of text around a hit.
const EXCERPT_CHARS: usize = 120;
/// Nobody looks for more than this.
pub const MAX_QUERY_CHARS: usize = 1_000;

/// Where a text was found.
#[derive(Clone, Debug)]
pub struct SearchHit {
    pub conversation: ConversationId,
    pub title: String,
    pub record: Record,
    /// What kind of message holds it, in the words of the wire.
    pub kind: &'static str,
    pub excerpt: String,
    /// Whether it left the context and is not back.
    pub left: bool,
}

/// Behind which hit a search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SearchPosition {
    pub conversation: ConversationId,
    pub seq: Seq,
}

/// Where is looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchScope {
    One(ConversationId),
    /// In all that nobody has put away.
    Open,
    All,
}

impl ConversationDirectory {
    /// Messages that contain `query`, ignoring case, those that left the context too: those of the conversation that was
    /// made last come first, and in each the newest. One more than `limit` says that there are more.
    ///
    /// # Errors
    /// Also when the one to look in is not there.
    pub async fn search(
        &self,
        query: String,
        scope: SearchScope,
        after: Option<SearchPosition>,
        limit: usize,
    ) -> Result<Vec<SearchHit>, RequestError> {
        let found = self
            .blocking(move |store| search(store, &SearchFilter::new(&query), scope, after, limit));
        found.await?
    }
}

fn search(
    store: &Store,
    needle: &SearchFilter,
    scope: SearchScope,
    after: Option<SearchPosition>,
    limit: usize,
) -> Result<Vec<SearchHit>, RequestError> {
    let mut hits = vec![];
    for read in among(store, scope, after)? {
        let (conversation, state) = read?;
        let mut cursor = match after {
            Some(after) if conversation > after.conversation => None,
            Some(after) if conversation == after.conversation => Some(after.seq),
            Some(_) | None => Some(Seq(u64::MAX)),
        };
        while let Some(before) = cursor {
            let looked =
                store.records_where_before(conversation, before, PAGE_BYTES, |stored| {
                    needle.may_be_in(stored)
                })?;
            cursor = looked.through;
            for record in looked.records {
                let found = texts_of(&record.event).and_then(|(kind, mut texts)| {
                    let excerpt = texts.find_map(|it| excerpt(it, needle.query()))?;
                    Some((kind, excerpt))
                });
                let Some((kind, excerpt)) = found else {
                    continue;
                };
                hits.push(SearchHit {
                    kind,
                    conversation,
                    title: state.title().to_owned(),
                    left: has_left(store, conversation, &state, &record)?,
                    record,
                    excerpt,
                });
                if hits.len() > limit {
                    return Ok(hits);
                }
            }
        }
    }
    Ok(hits)
}

type ReadConversation = Result<(ConversationId, ConversationState), ReadError>;

/// The conversations that are looked through, the one of `after` first: each is read when its turn comes.
fn among(
    store: &Store,
    scope: SearchScope,
    after: Option<SearchPosition>,
) -> Result<Box<dyn Iterator<Item = ReadConversation> + '_>, RequestError> {
    let with_archived = match scope {
        SearchScope::One(id) => {
            let state = store.state(id)?.filter(|it| !it.importing);
            let state = state.ok_or(RequestError::Missing)?;
            return Ok(Box::new(std::iter::once(Ok((id, state)))));
        }
        SearchScope::Open => false,
        SearchScope::All => true,
    };
    let all = store.newest_conversations(after.map(|it| it.conversation));
    let is_wanted = move |read: &ReadConversation| match read {
        Ok((_, state)) => !state.importing && (with_archived || !state.archived),
        Err(_) => true,
    };
    Ok(Box::new(all.filter(is_wanted)))
}

/// Whether it left the context and is not back. A question comes into that with its turn, which may have waited, and an
/// output with the next question.
fn has_left(
    store: &Store,
    conversation: ConversationId,
    state: &ConversationState,
    record: &Record,
) -> Result<bool, ReadError> {
    if record.seq > state.evicted_through {
        return Ok(false);
    }
    let through = state.evicted_through;
    let at = if let (Event::UserMessage { .. }, Some(turn)) = (&record.event, record.turn) {
        joined_at(store, conversation, turn, record.seq, through)?
    } else if let Event::ShellFinished { given, .. } = &record.event {
        match given {
            OutputUse::WithNextQuestion => {
                taken_along_at(store, conversation, record.seq, through)?
            }
            OutputUse::AtOnce => Some(record.seq),
            // It was never there.
            OutputUse::Never => None,
        }
    } else {
        Some(record.seq)
    };
    Ok(at.is_some_and(|it| state.has_left(it)))
}

type SearchedTexts<'a> = Box<dyn Iterator<Item = &'a str> + 'a>;

/// What people said and were told, with what came with it.
fn texts_of(event: &Event) -> Option<(&'static str, SearchedTexts<'_>)> {
    let one = |text| -> SearchedTexts<'_> { Box::new(std::iter::once(text)) };
    match event {
        Event::UserMessage {
            text, attachments, ..
        } => {
            let came = attachments
                .iter()
                .flat_map(|it| [it.text.as_str(), it.name.as_str()]);
            let texts = std::iter::once(text.as_str()).chain(came);
            Some(("userMessage", Box::new(texts)))
        }
        Event::AssistantMessage { text, .. } => Some(("assistantMessage", one(text))),
        Event::ToolResult { content, .. } => Some(("toolResult", one(content))),
        Event::ShellFinished { output, .. } => Some(("shellFinished", one(output))),
        _ => None,
    }
}

/// The text around the first hit of `query`, which is folded.
fn excerpt(text: &str, query: &str) -> Option<String> {
    let lower = folded(text);
    let at = lower.find(query)?;
    // Lower case may be longer or shorter, so the place is counted in characters.
    let before = lower[..at].chars().count();
    let skip = before.saturating_sub(EXCERPT_CHARS / 2);
    let around: String = text
        .chars()
        .skip(skip)
        .take(EXCERPT_CHARS + query.chars().count())
        .collect();
    Some(around.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_shows_the_hit_whatever_its_case() {
        let text = format!(
            "{} The Linker cannot find it. {}",
            "a ".repeat(200),
            "b ".repeat(200)
        );
        let found = excerpt(&text, "linker").unwrap();
        assert!(found.contains("The Linker cannot"), "{found}");
        assert!(found.chars().count() <= EXCERPT_CHARS + 6);
        assert_eq!(None, excerpt(&text, "missing"));
        assert_eq!(Some("ΟΔΟΣΑ".to_owned()), excerpt("ΟΔΟΣΑ", &folded("ΟΔΟΣ")));
    }
}
