//! Looking for a text in what people and models have said.

use aish_proto::id::{ConversationId, Seq};

use super::directory::Directory;
use super::handle::RequestError;
use crate::core::event::{Event, Record};
use crate::core::state::State;
use crate::store::{ReadError, Store};

/// How much of a log is read in one go.
const PAGE_BYTES: usize = 1 << 20;
/// Characters of text around a hit.
const EXCERPT_CHARS: usize = 120;

/// Where a text was found.
#[derive(Clone, Debug)]
pub struct Hit {
    pub conversation: ConversationId,
    pub title: String,
    pub record: Record,
    /// What kind of message holds it, in the words of the wire.
    pub kind: &'static str,
    pub excerpt: String,
}

impl Directory {
    /// Messages that contain `query`, ignoring case; one more than `limit` says that there are more.
    pub async fn search(
        &self,
        query: String,
        among: Vec<(ConversationId, State)>,
        limit: usize,
    ) -> Result<Vec<Hit>, RequestError> {
        let found = self.blocking(move |store| search(store, &query.to_lowercase(), among, limit));
        Ok(found.await??)
    }
}

fn search(
    store: &Store,
    query: &str,
    among: Vec<(ConversationId, State)>,
    limit: usize,
) -> Result<Vec<Hit>, ReadError> {
    let mut hits = vec![];
    for (conversation, state) in among {
        let mut cursor = Seq(0);
        loop {
            let page = store.records_after(conversation, cursor, PAGE_BYTES)?;
            let Some(last) = page.last() else { break };
            cursor = last.seq;
            for record in page {
                let found = text_of(&record.event)
                    .and_then(|(kind, text)| Some((kind, excerpt(text, query)?)));
                let Some((kind, excerpt)) = found else {
                    continue;
                };
                hits.push(Hit {
                    kind,
                    conversation,
                    title: state.title().to_owned(),
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
        | Event::Evicted { .. }
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
