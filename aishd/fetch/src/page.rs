//! What a model is shown of a page: where it is, what it is, and a part of its text by lines.

use std::fmt::Write as _;

use aishd_log::invisible_characters::without_hidden;
use serde_json::Value;

use crate::call::FetchCall;
use crate::charset::decoded;
use crate::content_kind::{ContentKind, is_binary, looked_at};
use crate::definition::TOOL;
use crate::failure::FetchFailure;
use crate::journey::FoundPage;
use crate::limits::TO_CONVERT;
use crate::markdown;
use crate::request::FetchReply;

/// Text of one reply.
const PART_BYTES: usize = 12_000;
/// A longer line goes on in the next one, so that nothing of it is out of reach.
const LINE_CHARS: usize = 2_000;
/// What a server calls its page is its own word.
const TYPE_CHARS: usize = 80;

/// The page, or the part of it that the call wants.
pub(crate) fn reply(call: &FetchCall, page: FoundPage) -> Result<FetchReply, FetchFailure> {
    let FoundPage {
        url,
        redirects,
        status,
        media_type,
        length,
        body,
    } = page;
    let is_unsaid = media_type.essence.is_empty();
    let essence = match media_type.essence.as_str() {
        "" => "a type that is not said".to_owned(),
        said => one_line(said).chars().take(TYPE_CHARS).collect(),
    };
    let mut head = format!("{url} ({}, {essence}", status.as_u16());
    if redirects > 0 {
        let plural = if redirects == 1 { "" } else { "s" };
        let from = &call.url;
        let _never_fails = write!(head, ", after {redirects} redirect{plural} from {from}");
    }
    head.push(')');
    let ok = status.is_success();
    let kind = media_type.kind();
    let body = body.filter(|it| !is_binary(&it.bytes));
    let Some(body) = body else {
        let size = length.map_or_else(|| "of unknown size".to_owned(), |it| format!("{it} bytes"));
        let what = if is_unsaid { "no text" } else { "not text" };
        let text = format!("{head}\n[aish] it is {what} ({size}), so it is not shown");
        return Ok(FetchReply { ok, text });
    };
    let kind = match kind {
        ContentKind::Unsaid => looked_at(&body.bytes),
        other => other,
    };
    let text = decoded(
        &body.bytes,
        media_type.charset.as_deref(),
        kind == ContentKind::Html,
    );
    let mut notes: Vec<String> = body.cut.into_iter().collect();
    let text = match kind {
        ContentKind::Html => {
            let read = markdown::of_html_within(text, url, TO_CONVERT)
                .map_err(FetchFailure::Unreadable)?;
            if let Some(title) = read.title {
                let _never_fails = write!(head, "\ntitle: {}", one_line(&title));
            }
            notes.extend(
                read.is_cut
                    .then(|| "what is nested too deep is left out".to_owned()),
            );
            read.text
        }
        ContentKind::Json => in_lines(text),
        ContentKind::Text | ContentKind::Unsaid | ContentKind::Other => text,
    };
    let (text, hidden) = without_hidden(&text);
    if hidden > 0 {
        notes.push(format!(
            "characters that show nothing are left out: {hidden}"
        ));
    }
    let lines = lines(&text);
    let mut shown = part(call, &head, &lines);
    for note in notes {
        let _never_fails = write!(shown, "\n[aish] {note}");
    }
    Ok(FetchReply { ok, text: shown })
}

fn one_line(text: &str) -> String {
    let (plain, _) = without_hidden(text);
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ")
}

/// JSON that is one long line, so that it can be read in parts. What is none stays as it is.
fn in_lines(text: String) -> String {
    if text.lines().nth(1).is_some() {
        return text;
    }
    let value = serde_json::from_str::<Value>(&text);
    let pretty = value.and_then(|it| serde_json::to_string_pretty(&it));
    pretty.unwrap_or(text)
}

/// Lines without blanks at their ends, of which no two in a row are empty.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() && lines.last().is_none_or(String::is_empty) {
            continue;
        }
        let mut rest = line;
        while let Some((at, _)) = rest.char_indices().nth(LINE_CHARS) {
            lines.push(rest[..at].to_owned());
            rest = &rest[at..];
        }
        lines.push(rest.to_owned());
    }
    lines
}

