//! Conversations in columns that fit a terminal: what one is called comes first, and what does not fit is left out.

use std::time::SystemTime;

use aish_proto::conversation::Activity;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::render::ago::ago;
use crate::render::fork_tree::TreeEntry;
use crate::render::table;
use crate::render::turn_figures::price;
use crate::safe;

/// Columns of a title where nothing says how wide rows may be.
const TITLE_COLUMNS: usize = 60;
/// Before a title has less, something else is left out.
const LEAST_TITLE: usize = 22;
/// Of a directory the end is shown.
const PLACE_COLUMNS: usize = 24;
/// So many characters of the end of an id name a conversation.
const ID_CHARS: usize = 6;
/// Between two columns.
const GAP: usize = 2;

/// Conversations as they are listed.
#[derive(Debug)]
pub(crate) struct ConversationList {
    columns: Vec<ListColumn>,
    pub(crate) entries: Vec<TreeEntry>,
}

#[derive(Debug)]
struct ListColumn {
    kind: ColumnKind,
    cells: Vec<String>,
}

/// In the order in which they are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ColumnKind {
    Id,
    Turns,
    Cost,
    Place,
    Updated,
    Title,
    State,
}

/// Columns as they stand beside each other.
const ORDER: [ColumnKind; 7] = [
    ColumnKind::State,
    ColumnKind::Title,
    ColumnKind::Updated,
    ColumnKind::Turns,
    ColumnKind::Cost,
    ColumnKind::Place,
    ColumnKind::Id,
];

impl ColumnKind {
    fn head(self) -> &'static str {
        match self {
            Self::State => "",
            Self::Title => "title",
            Self::Updated => "used",
            Self::Turns => "turns",
            Self::Cost => "cost",
            Self::Place => "directory",
            Self::Id => "id",
        }
    }
}

impl ConversationList {
    pub(crate) fn new(
        entries: Vec<TreeEntry>,
        home: Option<&str>,
        now: SystemTime,
        width: Option<usize>,
    ) -> Self {
        let cell = |kind, entry: &TreeEntry| cell(kind, entry, home, now, width.is_some());
        let mut columns: Vec<ListColumn> = ORDER
            .into_iter()
            .map(|kind| ListColumn {
                kind,
                cells: entries.iter().map(|it| cell(kind, it)).collect(),
            })
            .collect();
        columns.retain(|it| it.kind != ColumnKind::Cost || it.cells.iter().any(|it| it != "–"));
        let mut list = Self { columns, entries };
        list.fit(width);
        list
    }

    /// A head and a row for each.
    pub(crate) fn text(&self) -> String {
        let head: Vec<&str> = self.columns.iter().map(|it| it.kind.head()).collect();
        let rows: Vec<Vec<String>> = (0..self.entries.len()).map(|at| self.cells(at)).collect();
        table::columns(&head, &rows)
    }

    /// Each row without the head.
    pub(crate) fn rows(&self) -> Vec<String> {
        let text = self.text();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    fn cells(&self, at: usize) -> Vec<String> {
        let cells = self.columns.iter().map(|it| it.cells.get(at).cloned());
        cells.map(Option::unwrap_or_default).collect()
    }

    fn fit(&mut self, width: Option<usize>) {
        let wanted = self.width_of(ColumnKind::Title);
        let Some(width) = width else {
            self.cut_titles(TITLE_COLUMNS);
            return;
        };
        loop {
            let room = width.saturating_sub(self.taken());
            let least_important = self.columns.iter().map(|it| it.kind).min();
            match least_important.filter(|it| *it < ColumnKind::Updated) {
                Some(kind) if room < wanted.min(LEAST_TITLE) => {
                    self.columns.retain(|it| it.kind != kind);
                }
                Some(_) | None => {
                    self.cut_titles(room.max(1));
                    return;
                }
            }
        }
    }

    /// What all but the titles take.
    fn taken(&self) -> usize {
        let others = self
            .columns
            .iter()
            .filter(|it| it.kind != ColumnKind::Title);
        others.map(|it| self.width_of(it.kind) + GAP).sum()
    }

    fn width_of(&self, kind: ColumnKind) -> usize {
        let column = self.columns.iter().filter(|it| it.kind == kind);
        let cells = column.flat_map(|it| it.cells.iter().map(|it| it.width()));
        cells.chain([kind.head().width()]).max().unwrap_or_default()
    }

    fn cut_titles(&mut self, width: usize) {
        let titles = self
            .columns
            .iter_mut()
            .filter(|it| it.kind == ColumnKind::Title);
        for title in titles.flat_map(|it| &mut it.cells) {
            *title = table::cut(title, width);
        }
    }
}

fn cell(
    kind: ColumnKind,
    entry: &TreeEntry,
    home: Option<&str>,
    now: SystemTime,
    is_short: bool,
) -> String {
    let it = &entry.conversation;
    match kind {
        ColumnKind::State => glyph(it.state).to_owned(),
        ColumnKind::Title => {
            let archived = if it.archived { " (archived)" } else { "" };
            format!("{}{}{archived}", entry.branch, safe::one_line(&it.title))
        }
        ColumnKind::Updated => ago(&it.updated_at, now),
        ColumnKind::Turns => it.turns.to_string(),
        ColumnKind::Cost => match it.usage.cost_usd {
            Some(cost) if it.usage.unpriced > 0 => format!("{}+", price(cost.dollars())),
            Some(cost) => price(cost.dollars()),
            None => "–".to_owned(),
        },
        ColumnKind::Place => place(&it.cwd, home),
        ColumnKind::Id => {
            let id = it.id.to_string();
            let from = if is_short { id.len() - ID_CHARS } else { 0 };
            id.get(from..).unwrap_or(&id).to_owned()
        }
    }
}

/// One column that says what a conversation is doing.
pub(crate) fn glyph(state: Activity) -> &'static str {
    match state {
        Activity::Idle => "○",
        Activity::Running => "●",
        Activity::RequiresAction => "?",
        Activity::Queued => "!",
    }
}

