//! Cutting secrets out of a line: values that are known to be secret, and what looks like one.

use std::sync::Arc;

use parking_lot::RwLock;

/// What stands where a secret was.
const MARK: &str = "[redacted]";
/// A shorter text is no secret, and cutting it out of every line would make the log unreadable.
const MIN_SECRET_BYTES: usize = 4;
/// As many values are remembered; a key command may give another key each time.
const REMEMBERED: usize = 64;
/// Names that tell of a secret, whatever is configured.
const ALWAYS: [&str; 6] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "cookie",
    "credential",
];
/// How keys of well-known services begin, and JSON web tokens.
const BEGINNINGS: [&str; 17] = [
    "sk-",
    "sk_",
    "pk-lf-",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "hf_",
    "gsk_",
    "AIza",
    "AKIA",
    "eyJ",
];
/// What follows such a beginning at least.
const AFTER_BEGINNING: usize = 10;
/// After `name: `, a shorter word is taken for prose.
const MIN_AFTER_COLON: usize = 8;
/// Values that say that there is no secret.
const NO_SECRETS: [&str; 7] = ["none", "null", "true", "false", "missing", "present", MARK];

/// Knows what must not be logged; cheap to clone, and all clones know the same.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<KnownSecrets>>);

#[derive(Default)]
struct KnownSecrets {
    /// Newest last.
    values: Vec<String>,
    names: Vec<String>,
}

/// Without the values.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    pub fn new(names: &[String]) -> Self {
        let redactor = Self::default();
        redactor.name(names);
        redactor
    }

    /// Values of fields and headers whose names have one of these words are cut out from now on.
    pub fn name(&self, names: &[String]) {
        let all = names.iter().map(|it| it.to_lowercase());
        let all = all.chain(ALWAYS.map(str::to_owned));
        let mut known = self.0.write();
        known.names = all.filter(|it| !it.is_empty()).collect();
    }

    /// This value is cut out from now on, wherever it stands.
    pub fn learn(&self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < MIN_SECRET_BYTES {
            return;
        }
        let read = self.0.read();
        let newest = read.values.last().is_some_and(|it| it == secret);
        drop(read);
        if newest {
            return;
        }
        let mut known = self.0.write();
        known.values.retain(|it| it != secret);
        if known.values.len() >= REMEMBERED {
            known.values.remove(0);
        }
        known.values.push(secret.to_owned());
    }

    pub fn redact(&self, line: &str) -> String {
        let known = self.0.read();
        let mut line = line.to_owned();
        let mut values: Vec<&String> = known.values.iter().collect();
        // The longest first, so that one which holds another goes as a whole.
        values.sort_by_key(|it| std::cmp::Reverse(it.len()));
        for value in values {
            let escaped = value.escape_debug().to_string();
            for form in [value, &escaped] {
                if line.contains(form.as_str()) {
                    line = line.replace(form.as_str(), MARK);
                }
            }
        }
        let mut cuts = RedactedRanges::default();
        cut_named(&line, &known.names, &mut cuts);
        schemes(&line, &mut cuts);
        beginnings(&line, &mut cuts);
        addresses(&line, &mut cuts);
        cuts.apply(&line)
    }
}

/// Ranges of bytes that go.
#[derive(Debug, Default)]
struct RedactedRanges(Vec<(usize, usize)>);

impl RedactedRanges {
    fn add(&mut self, from: usize, to: usize) {
        if from < to {
            self.0.push((from, to));
        }
    }

    fn apply(mut self, line: &str) -> String {
        self.0.sort_unstable();
        let mut text = String::with_capacity(line.len());
        let mut at = 0;
        for (from, to) in self.0 {
            if to <= at {
                continue;
            }
            if from >= at {
                text.push_str(line.get(at..from).unwrap_or_default());
                text.push_str(MARK);
            }
            at = to;
        }
        text.push_str(line.get(at..).unwrap_or_default());
        text
    }
}

