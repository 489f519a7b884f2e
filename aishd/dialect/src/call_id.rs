//! Ids of calls as a server takes them. Other servers give ids that this one refuses: those go out as a digest of themselves,
//! the same each time.

use std::borrow::Cow;

use aishd_log::tool::ContentDigest;

/// Longer ones are refused.
const MOST_BYTES: usize = 64;
/// Of the digest, in hexadecimal.
const DIGEST_CHARS: usize = 32;

/// As it is where it fits, which `fits` says of each byte.
pub(crate) fn fitting(id: &str, fits: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= MOST_BYTES && id.bytes().all(fits) {
        return id.into();
    }
    let digest = ContentDigest::of(id.as_bytes()).to_string();
    let digest: String = digest.chars().take(DIGEST_CHARS).collect();
    format!("call_{digest}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_refused_goes_out_as_another_and_always_as_the_same() {
        let check = |id: &str, expected: Option<&str>| {
            let sent = fitting(id, |it| it.is_ascii_alphanumeric() || it == b'_');
            match expected {
                Some(expected) => assert_eq!(expected, sent),
                None => {
                    assert!(sent.starts_with("call_") && sent.len() == 37, "{sent}");
                    assert_eq!(
                        sent,
                        fitting(id, |it| it.is_ascii_alphanumeric() || it == b'_')
                    );
                }
            }
        };
        check("toolu_1", Some("toolu_1"));
        for odd in ["", "a.b", "chatcmpl tool", &"x".repeat(65)] {
            check(odd, None);
        }
        assert_ne!(
            fitting("a.b", |it| it != b'.'),
            fitting("a.c", |it| it != b'.')
        );
    }
}
