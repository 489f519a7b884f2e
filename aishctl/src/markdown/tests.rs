//! What a person sees of a text.

use super::*;

fn rows(pieces: &[&str], style: Style) -> Vec<String> {
    let mut writer = Writer::new(style);
    let mut rows: Vec<Row> = pieces.iter().flat_map(|it| writer.push(it)).collect();
    rows.extend(writer.finish());
    rows.iter().map(|it| it.painted(style.colours)).collect()
}

#[test]
fn rows_come_when_they_are_finished() {
    let style = Style::plain(Some(20));
    assert_eq!(
        vec!["one two three four", "five", "", "日本語"],
        rows(&["one two th", "ree four five\n", "\n日本\u{1b}語"], style)
    );
}
