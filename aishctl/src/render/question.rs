//! What a person is asked, made of the confirm itself and never of what a model wrote about it; and what
//! the words mean that people answer with.

use aish_proto::answerer::Answerer;
use aish_proto::confirm::{ConfirmKind, ConfirmRecord, ConfirmState, Decision};
use aish_proto::event::{ConfirmRequested, ConfirmResolved};
use similar::{ChangeTag, TextDiff};

mod word;

pub use crate::render::question::word::{ConsentWord, resembles_an_answer, word};
use crate::render::{
    command_question, form_question, level_question, memory_question, preview, sampling_question,
};
use crate::safe;

/// Longer arguments are shown in part; all of them have to be seen before a yes counts.
pub(crate) const SHOWN_CHARS: usize = 2000;
/// What is told of other arguments; the call's own row has all of them.
const OTHERS_CHARS: usize = 500;
/// Words that make a call of level 3 one that cannot be undone.
const DESTRUCTIVE: [&str; 9] = [
    "rm", "dd", "mkfs", "drop", "truncate", "delete", "remove", "kill", "force",
];

/// How much of the arguments to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentExtent {
    Short,
    Whole,
}

/// The question as it stands on a screen. Every character that could hide or reorder stands as an escape.
pub fn question(request: &ConfirmRequested, extent: ArgumentExtent) -> String {
    if let Some(asked) = &request.elicitation {
        return form_question::question(request, asked, extent);
    }
    if let Some(asked) = &request.sampling {
        return sampling_question::question(request, asked, extent);
    }
    if let Some(asked) = &request.upgrade {
        return level_question::question(request, asked);
    }
    if let Some(asked) = &request.shell {
        return command_question::question(request, asked, extent);
    }
    if let Some(asked) = &request.memory {
        return memory_question::question(request, asked);
    }
    let mut text = format!("? c{}  {}\n", request.number, safe::visible(&request.tool));
    let shown = safe::visible(&request.arguments);
    let bytes = request.arguments.len();
    let chars = shown.chars().count();
    if extent == ArgumentExtent::Short && chars > SHOWN_CHARS {
        let begin: String = shown.chars().take(SHOWN_CHARS).collect();
        let rest = chars - SHOWN_CHARS;
        text.push_str(&format!(
            "  arguments ({bytes} bytes): {begin}\n  … {rest} characters more: v shows all of it, and only then can it be allowed\n"
        ));
    } else {
        text.push_str(&format!("  arguments ({bytes} bytes): {shown}\n"));
    }
    text.push_str(&format!(
        "  runs in {}, directory {}, level {} {}\n",
        safe::visible(&request.server),
        safe::visible(&request.cwd),
        request.level_required,
        level_name(request.level_required),
    ));
    text.push_str(&format!("  {}\n", safe::visible(&request.why)));
    if is_destructive(request) {
        text.push_str("  this may not be undone: only the whole word yes allows it\n");
    }
    if let Some(before) = &request.approved_definition {
        text.push_str(&changed(before, &request.definition));
    }
    if extent == ArgumentExtent::Whole {
        let definition = serde_json::to_string_pretty(&request.definition).unwrap_or_default();
        text.push_str("  the tool, as its server describes it:\n");
        for line in definition.lines() {
            text.push_str(&format!("    {}\n", safe::visible(line)));
        }
    }
    text
}

/// Whether [`ArgumentExtent::Short`] leaves something out.
pub fn is_long(request: &ConfirmRequested) -> bool {
    if let Some(asked) = &request.sampling {
        return sampling_question::is_long(asked);
    }
    if let Some(asked) = &request.shell {
        return command_question::is_long(asked);
    }
    // Of a form only the call is cut, and that runs already. A fact is shown whole.
    let is_short = request.elicitation.is_some() || request.memory.is_some();
    !is_short && safe::visible(&request.arguments).chars().count() > SHOWN_CHARS
}

