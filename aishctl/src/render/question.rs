//! What a person is asked, made of the confirm itself and never of what a model wrote about it; and what
//! the words mean that people answer with. What a kind of question looks like is in a file of its own.

use aish_proto::answerer::Answerer;
use aish_proto::changes::ProposedChanges;
use aish_proto::confirm::{ConfirmCall, ConfirmRecord, ConfirmState, ConfirmSubject, Decision};
use aish_proto::event::{ConfirmRequested, ConfirmResolved};

mod call;
pub mod changes;
mod command;
pub mod file_diff;
pub mod form;
mod host;
pub mod hunks;
mod level;
mod memory;
mod model;
mod sign_in;
pub mod tried;
mod word;

pub use self::word::{ConsentWord, resembles_an_answer, word, word_of_tried};
use crate::render::markdown::Colours;
use crate::safe;

/// Longer arguments are shown in part; all of them have to be seen before a yes counts.
const SHOWN_CHARS: usize = 2000;
/// What is told of other arguments; the call's own row has all of them.
const OTHERS_CHARS: usize = 500;
/// The call that runs while a server asks is told in this many characters, unless all of it is wanted.
const RUNNING_CALL_CHARS: usize = 120;

/// Of what is asked, in a list.
const IN_SHORT_CHARS: usize = 60;

/// How much of the arguments to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentExtent {
    Short,
    Whole,
}

/// How a kind of question looks.
trait Card {
    /// Its rows. Every character that could hide or reorder stands as an escape.
    fn rows(&self, extent: ArgumentExtent) -> String;

    /// Whether [`ArgumentExtent::Short`] leaves something out.
    fn is_long(&self) -> bool {
        false
    }

    /// What a yes is called in the line of choices.
    fn yes(&self) -> &'static str;

    /// What the answers mean.
    fn help(&self) -> String;

    /// What is asked and with what, each in a few words for a list; the second is made safe.
    fn in_short(&self) -> (&str, String);

    /// What `confirm allow` needs besides the id.
    fn allow_flags(&self) -> String {
        String::new()
    }
}

/// The one place that tells the kinds apart.
fn card(request: &ConfirmRequested) -> Box<dyn Card + '_> {
    match &*request.subject {
        ConfirmSubject::Call(subject) => Box::new(call::CallCard { request, subject }),
        ConfirmSubject::Command(subject) => Box::new(command::CommandCard { request, subject }),
        ConfirmSubject::Form(subject) => Box::new(form::FormCard { request, subject }),
        ConfirmSubject::Model(subject) => Box::new(model::ModelCard { request, subject }),
        ConfirmSubject::SignIn(subject) => Box::new(sign_in::SignInCard { request, subject }),
        ConfirmSubject::Level(subject) => Box::new(level::LevelCard { request, subject }),
        ConfirmSubject::Memory(subject) => Box::new(memory::MemoryCard { request, subject }),
        ConfirmSubject::Changes(subject) => Box::new(changes::ChangesCard { request, subject }),
        ConfirmSubject::Host(subject) => Box::new(host::HostCard { request, subject }),
    }
}

/// The question as it stands on a screen. Every character that could hide or reorder stands as an escape.
pub fn question(request: &ConfirmRequested, extent: ArgumentExtent) -> String {
    card(request).rows(extent)
}

/// Whether [`ArgumentExtent::Short`] leaves something out.
pub fn is_long(request: &ConfirmRequested) -> bool {
    card(request).is_long()
}

/// What is asked and with what, each in a few words for a list.
pub fn in_short(request: &ConfirmRequested) -> (String, String) {
    let card = card(request);
    let (what, more) = card.in_short();
    (safe::visible(what), more)
}

/// The beginning of a text, for a list.
fn begin(text: &str) -> String {
    safe::visible(text).chars().take(IN_SHORT_CHARS).collect()
}

/// The colour of the question where there are colours: red for what may not be undone.
pub fn colour(request: &ConfirmRequested) -> &'static str {
    if wants_whole_word(request) {
        "\u{1b}[31m"
    } else {
        "\u{1b}[33m"
    }
}

