//! A request that is looked at before it is sent: what is asked to see it, and what is seen.

use std::sync::Arc;

use aishd_log::confirm::OnConfirm;
use aishd_log::event::Attachment;
use aishd_model::context_budget::{BytesPerToken, ContextLimit};
use aishd_model::preset::Preset;
use aishd_rules::catalog::ToolOffer;
use aishd_turn::exchange::Exchange;
use aishd_turn::request::fit::TooLong;
use aishd_turn::request::{RequestBytes, WeighedBody};

use crate::context::extra_context::{ExtraContext, GatheredContext};

/// What is to be looked at.
#[derive(Clone, Debug)]
pub struct PreviewTarget {
    /// A question as if it were asked now.
    pub question: Option<PreviewQuestion>,
    /// A preset by name.
    pub model: Option<String>,
    /// What is done where a person would have to be asked.
    pub on_confirm: OnConfirm,
    /// What is told beside the log, where that has been read.
    pub gathered: Option<GatheredContext>,
}

/// A question that nobody asks.
#[derive(Clone, Debug)]
pub struct PreviewQuestion {
    pub text: String,
    pub attachments: Vec<Attachment>,
}

/// A request that is not sent.
#[derive(Debug)]
pub enum PreviewedRequest {
    /// No preset is configured, and to look for one is no looking on.
    Nobody,
    /// First this has to be read.
    Read(Box<ExtraContext>),
    Fits(Box<ContextPreview>),
    TooLong(Box<NoRequest>),
}

/// A request that there would not be.
#[derive(Debug)]
pub struct NoRequest {
    pub preset: Arc<Preset>,
    pub limit: ContextLimit,
    pub ratio: BytesPerToken,
    pub turns: usize,
    pub error: TooLong,
}

#[derive(Debug)]
pub struct ContextPreview {
    pub preset: Arc<Preset>,
    pub limit: ContextLimit,
    pub ratio: BytesPerToken,
    pub leaving: Vec<Exchange>,
    /// What would leave next.
    pub next: Vec<Exchange>,
    pub turns: usize,
    pub shortened: usize,
    pub parts: RequestBytes,
    /// The system message.
    pub system: String,
    pub offer: Arc<ToolOffer>,
    /// Of questions, answers and results.
    pub messages: u64,
    pub body: WeighedBody,
    /// What a person should know of the directory.
    pub remarks: Vec<String>,
}

/// So many exchanges, for people.
pub(crate) fn old_turns(count: u64) -> String {
    match count {
        1 => "1 old turn".to_owned(),
        more => format!("{more} old turns"),
    }
}