/// The colour of the question where there are colours: red for what may not be undone.
pub fn colour(request: &ConfirmRequested) -> &'static str {
    if is_destructive(request) {
        "\u{1b}[31m"
    } else {
        "\u{1b}[33m"
    }
}

/// The line that says what can be answered.
pub fn choices(request: &ConfirmRequested) -> String {
    if let Some(asked) = &request.elicitation {
        return form_question::choices(asked).to_owned();
    }
    if request.sampling.is_some() {
        return sampling_question::CHOICES.to_owned();
    }
    if request.upgrade.is_some() {
        return level_question::CHOICES.to_owned();
    }
    if request.shell.is_some() {
        return command_question::choices(request);
    }
    if request.memory.is_some() {
        return memory_question::CHOICES.to_owned();
    }
    let yes = if is_destructive(request) {
        "yes"
    } else {
        "[y]es once"
    };
    let mut text = format!("  {yes}  [N]o  [n TEXT] no, because");
    if !is_destructive(request) {
        text.push_str("  [a]lways here");
    }
    if let Some(level) = request.raise_to {
        let provider = provider(&request.tool);
        text.push_str(&format!("  [r]aise {} to {level}", safe::visible(provider)));
    }
    text.push_str("  [e]dit");
    if preview::is_possible(request) {
        text.push_str("  [d]iff");
    }
    text.push_str("  [v]iew  abort  [?] ");
    text
}

/// The same where somebody has changed the arguments.
pub fn choices_of_edited(request: &ConfirmRequested) -> String {
    let yes = if is_destructive(request) {
        "yes"
    } else {
        "[y]es"
    };
    format!("  with your arguments: {yes}, once  [N]o  [e]dit again  [v]iew  abort  [?] ")
}

/// What all of them mean.
pub fn help(request: &ConfirmRequested) -> String {
    if let Some(asked) = &request.elicitation {
        return form_question::help(asked);
    }
    if let Some(asked) = &request.sampling {
        return sampling_question::help(asked);
    }
    if let Some(asked) = &request.upgrade {
        return level_question::help(asked);
    }
    if request.shell.is_some() {
        return command_question::help(request);
    }
    if request.memory.is_some() {
        return memory_question::HELP.to_owned();
    }
    let provider = safe::visible(provider(&request.tool));
    let mut text = format!(
        "  y, yes      this call\n  n, no       it does not run; what follows is told to the model as the reason\n  a, always   this tool as it is now, in this conversation\n  A           all tools of {provider} as they are now, in this conversation\n"
    );
    if let Some(level) = request.raise_to {
        text.push_str(&format!(
            "  r, raise    this call, and {provider} has level {level} from now on; later calls are asked about\n  a and A raise it too\n"
        ));
    }
    text.push_str(
        "  e, edit     other arguments, in your editor; they are shown before they run\n",
    );
    if preview::is_possible(request) {
        text.push_str("  d, diff     the file as it is now, against the text of the call\n");
    }
    text.push_str("  v, view     all of it\n  abort       it does not run, and the turn ends\n");
    text
}

/// How a confirm ended, for people.
pub fn ending(number: u32, resolved: &ConfirmResolved) -> String {
    let by = resolved
        .by
        .as_ref()
        .map_or(String::new(), |it| format!(" by {}", who(it)));
    let how = match (resolved.state, resolved.decision) {
        (ConfirmState::Expired, _) => "expired: nobody answered in time".to_owned(),
        (ConfirmState::Cancelled, _) => "was taken back".to_owned(),
        (ConfirmState::Pending, _) => "waits".to_owned(),
        (ConfirmState::Allowed | ConfirmState::Denied, decision) => {
            let edited = resolved.edited.as_deref().map_or(String::new(), others);
            format!("{}{by}{edited}", decision.map_or("answered", decided))
        }
    };
    format!("c{number} {how}")
}

