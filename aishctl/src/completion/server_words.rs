//! What MCP servers say that a word may become: their prompts, the arguments of these, and what can be read. For Tab, in a
//! shell and in a window: whoever does not answer in time is passed over in silence.

use std::collections::BTreeMap;
use std::time::Duration;

use aish_proto::mcp::{McpPrompt, McpResource, Prompts, Resources, ResourcesResult, ServerParams};
use aish_proto::mcp_complete::{Complete, CompleteParams};

use super::bash_line;
use super::uri_template::{self, TemplateEnd, TypedVariable};
use crate::client::connect::Caller;
use crate::safe;

/// For all of it. A server may be a program that has to think, and a person waits for a key.
pub(crate) const SERVER_WITHIN: Duration = Duration::from_millis(1000);
/// For what one variable may become: what else there is to offer comes in time all the same.
const VALUES_WITHIN: Duration = Duration::from_millis(500);
/// Templates whose variable a server is asked about for one key.
const MOST_TEMPLATES: usize = 8;
/// Options of all commands that take the word behind them.
const WITH_VALUE: [&str; 8] = [
    "-C",
    "--conversation",
    "-m",
    "--model",
    "--socket",
    "--color",
    "--markdown",
    "--timeout",
];

/// What the word at the end of a line is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WantedCompletion {
    Prompt {
        alias: String,
    },
    Argument {
        alias: String,
        prompt: String,
        given: BTreeMap<String, String>,
        /// `name`, or `name=` and what there is of its value.
        word: String,
    },
    Resource {
        alias: String,
        uri: String,
    },
}

/// Candidates, with what each is.
type ServerWords = Vec<(String, String)>;

impl WantedCompletion {
    /// Of the words of a command; the last one is being typed.
    pub(crate) fn of_command(words: &[String]) -> Option<Self> {
        let (word, before) = words.split_last()?;
        let mut before = before.iter();
        let mut named = vec![];
        while let Some(word) = before.next() {
            if WITH_VALUE.contains(&word.as_str()) {
                let _value = before.next();
            } else if !word.starts_with('-') {
                named.push(word.as_str());
            }
        }
        let (command, named) = named.split_first_chunk::<2>()?;
        if command[0] != "mcp" || word.starts_with('-') {
            return None;
        }
        let (alias, named) = named.split_first()?;
        let alias = (*alias).to_owned();
        Some(match (command[1], named) {
            ("ask" | "prompt", []) => Self::Prompt { alias },
            ("ask" | "prompt", [prompt, given @ ..]) => {
                let given = given.iter().filter_map(|it| it.split_once('='));
                let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
                Self::Argument {
                    alias,
                    prompt: (*prompt).to_owned(),
                    given: given.collect(),
                    word: word.clone(),
                }
            }
            ("read" | "pin", []) => Self::Resource {
                alias,
                uri: word.clone(),
            },
            _ => return None,
        })
    }

    /// Of a line in a window that begins with a colon or a slash, and where its last word begins.
    pub(crate) fn of_line(typed: &str) -> Option<(usize, Self)> {
        let command = typed.strip_prefix([':', '/'])?;
        let line = bash_line::read(command);
        let wish = Self::of_command(&line.words)?;
        Some((typed.len() - command.len() + line.begins, wish))
    }

    /// Of `@alias:` and what is typed of a URI at the end of a question, and where it begins behind the sign.
    pub(crate) fn of_mention(typed: &str) -> Option<(usize, Self)> {
        let start = typed.rfind(char::is_whitespace).map_or(0, |it| {
            it + typed[it..].chars().next().map_or(1, char::len_utf8)
        });
        let word = typed.get(start..)?.strip_prefix('@')?;
        let (alias, uri) = word.split_once(':')?;
        let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
        if alias.is_empty() || !alias.chars().all(plain) {
            return None;
        }
        let wish = Self::Resource {
            alias: alias.to_owned(),
            uri: uri.to_owned(),
        };
        Some((start + 1, wish))
    }

    /// What its server says in time.
    pub(crate) async fn candidates(&self, caller: &Caller) -> ServerWords {
        let asked = async {
            match self {
                Self::Prompt { alias } => prompts(caller, alias).await,
                Self::Argument {
                    alias,
                    prompt,
                    given,
                    word,
                } => arguments(caller, alias, prompt, given, word).await,
                Self::Resource { alias, uri } => resources(caller, alias, uri).await,
            }
        };
        let found = tokio::time::timeout(SERVER_WITHIN, asked).await;
        let mut found = found.ok().flatten().unwrap_or_default();
        // What would move the cursor or end the line is no word that can be typed.
        found.retain(|(word, _)| safe::one_line(word) == *word);
        found
    }
}

fn of(alias: &str) -> ServerParams {
    ServerParams {
        alias: alias.to_owned(),
    }
}

async fn all_prompts(caller: &Caller, alias: &str) -> Option<Vec<McpPrompt>> {
    let asked = caller.call_within::<Prompts>(of(alias), Some(SERVER_WITHIN));
    Some(asked.await.ok()?.prompts)
}

async fn prompts(caller: &Caller, alias: &str) -> Option<ServerWords> {
    let found = all_prompts(caller, alias).await?;
    Some(
        found
            .into_iter()
            .map(|it| (it.name, it.description))
            .collect(),
    )
}