/// The line that says what can be answered: what the daemon takes, and how to see more.
pub fn choices(request: &ConfirmRequested) -> String {
    let takes = |decision| request.options.contains(&decision);
    let (whole_word, waits) = (wants_whole_word(request), holds_up(request));
    let yes = if whole_word {
        "yes"
    } else {
        card(request).yes()
    };
    let no = if waits { "[N]o" } else { "[n]o" };
    let mut text = format!("  {yes}  {no}  [n TEXT] no, because");
    if takes(Decision::AllowConversation) && !whole_word {
        text.push_str("  [a]lways here");
    }
    if let ConfirmSubject::Call(subject) = &*request.subject
        && let Some(level) = subject.raise_to
        && takes(Decision::RaiseOnly)
    {
        let provider = safe::visible(provider(&subject.call.tool));
        let raise = if whole_word { "raise" } else { "[r]aise" };
        text.push_str(&format!("  {raise} {provider} to {level}"));
    }
    if takes(Decision::Edit) {
        text.push_str("  [e]dit");
    }
    if file_diff::is_possible(request) || changes_of(request).is_some() {
        text.push_str("  [d]iff");
    }
    if can_be_tried(request) {
        text.push_str("  [t]ry first");
    }
    if waits {
        text.push_str("  [v]iew");
    }
    if takes(Decision::Abort) {
        text.push_str("  abort");
    }
    text.push_str("  [?] ");
    text
}

/// The same where somebody has changed the arguments.
pub fn choices_of_edited(request: &ConfirmRequested) -> String {
    let yes = if wants_whole_word(request) {
        "yes"
    } else {
        "[y]es"
    };
    format!("  with your arguments: {yes}, once  [N]o  [e]dit again  [v]iew  abort  [?] ")
}

/// Under the answers to a question that names a level.
const LEVELS: &str =
    "  its level   1 read, 2 write, 3 execute; aishctl perm shows which provider has which\n";

/// What all of them mean.
pub fn help(request: &ConfirmRequested) -> String {
    let levels = match &*request.subject {
        ConfirmSubject::Call(_) | ConfirmSubject::Command(_) if !is_file_change(request) => LEVELS,
        ConfirmSubject::Call(_)
        | ConfirmSubject::Command(_)
        | ConfirmSubject::Form(_)
        | ConfirmSubject::Model(_)
        | ConfirmSubject::SignIn(_)
        | ConfirmSubject::Level(_)
        | ConfirmSubject::Memory(_)
        | ConfirmSubject::Changes(_)
        | ConfirmSubject::Host(_) => "",
    };
    card(request).help() + levels
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
            let kept = hunks::kept(resolved);
            format!("{}{by}{kept}{edited}", decision.map_or("answered", decided))
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
        Decision::Keep => "kept",
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
    match (decision, &*request.subject) {
        (Decision::AllowOnce, ConfirmSubject::Level(_)) => Decision::RaiseOnly,
        (Decision::AllowOnce, ConfirmSubject::Changes(_)) => Decision::Keep,
        (decision, _) => decision,
    }
}

/// Everything about a confirm, for `confirm show`.
pub fn full_card(record: &ConfirmRecord) -> String {
    let request = &record.request;
    let mut text = question(request, ArgumentExtent::Whole);
    if let (Some(resolved), Some(at)) = (&record.resolution, &record.resolved_at) {
        text.push_str(&format!("  {} at {at}\n", ending(request.number, resolved)));
    } else {
        if let Some(tried) = &record.tried {
            for row in tried::rows(Some(request.number), tried, Colours::None) {
                text.push_str(&row);
                text.push('\n');
            }
        }
        let expires = request
            .expires_at
            .as_deref()
            .map_or(String::new(), |it| format!(", expires {it}"));
        text.push_str(&format!("  waits since {}{expires}\n", record.requested_at));
        text.push_str(&commands(request));
        if let Some(tried) = &record.tried {
            let (id, changes) = (request.confirm, tried.changes);
            text.push_str(&format!(
                "  aishctl confirm keep {id} --changes {changes}\n"
            ));
        }
    }
    text
}

/// How it is answered by commands.
pub fn commands(request: &ConfirmRequested) -> String {
    let (id, allow) = (request.confirm, allow_command(request));
    format!("  {allow}\n  aishctl confirm deny {id}\n")
}

/// Allows it as it was shown.
pub fn allow_command(request: &ConfirmRequested) -> String {
    let digest: String = request.digest.chars().take(12).collect();
    let (id, flags) = (request.confirm, allow_flags(request));
    format!("aishctl confirm allow {id}{flags} --digest {digest}")
}