/// What ran in the place of what was asked about.
fn others(edited: &str) -> String {
    let shown = safe::visible(edited);
    let begin: String = shown.chars().take(OTHERS_CHARS).collect();
    let more = if begin.len() < shown.len() { "…" } else { "" };
    format!(": {begin}{more}")
}

pub fn decided(decision: Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "allowed once",
        Decision::AllowConversation => "allowed in this conversation",
        Decision::AllowProvider => "allowed with all tools of its provider",
        Decision::RaiseOnly => "allowed, and the level raised",
        Decision::Deny => "denied",
        Decision::Edit => "allowed with other arguments",
        Decision::Abort => "denied, and the turn ended",
    }
}

/// A person by terminal, a script by process.
pub fn who(by: &Answerer) -> String {
    match (&by.tty, by.pid) {
        (Some(tty), _) => safe::visible(tty),
        (None, Some(pid)) => format!("{} pid {pid}", safe::visible(&by.name)),
        (None, None) => safe::visible(&by.name),
    }
}

/// What `confirm allow` says to this: of a level that it is raised, for nothing else can be allowed about it.
pub fn decision_for(decision: Decision, request: &ConfirmRequested) -> Decision {
    match decision {
        Decision::AllowOnce if request.upgrade.is_some() => Decision::RaiseOnly,
        Decision::AllowOnce
        | Decision::AllowConversation
        | Decision::AllowProvider
        | Decision::RaiseOnly
        | Decision::Deny
        | Decision::Edit
        | Decision::Abort => decision,
    }
}

/// Everything about a confirm, for `confirm show`.
pub fn full_card(record: &ConfirmRecord) -> String {
    let request = &record.request;
    let mut text = question(request, ArgumentExtent::Whole);
    if let (Some(resolved), Some(at)) = (&record.resolution, &record.resolved_at) {
        text.push_str(&format!("  {} at {at}\n", ending(request.number, resolved)));
    } else {
        let expires = request
            .expires_at
            .as_deref()
            .map_or(String::new(), |it| format!(", expires {it}"));
        text.push_str(&format!("  waits since {}{expires}\n", record.requested_at));
        text.push_str(&commands(request));
    }
    text
}

/// How it is answered by commands.
pub fn commands(request: &ConfirmRequested) -> String {
    let digest: String = request.digest.chars().take(12).collect();
    if request.elicitation.is_some() {
        return form_question::commands(request, &digest);
    }
    let id = request.confirm;
    format!("  aishctl confirm allow {id} --digest {digest}\n  aishctl confirm deny {id}\n")
}

/// Whether a turn waits for the answer, or a call that runs.
pub fn holds_up(request: &ConfirmRequested) -> bool {
    request.upgrade.is_none() && request.memory.is_none()
}

/// Whether what is asked may not be undone: then a single letter is no yes.
pub fn is_destructive(request: &ConfirmRequested) -> bool {
    // A run that works by itself halted for it, and would halt for it again.
    if request.kind == ConfirmKind::Halt
        || request
            .shell
            .as_deref()
            .is_some_and(command_question::is_destructive)
    {
        return true;
    }
    let text = format!("{} {}", request.tool, request.arguments).to_lowercase();
    let mut words = text.split(|it: char| !it.is_ascii_alphanumeric());
    let forced = text.contains("push -f");
    // A level undoes nothing by itself: calls are asked about.
    let is_call = request.upgrade.is_none();
    is_call && request.level_required == 3 && (forced || words.any(|it| DESTRUCTIVE.contains(&it)))
}

fn provider(tool: &str) -> &str {
    tool.split_once("__").map_or(tool, |(provider, _)| provider)
}

pub(crate) fn level_name(level: u8) -> &'static str {
    match level {
        1 => "read",
        2 => "write",
        3 => "execute",
        0 | 4.. => "",
    }
}

