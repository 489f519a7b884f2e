//! Rules of the configuration that speak of no tool there is are told to whoever reads the log, once each (AUT-2).

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

use crate::core::policy::{Pattern, Policy};
use crate::tools::Tools;

/// Looks whenever tools or rules have changed, for ever.
pub(super) async fn follow(mut tools: Tools, mut policy: watch::Receiver<Arc<Policy>>) {
    let mut told: BTreeSet<Pattern> = BTreeSet::new();
    loop {
        let rules = policy.borrow_and_update().clone();
        let unmatched: BTreeSet<Pattern> = tools.unmatched(&rules).into_iter().collect();
        for rule in unmatched.difference(&told) {
            tracing::warn!(%rule, "a rule of the configuration matches no tool; aishctl perm rules");
        }
        told = unmatched;
        let still_there = tokio::select! {
            changed = tools.changed() => changed.is_ok(),
            changed = policy.changed() => changed.is_ok(),
        };
        if !still_there {
            return;
        }
    }
}
