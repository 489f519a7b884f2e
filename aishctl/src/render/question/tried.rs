//! What a command came to that was tried while its question waits: the head of what it printed, and each file that it would
//! change. All of it is the command's text, and made safe.

use aish_proto::changes::{ChangeSummary, ChangedFile, FileChange};
use aish_proto::event::{CommandTried, ConfirmRequested};

use super::wants_whole_word;
use crate::render::markdown::Colours;
use crate::render::{command_frame, difference, held_to};
use crate::safe;

/// Lines of the output that are shown; the log has the rest.
const MOST_LINES: usize = 12;

/// Rows for everybody who looks on.
pub fn rows(number: Option<u32>, tried: &CommandTried, colours: Colours) -> Vec<String> {
    let name = number.map_or_else(|| "a command".to_owned(), |it| format!("c{it}"));
    if let Some(difference) = &tried.difference {
        let more = lines_left_out(tried);
        return of_change(&name, difference, more, &tried.changed, colours);
    }
    let mut rows = vec![format!(
        "  ┌ {name} tried: {}",
        safe::visible(&tried.command)
    )];
    let mut lines = tried.output.lines();
    let shown = lines.by_ref().take(MOST_LINES);
    rows.extend(shown.map(|it| format!("  │ {}", safe::visible(it))));
    let more = lines.count();
    if more > 0 {
        rows.push(format!("  │ … {more} lines more"));
    }
    let how = command_frame::how_it_ended(
        tried.ending,
        tried.exit_code,
        tried.signal,
        Some(tried.ms),
        " · ",
    );
    let count = count(&tried.changed);
    rows.push(format!("  └ {how} · {count}; nothing of it is real yet"));
    rows.push(format!("    {}", held_to::TRIED));
    rows.extend(files(&tried.changed));
    rows
}

/// A change of files, where the difference is what is asked about.
fn of_change(
    name: &str,
    difference: &str,
    more: u64,
    changed: &ChangeSummary,
    colours: Colours,
) -> Vec<String> {
    let safe = difference::safe(difference);
    let shown = match colours {
        Colours::None => safe,
        Colours::Sixteen | Colours::True => difference::painted(&safe),
    };
    let mut rows = vec![format!("  ┌ {name} would change")];
    rows.extend(shown.lines().map(|it| format!("  │ {it}")));
    if more > 0 {
        rows.push(format!("  │ … {more} lines more: d"));
    }
    rows.push(format!("  └ {}; nothing of it is real yet", count(changed)));
    rows
}

/// Lines of the difference that do not stand beside its question.
pub fn lines_left_out(tried: &CommandTried) -> u64 {
    let shown = tried.difference.iter().flat_map(|it| it.lines()).count() as u64;
    tried
        .difference_lines
        .unwrap_or(shown)
        .saturating_sub(shown)
}

/// How much would change.
pub fn count(changed: &ChangeSummary) -> String {
    match changed.count {
        0 => "changed no files".to_owned(),
        1 => "1 file would change".to_owned(),
        count => format!("{count} files would change"),
    }
}

/// A row for each file that is listed, and what is said besides.
pub fn files(changed: &ChangeSummary) -> Vec<String> {
    let mut rows: Vec<String> = changed.listed.iter().map(file).collect();
    let unlisted = changed.count - (changed.listed.len() as u64).min(changed.count);
    if unlisted > 0 {
        rows.push(format!("    … and {unlisted} more"));
    }
    let refused = changed.refused.iter();
    rows.extend(refused.map(|it| format!("    ! {}", safe::visible(it))));
    rows
}

/// The listed path that somebody means by its end; what is none stays as it is.
pub fn named(changed: &ChangeSummary, word: &str) -> String {
    let word = word.trim_end_matches('/');
    let means = |path: &str| {
        let end = path.strip_suffix(word);
        end.is_some_and(|it| it.is_empty() || it.ends_with('/'))
    };
    let mut found = changed
        .listed
        .iter()
        .map(|it| &it.path)
        .filter(|it| means(it));
    match (found.next(), found.next()) {
        (Some(path), None) => path.clone(),
        _ => word.to_owned(),
    }
}

fn file(it: &ChangedFile) -> String {
    let mark = match it.change {
        FileChange::Created => "+",
        FileChange::Modified => "~",
        FileChange::Attributes => "m",
        FileChange::Removed => "-",
        FileChange::Replaced => "!",
    };
    let mut row = format!("    {mark} {}", safe::visible(&it.path));
    if let Some(added) = it.added.filter(|it| *it > 0) {
        row.push_str(&format!("  +{added}"));
    }
    if let Some(removed) = it.removed.filter(|it| *it > 0) {
        row.push_str(&format!("  −{removed}"));
    }
    row
}

/// The line that says what can be answered then.
pub fn choices(request: &ConfirmRequested, tried: &CommandTried) -> String {
    let [keep, run] = if wants_whole_word(request) {
        ["yes, keep", "run, for real"]
    } else {
        ["[y]es, keep", "[r]un for real"]
    };
    let some = if can_be_divided(tried) {
        "  [s]ome of it"
    } else {
        ""
    };
    if tried.difference.is_some() {
        return format!(
            "  {keep}{some}  [N]o, drop  [n TEXT] no, because  [d]iff, all of it  [v]iew  abort  [?] "
        );
    }
    format!(
        "  {keep}{some}  [d]iff  {run}  [N]o, drop  [n TEXT] no, because  [t]ry again  [v]iew  abort  [?] "
    )
}

