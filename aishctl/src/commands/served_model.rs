//! Which model of a server is meant: the server says which ones it has, and a person takes one by number, by name or by a
//! part of it.

use std::path::Path;

use aish_proto::model::{ModelApi, Serves, ServesParams};

use crate::client::daemon_link::DaemonLink;
use crate::commands::config::ConfigContext;
use crate::commands::{key, typed_answer};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// Where the server cannot be asked.
pub(crate) const QUESTION: &str = "Model, as the server calls it";
/// So many fit on a screen with what stands before them.
const MOST_SHOWN: usize = 15;

/// What a person has chosen, and how it is asked.
pub(crate) struct ServedModel {
    pub(crate) id: String,
    /// What its server turned out to speak, where the address does not say it.
    pub(crate) api: Option<ModelApi>,
}

/// Asks the server, then the person. One that is not well known may speak otherwise than most; where it refuses a key that
/// was typed, another one can be typed into its file.
pub(crate) async fn choose(
    context: &ConfigContext<'_>,
    asking: &ServesParams,
    is_well_known: bool,
    typed_key: Option<&Path>,
) -> Result<ServedModel, Failure> {
    let link = context.started().await?;
    loop {
        let wrong = match models(context, &link, asking).await {
            Ok(models) => return among_or_typed(&models).map(plain),
            Err(wrong) => wrong,
        };
        // Nobody wants to be told by a person what two requests find out.
        if asking.api.is_none() && !is_well_known {
            let asking = ServesParams {
                api: Some(ModelApi::Messages),
                ..asking.clone()
            };
            if let Ok(models) = models(context, &link, &asking).await {
                let name = ModelApi::Messages.name();
                typed_answer::say(&format!(
                    "It speaks {name}, as Anthropic's API does (api = \"{name}\").\n"
                ))?;
                let id = among_or_typed(&models)?;
                return Ok(ServedModel {
                    id,
                    api: asking.api,
                });
            }
        }
        if let Some(typed) = all_the_same(&wrong, typed_key)? {
            return Ok(plain(typed));
        }
    }
}

/// One whose address says how it is asked.
fn plain(id: String) -> ServedModel {
    ServedModel { id, api: None }
}

/// The model that is taken though its server said this; none where another key was typed.
fn all_the_same(wrong: &str, typed_key: Option<&Path>) -> Result<Option<String>, Failure> {
    let wrong = wrong.trim_start_matches("transport: ");
    typed_answer::say(&format!("The server says: {}\n", safe::one_line(wrong)))?;
    let is_refused = ["HTTP 401", "HTTP 403"]
        .iter()
        .any(|it| wrong.starts_with(it));
    if let Some(file) = typed_key.filter(|_| is_refused) {
        return another_key(file);
    }
    if typed_answer::is_agreed("Go on all the same?", "no")? {
        return typed_answer::ask(QUESTION, None).map(Some);
    }
    Err(not_added())
}

/// A key is never typed where it is shown; and `yes` is none.
fn another_key(file: &Path) -> Result<Option<String>, Failure> {
    loop {
        let question = "Another key, or yes to go on all the same, or nothing to stop";
        let typed = typed_answer::ask_hidden(question)?;
        match typed.trim() {
            "" | "no" => return Err(not_added()),
            "yes" => return typed_answer::ask(QUESTION, None).map(Some),
            _key => match key::checked(&typed) {
                Ok(key) => return key::write(file, &key).map(|()| None),
                Err(failure) => typed_answer::say(&format!("{}\n", failure.message))?,
            },
        }
    }
}

fn not_added() -> Failure {
    Failure::new(Exit::UNREACHABLE, "nothing was added").hint("aishctl model add tries it again")
}

/// Which models it has; else what was wrong.
async fn models(
    context: &ConfigContext<'_>,
    link: &DaemonLink,
    asking: &ServesParams,
) -> Result<Vec<String>, String> {
    let deadline = context.global.timeout;
    let asked = link.caller.call_within::<Serves>(asking.clone(), deadline);
    match asked.await {
        Ok(found) => found.error.map_or(Ok(found.models), Err),
        Err(error) => Err(Failure::from(error).message),
    }
}