async fn arguments(
    caller: &Caller,
    alias: &str,
    prompt: &str,
    given: &BTreeMap<String, String>,
    word: &str,
) -> Option<ServerWords> {
    let Some((argument, value)) = word.split_once('=') else {
        let found = all_prompts(caller, alias).await?;
        let found = found.into_iter().find(|it| it.name == prompt)?.arguments;
        let open = found.into_iter().filter(|it| !given.contains_key(&it.name));
        let open = open.filter(|it| it.name.starts_with(word));
        return Some(
            open.map(|it| (format!("{}=", it.name), it.description))
                .collect(),
        );
    };
    let params = CompleteParams {
        alias: alias.to_owned(),
        prompt: Some(prompt.to_owned()),
        template: None,
        argument: argument.to_owned(),
        value: value.to_owned(),
        arguments: given.clone(),
    };
    let asked = caller.call_within::<Complete>(params, Some(SERVER_WITHIN));
    let values = asked.await.ok()?.values.into_iter();
    let values = values.filter(|it| it.starts_with(value));
    Some(
        values
            .map(|it| (format!("{argument}={it}"), String::new()))
            .collect(),
    )
}

/// What can be read and begins so, and what comes next of each template.
async fn resources(caller: &Caller, alias: &str, typed: &str) -> Option<ServerWords> {
    let ResourcesResult {
        resources,
        templates,
        remarks: _,
    } = caller
        .call_within::<Resources>(of(alias), Some(SERVER_WITHIN))
        .await
        .ok()?;
    let about = |it: &McpResource| {
        if it.name.is_empty() {
            it.description.clone()
        } else {
            it.name.clone()
        }
    };
    let known = resources.iter().filter(|it| it.uri.starts_with(typed));
    let mut found: ServerWords = known.map(|it| (it.uri.clone(), about(it))).collect();
    let mut asked = 0;
    for template in &templates {
        match uri_template::end_in(&template.uri, typed) {
            Some(TemplateEnd::Literal(uri)) => found.push((uri, about(template))),
            Some(TemplateEnd::Variable(variable)) if asked < MOST_TEMPLATES => {
                asked += 1;
                match values(caller, alias, &template.uri, &variable).await {
                    Some(values) => {
                        let is_new = |uri: &String| !found.iter().any(|(it, _)| it == uri);
                        let values: Vec<String> = values.filter(is_new).collect();
                        found.extend(values.into_iter().map(|it| (it, String::new())));
                    }
                    // It has none, or none in time.
                    None => asked = MOST_TEMPLATES,
                }
            }
            Some(TemplateEnd::Variable(_)) | None => {}
        }
    }
    found.retain(|(uri, _)| uri.starts_with(typed));
    Some(found)
}

async fn values(
    caller: &Caller,
    alias: &str,
    template: &str,
    variable: &TypedVariable<'_>,
) -> Option<impl Iterator<Item = String>> {
    let params = CompleteParams {
        alias: alias.to_owned(),
        prompt: None,
        template: Some(template.to_owned()),
        argument: variable.name.to_owned(),
        value: variable.value.clone(),
        arguments: variable.others.clone(),
    };
    let asked = caller.call_within::<Complete>(params, Some(VALUES_WITHIN));
    let values = asked.await.ok()?.values.into_iter();
    Some(values.map(|it| variable.filled(&it)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::CtlArgs;

    #[test]
    fn the_options_that_take_a_word_are_those_of_the_grammar() {
        let grammar = CtlArgs::command();
        let options = grammar.get_arguments();
        let with_value = options.filter(|it| it.get_action().takes_values());
        let mut named: Vec<String> = with_value
            .flat_map(|it| {
                let long = it.get_long().map(|name| format!("--{name}"));
                let short = it.get_short().map(|name| format!("-{name}"));
                short.into_iter().chain(long)
            })
            .collect();
        named.sort_unstable();
        let mut known = WITH_VALUE.map(str::to_owned).to_vec();
        known.sort_unstable();
        assert_eq!(named, known);
    }

    #[track_caller]
    fn check(line: &str, expected: Option<(usize, &str)>) {
        let found = WantedCompletion::of_line(line).or_else(|| WantedCompletion::of_mention(line));
        let found = found.map(|(at, it)| {
            let said = match it {
                WantedCompletion::Prompt { alias } => format!("prompts of {alias}"),
                WantedCompletion::Argument {
                    alias,
                    prompt,
                    given,
                    word,
                } => format!("{word} for {alias} {prompt} {given:?}"),
                WantedCompletion::Resource { alias, uri } => format!("{uri} of {alias}"),
            };
            (at, said)
        });
        let found = found.as_ref().map(|(at, it)| (*at, it.as_str()));
        assert_eq!(expected, found, "{line}");
    }

    #[test]
    fn a_line_says_whom_its_last_word_is_about() {
        check(":mcp ask ", None);
        check(":mcp ask notes re", Some((15, "prompts of notes")));
        check("/mcp prompt notes ", Some((18, "prompts of notes")));
        check(
            ":mcp ask notes review number=",
            Some((22, "number= for notes review {}")),
        );
        check(
            ":mcp ask --accept-cost -m fast notes review 'a=b c' 'd=e f",
            Some((52, "d=e f for notes review {\"a\": \"b c\"}")),
        );
        check(":mcp read notes no", Some((16, "no of notes")));
        check(":mcp read notes x y", None);
        check(":mcp ask notes --acc", None);
        check(":log notes x", None);
        check("see @notes:no", Some((5, "no of notes")));
        check("@notes:", Some((1, " of notes")));
        check("@no/tes:x", None);
        check("me@notes:x", None);
    }
}
