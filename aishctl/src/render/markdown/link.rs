//! Addresses in links. The model chooses them, so what is clicked must be what is read.

use crate::safe;

/// Longer ones are written out; terminals cut them.
const CLICKABLE_BYTES: usize = 2048;

/// The address as it may stand in OSC 8: a scheme that opens a page, a letter or a file, and nothing but
/// printable ASCII.
pub(super) fn clickable(address: &str) -> Option<String> {
    let lower = address.get(..8).unwrap_or(address).to_ascii_lowercase();
    let known = ["http://", "https://", "mailto:", "file://"];
    if !known.iter().any(|it| lower.starts_with(it)) {
        return None;
    }
    let mut escaped = String::new();
    for byte in address.bytes() {
        if byte.is_ascii_graphic() {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    (escaped.len() <= CLICKABLE_BYTES).then_some(escaped)
}

/// The address for people: entities of the source may have made characters that no screen may get.
pub(super) fn written(address: &str) -> String {
    safe::one_line(address)
}

/// The label alone does not say where it leads, or says something else.
pub(super) fn must_be_written(address: &str, label: &str, clickable: bool) -> bool {
    let bare = address.strip_prefix("mailto:").unwrap_or(address);
    if label == address || label == bare || address.starts_with("data:") {
        return false;
    }
    let like_an_address = label.contains("://") || (label.contains('.') && !label.contains(' '));
    !clickable || like_an_address || label.trim().is_empty()
}