/// `api_key=…`, `Authorization: …`, `"token":"…"`, also where the quotes were escaped.
fn cut_named(line: &str, names: &[String], cuts: &mut RedactedRanges) {
    for (at, sign) in line.char_indices() {
        if sign != '=' && sign != ':' {
            continue;
        }
        let before = line.get(..at).unwrap_or_default();
        let before = before.trim_end_matches(['"', '\'', '\\', ' ']);
        let name = before
            .rsplit(|it: char| !it.is_ascii_alphanumeric() && it != '_' && it != '-')
            .next()
            .unwrap_or_default();
        if !is_secret_name(name, names) {
            continue;
        }
        let rest = line.get(at + 1..).unwrap_or_default();
        let spaces = rest.len() - rest.trim_start().len();
        let mut from = at + 1 + spaces;
        let (opening, quote) = opening(line.get(from..).unwrap_or_default());
        from += opening;
        let mut to = from + end_of_value(line.get(from..).unwrap_or_default(), quote);
        let mut value = line.get(from..to).unwrap_or_default();
        let least = if sign == ':' && quote.is_none() {
            MIN_AFTER_COLON
        } else {
            1
        };
        if quote.is_none() && is_scheme(value) {
            let rest = line.get(to..).unwrap_or_default();
            let spaces = rest.len() - rest.trim_start().len();
            from = to + spaces;
            to = from + end_of_value(line.get(from..).unwrap_or_default(), None);
            value = line.get(from..to).unwrap_or_default();
        }
        let number = value.len() < 12 && value.bytes().all(|it| it.is_ascii_digit());
        let says_none = NO_SECRETS
            .iter()
            .any(|it| value.eq_ignore_ascii_case(it) || value.starts_with(MARK));
        if value.len() >= least && !number && !says_none {
            cuts.add(from, to);
        }
    }
}

/// Whether one of the words in a name tells of a secret: `x-api-key`, `apiKey`, `GITHUB_TOKEN`; not `max_tokens`.
fn is_secret_name(name: &str, words: &[String]) -> bool {
    let mut parts = vec![String::new()];
    let mut lower = false;
    for sign in name.chars() {
        let new = matches!(sign, '_' | '-') || sign.is_ascii_uppercase() && lower;
        lower = sign.is_ascii_lowercase();
        if new {
            parts.push(String::new());
        }
        if sign.is_ascii_alphanumeric()
            && let Some(part) = parts.last_mut()
        {
            part.push(sign.to_ascii_lowercase());
        }
    }
    let whole: String = parts.concat();
    let is = |part: &String| words.iter().any(|it| part.ends_with(it.as_str()));
    parts.iter().any(is) || words.contains(&whole)
}

/// The length of the quote that opens a value, and the sign that closes it.
fn opening(text: &str) -> (usize, Option<char>) {
    let bare = text.trim_start_matches('\\');
    let escapes = text.len() - bare.len();
    match bare.chars().next() {
        Some(quote @ ('"' | '\'')) => (escapes + 1, Some(quote)),
        Some(_) | None => (0, None),
    }
}

fn end_of_value(text: &str, quote: Option<char>) -> usize {
    match quote {
        Some(quote) => {
            let end = text.find(quote).unwrap_or(text.len());
            // The quote itself may be escaped; what escapes it is no part of the value.
            text.get(..end)
                .map_or(end, |it| it.trim_end_matches('\\').len())
        }
        None => text
            .find(|it: char| it.is_whitespace() || "\"'`,;)}]&<>\\".contains(it))
            .unwrap_or(text.len()),
    }
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token", "apikey"]
        .iter()
        .any(|it| word.eq_ignore_ascii_case(it))
}

/// `Bearer …` and `Basic …`, wherever they stand.
fn schemes(line: &str, cuts: &mut RedactedRanges) {
    let lower = line.to_ascii_lowercase();
    for scheme in ["bearer", "basic"] {
        for (at, _) in lower.match_indices(scheme) {
            let rest = line.get(at + scheme.len()..).unwrap_or_default();
            let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            if spaces == 0 || is_part(line, at) {
                continue;
            }
            let from = at + scheme.len() + spaces;
            let to = from + end_of_value(line.get(from..).unwrap_or_default(), None);
            let value = line.get(from..to).unwrap_or_default();
            let odd = |it: u8| it.is_ascii_digit() || it.is_ascii_uppercase() || it == b'=';
            let prose = scheme == "basic" && (value.len() < 8 || !value.bytes().any(odd));
            if !prose && !value.starts_with(MARK) {
                cuts.add(from, to);
            }
        }
    }
}

/// Keys of well-known services, by how they begin.
fn beginnings(line: &str, cuts: &mut RedactedRanges) {
    for beginning in BEGINNINGS {
        for (at, _) in line.match_indices(beginning) {
            let rest = line.get(at..).unwrap_or_default();
            let end = rest
                .find(|it: char| !it.is_ascii_alphanumeric() && !"_-.".contains(it))
                .unwrap_or(rest.len());
            if end >= beginning.len() + AFTER_BEGINNING && !is_part(line, at) {
                cuts.add(at, at + end);
            }
        }
    }
}

/// The password in `scheme://name:password@host`.
fn addresses(line: &str, cuts: &mut RedactedRanges) {
    for (at, _) in line.match_indices("://") {
        let from = at + 3;
        let rest = line.get(from..).unwrap_or_default();
        let end = rest
            .find(|it: char| it.is_whitespace() || "/?#\"'".contains(it))
            .unwrap_or(rest.len());
        let authority = rest.get(..end).unwrap_or_default();
        if let Some((person, _)) = authority.rsplit_once('@') {
            let name = person.find(':').map_or(0, |it| it + 1);
            cuts.add(from + name, from + person.len());
        }
    }
}

