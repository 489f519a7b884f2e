//! What a run changed in layers over the files: what it was to do, each file that would change, and what a yes does. All of it
//! is the run's text, and made safe.

use aish_proto::changes::{
    ChangeSummary, ChangedFile, ChangesEnd, ChangesOutcome, PartAct, PartOfChanges, PartStage,
    ProposedChanges,
};
use aish_proto::event::ConfirmRequested;

use super::{ArgumentExtent, Card, begin, tried};
use crate::render::undone::paths;
use crate::safe;

pub(super) struct ChangesCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a ProposedChanges,
}

impl Card for ChangesCard<'_> {
    /// The list has an end of its own.
    fn rows(&self, _extent: ArgumentExtent) -> String {
        let changed = &self.subject.changed;
        let mut text = format!(
            "? c{0}  keep what the run changed? {1}{2} (:changes show c{0})\n  the run: {3}\n",
            self.request.number,
            tried::count(changed),
            lines(changed),
            safe::visible(&self.subject.goal),
        );
        for row in tried::files(changed) {
            text.push_str(&row);
            text.push('\n');
        }
        if let Some(network) = &self.subject.network {
            text.push_str(&format!("  network: {}\n", safe::one_line(&network.line)));
        }
        text.push_str("  it worked in a copy of the files; nothing of this is real yet\n");
        text
    }

    fn yes(&self) -> &'static str {
        "[y]es, keep it"
    }

    fn help(&self) -> String {
        "  y, yes      all of it becomes real; :undo takes it back for fourteen days\n  keep FILE…  only these become real, and the rest is gone; a directory stands for all that is in it\n  d, diff     the difference, line by line\n  n, no       all of it is gone, and the files stay as they are\n".to_owned()
    }

    fn in_short(&self) -> (&str, String) {
        let changed = &self.subject.changed;
        let text = format!("{} · {}", tried::count(changed), self.subject.goal);
        (&self.request.title, begin(&text))
    }
}

/// ` +12 −4` of the files that are listed.
fn lines(changed: &ChangeSummary) -> String {
    let all =
        |of: fn(&ChangedFile) -> Option<u64>| -> u64 { changed.listed.iter().filter_map(of).sum() };
    let mut text = String::new();
    for (sign, count) in [("+", all(|it| it.added)), ("−", all(|it| it.removed))] {
        if count > 0 {
            text.push_str(&format!(" {sign}{count}"));
        }
    }
    text
}

/// What was done to changes of a run that goes on. `None`: only that it is to be done.
pub fn part(part: &PartOfChanges) -> Option<String> {
    let count = paths(part.count);
    let remark = part.remark.as_deref().map(safe::visible);
    let remark = remark.map_or(String::new(), |it| format!(" ({it})"));
    let how = match (part.stage, part.act) {
        (PartStage::Ordered, _) => return None,
        (PartStage::Done, PartAct::Keep) => {
            format!(
                "kept, and it goes on over them: {count}; :undo {} takes it back",
                part.part
            )
        }
        (PartStage::Done, PartAct::Drop) => {
            format!("dropped, and it goes on without them: {count}")
        }
        (PartStage::Failed, PartAct::Keep) => {
            "could not be kept, and nothing was touched".to_owned()
        }
        (PartStage::Failed, PartAct::Drop) => "could not be dropped".to_owned(),
    };
    Some(format!("  changes of the run {how}{remark}"))
}

/// What became of it, for everybody who looks on. `None`: there was nothing.
pub fn settled(settled: &ChangesEnd) -> Option<String> {
    let count = paths(settled.count);
    let how = match settled.outcome {
        ChangesOutcome::Nothing => return None,
        ChangesOutcome::Kept => format!("kept: {count}; :undo takes it back"),
        ChangesOutcome::KeptInPart => {
            format!("kept in part: {count}, and the rest is gone; :undo takes it back")
        }
        ChangesOutcome::Dropped => "dropped; the files are as before".to_owned(),
        ChangesOutcome::Failed => "could not be kept; the files are as before".to_owned(),
    };
    let remark = settled.remark.as_deref().map(safe::visible);
    let remark = remark.map_or(String::new(), |it| format!(" ({it})"));
    Some(format!("  changes of the run {how}{remark}"))
}

#[cfg(test)]
mod tests {
    use aish_proto::changes::FileChange;
    use aish_proto::confirm::{ConfirmSubject, Decision};
    use aish_proto::id::{ChangesId, TurnId};

    use super::*;
    use crate::render::question::tests::{request, with_subject};
    use crate::render::question::{self, ConsentWord};

    fn asked() -> ConfirmRequested {
        let file = |path: &str, change, added| ChangedFile {
            path: path.to_owned(),
            change,
            added,
            removed: None,
        };
        let subject = ConfirmSubject::Changes(ProposedChanges {
            changes: ChangesId::from_bytes([1; 16]),
            turn: TurnId::from_bytes([1; 16]),
            goal: "tidy \u{1b}[2Kup".to_owned(),
            changed: ChangeSummary {
                listed: vec![
                    file("/w/a", FileChange::Modified, Some(2)),
                    file("/w/b", FileChange::Removed, None),
                ],
                count: 2,
                refused: vec![],
            },
            network: None,
        });
        with_subject(
            request("", "{}", 0),
            subject,
            &[Decision::Keep, Decision::Deny],
        )
    }

    #[test]
    fn what_a_run_changed_is_shown_with_its_files() {
        let asked = asked();
        assert_eq!(
            "? c7  keep what the run changed? 2 files would change +2 (:changes show c7)\n  the run: tidy \\u{1b}[2Kup\n    ~ /w/a  +2\n    - /w/b\n  it worked in a copy of the files; nothing of this is real yet\n",
            question::question(&asked, ArgumentExtent::Short)
        );
        assert_eq!(
            "  [y]es, keep it  [n]o  [n TEXT] no, because  [d]iff  [?] ",
            question::choices(&asked)
        );
    }

    #[test]
    fn it_is_kept_as_a_whole_or_by_name_or_dropped() {
        let asked = asked();
        let check = |typed: &str, expected: Option<(Decision, Option<&str>)>| {
            let decided = match question::word(typed, &asked) {
                ConsentWord::Decide(decision, more) => Some((decision, more)),
                _ => None,
            };
            let expected = expected.map(|(it, more)| (it, more.map(str::to_owned)));
            assert_eq!(expected, decided, "{typed:?}");
        };
        check("y", Some((Decision::Keep, None)));
        check("keep", Some((Decision::Keep, None)));
        check("keep a /w/b", Some((Decision::Keep, Some("a /w/b"))));
        check("n", Some((Decision::Deny, None)));
        check("a", None);
        check("r", None);
        check("", None);
        assert!(matches!(question::word("d", &asked), ConsentWord::Diff));
    }
}
