//! Events that are one line for people: of runs, of budgets and of the shared context.

use std::fmt::Write as _;

use aish_proto::event::{
    BudgetChanged, ClientEvent, Event, JobEnded, ResourceChanged, ToolsChosen,
};
use aish_proto::job::JobStopper;
use aish_proto::kept::KeptBlock;
use aish_proto::norris::{
    NorrisHold, NorrisLevels, NorrisLimits, NorrisOutcome, NorrisPause, NorrisSpent,
};
use aish_proto::resource::{ResourceAuthor, ResourceChangeKind};
use aish_proto::usage::ConversationBudget;

use crate::render::command_frame::how_it_ended;
use crate::render::{question, size, table};
use crate::safe;

/// So much of a command is shown where its name says which one is meant.
const SHOWN_COLUMNS: usize = 60;

fn made_picture(made: &KeptBlock) -> String {
    let (kind, bytes) = (&made.mime_type, size::bytes(made.bytes));
    format!(
        "the model made a picture · {kind} · {bytes} · aishctl result {}",
        made.result
    )
}

/// What an event of a turn says to people where it is no text: of a run, or of pictures that were made.
pub(crate) fn turn_line(event: &ClientEvent) -> Option<String> {
    Some(match &event.data {
        Event::AnswerPictures(made) => {
            let pictures = made.blocks.iter().map(made_picture);
            pictures.collect::<Vec<_>>().join(" · ")
        }
        Event::NorrisLaunched(launched) => {
            let opinion = if launched.second_opinion {
                "with a second opinion"
            } else {
                "without a second opinion"
            };
            let granted = granted(&launched.levels);
            let what = match launched.hold {
                Some(NorrisHold::Layers) => format!(
                    "commands work in a copy of the files, which you keep or drop; calls {granted} run unasked unless they are destructive"
                ),
                Some(NorrisHold::Read) => format!(
                    "commands can write nothing; calls {granted} run unasked unless they are destructive"
                ),
                Some(NorrisHold::Workspace) | None => {
                    format!("calls and commands {granted} run unasked unless they are destructive")
                }
            };
            format!(
                "norris: launched; {what}; at most {}, {opinion}",
                bounds(launched.limits)
            )
        }
        Event::NorrisStep(begun) => {
            format!("norris: {}", progress(begun.step, None, begun.spent))
        }
        Event::NorrisNudged(_) => "norris: nothing was done, and the model is told so".to_owned(),
        Event::NorrisPaused(paused) => match paused.pause {
            NorrisPause::Person => "norris: paused; :norris resume goes on".to_owned(),
            NorrisPause::Interrupted => {
                "norris: interrupted; what had begun is of unknown effect; :norris resume goes on"
                    .to_owned()
            }
        },
        Event::NorrisResumed(_) => "norris: resumed".to_owned(),
        Event::NorrisEnded(ended) => {
            let how = match ended.outcome {
                NorrisOutcome::Done => "done",
                NorrisOutcome::Halted => "halted by the model",
                NorrisOutcome::Limit => "a limit is met",
                NorrisOutcome::Stopped => "stopped",
                NorrisOutcome::Failed => "failed",
            };
            format!(
                "norris: {how}: {} ({})",
                safe::one_line(&ended.reason),
                progress(ended.step, None, ended.spent)
            )
        }
        _ => return None,
    })
}

pub(crate) fn granted(levels: &NorrisLevels) -> String {
    let NorrisLevels { all, providers } = levels;
    let mut text = format!("up to level {all}");
    for (name, level) in providers {
        let _never_fails = write!(text, ", of {} up to level {level}", safe::one_line(name));
    }
    text
}

/// What ends a run at the latest.
pub(crate) fn bounds(limits: NorrisLimits) -> String {
    let NorrisLimits {
        steps,
        time_ms,
        tokens,
        cost_usd,
    } = limits;
    let mut text = format!("{steps} steps");
    if let Some(ms) = time_ms {
        let _never_fails = match (ms / 60_000, ms % 60_000) {
            (minutes, 0) => write!(text, ", {minutes} min"),
            (_, _) => write!(text, ", {} s", ms / 1000),
        };
    }
    if let Some(tokens) = tokens {
        let _never_fails = write!(text, ", {tokens} tokens");
    }
    if let Some(cost) = cost_usd {
        let _never_fails = write!(text, ", {cost}");
    }
    text
}