/// The lines in which two definitions differ.
fn changed(before: &serde_json::Value, now: &serde_json::Value) -> String {
    let lines = |it| serde_json::to_string_pretty(it).unwrap_or_default();
    let (before, now) = (lines(before), lines(now));
    let compared = TextDiff::from_lines(&before, &now);
    let mut text = String::from("  since it was approved:\n");
    for change in compared.iter_all_changes() {
        if change.tag() != ChangeTag::Equal {
            let line = safe::visible(change.value().trim());
            text.push_str(&format!("  {} {line}\n", change.tag()));
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use aish_proto::id::ConfirmId;
    use serde_json::json;

    use super::*;

    pub(crate) fn request(tool: &str, arguments: &str, level: u8) -> ConfirmRequested {
        ConfirmRequested {
            confirm: ConfirmId::from_bytes([1; 16]),
            number: 7,
            kind: ConfirmKind::Tool,
            title: tool.to_owned(),
            call: "call_1".to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
            cwd: "/home/u/proj".to_owned(),
            server: "npx fs".to_owned(),
            digest: "ab".repeat(32),
            definition: json!({"name": tool, "description": "Reads."}),
            approved_definition: None,
            level_required: level,
            raise_to: (level > 1).then_some(level),
            why: "every call is asked about".to_owned(),
            elicitation: None,
            sampling: None,
            shell: None,
            upgrade: None,
            memory: None,
            options: vec![],
            expires_at: None,
        }
    }

    #[track_caller]
    fn check(typed: &str, request: &ConfirmRequested, expected: Option<Decision>) {
        let decided = match word(typed, request) {
            ConsentWord::Decide(decision, _) => Some(decision),
            _ => None,
        };
        assert_eq!(expected, decided, "{typed:?}");
    }

    /// Traps: "yikes, no" approves nothing.
    #[test]
    fn only_exact_words_decide() {
        let read = request("fs__read", "{}", 1);
        for typed in ["y", "yes", " yes "] {
            check(typed, &read, Some(Decision::AllowOnce));
        }
        for typed in ["", "n", "no", "no not today"] {
            check(typed, &read, Some(Decision::Deny));
        }
        for typed in [
            "yikes, no",
            "ye",
            "Y",
            "yes please",
            "ok",
            "always!",
            "r",
            "v",
            "?",
        ] {
            check(typed, &read, None);
        }
        check("a", &read, Some(Decision::AllowConversation));
        check("A", &read, Some(Decision::AllowProvider));
        check("abort", &read, Some(Decision::Abort));
        let reason = ConsentWord::Decide(Decision::Deny, Some("not today".to_owned()));
        assert_eq!(reason, word("no not today", &read));
    }

    /// A run that halts for something would halt for it again.
    #[test]
    fn a_halt_wants_the_whole_word() {
        let mut halted = request("fs__read", "{}", 1);
        halted.kind = ConfirmKind::Halt;
        for typed in ["y", "a", "always", "A"] {
            check(typed, &halted, None);
        }
        check("yes", &halted, Some(Decision::AllowOnce));
        check("", &halted, Some(Decision::Deny));
        assert!(!choices(&halted).contains("always"));
    }

    /// What cannot be undone wants the whole word, and never "always".
    #[test]
    fn what_cannot_be_undone_wants_the_whole_word() {
        for (tool, arguments, destructive) in [
            ("fs__delete_all", "{}", true),
            ("sh__run", r#"{"command":"rm -rf x"}"#, true),
            ("sh__run", r#"{"command":"git push -f"}"#, true),
            ("sh__run", r#"{"command":"ls farm"}"#, false),
        ] {
            let request = request(tool, arguments, 3);
            assert_eq!(destructive, is_destructive(&request), "{tool} {arguments}");
            let marked =
                question(&request, ArgumentExtent::Short).contains("this may not be undone");
            assert_eq!(
                (destructive, destructive),
                (marked, colour(&request).contains("31"))
            );
            check("yes", &request, Some(Decision::AllowOnce));
            check("y", &request, (!destructive).then_some(Decision::AllowOnce));
            check(
                "a",
                &request,
                (!destructive).then_some(Decision::AllowConversation),
            );
            check("r", &request, Some(Decision::RaiseOnly));
        }
        assert!(!is_destructive(&request("fs__delete", "{}", 2)));
    }

    #[test]
    fn nothing_in_a_question_hides_or_moves() {
        let hostile =
            "{\"path\":\"\u{202e}txt.exe\u{200b}\u{1b}[2K\u{7}\u{e0041}\u{ad}\u{3164}é漢\"}";
        let shown = question(&request("fs__read", hostile, 1), ArgumentExtent::Short);
        assert!(
            shown
                .contains("\\u{202e}txt.exe\\u{200b}\\u{1b}[2K\\u{7}\\u{e0041}\\u{ad}\\u{3164}é漢"),
            "{shown}"
        );
        assert!(shown.contains(&format!("({} bytes)", hostile.len())));
        let lines = shown.lines().count();
        let broken = question(
            &request("fs__read", "{\"a\":\"x\\ny\"}", 1),
            ArgumentExtent::Short,
        );
        assert_eq!(
            lines,
            broken.lines().count(),
            "arguments stay on their line"
        );
    }

    #[test]
    fn a_long_question_says_how_much_is_missing() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(5000));
        let request = request("fs__read", &long, 1);
        assert!(is_long(&request));
        let short = question(&request, ArgumentExtent::Short);
        assert!(
            short.contains("3008 characters more") && short.contains("(5008 bytes)"),
            "{short}"
        );
        assert!(question(&request, ArgumentExtent::Whole).contains(&"x".repeat(5000)));
    }

    #[test]
    fn a_changed_tool_is_shown_with_what_changed() {
        let mut request = request("fs__read", "{}", 1);
        request.approved_definition =
            Some(json!({"name": "fs__read", "description": "Reads nicely."}));
        let shown = question(&request, ArgumentExtent::Short);
        assert!(
            shown.contains("- \"description\": \"Reads nicely.\""),
            "{shown}"
        );
        assert!(shown.contains("+ \"description\": \"Reads.\""), "{shown}");
    }

    /// Whatever a server and a model say, each row of a question is text that a person can see.
    #[test]
    fn damaged_questions_hide_nothing() {
        let corpus = [
            "fs__read\n{\"path\":\"/tmp/a\"}\n/home/u\nnpx fs",
            "a__b\n{\"a\":\"\u{202e}\u{1b}[2K\u{200b}\"}\n\u{7}\n\u{9b}",
        ];
        aish_testkit::fuzz(corpus, |input| {
            let text = String::from_utf8_lossy(input);
            let mut parts = text.splitn(4, '\n').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            let mut request = request(&next(), &next(), 3);
            (request.cwd, request.server) = (next(), next());
            request.why.clone_from(&request.server);
            request.approved_definition = Some(json!({"name": request.server}));
            for extent in [ArgumentExtent::Short, ArgumentExtent::Whole] {
                let shown = question(&request, extent);
                assert!(
                    shown.chars().all(|it| it == '\n' || !it.is_control()),
                    "{shown:?}"
                );
                assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{feff}', '\u{2028}']));
            }
            let whole = question(&request, ArgumentExtent::Whole);
            assert!(whole.contains(&safe::visible(&request.arguments)));
            let lines = whole.lines().count();
            for typed in text.lines() {
                let word = word(typed, &request);
                if let ConsentWord::Decide(decision, _) = word
                    && decision != Decision::Deny
                {
                    let exact = ["y", "yes", "a", "always", "A", "r", "raise", "abort"];
                    assert!(exact.contains(&typed.trim()), "{typed:?}");
                }
            }
            format!("{lines} {}", is_destructive(&request))
        });
    }
}
