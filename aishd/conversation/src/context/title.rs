//! The title of a conversation, by a preset that is configured for that: beside the conversation, within a time, and
//! nothing fails with it.

use aishd_log::spending::SpendingPurpose;
use aishd_turn::exchange::Exchange;
use aishd_turn::summary::portions;
use aishd_turn::title::{body, title_in};

use crate::context::aside_model::AsideModel;
use crate::pending_commit::UncommittedFact;

pub(crate) struct TitleJob {
    pub(crate) model: AsideModel,
    pub(crate) first: Exchange,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct TitleOutcome {
    /// The title, or why there is none.
    pub(crate) made: Result<String, String>,
    /// What was paid for, and is in no log yet.
    pub(crate) owed: Vec<UncommittedFact>,
}

pub(crate) async fn title(job: TitleJob) -> Result<String, String> {
    let preset = &job.model.preset;
    let shown = portions(std::slice::from_ref(&job.first), preset).texts;
    // The newest of it that the model can take in.
    let body = body(preset, shown.last().map_or("", String::as_str));
    let said = job.model.ask(body, SpendingPurpose::Title).await?;
    title_in(&said.text)
}
