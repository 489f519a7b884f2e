//! Names that Tab and the prompt show, asked of the daemon.

use std::time::Duration;

use aish_proto::conversation::{self, ConversationListParams};
use aish_proto::mcp::{self, McpServerStatus};
use aish_proto::method::Empty;
use aish_proto::model::{self, ModelStatus};

use super::ui::CompletionNames;
use crate::client::connect::Caller;
use crate::completion::server_words::WantedCompletion;

/// Tab and the first prompt do not wait for a slow daemon.
const NAMES_WITHIN: Duration = Duration::from_millis(100);

/// Whether anybody waits for the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamesHurry {
    Soon,
    /// A busy daemon has not said them in time; what it says later still counts.
    Whenever,
}

/// What the daemon said; none where it did not say so in time.
pub(super) struct FoundNames {
    hurry: NamesHurry,
    conversations: Option<Vec<String>>,
    models: Option<Vec<ModelStatus>>,
    servers: Option<Vec<McpServerStatus>>,
    offered: Option<(WantedCompletion, Vec<String>)>,
}

impl FoundNames {
    pub(super) async fn ask(
        caller: Caller,
        wish: Option<WantedCompletion>,
        hurry: NamesHurry,
    ) -> Self {
        let within = (hurry == NamesHurry::Soon).then_some(NAMES_WITHIN);
        let conversations =
            caller.call_within::<conversation::List>(ConversationListParams::default(), within);
        let models = caller.call_within::<model::List>(Empty {}, within);
        let servers = caller.call_within::<mcp::List>(Empty {}, within);
        let offered = async {
            let wish = wish?;
            let words = wish.candidates(&caller).await.into_iter();
            Some((wish, words.map(|(word, _)| word).collect()))
        };
        let (conversations, models, servers, offered) =
            tokio::join!(conversations, models, servers, offered);
        let titles = conversations.map(|it| it.conversations.into_iter().map(|it| it.title));
        Self {
            hurry,
            conversations: titles.map(Iterator::collect).ok(),
            models: models.map(|it| it.models).ok(),
            servers: servers.map(|it| it.servers).ok(),
            offered,
        }
    }

    fn is_whole(&self) -> bool {
        self.conversations.is_some() && self.models.is_some() && self.servers.is_some()
    }
}

/// The names that this window knows.
#[derive(Default)]
pub(super) struct WindowNames {
    pub(super) known: CompletionNames,
    /// The preset of a conversation for which none was chosen.
    pub(super) default_model: Option<String>,
    /// They have been asked for, so that the first prompt names the model.
    pub(super) are_asked: bool,
    /// What was not said in time is waited for.
    waits: bool,
}

impl WindowNames {
    /// Takes what was said, and keeps what was known where nothing was. Whether that is to be asked once more,
    /// for as long as it takes.
    pub(super) fn take(&mut self, found: FoundNames) -> bool {
        let asks_again = found.hurry == NamesHurry::Soon && !found.is_whole() && !self.waits;
        self.waits = asks_again || self.waits && found.hurry == NamesHurry::Soon;
        self.are_asked = true;
        let known = &mut self.known;
        if let Some(conversations) = found.conversations {
            known.conversations = conversations;
        }
        if let Some(models) = found.models {
            let default = models.iter().find(|it| it.default);
            self.default_model = default.map(|it| it.name.clone());
            known.models = models.into_iter().map(|it| it.name).collect();
        }
        if let Some(servers) = found.servers {
            let readable = servers.iter().filter(|it| it.resources);
            known.readable = readable.map(|it| it.alias.clone()).collect();
            known.servers = servers.into_iter().map(|it| it.alias).collect();
        }
        known.offered = found.offered;
        asks_again
    }
}
