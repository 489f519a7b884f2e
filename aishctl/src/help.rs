//! `help`: a topic, or a command.

use clap::CommandFactory as _;

use crate::args::CtlArgs;
use crate::command_groups::grouped;
use crate::exit::{self, Exit};
use crate::failure::Failure;

/// The text of `aishctl help …`.
pub(crate) fn help(topic: &[String]) -> Result<String, Failure> {
    if topic == ["exit-codes"] {
        return Ok(exit::table());
    }
    let mut command = grouped(CtlArgs::command());
    if topic.is_empty() {
        return Ok(command.render_help().to_string());
    }
    command.build();
    let mut at = &mut command;
    for word in topic {
        at = at.find_subcommand_mut(word).ok_or_else(|| {
            Failure::new(Exit::USAGE, format!("there is no command {word}")).hint("aishctl help")
        })?;
    }
    // As with --help: an option is one row, unless there is more to say than rows have room for.
    if at.get_after_long_help().is_some() {
        return Ok(at.render_long_help().to_string());
    }
    Ok(at.render_help().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_knows_commands_and_exit_codes() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(Into::into).collect() };
        assert_eq!(exit::table(), help(&words("exit-codes")).unwrap());
        assert!(help(&words("conv ls")).unwrap().contains("--archived"));
        assert!(help(&[]).unwrap().contains("exit-codes"));
        assert_eq!(Exit::USAGE, help(&words("nonsense")).unwrap_err().exit);
    }
}
