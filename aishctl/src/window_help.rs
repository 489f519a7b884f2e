//! What a window says of its commands.

/// Above the first question of a conversation.
pub(crate) const IN_SHORT: &str =
    "a line is a question, !COMMAND runs here, :help shows what else there is";

pub(crate) const HELP: &str =
    "a plain line is a question; !COMMAND runs here, and the model sees it
behind a colon or a slash:
:help [COMMAND]   :queue   :queue drop N   :cancel   :retry   :continue
:now TEXT cancels and asks   :ask TEXT asks what begins with a sign
:send sends what is dear
:edit asks the last question in other words, in a branch
:copy   :copy code   :thinking   :result last   :log
:confirm   :confirm allow c1   :confirm deny c1 [REASON]
or at the question: y, n, e, Alt-y, Alt-n, ?
:norris GOAL   :norris pause   :norris resume   :norris halt
:changes   :undo   :redo   :todo   :usage   :status
:new [TITLE]   :switch [NAME]   :conv ls   :model NAME
:route on   :fallback on   :quit (or Ctrl-D)   Ctrl-C cancels
every other aishctl command too, e.g. :search TEXT
on a terminal: \\ at the end or an open ``` goes on in the next row;
Tab completes, Ctrl-R searches; Ctrl-C stops the answer or the command
and keeps the line, else clears it; twice leaves; Ctrl-Z suspends";

/// What asks otherwise in a window, or asks the daemon that did not answer.
const OTHERWISE: [&str; 2] = ["ask", "status"];

/// A hint that ends with a command, as the command is typed in a window; others are as they are.
pub(crate) fn hint(hint: &str) -> String {
    let as_typed = hint.rsplit_once("aishctl ").and_then(|(before, command)| {
        let verb = command.split(' ').next().unwrap_or_default();
        let ends_it = before.is_empty() || before.ends_with(": ");
        let is_known = HELP.contains(&format!(":{verb}")) && !OTHERWISE.contains(&verb);
        let is_one = !command.contains([',', ';']);
        (ends_it && is_known && is_one).then(|| format!("{before}:{command}"))
    });
    as_typed.unwrap_or_else(|| hint.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_hint_names_the_command_as_it_is_typed_here() {
        for (hint, expected) in [
            ("aishctl conv ls", ":conv ls"),
            (
                "of an earlier turn: aishctl undo --earlier",
                "of an earlier turn: :undo --earlier",
            ),
            (
                "see aishctl log; more: aishctl store check",
                "see aishctl log; more: aishctl store check",
            ),
            ("zcat a | aishctl log", "zcat a | aishctl log"),
            (
                "aishctl ask -f FILE sends its beginning",
                "aishctl ask -f FILE sends its beginning",
            ),
            ("aishctl status", "aishctl status"),
            ("wait", "wait"),
        ] {
            assert_eq!(expected, super::hint(hint));
        }
    }
}
