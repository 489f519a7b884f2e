//! `tools route|negotiate`: what an action means, and doing it.

use std::time::Duration;

use aish_proto::intent::{
    AlignmentClass, IntentRouting, Negotiate, NegotiateParams, NegotiateResult, Route, RouteParams,
    RoutingOutcome,
};
use aish_proto::turn::OnConfirm;
use clap::Args;
use serde_json::{Map, Value};
use ulid::Ulid;

use crate::ask_args::{AskArgs, confirm};
use crate::command_output::PrintResult;
use crate::commands::ask;
use crate::commands::command_context::CommandContext;
use crate::commands::tools::list::named_conversation;
use crate::exit::Exit;
use crate::{safe, span};

#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
ACTION is a tool's name, or words for it; only what is sure runs:

  aishctl tools negotiate gather '{\"text\": \"a\"}' --tool data-tool
  aishctl tools negotiate conversation:status
  aishctl tools negotiate 'conversation:switch ID'
  aishctl tools negotiate upgrade:data-tool:level-2

What a person has to be asked about waits for an answer, and the exit code is 3; the turn goes on when it is answered.
Where the provider's level is too low, a person is asked for the level first, nothing waits for the answer, and the same is
to be said again when it was given.")]
pub struct NegotiateArgs {
    pub action: String,
    /// One JSON object
    #[arg(value_name = "JSON", value_parser = object)]
    pub arguments: Option<Map<String, Value>>,
    /// A provider, or a whole name
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// How confirms are answered: ask, deny, or allow:NAME
    #[arg(long, value_name = "HOW", value_parser = confirm)]
    pub confirm: Vec<String>,
    /// How long a confirm may wait
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    pub confirm_timeout: Option<Duration>,
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("arguments are one JSON object".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

impl NegotiateArgs {
    /// `None`: nothing was said, so that whoever is there may be asked.
    fn on_confirm(&self) -> Option<OnConfirm> {
        let said = !self.confirm.is_empty() || self.confirm_timeout.is_some();
        let usual = AskArgs {
            confirm: self.confirm.clone(),
            confirm_timeout: self.confirm_timeout,
            ..AskArgs::default()
        };
        said.then(|| ask::on_confirm(&usual, true))
    }
}

pub(super) async fn route(
    context: &CommandContext,
    action: &[String],
    tool: Option<&str>,
) -> PrintResult {
    let params = RouteParams {
        conversation: named_conversation(context).await?,
        action: action.join(" "),
        tool: tool.map(str::to_owned),
    };
    let routing = context.call::<Route>(params).await?;
    let mut printed = context.print(&routing, || routing_text(&routing))?;
    if routing.outcome != RoutingOutcome::Found {
        printed.exit = Exit::UNKNOWN;
    }
    Ok(printed)
}

fn routing_text(routing: &IntentRouting) -> String {
    let others = routing.candidates.iter();
    let others: String = others
        .map(|it| format!("  {} {:.2}\n", it.name, it.confidence))
        .collect();
    match routing.outcome {
        RoutingOutcome::Found => {
            let name = routing.name.as_deref().unwrap_or_default();
            let reason = routing.reason.as_deref().unwrap_or_default();
            format!("{name} {:.2}, {reason}\n{others}", routing.confidence)
        }
        RoutingOutcome::Ambiguous => format!("any of these may be meant:\n{others}"),
        RoutingOutcome::Unknown if routing.nearest.is_empty() => "unknown action\n".to_owned(),
        RoutingOutcome::Unknown => {
            let nearest = routing.nearest.iter().map(|it| format!("  {it}\n"));
            format!(
                "unknown action; names that are like it:\n{}",
                nearest.collect::<String>()
            )
        }
    }
}

pub(super) async fn negotiate(context: &CommandContext, args: &NegotiateArgs) -> PrintResult {
    let meant = context.meant(context.name(None)).await?;
    let params = NegotiateParams {
        conversation: meant.id,
        action: args.action.clone(),
        arguments: args.arguments.clone().unwrap_or_default(),
        tool: args.tool.clone(),
        idempotency_key: Ulid::new().to_string(),
        on_confirm: args.on_confirm(),
        wait_ms: None,
    };
    let deadline = context.global.timeout;
    let asking = context.caller.call_within::<Negotiate>(params, deadline);
    let result = asking.await?;
    let mut printed = context.print(&result, || result_text(&result))?;
    printed.exit = exit(&result);
    Ok(printed)
}

fn result_text(result: &NegotiateResult) -> String {
    let reason = result.approval_reason.iter();
    let mut text: String = reason
        .map(|it| format!("{}\n", safe::one_line(it)))
        .collect();
    text.push_str(&result.output);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn exit(result: &NegotiateResult) -> Exit {
    match result.alignment.class {
        _ if result.success => Exit::DONE,
        AlignmentClass::Contradiction => Exit::DENIED,
        AlignmentClass::Unknown => Exit::UNKNOWN,
        AlignmentClass::Aligned if result.requires_approval || result.denied.is_some() => {
            Exit::DENIED
        }
        AlignmentClass::Aligned => Exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::confirm::Denial;
    use aish_proto::intent::ActionAlignment;

    use super::*;

    #[track_caller]
    fn check(class: AlignmentClass, change: impl FnOnce(&mut NegotiateResult), expected: Exit) {
        let mut result = NegotiateResult {
            success: false,
            output: "so".to_owned(),
            requires_approval: false,
            approval_reason: None,
            confirm: None,
            turn: None,
            routing: None,
            alignment: ActionAlignment {
                class,
                reason: None,
            },
            is_error: false,
            denied: None,
            status: None,
            conversations: vec![],
        };
        change(&mut result);
        assert_eq!(expected, exit(&result), "{result:?}");
        assert!(result_text(&result).ends_with("so\n"));
    }

    #[test]
    fn the_exit_code_says_what_became_of_it() {
        use AlignmentClass::{Aligned, Contradiction, Unknown};
        check(Aligned, |it| it.success = true, Exit::DONE);
        check(Aligned, |it| it.requires_approval = true, Exit::DENIED);
        let no = Some(Denial::Person);
        check(Aligned, |it| it.denied = no, Exit::DENIED);
        check(Aligned, |it| it.is_error = true, Exit::FAILED);
        check(Contradiction, |_| {}, Exit::DENIED);
        check(Unknown, |_| {}, Exit::UNKNOWN);
    }
}
