//! A Jupyter notebook by its cells, with what they printed.

use serde_json::Value;

use crate::call::ReadCall;
use crate::failure::{FailureKind, FileFailure};
use crate::place::NamedPlace;
use crate::shown::{REPLY_BYTES, counted, cut};

/// Characters of what one cell printed.
const OUTPUT_CHARS: usize = 2000;
/// Characters of the source of one cell.
const SOURCE_CHARS: usize = 20_000;

/// The cells of a notebook; none where it is no notebook by its name and its content.
pub(crate) fn cells(place: &NamedPlace, text: &str) -> Option<Vec<Value>> {
    if place.path.extension().is_none_or(|it| it != "ipynb") {
        return None;
    }
    let Ok(Value::Object(mut notebook)) = serde_json::from_str(text) else {
        return None;
    };
    match notebook.remove("cells") {
        Some(Value::Array(cells)) => Some(cells),
        _ => None,
    }
}

pub(crate) fn shown(
    place: &NamedPlace,
    cells: &[Value],
    call: &ReadCall,
) -> Result<String, FileFailure> {
    let total = cells.len();
    if total == 0 {
        return Ok("[the notebook has no cells]\n".to_owned());
    }
    let first = usize::try_from(call.offset.unwrap_or(1)).unwrap_or(usize::MAX);
    if first > total {
        return Err(FileFailure::new(
            FailureKind::BadRequest,
            format!(
                "{} has {}: there is no cell {first}",
                place.shown,
                counted(total, "cell")
            ),
        ));
    }
    let most = usize::try_from(call.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let mut text = String::new();
    let mut next = first;
    for cell in cells.iter().skip(first - 1).take(most) {
        let row = cell_text(next, cell);
        if text.len() + row.len() > REPLY_BYTES && next > first {
            break;
        }
        text.push_str(&row);
        next += 1;
    }
    if next <= total {
        text.push_str(&format!(
            "[cells {first} to {} of {total}; `offset`: {next} reads on]\n",
            next - 1
        ));
    }
    text.push_str(
        "[cells of a notebook, which is JSON; `edit` works on that text, and `search` shows its lines]\n",
    );
    Ok(text)
}

fn cell_text(number: usize, cell: &Value) -> String {
    let kind = cell["cell_type"].as_str().unwrap_or("unknown");
    let mut text = format!("[cell {number}, {}]\n", cut(kind, 40));
    text.push_str(&cut(joined(&cell["source"]).trim_end(), SOURCE_CHARS));
    text.push('\n');
    let outputs = cell["outputs"].as_array();
    let printed: String = outputs.into_iter().flatten().map(output_text).collect();
    if !printed.is_empty() {
        text.push_str(&format!(
            "[it printed]\n{}\n",
            cut(printed.trim_end(), OUTPUT_CHARS)
        ));
    }
    text
}

fn output_text(output: &Value) -> String {
    if let (Some(name), Some(value)) = (output["ename"].as_str(), output["evalue"].as_str()) {
        return format!("{name}: {value}\n");
    }
    let stream = joined(&output["text"]);
    if !stream.is_empty() {
        return stream;
    }
    let data = &output["data"];
    let plain = joined(&data["text/plain"]);
    let pictures = data.as_object().into_iter().flatten();
    let pictures = pictures.filter(|(name, _)| name.starts_with("image/"));
    let pictures: String = pictures
        .map(|(name, _)| format!("[a picture, {name}]\n"))
        .collect();
    match plain.is_empty() {
        true => pictures,
        false => format!("{}\n{pictures}", plain.trim_end()),
    }
}

/// A text, or a list of its lines.
fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTEBOOK: &str = r##"{"nbformat": 4, "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {"cell_type": "code", "source": "1 + 1", "outputs": [
            {"output_type": "execute_result", "data": {"text/plain": ["2"], "image/png": "aaaa"}}]},
        {"cell_type": "code", "source": "1 / 0", "outputs": [
            {"output_type": "stream", "text": ["so far\n"]},
            {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero"}]}
    ]}"##;

    #[test]
    fn a_notebook_is_read_by_cells() {
        let place = NamedPlace {
            shown: "a.ipynb".to_owned(),
            path: "/w/a.ipynb".into(),
            roots: vec![],
        };
        let check = |offset, limit, expected: &str| {
            let call = ReadCall {
                offset,
                limit,
                ..ReadCall::default()
            };
            let cells = cells(&place, NOTEBOOK).unwrap();
            let text = shown(&place, &cells, &call).unwrap_or_else(|it| it.text);
            let text = text
                .split("[cells of a notebook")
                .next()
                .unwrap()
                .to_owned();
            assert_eq!(expected, text);
        };
        let first = "[cell 1, markdown]\n# Title\nwords\n";
        let second = "[cell 2, code]\n1 + 1\n[it printed]\n2\n[a picture, image/png]\n";
        let third =
            "[cell 3, code]\n1 / 0\n[it printed]\nso far\nZeroDivisionError: division by zero\n";
        check(None, None, &format!("{first}{second}{third}"));
        check(
            Some(2),
            Some(1),
            &format!("{second}[cells 2 to 2 of 3; `offset`: 3 reads on]\n"),
        );
        check(Some(4), None, "a.ipynb has 3 cells: there is no cell 4");
        assert_eq!(None, cells(&place, "{}"));
        assert_eq!(None, cells(&place, "no JSON"));
    }
}
