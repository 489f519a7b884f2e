//! `status` and `reload`: the daemon itself.

use aish_proto::daemon::{Metrics, Reload, RoutingStatus, Status};
use aish_proto::method::Empty;
use clap::ValueEnum;

use crate::command_output::{CommandOutput, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusFormat {
    Tmux,
    Prometheus,
}

pub async fn run(context: &CommandContext, format: Option<StatusFormat>) -> PrintResult {
    if format == Some(StatusFormat::Prometheus) {
        return metrics(context).await;
    }
    let status = context.call::<Status>(Empty {}).await?;
    if format == Some(StatusFormat::Tmux) {
        // A turn that waits for a person runs too; it is shown once.
        let turns = status.running_turns.saturating_sub(status.pending_confirms);
        let running = turns + status.running_commands;
        let text = match (status.pending_confirms, running) {
            (0, 0) => "aish ○\n".to_owned(),
            (0, running) => format!("aish ●{running}\n"),
            (waiting, 0) => format!("aish ?{waiting}\n"),
            (waiting, running) => format!("aish ?{waiting} ●{running}\n"),
        };
        return Ok(CommandOutput::text(text));
    }
    context.print(&status, || {
        let store = &status.store;
        let mut text = format!(
            "aishd {} · pid {} · since {}{}\n  socket         {}\n  config         {}\n  default model  {}\n  conversations  {} · {} · {} waiting · {} to be answered · {} clients\n  routing        {}\n  store          {} · journal {} KiB{}\n",
            status.server.version,
            status.server.pid,
            status.server.started_at,
            if status.draining { " · going" } else { "" },
            status.socket,
            status.config.as_deref().unwrap_or("none"),
            status.default_model,
            status.conversations,
            running(status.running_turns, status.running_commands),
            status.queued_turns,
            status.pending_confirms,
            status.clients,
            routing(&status.routing),
            store.path,
            store.journal_bytes / 1024,
            if store.writable { "" } else { " · takes nothing now" },
        );
        for line in &status.config_errors {
            text.push_str(&format!("  config problem {line}\n"));
        }
        if !status.restart_needed.is_empty() {
            let keys = status.restart_needed.join(", ");
            text.push_str(&format!("  restart needed {keys}\n"));
        }
        for line in store.problem.iter().chain(&store.repairs) {
            text.push_str(&format!("  store          {line}\n"));
        }
        text
    })
}

/// Where nothing but a command runs, that is work too.
fn running(turns: u64, commands: u64) -> String {
    let runs = format!("{} running", turns + commands);
    match commands {
        0 => runs,
        1 => format!("{runs} (1 of them a command)"),
        more => format!("{runs} ({more} of them commands)"),
    }
}

fn routing(routing: &RoutingStatus) -> String {
    let RoutingStatus {
        auto,
        fallback,
        routed,
        fallbacks,
        fallbacks_failed,
    } = routing;
    let word = |on: &bool| if *on { "on" } else { "off" };
    let failed = match fallbacks_failed {
        0 => String::new(),
        failed => format!(", {failed} failed there too"),
    };
    format!(
        "{} · {routed} routed · fallback {} · {fallbacks} fell back{failed}",
        word(auto),
        word(fallback)
    )
}

/// Counters in the text format of Prometheus.
pub async fn metrics(context: &CommandContext) -> PrintResult {
    let result = context.call::<Metrics>(Empty {}).await?;
    context.print(&result, || result.text.clone())
}

pub async fn reload(context: &CommandContext) -> PrintResult {
    let result = context.call::<Reload>(Empty {}).await?;
    let printed = context.print(&result, || {
        let mut text = match (&result.errors[..], &result.changed[..]) {
            ([], []) => "nothing new: the files are in force as they are\n".to_owned(),
            ([], changed) => format!("changed: {}\n", changed.join(", ")),
            (errors, _) => format!("the old configuration stays:\n  {}\n", errors.join("\n  ")),
        };
        if !result.restart_needed.is_empty() {
            let keys = result.restart_needed.join(", ");
            text.push_str(&format!("restart needed for: {keys}\n"));
        }
        text
    })?;
    let exit = if result.errors.is_empty() {
        Exit::DONE
    } else {
        Exit::CONFIG
    };
    Ok(CommandOutput { exit, ..printed })
}
