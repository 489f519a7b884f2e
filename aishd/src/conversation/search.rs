//! Looking for a text in what people and models have said.

use aish_proto::id::{ConversationId, Seq};

use super::directory::Directory;
use super::handle::RequestError;
use crate::core::event::{Event, Record};
use crate::core::needle::Needle;
use crate::core::state::State;
use crate::store::{ReadError, Store};

/// How much of a log is gone through while the index is held, and before it is looked whether that is enough.
const PAGE_BYTES: usize = 256 << 10;
/// Characters of text around a hit.
const EXCERPT_CHARS: usize = 120;
/// Nobody looks for more than this.
pub const MAX_QUERY_CHARS: usize = 1_000;

/// Where a text was found.
#[derive(Clone, Debug)]
pub struct Hit {
    pub conversation: ConversationId,
    pub title: String,
    pub record: Record,
    /// What kind of message holds it, in the words of the wire.
    pub kind: &'static str,
    pub excerpt: String,
    /// Whether it left the context and is not back.
    pub left: bool,
}

impl Directory {
    /// Messages that contain `query`, ignoring case, those that left the context too; one more than `limit` says that
    /// there are more.
    pub async fn search(
        &self,
        query: String,
        among: Vec<(ConversationId, State)>,
        limit: usize,
    ) -> Result<Vec<Hit>, RequestError> {
        let found = self.blocking(move |store| search(store, &Needle::new(&query), among, limit));
        Ok(found.await??)
    }
}

fn search(
    store: &Store,
    needle: &Needle,
    among: Vec<(ConversationId, State)>,
    limit: usize,
) -> Result<Vec<Hit>, ReadError> {
    let mut hits = vec![];
    for (conversation, state) in among {
        let mut cursor = Some(Seq(0));
        while let Some(after) = cursor {
            let looked = store.records_where(conversation, after, PAGE_BYTES, |stored| {
                needle.may_be_in(stored)
            })?;
            cursor = looked.through;
            for record in looked.records {
                let found = text_of(&record.event)
                    .and_then(|(kind, text)| Some((kind, excerpt(text, needle.query())?)));
                let Some((kind, excerpt)) = found else {
                    continue;
                };
                hits.push(Hit {
                    kind,
                    conversation,
                    title: state.title().to_owned(),
                    left: state.has_left(&record),
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

/// What people said and were told.
fn text_of(event: &Event) -> Option<(&'static str, &str)> {
    match event {
        Event::UserMessage { text, .. } => Some(("userMessage", text)),
        Event::AssistantMessage { text, .. } => Some(("assistantMessage", text)),
        Event::ToolResult { content, .. } => Some(("toolResult", content)),
        Event::Created { .. }
        | Event::TurnQueued { .. }
        | Event::RouteDecided(_)
        | Event::Norris(_)
        | Event::FellBack { .. }
        | Event::TurnStarted { .. }
        | Event::ConfirmRequested(_)
        | Event::RaiseRequested(_)
        | Event::ConfirmResolved(_)
        | Event::ToolStarted { .. }
        | Event::ResultKept { .. }
        | Event::PermissionChanged { .. }
        | Event::ResourcePinned(_)
        | Event::ResourceUnpinned(_)
        | Event::ResourceChanged(_)
        | Event::ConstraintsChanged { .. }
        | Event::Evicted(_)
        | Event::Restored(_)
        | Event::SummaryUpdated(_)
        | Event::ModelChanged { .. }
        | Event::Renamed { .. }
        | Event::ArchivedChanged { .. }
        | Event::Status { .. }
        | Event::TurnFinished { .. } => None,
    }
}

/// The text around the first hit of `query`, which is in lower case.
fn excerpt(text: &str, query: &str) -> Option<String> {
    let lower = text.to_lowercase();
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
    }
}
