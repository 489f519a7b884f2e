//! `help`: a topic, or a command.

use clap::builder::Resettable;
use clap::{Command, CommandFactory as _};

use crate::args::CtlArgs;
use crate::command_groups::grouped;
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::window_help;

/// Options of every command that also a window's commands can use: another conversation, and JSON.
const IN_WINDOW: [&str; 2] = ["in-conversation", "json"];

/// The text of `aishctl help …`.
pub(crate) fn help(topic: &[String]) -> Result<String, Failure> {
    if topic == ["exit-codes"] {
        return Ok(exit::table());
    }
    let mut command = grouped(CtlArgs::command());
    if topic.is_empty() {
        return Ok(command.render_help().to_string());
    }
    let mut at = find(command, topic)?;
    // As with --help: an option is one row, unless there is more to say than rows have room for.
    if at.get_after_long_help().is_some() {
        return Ok(at.render_long_help().to_string());
    }
    Ok(at.render_help().to_string())
}

/// The text of `:help …` in a window: what can be typed there, as it is typed there. Options for a shell (which socket, which
/// colours) mean nothing in a window that is open, and neither do examples with pipes.
pub(crate) fn in_window(topic: &[String]) -> Result<String, Failure> {
    if topic == ["exit-codes"] {
        return Ok(exit::table());
    }
    let [word, ..] = topic else {
        return Ok(window_help::HELP.to_owned());
    };
    let at = match find(CtlArgs::command(), topic) {
        Ok(at) => at,
        // Some are of windows alone.
        Err(failure) => {
            let sign = format!(":{word}");
            let rows = window_help::HELP.lines();
            let rows = rows.filter(|row| row.split_whitespace().any(|it| it == sign));
            let rows: Vec<&str> = rows.collect();
            return match rows.is_empty() {
                true => Err(failure.hint(":help lists the commands")),
                false => Ok(rows.join("\n")),
            };
        }
    };
    let mut at = at
        .mut_args(|it| {
            let is_for_shells = it.is_global_set() && !IN_WINDOW.contains(&it.get_id().as_str());
            if is_for_shells { it.hide(true) } else { it }
        })
        .after_help(Resettable::Reset)
        .after_long_help(Resettable::Reset);
    let text = at.render_help().to_string();
    Ok(text.trim_end().replace("aishctl ", ":"))
}

fn find(mut command: Command, topic: &[String]) -> Result<Command, Failure> {
    command.build();
    let mut at = &mut command;
    for word in topic {
        at = at.find_subcommand_mut(word).ok_or_else(|| {
            Failure::new(Exit::USAGE, format!("there is no command {word}")).hint("aishctl help")
        })?;
    }
    Ok(at.clone())
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
    #[test]
    fn in_a_window_help_has_what_can_be_typed_there() {
        let help = |words: &str| {
            let words: Vec<String> = words.split(' ').map(Into::into).collect();
            in_window(&words).map_err(|it| it.message)
        };
        let listed = help("conv ls").unwrap();
        assert!(listed.contains("Usage: :conv ls [OPTIONS]"), "{listed}");
        assert!(listed.contains("--archived") && listed.contains("--conversation"));
        for of_shells in ["--socket", "--color", "--timeout", "aishctl"] {
            assert!(!listed.contains(of_shells), "{of_shells}: {listed}");
        }
        let ask = help("queue").unwrap();
        assert!(
            !ask.contains("Examples:") && ask.contains(":queue"),
            "{ask}"
        );
        assert_eq!(
            ":now TEXT cancels and asks   :ask TEXT asks what begins with a sign",
            help("now").unwrap()
        );
        assert_eq!(
            Err("there is no command nonsense".to_owned()),
            help("nonsense")
        );
    }
}
