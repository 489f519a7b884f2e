//! Who is attached to which conversation, and what they share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aish_proto::event::PresentClient;
use aish_proto::id::{ConversationId, SubscriptionId};
use aishd_conversation::questions::allowances::ClientPlace;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::encoded_events::EncodedEvents;

type ConversationPresence = Arc<Vec<PresentClient>>;

/// By conversation, while somebody is attached to it.
#[derive(Clone, Debug, Default)]
pub(super) struct AttachedClients(Arc<Mutex<HashMap<ConversationId, ConversationClients>>>);

#[derive(Debug, Default)]
struct ConversationClients {
    members: BTreeMap<SubscriptionId, AttachedClient>,
    presence: watch::Sender<ConversationPresence>,
    encoded: Arc<EncodedEvents>,
}

#[derive(Debug)]
struct AttachedClient {
    client: PresentClient,
    /// What the client lets run unasked ends with the last of these.
    _place: ClientPlace,
}

/// What one subscription sees of the others; dropping it leaves.
#[derive(Debug)]
pub(super) struct AttachedPlace {
    attached: AttachedClients,
    conversation: ConversationId,
    subscription: SubscriptionId,
    pub(super) presence: watch::Receiver<ConversationPresence>,
    pub(super) encoded: Arc<EncodedEvents>,
}

impl AttachedClients {
    pub(super) fn enter(
        &self,
        conversation: ConversationId,
        subscription: SubscriptionId,
        client: PresentClient,
        place: ClientPlace,
    ) -> AttachedPlace {
        let mut all = self.0.lock();
        let clients = all.entry(conversation).or_default();
        let _place = place;
        clients
            .members
            .insert(subscription, AttachedClient { client, _place });
        clients.announce();
        AttachedPlace {
            attached: self.clone(),
            conversation,
            subscription,
            presence: clients.presence.subscribe(),
            encoded: clients.encoded.clone(),
        }
    }

    /// Leaves, if that has not happened yet.
    pub(super) fn leave(&self, conversation: ConversationId, subscription: SubscriptionId) {
        let mut all = self.0.lock();
        let Some(clients) = all.get_mut(&conversation) else {
            return;
        };
        // Kept to the end, so that others see the client leave before they would see what it allowed end.
        let Some(_member) = clients.members.remove(&subscription) else {
            return;
        };
        if clients.members.is_empty() {
            all.remove(&conversation);
        } else {
            clients.announce();
        }
    }

    /// Subscriptions to this conversation.
    pub(super) fn count(&self, conversation: ConversationId) -> u32 {
        let all = self.0.lock();
        all.get(&conversation)
            .map_or(0, |it| u32::try_from(it.members.len()).unwrap_or(u32::MAX))
    }
}

impl ConversationClients {
    /// One entry a client, however often it is attached.
    fn announce(&self) {
        let mut clients: Vec<PresentClient> =
            self.members.values().map(|it| it.client.clone()).collect();
        clients.sort_by_key(|it| it.client_id);
        clients.dedup_by_key(|it| it.client_id);
        self.presence.send_replace(Arc::new(clients));
    }
}

impl Drop for AttachedPlace {
    fn drop(&mut self) {
        self.attached.leave(self.conversation, self.subscription);
    }
}
