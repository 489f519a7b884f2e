//! `${NAME}` and `${NAME:-default}` in values about MCP servers (spec 85, 4.4). A bare `$NAME` stays as it is.

/// A variable that has no value, and no default in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable {0} is not set")]
pub(super) struct Unset(pub(super) String);

/// Puts the values in. What is no reference stays as it is.
pub(super) fn expand(text: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<String, Unset> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, reference) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = reference.find('}') else {
            rest = reference;
            break;
        };
        let (inside, after) = (&reference[2..end], &reference[end + 1..]);
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) {
            out.push_str(&reference[..=end]);
        } else if let Some(value) = value(name).or(default.map(str::to_owned)) {
            out.push_str(&value);
        } else {
            return Err(Unset(name.to_owned()));
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(text: &str) -> bool {
    let begins = |it: u8| it.is_ascii_alphabetic() || it == b'_';
    text.bytes().next().is_some_and(begins)
        && text.bytes().all(|it| begins(it) || it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let value = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        let seen = expand(text, &value);
        let expected = expected.map(str::to_owned);
        assert_eq!(expected.map_err(|it| Unset(it.to_owned())), seen, "{text}");
    }

    #[test]
    fn references_are_replaced_and_nothing_else_is() {
        check("${HOME}/x", Ok("/home/me/x"));
        check("a${HOME}b${HOME}", Ok("a/home/meb/home/me"));
        check("${GONE:-y}${HOME:-z}", Ok("y/home/me"));
        check("${GONE:-}", Ok(""));
        check("${GONE}", Err("GONE"));
        check("$HOME $$ ${", Ok("$HOME $$ ${"));
        check("${workspaceFolder}", Err("workspaceFolder"));
        check("${input:key} ${a b} ${}", Ok("${input:key} ${a b} ${}"));
        check("é${HOME}é", Ok("é/home/meé"));
    }
}