fn part(call: &FetchCall, head: &str, lines: &[String]) -> String {
    let offset = usize::try_from(call.offset.unwrap_or(1)).unwrap_or(usize::MAX);
    if lines.is_empty() {
        return format!("{head}\n[aish] there is no text on it");
    }
    if offset > lines.len() {
        return format!(
            "{head}\n[aish] it has {} lines, and `offset` is {offset}",
            lines.len()
        );
    }
    let wanted = &lines[offset - 1..];
    let mut bytes = 0;
    let fit = wanted.iter().take_while(|it| {
        bytes += it.len() + 1;
        bytes <= PART_BYTES
    });
    // One alone always fits.
    let count = fit.count().max(1);
    let text = wanted[..count].join("\n");
    let end = offset - 1 + count;
    let mut said = format!("{head}\n\n{text}\n");
    if count < lines.len() {
        let _never_fails = write!(said, "\n[aish] lines {offset} to {end} of {}", lines.len());
    }
    if end < lines.len() {
        let more = serde_json::json!({"url": call.url.as_str(), "offset": end + 1});
        let _never_fails = write!(said, "; to read on: {TOOL} {more}");
    }
    said
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;
    use url::Url;

    use super::*;
    use crate::body::ReadBody;
    use crate::content_kind::MediaType;

    fn page(media_type: &str, body: &[u8]) -> FoundPage {
        FoundPage {
            url: Url::parse("https://a.example/").unwrap(),
            redirects: 0,
            status: StatusCode::OK,
            media_type: MediaType::read(media_type),
            length: None,
            body: Some(ReadBody {
                bytes: body.to_vec(),
                cut: None,
            }),
        }
    }

    fn shown(page: FoundPage, offset: Option<u64>) -> FetchReply {
        let call = FetchCall {
            url: Url::parse("https://a.example/").unwrap(),
            offset,
        };
        reply(&call, page).unwrap()
    }

    #[track_caller]
    fn check(media_type: &str, body: &[u8], expected: &str) {
        assert_eq!(expected, shown(page(media_type, body), None).text);
    }

    #[test]
    fn a_page_says_where_it_is_and_what_it_is() {
        check(
            "text/html",
            b"<title>A\x1b</title><p>one</p>\n\n\n<p>two\xe2\x80\x8b</p>",
            "https://a.example/ (200, text/html)\ntitle: A\n\none\n\ntwo\n\n[aish] characters that show nothing are left out: 1",
        );
        check(
            "application/json",
            b"{\"a\":[1]}",
            "https://a.example/ (200, application/json)\n\n{\n  \"a\": [\n    1\n  ]\n}\n",
        );
        check(
            "text/plain",
            b"PK\0\0",
            "https://a.example/ (200, text/plain)\n[aish] it is not text (of unknown size), so it is not shown",
        );
        check(
            "",
            b"  ",
            "https://a.example/ (200, a type that is not said)\n[aish] there is no text on it",
        );
        let gone = FoundPage {
            status: StatusCode::NOT_FOUND,
            redirects: 1,
            ..page("text/plain", b"no such page")
        };
        let reply = shown(gone, None);
        assert!(!reply.ok);
        assert_eq!(
            "https://a.example/ (404, text/plain, after 1 redirect from https://a.example/)\n\nno such page\n",
            reply.text
        );
    }

    #[test]
    fn a_long_page_is_read_in_parts_and_nothing_of_it_is_lost() {
        let long: String = (0..3000).map(|it| format!("line {it}\n")).collect();
        let long = format!("{long}{}\n", "x".repeat(5000));
        let (mut offset, mut all) = (Some(1), String::new());
        let mut parts = 0;
        while let Some(at) = offset {
            let text = shown(page("text/plain", long.as_bytes()), Some(at)).text;
            let (_, rest) = text.split_once("\n\n").unwrap();
            let (part, mark) = rest.split_once("\n\n[aish] lines ").unwrap();
            assert!(part.len() <= PART_BYTES);
            all.push_str(part);
            all.push('\n');
            offset = mark.split_once("\"offset\":").map(|it| {
                let number: String = it.1.chars().take_while(char::is_ascii_digit).collect();
                number.parse().unwrap()
            });
            parts += 1;
        }
        assert_eq!(long.replace('\n', ""), all.replace('\n', ""));
        assert!(parts > 2);
        let beyond = shown(page("text/plain", b"one"), Some(7)).text;
        assert!(
            beyond.ends_with("it has 1 lines, and `offset` is 7"),
            "{beyond}"
        );
    }
}
