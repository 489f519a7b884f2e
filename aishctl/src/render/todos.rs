//! The tasks that a model has set itself, as a checklist. Their words are a model's, and made safe.

use aish_proto::todo::{Todo, TodoStatus};

use crate::render::markdown::GlyphSet;
use crate::safe;

/// The call that writes them. The list stands in its place, so its arguments are not shown.
pub(crate) const WRITTEN_BY: &str = "todo__write";
/// Of a longer list what is done, and what comes much later, is counted.
const MOST_ROWS: usize = 12;

/// A row for each, and one that says how far they are.
pub(crate) fn rows(todos: &[Todo], glyphs: GlyphSet) -> Vec<String> {
    let mut rows = vec![format!("  {}", summary(todos))];
    let is_long = todos.len() > MOST_ROWS;
    let done = todos
        .iter()
        .take_while(|it| it.status == TodoStatus::Completed);
    let folded = if is_long { done.count() } else { 0 };
    if folded > 0 {
        rows.push(format!(
            "  {} {folded} more",
            mark(TodoStatus::Completed, glyphs)
        ));
    }
    let rest = &todos[folded..];
    let shown = if is_long {
        rest.len().min(MOST_ROWS)
    } else {
        rest.len()
    };
    rows.extend(rest[..shown].iter().map(|it| row(it, glyphs)));
    if rest.len() > shown {
        rows.push(format!("  … {} more: :todo", rest.len() - shown));
    }
    rows
}

/// Each of them, however many there are.
pub(crate) fn every_row(todos: &[Todo]) -> String {
    let mut rows = vec![summary(todos)];
    rows.extend(todos.iter().map(|it| row(it, GlyphSet::Drawn)));
    rows.join("\n") + "\n"
}

/// In one line: how far they are, and what is being done.
pub(crate) fn line(todos: &[Todo]) -> String {
    let mut line = summary(todos);
    let mut begun = todos
        .iter()
        .filter(|it| it.status == TodoStatus::InProgress);
    if let Some(now) = begun.next() {
        line.push_str(": ");
        line.push_str(&safe::one_line(&now.content));
    }
    line
}

fn summary(todos: &[Todo]) -> String {
    let done = todos.iter().filter(|it| it.status == TodoStatus::Completed);
    match todos.len() {
        0 => "no tasks".to_owned(),
        all => format!("tasks: {} of {all} done", done.count()),
    }
}

fn row(todo: &Todo, glyphs: GlyphSet) -> String {
    format!(
        "  {} {}",
        mark(todo.status, glyphs),
        safe::one_line(&todo.content)
    )
}

fn mark(status: TodoStatus, glyphs: GlyphSet) -> &'static str {
    match (status, glyphs) {
        (TodoStatus::Completed, GlyphSet::Drawn) => "☑",
        (TodoStatus::InProgress, GlyphSet::Drawn) => "▶",
        (TodoStatus::Pending, GlyphSet::Drawn) => "☐",
        (TodoStatus::Completed, GlyphSet::Words) => "done:",
        (TodoStatus::InProgress, GlyphSet::Words) => "now:",
        (TodoStatus::Pending, GlyphSet::Words) => "to do:",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(statuses: &[TodoStatus]) -> Vec<Todo> {
        let each = (1..).zip(statuses);
        each.map(|(number, status)| Todo {
            content: format!("step {number}\u{1b}[2J"),
            status: *status,
        })
        .collect()
    }

    #[track_caller]
    fn check(statuses: &[TodoStatus], glyphs: GlyphSet, expected: &[&str]) {
        assert_eq!(expected, rows(&list(statuses), glyphs));
    }

    #[test]
    fn a_list_is_short_however_long_it_is() {
        use TodoStatus::{Completed, InProgress, Pending};
        check(&[], GlyphSet::Drawn, &["  no tasks"]);
        check(
            &[Completed, InProgress, Pending],
            GlyphSet::Drawn,
            &[
                "  tasks: 1 of 3 done",
                "  ☑ step 1[2J",
                "  ▶ step 2[2J",
                "  ☐ step 3[2J",
            ],
        );
        check(
            &[Completed, InProgress, Pending],
            GlyphSet::Words,
            &[
                "  tasks: 1 of 3 done",
                "  done: step 1[2J",
                "  now: step 2[2J",
                "  to do: step 3[2J",
            ],
        );
        let mut many = vec![Completed; 20];
        many.push(InProgress);
        many.extend(vec![Pending; 20]);
        let shown = rows(&list(&many), GlyphSet::Drawn);
        assert_eq!(15, shown.len());
        assert_eq!("  ☑ 20 more", shown[1]);
        assert_eq!("  ▶ step 21[2J", shown[2]);
        assert_eq!("  … 9 more: :todo", shown[14]);
        assert_eq!(42, every_row(&list(&many)).lines().count());
        assert_eq!("tasks: 20 of 41 done: step 21[2J", line(&list(&many)));
    }
}