/// Whether what begins at `at` is the middle of a word.
fn is_part(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|it| it.chars().next_back());
    before.is_some_and(|it| it.is_ascii_alphanumeric() || it == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::LogSettings;

    fn redactor() -> Redactor {
        Redactor::new(&LogSettings::default().redact)
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(expected, redactor().redact(line), "{line}");
    }

    #[test]
    fn what_looks_like_a_secret_is_cut_out() {
        check(
            "authorization: Bearer abc.def-123",
            "authorization: Bearer [redacted]",
        );
        check(
            "sent bearer abc, got 401",
            "sent bearer [redacted], got 401",
        );
        check(
            r#"headers={"x-api-key": "a b", "accept": "*"}"#,
            r#"headers={"x-api-key": "[redacted]", "accept": "*"}"#,
        );
        check(
            r#"body="{\"apiKey\":\"abc\",\"n\":1}""#,
            r#"body="{\"apiKey\":\"[redacted]\",\"n\":1}""#,
        );
        check("GET /v1?api_key=abc&n=2", "GET /v1?api_key=[redacted]&n=2");
        check("GITHUB_TOKEN=abc x", "GITHUB_TOKEN=[redacted] x");
        check("password=hunter2", "password=[redacted]");
        check(
            "Proxy-Authorization: Basic dXNlcjpwYXNz",
            "Proxy-Authorization: Basic [redacted]",
        );
        check("got sk-proj-abcdefghijkl.", "got [redacted]");
        check("eyJhbGciOiJI.eyJzdWIi.c2ln", "[redacted]");
        check("https://u:hunter2@host/v1", "https://u:[redacted]@host/v1");
        check("https://tok3n@host/v1", "https://[redacted]@host/v1");
        check("key: abcdefgh1", "key: [redacted]");
    }

    #[test]
    fn what_is_no_secret_stays() {
        for line in [
            "ready resumed=0 pid=12",
            "max_tokens=100 context_tokens=8192",
            "the environment variable OPENROUTER_API_KEY is not set",
            "broker: key: the key is empty",
            "key=none token=5",
            "a basic understanding of task-lists and sk-",
            "http://127.0.0.1:8080/v1 conversation{conversation=01KAAA}: monkeys: three",
            "",
        ] {
            check(line, line);
        }
    }

    #[test]
    fn values_that_are_known_go_wherever_they_stand() {
        let redactor = redactor();
        redactor.learn(" a\"b c \n");
        redactor.learn("abc");
        redactor.learn("longer-secret");
        redactor.learn("longer-secret-still");
        let line = r#"it said a"b c and a\"b c, abc, longer-secret-still"#;
        let expected = "it said [redacted] and [redacted], abc, [redacted]";
        assert_eq!(expected, redactor.redact(line));
        assert!(!format!("{redactor:?}").contains("secret"));
    }

    #[test]
    fn only_so_many_values_are_remembered() {
        let redactor = redactor();
        for n in 0..1000 {
            redactor.learn(&format!("value-{n:04}"));
        }
        assert_eq!(
            "value-0000 [redacted]",
            redactor.redact("value-0000 value-0999")
        );
    }

    #[test]
    fn names_can_be_added_while_it_runs() {
        let redactor = redactor();
        assert_eq!("pin=abc", redactor.redact("pin=abc"));
        redactor.name(&["PIN".to_owned()]);
        assert_eq!("pin=[redacted] key=abc", redactor.redact("pin=abc key=abc"));
    }

    proptest! {
        /// Around any text, in any of the forms, a secret does not get through; known values never do.
        #[test]
        fn no_secret_gets_through(
            before in "\\PC{0,20}",
            after in "\\PC{0,20}",
            secret in "[A-Za-z0-9_-]{12,40}",
            form in 0usize..6,
        ) {
            let shown = match form {
                0 => format!("authorization: Bearer {secret}"),
                1 => format!("\"api_key\": \"{secret}\""),
                2 => format!("\\\"token\\\":\\\"{secret}\\\""),
                3 => format!("MY_KEY={secret}"),
                4 => format!("sk-{secret}"),
                _ => secret.clone(),
            };
            let redactor = redactor();
            if form == 5 {
                redactor.learn(&secret);
            }
            let number = secret.bytes().all(|it| it.is_ascii_digit());
            let line = format!("{before} {shown} {after}");
            let redacted = redactor.redact(&line);
            prop_assert!(number || !redacted.contains(&secret), "{line} became {redacted}");
        }

        /// Nothing that is written makes it fail.
        #[test]
        fn it_takes_any_text(line in "[\\PC\"'\\\\=: @/]{0,80}") {
            let _any = redactor().redact(&line);
        }
    }
}
