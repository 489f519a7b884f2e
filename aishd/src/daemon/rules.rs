//! Rules of the configuration that speak of no tool there is are told to whoever reads the log, once each, and so
//! is that nobody is asked about commands. What rules let through is bound to what it is then.

use std::collections::BTreeSet;
use std::sync::Arc;

use aishd_conversation::turns::tool_definitions::ToolDefinitions;
use aishd_log::pattern::Pattern;
use aishd_log::shell::UNASKED;
use aishd_rules::policy::Policy;
use aishd_tools::ToolRunner;
use tokio::sync::watch;

/// Looks whenever tools or rules have changed, for ever.
pub(super) async fn follow(
    mut tools: ToolRunner,
    mut policy: watch::Receiver<Arc<Policy>>,
    definitions: ToolDefinitions,
) {
    let mut told: BTreeSet<Pattern> = BTreeSet::new();
    let mut unasked = false;
    loop {
        let rules = policy.borrow_and_update().clone();
        if !rules.shell.confirm && !unasked {
            tracing::warn!("{UNASKED}");
        }
        unasked = !rules.shell.confirm;
        let catalog = tools.catalog();
        let let_through = catalog.iter().filter(|it| rules.lets_through(&it.name));
        definitions.count_for(let_through).await;
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