pub(crate) fn progress(step: u32, limits: Option<NorrisLimits>, spent: NorrisSpent) -> String {
    let of = |most: Option<String>| most.map(|it| format!(" of {it}")).unwrap_or_default();
    let NorrisSpent {
        time_ms,
        tokens,
        cost_usd,
    } = spent;
    let limits = limits.unwrap_or(NorrisLimits {
        steps: 0,
        time_ms: None,
        tokens: None,
        cost_usd: None,
    });
    let steps = of((limits.steps > 0).then(|| limits.steps.to_string()));
    let most = of(limits.tokens.map(|it| it.to_string()));
    let time = of(limits.time_ms.map(|it| (it / 1000).to_string()));
    let cost = match (limits.cost_usd, cost_usd.nanos) {
        (None, 0) => String::new(),
        (most, _) => format!(", {cost_usd}{}", of(most.map(|it| it.to_string()))),
    };
    format!(
        "step {step}{steps}, {tokens}{most} tokens, {}{time} s{cost}",
        time_ms / 1000
    )
}

/// What an event says of budgets, in one line.
pub(crate) fn budget_line(event: &ClientEvent) -> Option<String> {
    let BudgetChanged { budget, by } = match &event.data {
        Event::BudgetReached(reached) => {
            return Some(format!("{}; {}", reached.text, reached.hint));
        }
        Event::BudgetChanged(changed) => &**changed,
        _ => return None,
    };
    let by = by.as_ref();
    let by = by.map_or_else(String::new, |it| format!(" ({})", question::who(it)));
    let ConversationBudget { tokens, usd } = budget.unwrap_or_default();
    let tokens = tokens.map(|it| format!("{it} tokens"));
    let usd = usd.map(|it| it.to_string());
    let amounts: Vec<String> = tokens.into_iter().chain(usd).collect();
    Some(if amounts.is_empty() {
        format!("this conversation has no budget any more{by}")
    } else {
        format!(
            "the budget of this conversation: {}{by}",
            amounts.join(", ")
        )
    })
}

/// How a command in the background ended, and who ended it, where somebody did. `None`: the end of its call says it.
pub(crate) fn job_line(ended: &JobEnded, who: Option<&str>) -> Option<String> {
    let JobEnded {
        job,
        command,
        end,
        replied,
    } = ended;
    let how = match end.stopped_by {
        None => {
            let how = how_it_ended(end.ending, end.exit_code, end.signal, end.ms, ", ");
            format!("ended: {how}")
        }
        Some(JobStopper::Model) => "was stopped by the model".to_owned(),
        Some(JobStopper::Person) => {
            format!("was stopped by {}", who.unwrap_or("somebody"))
        }
        Some(JobStopper::Turn) => "was stopped with its turn".to_owned(),
        Some(JobStopper::Daemon) => "ended with the daemon, and is not started again".to_owned(),
    };
    let command = table::cut(command, SHOWN_COLUMNS);
    (!replied).then(|| format!("{job} {how} — {command}"))
}

/// A change as a line of the window.
pub(crate) fn resource_line(changed: &ResourceChanged) -> String {
    format!(
        "resource {} {} by {} (revision {})",
        changed.name,
        change_word(changed.change),
        author(&changed.by),
        changed.revision
    )
}

/// Tools that models are sent from now on; nothing where some only went.
pub(crate) fn chosen_line(chosen: &ToolsChosen) -> Option<String> {
    const SHOWN: usize = 5;
    let added = &chosen.added;
    let shown = added.iter().take(SHOWN).map(|it| safe::one_line(it));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match added.len().saturating_sub(SHOWN) {
        0 if added.is_empty() => None,
        0 => Some(format!("tools at hand from here on: {shown}")),
        more => Some(format!(
            "tools at hand from here on: {shown} and {more} more"
        )),
    }
}

pub(crate) fn change_word(change: ResourceChangeKind) -> &'static str {
    match change {
        ResourceChangeKind::Created => "created",
        ResourceChangeKind::Updated => "updated",
        ResourceChangeKind::Deleted => "deleted",
    }
}

pub(crate) fn author(by: &ResourceAuthor) -> String {
    match (&by.provider, &by.person) {
        (Some(provider), _) => provider.clone(),
        (None, Some(person)) => question::who(person),
        (None, None) => "somebody".to_owned(),
    }
}
