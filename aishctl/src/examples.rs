//! Examples in the help of the commands that are used most.

pub(crate) const ASK: &str = "\
Examples:
  aishctl ask why does my disk fill up
  git diff | aishctl ask review this
  aishctl ask -f main.rs --code 'write a test for @lib.rs' > test.rs
  aishctl ask --last 'and what about the other one?'
  aishctl ask --json -C proj 'one word: is it done?'";

pub(crate) const ATTACH: &str = "\
Examples:
  aishctl attach
  aishctl attach proj
  aishctl attach proj --read-only --tail 200";

pub(crate) const CONVERSATIONS: &str = "\
Examples:
  aishctl conv ls
  aishctl conv new proj
  aishctl conv rename proj the old project
  aishctl conv wait proj";

pub(crate) const CONFIRM: &str = "\
Examples:
  aishctl confirm
  aishctl confirm show c7
  aishctl confirm allow c7
  aishctl confirm deny c7 use fd instead
  aishctl confirm watch";

pub(crate) const CHANGES: &str = "\
Examples:
  aishctl changes
  aishctl changes diff c7
  aishctl changes keep c7 --only src/main.rs
  aishctl undo";

pub(crate) const LOG: &str = "\
Examples:
  aishctl log
  aishctl log proj -n 3
  aishctl log proj --follow";

pub(crate) const MODEL: &str = "\
Examples:
  aishctl model
  aishctl model probe
  aishctl model show deep
  aishctl model catalog update api.json
  aishctl model add
  aishctl model deep -C proj
  aishctl model default
  aishctl model default fast";

pub(crate) const TOOLS: &str = "\
Examples:
  aishctl tools list
  aishctl tools show fs__read_file
  aishctl tools run calls.json --confirm deny";

pub(crate) const MCP: &str = "\
Examples:
  aishctl mcp
  aishctl mcp connect 'npx -y @modelcontextprotocol/server-filesystem .' fs --contain workspace
  aishctl mcp connect https://example.org/mcp web --auth-env EXAMPLE_TOKEN
  aishctl mcp add https://example.org/mcp web
  aishctl mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  aishctl mcp logs fs";

pub(crate) const CONFIG: &str = "\
Examples:
  aishctl config check
  aishctl config show --origin
  aishctl config explain shell.default
  aishctl config set ui.theme dark
  aishctl config unset models.old
  aishctl config edit";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::CtlArgs;

    #[test]
    fn every_example_is_understood() {
        for text in [
            ASK,
            ATTACH,
            CONVERSATIONS,
            CONFIRM,
            CHANGES,
            LOG,
            MODEL,
            TOOLS,
            MCP,
            CONFIG,
        ] {
            for line in text.lines().skip(1) {
                let (_, command) = line.split_once("aishctl ").unwrap();
                let command = command.split(" > ").next().unwrap();
                let words = shlex::split(command).unwrap();
                let words = std::iter::once("aishctl".to_owned()).chain(words);
                let parsed = CtlArgs::try_parse_from(words);
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
            }
        }
    }
}
