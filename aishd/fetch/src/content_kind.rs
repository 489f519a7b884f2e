//! What a page is, by what its server says and, where that says nothing, by how it begins.

/// What becomes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentKind {
    Html,
    Json,
    Text,
    /// It is named, and not shown.
    Other,
    /// Its server does not say; it is looked at.
    Unsaid,
}

/// What a header says a body is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// In lower case, without parameters; empty where nothing is said.
    pub(crate) essence: String,
    pub(crate) charset: Option<String>,
}

/// Of `application`, what is text all the same.
const TEXT: [&str; 10] = [
    "ecmascript",
    "graphql",
    "javascript",
    "sql",
    "toml",
    "x-javascript",
    "x-ndjson",
    "x-sh",
    "x-yaml",
    "yaml",
];

impl MediaType {
    pub(crate) fn read(header: &str) -> Self {
        let mut parts = header.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|it| {
            let (name, value) = it.split_once('=')?;
            let value = value.trim().trim_matches('"');
            (name.trim().eq_ignore_ascii_case("charset")).then(|| value.to_owned())
        });
        Self { essence, charset }
    }

    pub(crate) fn kind(&self) -> ContentKind {
        let Some((group, sub)) = self.essence.split_once('/') else {
            return ContentKind::Unsaid;
        };
        match (group, sub) {
            ("text", "html") | ("application", "xhtml+xml") => ContentKind::Html,
            (_, "json") => ContentKind::Json,
            (_, sub) if sub.ends_with("+json") => ContentKind::Json,
            ("image", "svg+xml") => ContentKind::Other,
            ("text", _) | (_, "xml") => ContentKind::Text,
            (_, sub) if sub.ends_with("+xml") || sub.ends_with("+yaml") => ContentKind::Text,
            ("application", sub) if TEXT.contains(&sub) => ContentKind::Text,
            _ => ContentKind::Other,
        }
    }
}

/// What a body is whose server does not say.
pub(crate) fn looked_at(bytes: &[u8]) -> ContentKind {
    if is_binary(bytes) {
        return ContentKind::Other;
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]).to_ascii_lowercase();
    let head = head.trim_start_matches('\u{feff}').trim_start();
    let begins_html = ["<!doctype html", "<html", "<head", "<body"];
    if begins_html.iter().any(|it| head.starts_with(it)) {
        ContentKind::Html
    } else {
        ContentKind::Text
    }
}

/// Whether what is called a text is none. UTF-16 has its mark before it.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    let is_wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    !is_wide && bytes[..bytes.len().min(8192)].contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, kind: ContentKind, charset: Option<&str>) {
        let read = MediaType::read(header);
        assert_eq!(
            (kind, charset),
            (read.kind(), read.charset.as_deref()),
            "{header}"
        );
    }

    #[test]
    fn what_is_text_is_shown_and_the_rest_is_named() {
        check(
            "text/html; Charset=\"UTF-8\"",
            ContentKind::Html,
            Some("UTF-8"),
        );
        check("application/xhtml+xml", ContentKind::Html, None);
        check("Application/JSON", ContentKind::Json, None);
        check(
            "application/problem+json;charset=utf-8",
            ContentKind::Json,
            Some("utf-8"),
        );
        check("text/markdown", ContentKind::Text, None);
        check("application/rss+xml", ContentKind::Text, None);
        check("application/yaml", ContentKind::Text, None);
        check("application/pdf", ContentKind::Other, None);
        check("image/svg+xml", ContentKind::Other, None);
        check("application/octet-stream", ContentKind::Other, None);
        check("", ContentKind::Unsaid, None);
        check("nonsense", ContentKind::Unsaid, None);
        assert_eq!(ContentKind::Html, looked_at(b"\n<!DOCTYPE html><p>"));
        assert_eq!(ContentKind::Text, looked_at(b"plain"));
        assert_eq!(ContentKind::Other, looked_at(b"PK\x03\x04\0"));
    }
}
