//! Being told of resources again: a server tells the session that asked, and a new session has asked nothing yet.

use serde_json::{Map, json};

use super::super::call_clock::ReplyPatience;
use super::super::client_session::{PeerQuestion, PeerQuestionKind};
use super::super::era::Era;
use super::{McpSession, SessionDone, SessionPhase};

impl McpSession {
    /// Asks for all that somebody wants to hear of. In 2026-07-28 the question that stays open names them.
    pub(super) fn watch_again(&mut self) {
        let SessionPhase::Up(up) = &self.phase else {
            return;
        };
        let wanted = self.fresh.watch_wanted().borrow().clone();
        let is_told = up.live.about.offers.resources_changes;
        if wanted.is_empty() || !is_told || up.live.peer.era == Era::Stateless {
            return;
        }
        let (peer, fresh) = (up.live.peer.clone(), self.fresh.clone());
        let limits = self.shared.limits();
        self.tasks.spawn(async move {
            let lapses = fresh.lapses();
            for uri in wanted {
                let _alone = fresh.asking().await;
                if fresh.told_of(&uri) || !fresh.is_wanted(&uri) {
                    continue;
                }
                let asked = peer.ask(PeerQuestion {
                    method: "resources/subscribe",
                    params: Map::from_iter([("uri".to_owned(), json!(uri))]),
                    about: Some(&uri),
                    mirrored: &[],
                    patience: ReplyPatience::once(limits.connect),
                    kind: PeerQuestionKind::Upkeep,
                });
                if asked.await.is_ok() {
                    fresh.is_told_since(lapses, &uri);
                }
            }
            SessionDone::Told
        });
    }
}
