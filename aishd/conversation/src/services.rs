//! What every actor is given.

use std::sync::Arc;

use aishd_broker::Broker;
use aishd_model::model_settings::ModelSettings;
use aishd_project::ProjectCache;
use aishd_rules::boundary::BoundaryGround;
use aishd_rules::policy::Policy;
use aishd_store::Store;
use aishd_tools::ToolRunner;
use aishd_tools::environment_folder::EnvironmentFolder;
use aishd_tools::trial::TrialRoom;
use tokio_util::sync::CancellationToken;

use crate::context::memory_book::MemoryBook;
use crate::context::summarize::CaughtUp;
use crate::context::token_counts::TokenCounts;
use crate::context::warm_transcripts::WarmTranscripts;
use crate::questions::allowances::ClientAllowances;
use crate::questions::pending_questions::PendingQuestions;
use crate::spending::budget::Ledger;
use crate::turns::routing_book::RoutingBook;
use crate::turns::tool_definitions::ToolDefinitions;

/// What every actor is given.
#[derive(Clone, Debug)]
pub struct ActorServices {
    pub store: Store,
    pub broker: Broker,
    pub models: tokio::sync::watch::Receiver<Arc<ModelSettings>>,
    pub policy: tokio::sync::watch::Receiver<Arc<Policy>>,
    pub tools: ToolRunner,
    /// Where every open confirm is made known.
    pub pending: PendingQuestions,
    /// What attached clients let run unasked.
    pub allowances: ClientAllowances,
    /// What rules about tools are bound to.
    pub definitions: ToolDefinitions,
    /// Where commands are tried.
    pub trials: TrialRoom,
    /// What commands have exported.
    pub environments: EnvironmentFolder,
    /// What commands of runs are kept within.
    pub ground: Arc<BoundaryGround>,
    /// What servers count as a token.
    pub tokens: TokenCounts,
    /// Whose lost summaries have been seen to.
    pub caught_up: CaughtUp,
    pub warm: WarmTranscripts,
    /// What is switched of routing and fallback.
    pub routes: RoutingBook,
    /// What people keep for all conversations.
    pub book: MemoryBook,
    /// What directories tell models.
    pub folders: ProjectCache,
    /// What is spent on a day.
    pub ledger: Ledger,
    /// Turns that may wait in one conversation.
    pub max_queue: usize,
    /// No new turns from here on.
    pub draining: CancellationToken,
    /// Running turns end now, as interrupted.
    pub stopping: CancellationToken,
}
