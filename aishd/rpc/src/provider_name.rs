//! Names of providers on the wire.

use aishd_log::tool_name::Alias;

/// A provider as the wire names it: `*` where a level was of all of them.
pub(super) fn provider_or_all(provider: Option<&Alias>) -> String {
    provider.map_or_else(|| "*".to_owned(), ToString::to_string)
}