/// What `confirm allow` needs besides the id: ` --set NAME=VALUE` for each field that has to be filled in.
pub fn allow_flags(request: &ConfirmRequested) -> String {
    card(request).allow_flags()
}

/// Whether it is about something that can run in layers over the files first.
pub fn can_be_tried(request: &ConfirmRequested) -> bool {
    match &*request.subject {
        ConfirmSubject::Command(subject) => !subject.asked.background,
        _ => is_file_change(request),
    }
}

/// Whether it is about a change of a file, whose difference comes with `commandTried`.
pub fn is_file_change(request: &ConfirmRequested) -> bool {
    matches!(&*request.subject, ConfirmSubject::Call(subject) if subject.changes_file.is_some())
}

/// What a run changed, where that is asked about.
pub fn changes_of(request: &ConfirmRequested) -> Option<&ProposedChanges> {
    match &*request.subject {
        ConfirmSubject::Changes(subject) => Some(subject),
        _ => None,
    }
}

/// Whether a turn waits for the answer, or a call that runs.
pub fn holds_up(request: &ConfirmRequested) -> bool {
    request.subject.call().is_some()
}

/// Whether a single letter is no yes: what is asked may not be undone, or a run has halted for it.
pub fn wants_whole_word(request: &ConfirmRequested) -> bool {
    request.destructive.is_some() || request.halt
}

/// What is said to a word that means nothing here.
pub fn unclear(request: &ConfirmRequested) -> &'static str {
    if wants_whole_word(request) {
        "only the whole word yes allows this; nothing happened"
    } else {
        "that is no answer; nothing happened"
    }
}

/// What a help calls a yes, as wide as its other answers.
fn yes_in_help(request: &ConfirmRequested) -> &'static str {
    if wants_whole_word(request) {
        "yes   "
    } else {
        "y, yes"
    }
}

/// Why a single letter is no yes, as a row of the question.
fn whole_word_row(request: &ConfirmRequested) -> String {
    match &request.destructive {
        Some(reason) => format!(
            "  this may not be undone, {}: only the whole word yes allows it\n",
            safe::visible(reason)
        ),
        None if request.halt => {
            "  the run waits: only the whole word yes allows it, once\n".to_owned()
        }
        None => String::new(),
    }
}