fn among_or_typed(models: &[String]) -> Result<String, Failure> {
    if models.is_empty() {
        typed_answer::say("The server answers, and does not say which models it has.\n")?;
        return typed_answer::ask(QUESTION, None);
    }
    among(models)
}

/// Until one of these, or one that a person means all the same, is taken.
fn among(models: &[String]) -> Result<String, Failure> {
    let mut shown: Vec<&str> = models.iter().map(String::as_str).collect();
    typed_answer::say(&format!("It has:\n{}", menu(&shown)))?;
    let usual = (models.len() == 1).then_some("1");
    loop {
        let answer = typed_answer::ask("Model, by number, name or a part of it", usual)?;
        match taken(&answer, &shown, models) {
            Taken::One(model) => return Ok(model.to_owned()),
            Taken::Some(fitting) => {
                shown = fitting;
                typed_answer::say(&menu(&shown))?;
            }
            Taken::None => {
                let about = format!(
                    "It has no {}. Take that all the same?",
                    safe::one_line(&answer)
                );
                if typed_answer::is_agreed(&about, "no")? {
                    return Ok(answer);
                }
            }
        }
    }
}

#[derive(Debug, PartialEq)]
enum Taken<'a> {
    One(&'a str),
    /// Several fit.
    Some(Vec<&'a str>),
    None,
}

/// What an answer means: a number is one of those that are shown, a text is looked for among all.
fn taken<'a>(answer: &str, shown: &[&'a str], models: &'a [String]) -> Taken<'a> {
    if let Some(model) = models.iter().find(|it| *it == answer) {
        return Taken::One(model);
    }
    let number = answer.parse::<usize>().ok();
    let numbered = number.and_then(|it| shown.iter().take(MOST_SHOWN).nth(it.checked_sub(1)?));
    if let Some(model) = numbered {
        return Taken::One(model);
    }
    let part = answer.to_lowercase();
    let fitting: Vec<&str> = models
        .iter()
        .map(String::as_str)
        .filter(|it| it.to_lowercase().contains(&part))
        .collect();
    match fitting.as_slice() {
        [] => Taken::None,
        [model] => Taken::One(model),
        _several => Taken::Some(fitting),
    }
}

fn menu(models: &[&str]) -> String {
    let mut menu = String::new();
    for (number, model) in (1..).zip(models.iter().take(MOST_SHOWN)) {
        menu.push_str(&format!("  {number:>2}  {}\n", safe::one_line(model)));
    }
    if let Some(more @ 1..) = models.len().checked_sub(MOST_SHOWN) {
        menu.push_str(&format!("      and {more} more: type a part of the name\n"));
    }
    menu
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_taken_by_number_name_or_part() {
        let models: Vec<String> = ["org/large-2", "org/small", "org/small-fast", "7"]
            .map(Into::into)
            .to_vec();
        let all: Vec<&str> = models.iter().map(String::as_str).collect();
        let means = |answer, shown: &[&'static str]| match taken(answer, shown, &models) {
            Taken::One(it) => it.to_owned(),
            Taken::Some(them) => them.join(" | "),
            Taken::None => "none".to_owned(),
        };
        let first = ["org/large-2", "org/small"];
        for (answer, meant) in [
            ("1", "org/large-2"),
            // The number of none that is shown is a name, or a part of one.
            ("7", "7"),
            ("2", "org/small"),
            ("LARGE", "org/large-2"),
            ("org/small", "org/small"),
            ("small", "org/small | org/small-fast"),
            ("0", "none"),
            ("huge", "none"),
        ] {
            assert_eq!(meant, means(answer, &first), "{answer}");
        }
        assert_eq!(Taken::One("org/small-fast"), taken("3", &all, &models));
    }

    #[test]
    fn a_long_list_is_shown_in_part() {
        let names: Vec<String> = (0..MOST_SHOWN + 2).map(|it| format!("m{it}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown = menu(&all);
        assert!(
            shown.ends_with("m14\n      and 2 more: type a part of the name\n"),
            "{shown}"
        );
        assert!(!menu(&all[..MOST_SHOWN]).contains("more"));
    }
}
