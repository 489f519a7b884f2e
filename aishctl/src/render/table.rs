//! Aligned columns, by what a terminal shows and not by bytes.

use unicode_width::UnicodeWidthStr as _;

use crate::safe;

/// Rows under a head; the last column is as wide as it is. No spaces at line ends.
pub fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = std::iter::once(head.iter().map(|it| (*it).to_owned()).collect())
        .chain(
            rows.iter()
                .map(|row| row.iter().map(|it| safe::one_line(it)).collect()),
        )
        .collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|at| {
            rows.iter()
                .filter_map(|row| row.get(at))
                .map(|it| it.width())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width.saturating_sub(cell.width()) + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The same where a terminal has room for it; where not, each row is lines of its own: its first cell, and below it the others.
pub fn fitted(head: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let table = columns(head, rows);
    let Some(width) = width.filter(|it| table.lines().any(|line| line.width() > *it)) else {
        return table;
    };
    let mut text = String::new();
    for row in rows {
        let mut cells = head.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        if let Some((_, first)) = cells.next() {
            text.push_str(&safe::one_line(first));
            text.push('\n');
        }
        for (name, cell) in cells {
            text.push_str(&cut(&format!("  {name}: {cell}"), width));
            text.push('\n');
        }
    }
    text
}

/// `text` cut to `width` columns, with a visible mark.
pub fn cut(text: &str, width: usize) -> String {
    let text = safe::one_line(text);
    if text.width() <= width {
        return text;
    }
    let mut kept = String::new();
    for it in text.chars() {
        kept.push(it);
        if kept.width() >= width {
            kept.pop();
            break;
        }
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_for_wide_characters_and_hostile_titles() {
        let rows = vec![
            vec!["日本".to_owned(), "1".to_owned()],
            vec!["a\u{1b}\nb".to_owned(), "22".to_owned()],
        ];
        assert_eq!(
            "title  n\n日本   1\na b    22\n",
            columns(&["title", "n"], &rows)
        );
    }

    #[test]
    fn a_table_that_a_terminal_has_no_room_for_is_lines() {
        let rows = vec![
            vec!["a1".to_owned(), "3 h".to_owned(), "/some/where".to_owned()],
            vec!["a2".to_owned(), String::new(), "b".to_owned()],
        ];
        let head = ["id", "kept", "files"];
        let table = columns(&head, &rows);
        assert_eq!(table, fitted(&head, &rows, None));
        assert_eq!(table, fitted(&head, &rows, Some(21)));
        assert_eq!(
            "a1\n  kept: 3 h\n  files: /some/whe…\na2\n  files: b\n",
            fitted(&head, &rows, Some(19))
        );
    }

    #[test]
    fn a_long_text_is_cut_with_a_mark() {
        assert_eq!("abc", cut("abc", 3));
        assert_eq!("ab…", cut("abcd", 3));
        assert_eq!("日…", cut("日本語", 4));
    }
}
