//! `route` and `fallback`: which preset answers what, and which one when a server is down.

use aish_proto::conversation::ConversationStatus;
use aish_proto::method::Empty;
use aish_proto::route::{
    Check, ClassPreset, Classes, ClassesParams, ClassesResult, FallbackGet, FallbackSet,
    FallbackState, Get, RouteCheckParams, RouteCheckResult, RouteClass, RouteState, RoutedTurn,
    RoutingSwitched, Set, SwitchParams,
};
use clap::Subcommand;

use crate::client::conversation_choice;
use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{question, table};
use crate::safe;

#[derive(Clone, Debug, Subcommand)]
pub enum RouteCommand {
    /// Questions go to the preset of their class, in every conversation
    On,
    /// They do not
    Off,
    /// As it is configured
    Reset,
    /// The preset of each class
    Classes,
    /// What a text would come to
    Check {
        #[arg(required = true)]
        text: Vec<String>,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub enum FallbackCommand {
    /// A request whose server looks down goes to another preset, once
    On,
    /// It does not
    Off,
    /// As it is configured
    Reset,
}

/// Questions that are routed by their look.
pub async fn run(context: &CommandContext, command: Option<&RouteCommand>) -> PrintResult {
    let set = match command {
        None => {
            let state = context.call::<Get>(Empty {}).await?;
            return context.print(&state, || routing(&state));
        }
        Some(RouteCommand::Classes) => return classes(context).await,
        Some(RouteCommand::Check { text }) => return check(context, &text.join(" ")).await,
        Some(RouteCommand::On) => Some(true),
        Some(RouteCommand::Off) => Some(false),
        Some(RouteCommand::Reset) => None,
    };
    let state = context.call::<Set>(SwitchParams { on: set }).await?;
    context.print(&state, || routing(&state))
}

/// Requests that go another way when a server looks down.
pub async fn fallback(context: &CommandContext, command: Option<&FallbackCommand>) -> PrintResult {
    let set = match command {
        None => {
            let state = context.call::<FallbackGet>(Empty {}).await?;
            return context.print(&state, || falling_back(&state));
        }
        Some(FallbackCommand::On) => Some(true),
        Some(FallbackCommand::Off) => Some(false),
        Some(FallbackCommand::Reset) => None,
    };
    let params = SwitchParams { on: set };
    let state = context.call::<FallbackSet>(params).await?;
    let mut printed = context.print(&state, || falling_back(&state))?;
    if state.on && !state.known {
        printed.exit = Exit::UNKNOWN;
    }
    Ok(printed)
}

fn routing(state: &RouteState) -> String {
    let RouteState {
        on,
        configured,
        switched,
    } = state;
    format!(
        "routing is {}{}\n",
        on_or_off(*on),
        said_by(switched.as_ref(), *configured, "routing.auto")
    )
}

fn falling_back(state: &FallbackState) -> String {
    let FallbackState {
        on,
        configured,
        switched,
        model,
        known,
    } = state;
    let model = safe::one_line(model);
    let what = match (on, known) {
        (true, true) => format!("fallback is on: where a server looks down, {model} is asked once"),
        (false, true) => format!("fallback is off; it would be to {model}"),
        (on, false) => format!(
            "fallback is {}, but there is no preset called {model} (routing.fallback_model)",
            on_or_off(*on)
        ),
    };
    let by = said_by(switched.as_ref(), *configured, "routing.fallback");
    format!("{what}{by}\n")
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn said_by(switched: Option<&RoutingSwitched>, configured: bool, key: &str) -> String {
    match switched {
        None => format!(" ({key})"),
        Some(switched) => format!(
            " (by {}, {}; {key} = {configured})",
            question::who(&switched.by),
            switched.at
        ),
    }
}

async fn classes(context: &CommandContext) -> PrintResult {
    let params = ClassesParams {
        conversation: here(context).await?,
    };
    let result = context.call::<Classes>(params).await?;
    context.print(&result, || table(&result))
}

fn table(result: &ClassesResult) -> String {
    let row = |it: &ClassPreset| {
        let model = match (&it.model, it.known) {
            (None, _) => "the active one".to_owned(),
            (Some(model), true) => safe::one_line(model),
            (Some(model), false) => {
                format!(
                    "{}, which is no preset: the active one",
                    safe::one_line(model)
                )
            }
        };
        vec![name(it.class).to_owned(), model]
    };
    let rows: Vec<Vec<String>> = result.classes.iter().map(row).collect();
    table::columns(&["class", "preset"], &rows) + disabled(result.enabled, "\n")
}

fn disabled(enabled: bool, end: &'static str) -> &'static str {
    match (enabled, end) {
        (true, _) => "",
        (false, "\n") => "(routing currently disabled)\n",
        (false, _) => " (routing currently disabled)",
    }
}

/// The conversation, where one was named; a window names its own.
async fn here(context: &CommandContext) -> Result<Option<aish_proto::id::ConversationId>, Failure> {
    let Some(name) = context.name(None) else {
        return Ok(None);
    };
    let found = conversation_choice::by_name(&context.caller, name).await?;
    Ok(Some(found.id))
}

async fn check(context: &CommandContext, text: &str) -> PrintResult {
    let params = RouteCheckParams {
        text: text.to_owned(),
        conversation: here(context).await?,
    };
    let result = context.call::<Check>(params).await?;
    context.print(&result, || verdict(&result))
}

fn verdict(result: &RouteCheckResult) -> String {
    let RouteCheckResult {
        class,
        rule: _,
        why,
        model,
        known,
        active,
        by_hand,
        enabled,
    } = result;
    let active = match active {
        Some(active) => safe::one_line(active),
        None => "the one that is found".to_owned(),
    };
    let to = match model {
        Some(model) if *by_hand => format!(
            "{}, but {active} was named by hand and answers (`aishctl model default` takes that back)",
            safe::one_line(model)
        ),
        Some(model) if *known => safe::one_line(model),
        Some(model) => format!(
            "{}, which is no preset: {active} answers",
            safe::one_line(model)
        ),
        None => format!("no preset of its own: {active} answers"),
    };
    let off = disabled(*enabled, "");
    format!("{} ({why}) → {to}{off}\n", name(*class))
}

pub fn name(class: RouteClass) -> &'static str {
    match class {
        RouteClass::Code => "code",
        RouteClass::Reasoning => "reasoning",
        RouteClass::Default => "default",
    }
}

/// How the last turn came to its preset, for `conv status`; a line of its own.
pub fn last_turn(status: &ConversationStatus) -> String {
    let Some(last) = &status.last_turn else {
        return String::new();
    };
    let routed = last.routed.as_ref().map(|it| {
        let RoutedTurn { class, why, .. } = it;
        format!(" · {} ({why})", name(*class))
    });
    let fell_back = last.fell_back_to.as_ref();
    let fell_back = fell_back.map(|it| format!(" · fell back to {}", safe::one_line(it)));
    format!(
        "  last turn {}{}{}\n",
        safe::one_line(&last.model),
        routed.unwrap_or_default(),
        fell_back.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: Option<&str>, known: bool, by_hand: bool, enabled: bool, expected: &str) {
        let result = RouteCheckResult {
            class: RouteClass::Code,
            rule: "path".to_owned(),
            why: "a path".to_owned(),
            model: model.map(str::to_owned),
            known,
            active: Some("fast".to_owned()),
            by_hand,
            enabled,
        };
        assert_eq!(format!("{expected}\n"), verdict(&result));
    }

    #[test]
    fn a_check_says_class_rule_and_preset() {
        check(Some("deep"), true, false, true, "code (a path) → deep");
        check(
            Some("deep"),
            true,
            false,
            false,
            "code (a path) → deep (routing currently disabled)",
        );
        check(
            None,
            false,
            false,
            true,
            "code (a path) → no preset of its own: fast answers",
        );
        check(
            Some("dep"),
            false,
            false,
            true,
            "code (a path) → dep, which is no preset: fast answers",
        );
        check(
            Some("deep"),
            true,
            true,
            true,
            "code (a path) → deep, but fast was named by hand and answers (`aishctl model default` takes that back)",
        );
    }

    #[test]
    fn a_switch_says_who_threw_it() {
        let state = RouteState {
            on: false,
            configured: false,
            switched: None,
        };
        assert_eq!("routing is off (routing.auto)\n", routing(&state));
        let state = FallbackState {
            on: true,
            configured: false,
            switched: Some(RoutingSwitched {
                on: true,
                by: serde_json::from_value(serde_json::json!({
                    "clientId": "00000000000000000000000001", "name": "aish", "tty": "pts/3", "pid": 1, "uid": 1000
                }))
                .unwrap(),
                at: "2026-11-22T10:00:00Z".to_owned(),
            }),
            model: "cloud".to_owned(),
            known: true,
        };
        assert_eq!(
            "fallback is on: where a server looks down, cloud is asked once (by pts/3, 2026-11-22T10:00:00Z; \
             routing.fallback = false)\n",
            falling_back(&state)
        );
    }
}
