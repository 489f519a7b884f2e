//! What a person is asked about a command that a model proposes: the whole text, what the shell would make of it, and why
//! it may be destructive. Made of the confirm itself.

use aish_proto::confirm::{ConfirmKind, Decision};
use aish_proto::event::ConfirmRequested;
use aish_proto::shell::CommandAsked;

use crate::render::question::{self, ArgumentExtent, SHOWN_CHARS, level_name};
use crate::safe;

/// It can be allowed once at most, and only by the whole word.
pub fn is_destructive(asked: &CommandAsked) -> bool {
    !asked.dangers.is_empty() || asked.unread.is_some()
}

/// Whether [`ArgumentExtent::Short`] leaves something out.
pub fn is_long(asked: &CommandAsked) -> bool {
    safe::visible(&asked.command).chars().count() > SHOWN_CHARS
}

pub fn question(
    request: &ConfirmRequested,
    asked: &CommandAsked,
    extent: ArgumentExtent,
) -> String {
    let shown = safe::visible(&asked.command);
    let mut text = format!("? c{}  CMD  ", request.number);
    let chars = shown.chars().count();
    if extent == ArgumentExtent::Short && chars > SHOWN_CHARS {
        let begin: String = shown.chars().take(SHOWN_CHARS).collect();
        let bytes = asked.command.len();
        let rest = chars - SHOWN_CHARS;
        text.push_str(&format!(
            "{begin}\n  … {rest} characters more, {bytes} bytes altogether: v shows all of it, and only then can it be allowed\n"
        ));
    } else {
        text.push_str(&shown);
        text.push('\n');
    }
    let of = asked.tty.as_deref().map(safe::visible);
    let of = of.map_or_else(String::new, |tty| {
        format!(" · with the environment of {tty}")
    });
    text.push_str(&format!(
        "  in {}{of} · {} · level {} {}\n",
        safe::visible(&request.cwd),
        safe::visible(&asked.shell),
        request.level_required,
        level_name(request.level_required),
    ));
    text.push_str(&parts(asked, extent));
    if question::is_destructive(request) {
        // A run that halted says why, with all that there is against the command.
        let whole = Some(&request.why).filter(|_| request.kind == ConfirmKind::Halt);
        let parts = asked.unread.iter().chain(&asked.dangers);
        let parts = parts.filter(|_| whole.is_none());
        for why in whole.into_iter().chain(parts) {
            text.push_str(&format!("  ! {}\n", safe::visible(why)));
        }
        let whole = if whole.is_some() {
            "  the run waits: only the whole word yes allows it, once\n"
        } else {
            "  this may not be undone: only the whole word yes allows it, once\n"
        };
        text.push_str(whole);
    } else if !request.options.contains(&Decision::AllowConversation) {
        text.push_str(&format!("  {}\n", safe::visible(&request.why)));
    }
    if extent == ArgumentExtent::Whole && !asked.environment.is_empty() {
        let names: Vec<String> = asked
            .environment
            .iter()
            .map(|it| safe::visible(it))
            .collect();
        text.push_str(&format!("  its environment has {}\n", names.join(", ")));
    }
    text
}

/// What runs, where that says more than the text, and all that goes elsewhere.
fn parts(asked: &CommandAsked, extent: ArgumentExtent) -> String {
    let mut text = String::new();
    let several = asked.segments.len() > 1 || extent == ArgumentExtent::Whole;
    for segment in &asked.segments {
        if several && !segment.runs.is_empty() {
            text.push_str(&format!("  runs {}\n", safe::visible(&segment.runs)));
        }
        for redirect in &segment.redirects {
            text.push_str(&format!("  redirects {}\n", safe::visible(redirect)));
        }
        for substitute in &segment.substitutes {
            text.push_str(&format!(
                "  puts in what {} prints\n",
                safe::visible(substitute)
            ));
        }
    }
    text
}

pub fn choices(request: &ConfirmRequested) -> String {
    let yes = if question::is_destructive(request) {
        "yes"
    } else {
        "[y]es once"
    };
    let always = if is_always_possible(request) {
        "  [a]lways here"
    } else {
        ""
    };
    format!("  {yes}  [N]o  [n TEXT] no, because{always}  [e]dit  [v]iew  abort  [?] ")
}

pub fn help(request: &ConfirmRequested) -> String {
    let always = if is_always_possible(request) {
        "  a, always   exactly this command in this directory, in this conversation\n"
    } else {
        ""
    };
    format!(
        "  y, yes      this command, once\n  n, no       it does not run; what follows is told to the model as the reason\n{always}  \
         e, edit     another command, in your editor; it is shown before it runs\n  v, view     all of it\n  \
         abort       it does not run, and the turn ends\n"
    )
}

/// Nothing that may not be undone is allowed beforehand.
pub fn is_always_possible(request: &ConfirmRequested) -> bool {
    request.options.contains(&Decision::AllowConversation) && !question::is_destructive(request)
}
