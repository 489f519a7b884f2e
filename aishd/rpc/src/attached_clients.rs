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

/// All rooms; one exists while somebody is in it.
#[derive(Clone, Debug, Default)]
pub(super) struct AttachedClients(Arc<Mutex<HashMap<ConversationId, ConversationClients>>>);

#[derive(Debug)]
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

/// A place in a room; dropping it leaves.
#[derive(Debug)]
pub(super) struct AttachedPlace {
    rooms: AttachedClients,
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
        let mut rooms = self.0.lock();
        let room = rooms
            .entry(conversation)
            .or_insert_with(|| ConversationClients {
                members: BTreeMap::new(),
                presence: watch::channel(ConversationPresence::default()).0,
                encoded: Arc::default(),
            });
        let _place = place;
        room.members
            .insert(subscription, AttachedClient { client, _place });
        room.announce();
        AttachedPlace {
            rooms: self.clone(),
            conversation,
            subscription,
            presence: room.presence.subscribe(),
            encoded: room.encoded.clone(),
        }
    }

    /// Leaves, if that has not happened yet.
    pub(super) fn leave(&self, conversation: ConversationId, subscription: SubscriptionId) {
        let mut rooms = self.0.lock();
        let Some(room) = rooms.get_mut(&conversation) else {
            return;
        };
        // Kept to the end, so that others see the client leave before they would see what it allowed end.
        let Some(_member) = room.members.remove(&subscription) else {
            return;
        };
        if room.members.is_empty() {
            rooms.remove(&conversation);
        } else {
            room.announce();
        }
    }

    /// Subscriptions to this conversation.
    pub(super) fn attached(&self, conversation: ConversationId) -> u32 {
        let rooms = self.0.lock();
        rooms
            .get(&conversation)
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
        self.rooms.leave(self.conversation, self.subscription);
    }
}