/// Whether there may be more than one hunk of it.
fn can_be_divided(tried: &CommandTried) -> bool {
    match &tried.difference {
        Some(difference) => {
            let hunks = difference.lines().filter(|it| it.starts_with("@@ "));
            hunks.count() > 1 || lines_left_out(tried) > 0
        }
        None => {
            let is_text =
                |it: &ChangedFile| it.change == FileChange::Modified && it.added.is_some();
            tried.changed.count > 1 || tried.changed.listed.iter().any(is_text)
        }
    }
}

pub fn help(request: &ConfirmRequested, tried: &CommandTried) -> String {
    let some = if can_be_divided(tried) {
        "  s, some     hunk by hunk: which becomes real, and which does not\n"
    } else {
        ""
    };
    let [yes, run] = if wants_whole_word(request) {
        ["yes", "run"]
    } else {
        ["y, yes", "r, run"]
    };
    if tried.difference.is_some() {
        return format!(
            "  {yes:<11} it becomes real as it is shown; `aishctl undo` takes it back\n  \
             n, no       nothing is changed; what follows is told to the model as the reason\n{some}  \
             d, diff     all of the difference\n  t, try      once more, from the files as they are\n  \
             v, view     all of the question\n  abort       nothing is changed, and the turn ends\n"
        );
    }
    format!(
        "  {yes:<11} what it changed becomes real, and it does not run again; `aishctl undo` takes it back\n{some}  \
         d, diff     what it would change, as a difference\n  \
         {run:<11} it runs for real, once; what was tried is dropped\n  \
         n, no       it does not run, and what was tried is dropped; what follows is told to the model as the reason\n  \
         t, try      once more, from the files as they are\n  v, view     all of the question\n  \
         abort       it does not run, and the turn ends\n"
    )
}

#[cfg(test)]
mod tests {
    use aish_proto::changes::ChangeSummary;
    use aish_proto::id::{ChangesId, ConfirmId};
    use aish_proto::shell::ShellEnding;

    use super::*;

    #[test]
    fn everything_of_the_command_is_made_safe_and_counted() {
        let file = |path: &str, change, added, removed| ChangedFile {
            path: path.to_owned(),
            change,
            added,
            removed,
        };
        let tried = CommandTried {
            confirm: ConfirmId::from_bytes([1; 16]),
            changes: ChangesId::from_bytes([2; 16]),
            command: "make\u{1b}[2J".to_owned(),
            ending: ShellEnding::Exited,
            exit_code: Some(0),
            signal: None,
            output: "one\n".repeat(14),
            bytes: 56,
            ms: 2_140,
            kept: None,
            changed: ChangeSummary {
                listed: vec![
                    file("/w/a\nb", FileChange::Created, Some(3), Some(0)),
                    file("/w/c", FileChange::Modified, Some(1), Some(2)),
                    file("/w/d", FileChange::Removed, None, None),
                ],
                count: 5,
                refused: vec!["1 sockets and devices are left out".to_owned()],
            },
            difference: None,
            difference_lines: None,
            network: None,
            by: None,
        };
        let rows = rows(Some(7), &tried, Colours::None);
        let expected = [
            "  ┌ c7 tried: make\\u{1b}[2J",
            "  │ … 2 lines more",
            "  └ exit 0 · 2.1 s · 5 files would change; nothing of it is real yet",
            "    held to `try`: what it changed is a proposal; it saw no keys, no other programs, and no hosts but those that are allowed",
            "    + /w/a\\u{a}b  +3",
            "    ~ /w/c  +1  −2",
            "    - /w/d",
            "    … and 2 more",
            "    ! 1 sockets and devices are left out",
        ];
        let told: Vec<&String> = rows.iter().filter(|it| *it != "  │ one").collect();
        assert_eq!(expected.to_vec(), told);
    }

    /// The question of a change is its difference.
    #[test]
    fn a_change_is_shown_as_the_difference_that_it_makes() {
        let tried: CommandTried = serde_json::from_value(serde_json::json!({
            "confirm": ConfirmId::from_bytes([1; 16]),
            "changes": ChangesId::from_bytes([2; 16]),
            "command": "files__edit a.rs", "ending": "exited", "exitCode": 0,
            "output": "a.rs: 1 place replaced\n", "bytes": 0, "ms": 3,
            "changed": {"listed": [], "count": 1, "refused": []},
            "difference": "=== /w/a.rs (changed)\n@@ -1 +1 @@\n-old\u{1b}[2J\n+new\n",
        }))
        .unwrap();
        let shown = |colours| rows(Some(7), &tried, colours);
        let expected = [
            "  ┌ c7 would change",
            "  │ === /w/a.rs (changed)",
            "  │ @@ -1 +1 @@",
            "  │ -old\\u{1b}[2J",
            "  │ +new",
            "  └ 1 file would change; nothing of it is real yet",
        ];
        assert_eq!(expected.to_vec(), shown(Colours::None));
        let painted = shown(Colours::Sixteen);
        assert!(painted[4].contains("\u{1b}[32m"), "{painted:?}");
    }
}
