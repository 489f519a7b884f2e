//! How servers of models are spoken to.

use serde::{Deserialize, Serialize};

/// How a server of models is spoken to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ApiDialect {
    /// Chat completions, which nearly all servers speak.
    #[default]
    Chat,
    /// `OpenAI`'s responses.
    Responses,
    /// Anthropic's messages.
    Messages,
}

impl ApiDialect {
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    /// Where it is spoken, below the address of the API.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }
}
