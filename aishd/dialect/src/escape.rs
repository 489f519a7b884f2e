//! A text as a JSON string (RFC 8259, section 7), byte for byte as `serde_json` writes it. That looks at one byte after the
//! other; here a stretch that needs no escape, which nearly all text is, is found and copied as a whole.

/// So many bytes are looked at together.
const STRETCH: usize = 32;

/// Adds the text, in quotes.
pub(crate) fn quote(text: &str, to: &mut String) {
    to.push('"');
    let mut rest = text;
    loop {
        let (plain, other) = rest.split_at(plain_bytes(rest.as_bytes()));
        to.push_str(plain);
        let mut other = other.chars();
        let Some(character) = other.next() else {
            break;
        };
        escape(character, to);
        rest = other.as_str();
    }
    to.push('"');
}

/// How many bytes stand before the first that is escaped.
fn plain_bytes(text: &[u8]) -> usize {
    let (stretches, _) = text.as_chunks::<STRETCH>();
    // Without a way out of the inner loop it is a few instructions for all of a stretch.
    let is_plain = |it: &&[u8; STRETCH]| !it.iter().fold(false, |any, it| any | is_escaped(*it));
    let plain = stretches.iter().take_while(is_plain).count() * STRETCH;
    let rest = &text[plain..];
    let more = rest.iter().position(|it| is_escaped(*it));
    plain + more.unwrap_or(rest.len())
}

const fn is_escaped(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn escape(character: char, to: &mut String) {
    let short = match character {
        '"' | '\\' => character,
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        other => {
            to.push_str("\\u00");
            let digits = [u32::from(other) >> 4, u32::from(other) & 0xF];
            to.extend(digits.iter().filter_map(|it| char::from_digit(*it, 16)));
            return;
        }
    };
    to.extend(['\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quoted(text: &str) -> String {
        let mut to = String::new();
        quote(text, &mut to);
        to
    }

    #[test]
    fn every_character_below_a_space_is_escaped_as_serde_json_does() {
        let all: String = (0..=0xFF).filter_map(char::from_u32).collect();
        assert_eq!(serde_json::to_string(&all).unwrap(), quoted(&all));
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_writes_it(
            pieces in proptest::collection::vec("\\PC{0,40}|[\\x00-\\x7f]{0,40}", 0..6),
        ) {
            let text = pieces.concat();
            prop_assert_eq!(serde_json::to_string(&text).unwrap(), quoted(&text));
        }
    }
}