/// The row about the call that runs while a server asks.
fn running_row(call: &ConfirmCall, extent: ArgumentExtent) -> String {
    let arguments = safe::visible(&call.arguments);
    // Which server asks is its alias, as the person called it; where it runs is for who wants to know all.
    let (most, place) = match extent {
        ArgumentExtent::Short => (RUNNING_CALL_CHARS, String::new()),
        ArgumentExtent::Whole => (usize::MAX, format!(" in {}", safe::visible(&call.server))),
    };
    let shown: String = arguments.chars().take(most).collect();
    let cut = if shown.len() < arguments.len() {
        "…"
    } else {
        ""
    };
    format!(
        "  while {} {shown}{cut} runs{place}\n",
        safe::visible(&call.tool)
    )
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

#[cfg(test)]
pub(crate) mod tests {
    use aish_proto::confirm::CallSubject;
    use aish_proto::id::ConfirmId;
    use serde_json::json;

    use super::*;

    pub(crate) fn request(tool: &str, arguments: &str, level: u8) -> ConfirmRequested {
        let subject = CallSubject {
            changes_file: None,
            call: ConfirmCall {
                id: "call_1".to_owned(),
                tool: tool.to_owned(),
                arguments: arguments.to_owned(),
                cwd: "/home/u/proj".to_owned(),
                server: "npx fs".to_owned(),
            },
            definition: json!({"name": tool, "description": "Reads."}),
            approved_definition: None,
            level_required: level,
            raise_to: (level > 1).then_some(level),
        };
        let mut options = vec![
            Decision::AllowOnce,
            Decision::AllowConversation,
            Decision::AllowProvider,
        ];
        options.extend((level > 1).then_some(Decision::RaiseOnly));
        options.extend([Decision::Deny, Decision::Edit, Decision::Abort]);
        ConfirmRequested {
            confirm: ConfirmId::from_bytes([1; 16]),
            number: 7,
            title: tool.to_owned(),
            subject: Box::new(ConfirmSubject::Call(subject)),
            why: "every call is asked about".to_owned(),
            destructive: None,
            halt: false,
            digest: "ab".repeat(32),
            options,
            expires_at: None,
        }
    }

    /// The same question about something else.
    pub(crate) fn with_subject(
        request: ConfirmRequested,
        subject: ConfirmSubject,
        options: &[Decision],
    ) -> ConfirmRequested {
        ConfirmRequested {
            subject: Box::new(subject),
            options: options.to_vec(),
            ..request
        }
    }

    pub(crate) fn call_of(request: &mut ConfirmRequested) -> &mut CallSubject {
        match &mut *request.subject {
            ConfirmSubject::Call(subject) => subject,
            other => panic!("{other:?} is no call"),
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
        halted.halt = true;
        halted.options = vec![Decision::AllowOnce, Decision::Deny];
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
        for destructive in [true, false] {
            let mut request = request("sh__run", r#"{"command":"rm -rf x"}"#, 3);
            request.destructive = destructive.then(|| "it deletes \u{7}directories".to_owned());
            let shown = question(&request, ArgumentExtent::Short);
            let said = "this may not be undone, it deletes \\u{7}directories: only the whole word yes allows it";
            assert_eq!(
                (destructive, destructive),
                (shown.contains(said), colour(&request).contains("31"))
            );
            check("yes", &request, Some(Decision::AllowOnce));
            check("y", &request, (!destructive).then_some(Decision::AllowOnce));
            check(
                "a",
                &request,
                (!destructive).then_some(Decision::AllowConversation),
            );
            check("r", &request, (!destructive).then_some(Decision::RaiseOnly));
            check("raise", &request, Some(Decision::RaiseOnly));
        }
    }

    /// A help names no word that would not count.
    #[test]
    fn a_help_names_what_is_an_answer() {
        let call = request("sh__run", "{}", 3);
        let subject = json!({
            "type": "command",
            "call": call.subject.call(),
            "levelRequired": 3,
            "asked": {"command": "ls", "shell": "/bin/sh", "environment": []},
        });
        let subject = serde_json::from_value(subject).unwrap();
        let command = with_subject(call.clone(), subject, &call.options);
        for mut request in [call, command] {
            for whole_word in [false, true] {
                request.halt = whole_word;
                let help = help(&request);
                let names = help.lines().filter_map(|it| it.get(2..14));
                let named = names.flat_map(|it| it.split(',')).map(str::trim);
                for named in named.filter(|it| !it.contains(' ')) {
                    let means = word(named, &request);
                    let is_answer = !matches!(means, ConsentWord::Unclear(_));
                    assert!(is_answer, "{whole_word} {named:?}: {help}");
                }
                let expected = if whole_word { "  yes " } else { "  y, yes " };
                assert!(help.starts_with(expected), "{help}");
            }
        }
    }

    /// The daemon says what it takes; nothing else is an answer or is offered.
    #[test]
    fn what_the_daemon_does_not_take_is_no_answer() {
        let mut request = request("fs__read", "{}", 2);
        request.options = vec![Decision::AllowOnce, Decision::Deny];
        for typed in ["a", "A", "r", "e", "abort"] {
            check(typed, &request, None);
        }
        check("y", &request, Some(Decision::AllowOnce));
        assert_eq!(
            "  [y]es once  [N]o  [n TEXT] no, because  [v]iew  [?] ",
            choices(&request)
        );
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
        call_of(&mut request).approved_definition =
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
            let (cwd, server) = (next(), next());
            request.why.clone_from(&server);
            let subject = call_of(&mut request);
            subject.approved_definition = Some(json!({"name": server}));
            (subject.call.cwd, subject.call.server) = (cwd, server);
            for extent in [ArgumentExtent::Short, ArgumentExtent::Whole] {
                let shown = question(&request, extent);
                assert!(
                    shown.chars().all(|it| it == '\n' || !it.is_control()),
                    "{shown:?}"
                );
                assert!(!shown.contains(['\u{202e}', '\u{200b}', '\u{feff}', '\u{2028}']));
            }
            let whole = question(&request, ArgumentExtent::Whole);
            assert!(whole.contains(&safe::visible(request.subject.arguments())));
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
            format!("{lines} {}", wants_whole_word(&request))
        });
    }
}
