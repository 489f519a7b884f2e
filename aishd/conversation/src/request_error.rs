//! Why a conversation refuses a request.

use aish_proto::id::{ChangesId, ConversationId, JobId, TurnId};
use aishd_log::access::Access;
use aishd_log::budget::BudgetReached;
use aishd_log::eviction::EvictedExchange;
use aishd_log::picture::{PictureKind, PictureSize};
use aishd_log::resource::ResourceChangeError;
use aishd_log::tool_name::Alias;
use aishd_model::costly_request::CostlyRequest;
use aishd_rules::level_request::MOST;
use aishd_store::{CommitError, ReadError};

/// Why a request was not done. Nothing of it was kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    #[error("a turn is running")]
    Busy,
    #[error("the running turn is {}", running.map_or("none".to_owned(), |it| it.to_string()))]
    StaleTurn { running: Option<TurnId> },
    #[error("{queued} turns wait already")]
    QueueFull { queued: usize },
    #[error("the daemon is shutting down")]
    Draining,
    #[error("this idempotency key was used for another question")]
    KeyReused,
    #[error("no model preset is called {0:?}")]
    UnknownModel(String),
    #[error("{0}")]
    TakesNoPicture(Box<UntakenPicture>),
    #[error("{0}")]
    LargePicture(Box<LargePicture>),
    #[error(
        "the server of the preset {preset} has refused the picture {name} before, or one beside it; nothing was sent or kept"
    )]
    RefusedPicture { name: String, preset: String },
    #[error("no turn {0} waits or ran here")]
    UnknownTurn(TurnId),
    #[error("{0} has not left the context, or nothing is known of its exchange")]
    NotArchived(EvictedExchange),
    #[error("the exchange of {0} is in the context")]
    InContext(EvictedExchange),
    #[error("turn {0} is not the last one, and only that can go on")]
    NotLast(TurnId),
    #[error("nothing that left the context is summed up here")]
    NoSummary,
    #[error("there is no room in the context for it: {0}")]
    NoRoom(String),
    #[error("{1}")]
    Budget(ConversationId, BudgetReached),
    #[error("{0}")]
    Costly(CostlyRequest),
    #[error("no turn has finished here yet")]
    NothingToRepeat,
    #[error("every call of that list has begun, and none is started twice by itself")]
    NothingLeft,
    #[error("there is a conversation of this id already")]
    Exists,
    #[error("the conversation of this id was deleted")]
    Deleted,
    #[error("there is no such conversation")]
    Missing,
    #[error("{provider} is already at level {}", level.number())]
    AlreadyAtLevel { provider: Alias, level: Access },
    #[error("so many commands wait in this conversation already")]
    TooManyCommands,
    #[error("{MOST} levels are asked about in this conversation already")]
    TooManyRaises,
    #[error("max_level of {provider} is {}", max.number())]
    AboveMaximum { provider: Alias, max: Access },
    #[error("{0}")]
    BadAnswer(String),
    #[error("{0}")]
    BadCommand(String),
    #[error("it was not tried: {0}")]
    Untried(String),
    #[error("there is no {0} in this conversation, or it ended long ago")]
    NoJob(JobId),
    #[error("there are no changes {0} that wait")]
    NoChanges(ChangesId),
    #[error("the run is over, and c{0} asks about its changes")]
    ChangesAsked(u32),
    #[error("a command of the run writes there now")]
    LayersInUse,
    #[error("a command of the run has changed that since it was looked at")]
    ChangesUnseen,
    /// Nothing was touched.
    #[error("{0}")]
    Changes(String),
    #[error("{0}")]
    Resource(ResourceChangeError),
    #[error("{0}")]
    Storage(String),
    /// The actor went while the request was on its way; it may be sent again.
    #[error("the conversation was closed")]
    Closed,
    #[error("no autonomous run goes on here")]
    NoRun,
}

/// A picture that the model of a question is known not to take.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{name} is a {}, and the preset {preset} ({model}) takes no {}; nothing was sent or kept",
    .kind.name(),
    .kind.plural()
)]
pub struct UntakenPicture {
    pub name: String,
    pub kind: PictureKind,
    pub preset: String,
    pub model: String,
    /// A preset that is known to take it.
    pub other: Option<String>,
}

/// A picture with more pixels than the server of its model takes.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{name} has {}×{} pixels, and the server of the preset {preset} takes at most {most} a side; nothing was sent or kept",
    .size.width,
    .size.height
)]
pub struct LargePicture {
    pub name: String,
    pub size: PictureSize,
    pub most: u32,
    pub preset: String,
}

impl From<CommitError> for RequestError {
    fn from(error: CommitError) -> Self {
        Self::Storage(error.to_string())
    }
}

impl From<ReadError> for RequestError {
    fn from(error: ReadError) -> Self {
        Self::Storage(error.to_string())
    }
}
