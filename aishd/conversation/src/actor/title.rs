//! When a conversation gets a title by a model: behind its first answer, where nobody has given it one.

use std::panic::AssertUnwindSafe;

use aishd_log::event::Event;
use aishd_model::context_budget::LoopMode;
use aishd_turn::transcript::TranscriptMessage;
use futures_util::FutureExt as _;
use tracing::Instrument as _;

use crate::actor::{Conversation, TaskOutcome};
use crate::context::title::{TitleJob, TitleOutcome, title};
use crate::pending_commit::{RETRY_LONGEST, UncommittedFact};
use crate::view::LiveChange;

/// Where the first ones were not answered, or the model was away; later it keeps the title that people know.
const FIRST_TURNS: u64 = 3;

impl Conversation {
    /// Has a title made, where one is wanted.
    pub(crate) fn make_title(&mut self) {
        let wanted = self.state.title_is_makeshift
            && self.state.turns <= FIRST_TURNS
            && !self.state.temporary
            && !self.titling
            && !self.services.draining.is_cancelled()
            && self.stalled.is_none();
        let Some(transcript) = self.transcript.held.as_ref().filter(|_| wanted) else {
            return;
        };
        let first = transcript.exchanges().find(|it| {
            let mut messages = it.messages();
            messages.any(
                |it| matches!(it, TranscriptMessage::Assistant { text, .. } if !text.is_empty()),
            )
        });
        let models = self.models();
        let preset = models.routing.title_model.as_deref();
        let preset = preset.and_then(|it| models.by_name(it));
        let (Some(first), Some(preset), LoopMode::Talk) = (first, preset, transcript.mode()) else {
            return;
        };
        let job = TitleJob {
            model: self.aside_model(preset),
            first: first.clone(),
        };
        self.titling = true;
        let work = async move {
            let made = AssertUnwindSafe(title(job)).catch_unwind().await;
            let made = made.unwrap_or_else(|_panic| Err("internal error".to_owned()));
            TaskOutcome::Titled(Box::new(TitleOutcome { made, owed: vec![] }))
        };
        self.io
            .spawn(Box::pin(work.instrument(tracing::info_span!("title"))));
    }

    /// Takes the title, unless a person gave one meanwhile; what was paid for it is written down in any case.
    pub(crate) async fn titled(&mut self, mut titled: TitleOutcome) {
        // What was paid for it meanwhile is kept with it until the store takes both.
        titled.owed.extend(self.pending_facts(None));
        let mut facts = titled.owed.clone();
        match &titled.made {
            Ok(title) if self.state.title_is_makeshift => facts.push(UncommittedFact {
                turn: None,
                by: None,
                event: Event::Renamed {
                    title: title.clone(),
                },
            }),
            Ok(_) => {}
            // Nobody waits for it, and the first words of the question stay.
            Err(why) => tracing::warn!(why, "no title was made"),
        }
        if !facts.is_empty()
            && let Err(error) = self.commit(&facts, LiveChange::Keep).await
        {
            tracing::warn!(%error, "a title waits for the store");
            self.io.spawn(async move {
                tokio::time::sleep(RETRY_LONGEST).await;
                TaskOutcome::Titled(Box::new(titled))
            });
            return;
        }
        self.titling = false;
    }
}
