//! What of a configuration may be shown. Secrets are covered and control characters replaced, byte by byte, so that
//! a position in the text is the same position in what is shown.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::safe_text::is_unsafe;
use super::{address, keys};

const COVER: &str = "*";
const UNSAFE: &str = "?";

/// The text with the same positions, fit to be shown.
pub fn cover(text: &str) -> String {
    let (tree, errors) = DeTable::parse_recoverable(text);
    let mut secret = vec![];
    in_table(tree.get_ref(), &mut vec![], &mut secret);
    if !errors.is_empty() {
        // What could not be parsed is in no tree.
        by_line(text, &mut secret);
    }
    let mut shown = String::with_capacity(text.len());
    secret.sort_unstable_by_key(|it| (it.start, it.end));
    let mut secret = secret.into_iter().peekable();
    for (at, sign) in text.char_indices() {
        while secret.next_if(|it| it.end <= at).is_some() {}
        let covered = secret.peek().is_some_and(|it| it.contains(&at));
        match (sign, covered) {
            ('\n' | '\r', _) => shown.push(sign),
            (_, true) => shown.push_str(&COVER.repeat(sign.len_utf8())),
            ('\t', false) => shown.push(sign),
            (_, false) if is_unsafe(sign) => shown.push_str(&UNSAFE.repeat(sign.len_utf8())),
            (_, false) => shown.push(sign),
        }
    }
    shown
}

fn in_table<'a>(table: &'a DeTable<'_>, path: &mut Vec<&'a str>, secret: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        path.push(key.get_ref());
        in_value(value.get_ref(), value.span(), path, secret);
        path.pop();
    }
}

fn in_value<'a>(
    value: &'a DeValue<'_>,
    span: Range<usize>,
    path: &mut Vec<&'a str>,
    secret: &mut Vec<Range<usize>>,
) {
    match value {
        DeValue::Table(table) => in_table(table, path, secret),
        DeValue::Array(list) => {
            for item in list {
                in_value(item.get_ref(), item.span(), path, secret);
            }
        }
        DeValue::String(text) if keys::may_show(path) && !has_password(text) => {}
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_)
            if keys::may_show(path) => {}
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => secret.push(span),
    }
}

/// `scheme://name:password@host`, or `scheme://host?key=…`
pub fn has_password(text: &str) -> bool {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let mut parts = rest.split(['?', '&']).skip(1);
    address::has_userinfo(text)
        || parts.any(|it| address::names_a_secret(it.split('=').next().unwrap_or_default()))
}

/// Covers what stands behind the name of a secret, and all in a table of secrets, without understanding more than
/// lines and signs: rather too much than too little.
fn by_line(text: &str, secret: &mut Vec<Range<usize>>) {
    let mut at = 0;
    let mut in_headers = false;
    let mut until: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        if let Some(end) = until {
            secret.push(begin..at);
            if line.contains(end) {
                until = None;
            }
            continue;
        }
        if line.trim_start().starts_with('[') && !line.contains('=') {
            in_headers = line.contains("headers");
            continue;
        }
        let named = line.match_indices('=').find(|(equals, _)| {
            let before = line[..*equals].trim_end().trim_end_matches(['"', '\'']);
            let name = before.rsplit(|it: char| !(it.is_alphanumeric() || it == '_' || it == '-'));
            let name = name.clone().next().unwrap_or_default();
            in_headers || !keys::is_open_name(name)
        });
        let Some((equals, _)) = named else {
            if has_password(line) {
                secret.push(begin..at);
            }
            continue;
        };
        secret.push(begin + equals + 1..at);
        let value = line[equals + 1..].trim_start();
        until = [("\"\"\"", "\"\"\""), ("'''", "'''"), ("{", "}"), ("[", "]")]
            .into_iter()
            .find(|(open, close)| {
                value
                    .strip_prefix(open)
                    .is_some_and(|rest| !rest.contains(close))
            })
            .map(|(_, close)| close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = cover(text);
        assert_eq!(expected, shown);
        assert_eq!(text.len(), shown.len());
    }

    #[test]
    fn secrets_are_covered_wherever_they_stand() {
        check("[models.a]\nkey = \"sk-1\"\n", "[models.a]\nkey = ******\n");
        check("models.a.key = 'sk'\n", "models.a.key = ****\n");
        check(
            "models.a = { key = 17, model = \"m\" }",
            "models.a = { key = **, model = \"m\" }",
        );
        check(
            "[models.a.headers]\nX = \"ü\"\n",
            "[models.a.headers]\nX = ****\n",
        );
        check(
            "models.a.headers = { A = \"b\" }",
            "models.a.headers = { A = *** }",
        );
        check("[models.a]\nkey = [\"sk\"]\n", "[models.a]\nkey = [****]\n");
    }

    /// A mistyped name is the likeliest way for a key to be where no key is expected.
    #[test]
    fn what_stands_under_an_unknown_name_may_be_a_secret() {
        check(
            "[models.a]\napi_key = \"sk\"\n",
            "[models.a]\napi_key = ****\n",
        );
        check("[modles.a]\nmodel = \"m\"\n", "[modles.a]\nmodel = \"m\"\n");
        check("[mcp.a]\nmodel = \"sk\"\n", "[mcp.a]\nmodel = ****\n");
        check(
            "models.a.endpoint = \"http://u:p@h\"",
            "models.a.endpoint = **************",
        );
    }

    #[test]
    fn a_text_that_cannot_be_parsed_hides_no_less() {
        check("[models.a]\nkey = \"sk-1\n", "[models.a]\nkey =******\n");
        check(
            "x = [\nmodels.a = { model = 'm', key = 'sk'",
            "x =**\n************************************",
        );
        check("key = 'a'\nkey = 'b'\n", "key =****\nkey =****\n");
        check(
            "[m.headers]\nA = \"b\nmodel = \"c\"\n",
            "[m.headers]\nA =***\nmodel =****\n",
        );
        check(
            "key = \"\"\"\nsk\n\"\"\" x\nmodel = \"m\"\n",
            "key =****\n**\n*****\nmodel = ***\n",
        );
    }

    #[test]
    fn what_drives_a_terminal_is_replaced() {
        check("# \u{1b}[2J\u{202e}\u{9b}\tx\n", "# ?[2J?????\tx\n");
    }
}
