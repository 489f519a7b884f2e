//! The notification that an event goes out in.

use aish_proto::id::SubscriptionId;

/// The line that brings an encoded event.
pub(super) fn notification(subscription: SubscriptionId, event: &str) -> String {
    format!("{}{event}}}}}\n", head(subscription))
}

/// What stands before an event of this subscription.
pub(super) fn head(subscription: SubscriptionId) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"event","params":{{"subscription":"{subscription}","event":"#
    )
}