/// The end of a directory, with `~` for the home of who looks.
pub(crate) fn place(cwd: &str, home: Option<&str>) -> String {
    let cwd = safe::one_line(cwd);
    let at_home = home
        .filter(|it| *it != "/")
        .and_then(|it| cwd.strip_prefix(it.trim_end_matches('/')));
    let shown = match at_home {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        Some(_) | None => cwd,
    };
    if shown.width() <= PLACE_COLUMNS {
        return shown;
    }
    let mut room = PLACE_COLUMNS - 1;
    let end = shown.chars().rev().take_while(|it| {
        let wide = it.width().unwrap_or(0);
        let fits = wide <= room;
        room = room.saturating_sub(wide);
        fits
    });
    let end: Vec<char> = end.collect();
    let end: String = end.into_iter().rev().collect();
    // Whole names, where one fits.
    let whole = end.find('/').and_then(|at| end.get(at..));
    format!("…{}", whole.filter(|it| it.len() > 1).unwrap_or(&end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::fork_tree;
    use crate::test_daemon;

    fn list(width: Option<usize>) -> String {
        let mut found = vec![];
        for (title, cwd, cost, updated) in [
            (
                "why does the linker not find libssl on this machine",
                "/home/u/projects/deep/linker",
                Some(0.0321),
                "2026-11-27T11:55:00Z",
            ),
            ("日本語の題名", "/home/u", None, "2026-11-26T00:00:00Z"),
        ] {
            let mut status = test_daemon::status(title, 7);
            status["cwd"] = json!(cwd);
            status["updatedAt"] = json!(updated);
            status["usage"] = json!({"costUsd": cost, "requests": 1, "unpriced": 0});
            found.push(serde_json::from_value(status).unwrap());
        }
        let now = humantime::parse_rfc3339("2026-11-27T12:00:00Z").unwrap();
        ConversationList::new(fork_tree::flat(found), Some("/home/u"), now, width).text()
    }

    #[test]
    fn columns_fit_and_the_title_is_there_in_any_width() {
        expect_test::expect![[r#"
               title                                                used   turns  cost    directory               id
            ○  why does the linker not find libssl on this machine  5 min  1      $0.032  ~/projects/deep/linker  3GE1R7
            ○  日本語の題名                                         1 d    1      –       ~                       3GE1R7
        "#]]
        .assert_eq(&list(Some(140)));
        expect_test::expect![[r#"
               title                    used   turns  cost    directory               id
            ○  why does the linker no…  5 min  1      $0.032  ~/projects/deep/linker  3GE1R7
            ○  日本語の題名             1 d    1      –       ~                       3GE1R7
        "#]]
        .assert_eq(&list(Some(80)));
        expect_test::expect![[r#"
               title                           used
            ○  why does the linker not find …  5 min
            ○  日本語の題名                    1 d
        "#]]
        .assert_eq(&list(Some(40)));
        expect_test::expect![[r#"
               title                                                used   turns  cost    directory               id
            ○  why does the linker not find libssl on this machine  5 min  1      $0.032  ~/projects/deep/linker  070W3GE1R70W3GE1R70W3GE1R7
            ○  日本語の題名                                         1 d    1      –       ~                       070W3GE1R70W3GE1R70W3GE1R7
        "#]].assert_eq(&list(None));
        for width in 24..140 {
            for row in list(Some(width)).lines() {
                assert!(row.width() <= width, "{width}: {row}");
            }
        }
    }

    #[test]
    fn a_directory_keeps_its_end() {
        for (cwd, expected) in [
            ("/home/u", "~"),
            ("/home/u/x", "~/x"),
            ("/srv/x", "/srv/x"),
            ("/", "/"),
            (
                "/a/very/long/way/to/a/directory/of/mine",
                "…/to/a/directory/of/mine",
            ),
            (
                "/a/onenamethatislongerthanthecolumnsthatthereare",
                "…sthatthereare",
            ),
        ] {
            let shown = place(cwd, Some("/home/u/"));
            assert!(shown.ends_with(expected.trim_start_matches('…')), "{shown}");
            assert!(shown.width() <= PLACE_COLUMNS, "{shown}");
        }
    }
}
