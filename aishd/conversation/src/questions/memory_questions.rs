//! Facts that a person says while a model proposes the same.

use std::sync::Arc;

use aishd_log::answering_person::AnsweringPerson;
use aishd_log::memory::MemoryDraft;

use crate::context::memory_book::BookError;
use crate::directory::ConversationDirectory;
use crate::handle::ConversationHandle;
use crate::questions::pending_questions::PendingQuestion;
use crate::request_error::RequestError;
use crate::requests::{ActorRequest, KeptFact, PersonFact};

impl ConversationDirectory {
    /// Keeps what a person says; the questions whether to keep it end with that. Returns once it is durable.
    pub async fn remember(
        &self,
        draft: MemoryDraft,
        by: AnsweringPerson,
    ) -> Result<KeptFact, BookError> {
        let open = self.pending().watch().await.borrow().clone();
        let asks =
            |it: &&Arc<PendingQuestion>| it.memory().is_some_and(|it| draft.contains(&it.text));
        let mut kept = None;
        for question in open.values().filter(asks) {
            let said = PersonFact {
                draft: draft.clone(),
                asked: question.confirm.id,
                by: by.clone(),
            };
            let keeps = |handle: ConversationHandle| {
                let said = Box::new(said.clone());
                async move {
                    handle
                        .request(|reply| ActorRequest::Keep(said, reply))
                        .await
                }
            };
            let (memory, changed) = match self.with(question.conversation, keeps).await {
                Ok(done) => done?,
                // It was deleted meanwhile, and its question with it.
                Err(RequestError::Missing) => continue,
                Err(error) => return Err(error.into()),
            };
            let before = kept.is_some_and(|(_, changed)| changed);
            kept = Some((memory, changed || before));
        }
        match kept {
            Some(kept) => Ok(kept),
            None => self.book().add(draft, by).await,
        }
    }
}
