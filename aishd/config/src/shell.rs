//! Commands of this machine: `[shell]`.

use std::time::Duration;

use aishd_log::shell::ShellSettings;

use super::fault::Fault;
use super::layers::LayerStack;
use super::value::ProposedCommands;
use crate::key_values::value_of;

/// A shorter one would end what has hardly begun.
const SHORTEST: Duration = Duration::from_millis(100);

/// The rules about commands; faults are added to the others.
pub(super) fn rules(stack: &LayerStack, faults: &mut Vec<Fault>) -> ShellSettings {
    let shell = &stack.file.shell;
    let mut rules = ShellSettings::default();
    if let Some(timeout) = &shell.timeout {
        let time = timeout.value.value;
        if time < SHORTEST {
            let message = "`shell.timeout`: expected at least 100ms";
            faults.push(Fault::error(&timeout.place, message));
        }
        rules.timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    }
    if let Some(bytes) = &shell.max_output_bytes {
        rules.max_output_bytes = usize::try_from(bytes.value.0).unwrap_or(usize::MAX);
    }
    if let Some(bytes) = &stack.file.contain.max_layer_bytes {
        rules.max_layer_bytes = bytes.value.0;
    }
    if let Some(names) = &shell.env_from_client {
        for name in &names.value {
            if name.is_empty() || name.contains(['=', '\0', '*']) {
                let message = format!("`shell.env_from_client`: {name:?} is no name of a variable");
                faults.push(Fault::error(&names.place, message));
            }
        }
        rules.env_from_client.clone_from(&names.value);
    }
    rules.confirm = value_of(&shell.confirm).unwrap_or(true);
    rules.tries = value_of(&shell.default) == Some(ProposedCommands::Try);
    rules.feed_back = value_of(&shell.feed_back).unwrap_or_default();
    rules.offers_tool = value_of(&shell.tool).unwrap_or_default();
    rules
}
