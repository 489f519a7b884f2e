//! The commands as `aishctl --help` lists them: under headings, by what a person is about. clap knows one heading only.

use clap::Command;

use crate::global_args::GLOBAL_OPTIONS;

/// Each command that is not hidden stands in one of them.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Asking",
        &[
            "ask", "attach", "propose", "norris", "queue", "retry", "continue", "cancel", "jobs",
        ],
    ),
    (
        "Conversations",
        &[
            "conv", "log", "search", "fork", "todo", "context", "export", "import", "memory",
            "remember", "forget",
        ],
    ),
    (
        "Questions and changes",
        &["confirm", "changes", "undo", "redo", "perm", "audit"],
    ),
    ("Models", &["model", "key", "route", "fallback", "usage"]),
    (
        "Tools and servers",
        &["tools", "mcp", "result", "resource", "prompt"],
    ),
    (
        "The daemon",
        &[
            "status", "doctor", "config", "reload", "service", "logs", "metrics", "store",
            "backup", "restore", "rpc",
        ],
    ),
    ("Your shell", &["init", "completion", "help"]),
];

/// The same grammar; its own help has the groups in place of one list.
pub(crate) fn grouped(command: Command) -> Command {
    let width = command
        .get_subcommands()
        .map(|it| it.get_name().len())
        .max();
    let width = width.unwrap_or_default();
    let mut listed = String::new();
    for (heading, names) in GROUPS {
        listed.push_str(&format!("{heading}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            listed.push_str(&format!("  {name:width$}  {about}\n"));
        }
        listed.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{GLOBAL_OPTIONS}:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::CtlArgs;

    #[test]
    fn every_command_stands_in_one_group_on_one_line() {
        let all = CtlArgs::command();
        let mut shown: Vec<&str> = all
            .get_subcommands()
            .filter(|it| !it.is_hide_set())
            .map(Command::get_name)
            .collect();
        let mut grouped_names: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        shown.sort_unstable();
        grouped_names.sort_unstable();
        assert_eq!(shown, grouped_names);
        let help = grouped(CtlArgs::command()).render_help().to_string();
        let (groups, _options) = help.split_once(GLOBAL_OPTIONS).unwrap();
        let too_long: Vec<&str> = groups
            .lines()
            .filter(|it| it.chars().count() > 80)
            .collect();
        assert_eq!(Vec::<&str>::new(), too_long);
        assert!(
            help.contains("\nQuestions and changes:\n  confirm     What waits"),
            "{help}"
        );
    }
}
