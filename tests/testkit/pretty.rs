//! JSON as pages show it: what is short on one line, what is long with a member on each. The order of members stays, and
//! so does every string; without the blanks it is the line that goes over the wire.

/// Longer lines are broken, where they can be.
const WIDTH: usize = 100;

/// A value, as slices of its text.
enum Node<'a> {
    Atom(&'a str),
    /// The brackets, and what stands between them: names with their colons, and values.
    Group(char, char, Vec<(&'a str, Self)>),
}

/// The same JSON without blanks between its tokens.
pub fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for it in text.chars() {
        if in_string || !it.is_whitespace() {
            out.push(it);
        }
        in_string = match it {
            '"' => in_string == is_escaped,
            _ => in_string,
        };
        is_escaped = in_string && it == '\\' && !is_escaped;
    }
    out
}

/// The lines of a text that begins with `prefix`; a text that is no JSON is one line.
pub fn lines(prefix: &str, json: &str) -> Vec<String> {
    let whole = format!("{prefix}{json}");
    match value(json) {
        Some((node, "")) if whole.chars().count() > WIDTH => {
            let mut text = prefix.to_owned();
            write(&node, 0, &mut text);
            text.lines().map(str::to_owned).collect()
        }
        _ => vec![whole],
    }
}

fn write(node: &Node<'_>, indent: usize, out: &mut String) {
    let Node::Group(open, close, members) = node else {
        out.push_str(&inline(node));
        return;
    };
    let short = inline(node);
    let begun = out.rsplit('\n').next().unwrap_or_default().chars().count();
    if begun + short.chars().count() < WIDTH || members.is_empty() {
        out.push_str(&short);
        return;
    }
    out.push(*open);
    for (at, (name, value)) in members.iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&" ".repeat(indent + 2));
        if !name.is_empty() {
            out.push_str(name);
            out.push(' ');
        }
        write(value, indent + 2, out);
    }
    out.push('\n');
    out.push_str(&" ".repeat(indent));
    out.push(*close);
}

fn inline(node: &Node<'_>) -> String {
    match node {
        Node::Atom(text) => (*text).to_owned(),
        Node::Group(open, close, members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{name}{}", inline(value)))
                .collect();
            format!("{open}{}{close}", members.join(","))
        }
    }
}

/// A value at the beginning of a compact text, and what is behind it.
fn value(text: &str) -> Option<(Node<'_>, &str)> {
    let close = match text.chars().next()? {
        '{' => '}',
        '[' => ']',
        '"' => {
            let (atom, rest) = text.split_at(string_end(text)?);
            return Some((Node::Atom(atom), rest));
        }
        _ => {
            let end = text.find([',', '}', ']']).unwrap_or(text.len());
            let (atom, rest) = text.split_at(end);
            return (!atom.is_empty()).then_some((Node::Atom(atom), rest));
        }
    };
    let open = text.chars().next()?;
    let mut rest = &text[1..];
    let mut members = vec![];
    if let Some(rest) = rest.strip_prefix(close) {
        return Some((Node::Group(open, close, members), rest));
    }
    loop {
        let mut name = "";
        if open == '{' {
            let end = string_end(rest)?;
            if rest.as_bytes().get(end) != Some(&b':') {
                return None;
            }
            (name, rest) = rest.split_at(end + 1);
        }
        let (node, behind) = value(rest)?;
        members.push((name, node));
        if let Some(behind) = behind.strip_prefix(close) {
            return Some((Node::Group(open, close, members), behind));
        }
        rest = behind.strip_prefix(',')?;
    }
}

/// Behind the string that the text begins with.
fn string_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let mut chars = text.char_indices();
    chars.next().filter(|(_, it)| *it == '"')?;
    for (at, it) in chars {
        match it {
            '"' if !is_escaped => return Some(at + 1),
            _ => is_escaped = it == '\\' && !is_escaped,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_on_several_lines_is_the_same_line() {
        let long = format!(
            r#"{{"id":1,"b":["x, {{\"y\": [",{{}},[]],"a":"{}"}}"#,
            "é".repeat(90)
        );
        let shown = lines("← ", &long);
        assert_eq!(5, shown.len(), "{shown:#?}");
        assert_eq!(r#"  "b": ["x, {\"y\": [",{},[]],"#, shown[2]);
        let joined: String = shown.iter().map(|it| it.trim()).collect();
        assert_eq!(
            format!("← {long}"),
            format!("← {}", compact(joined.strip_prefix("← ").unwrap()))
        );
        assert_eq!(vec!["→ {\"a\":1}"], lines("→ ", "{\"a\":1}"));
        let no_json = "{".repeat(120);
        assert_eq!(vec![format!("→ {no_json}")], lines("→ ", &no_json));
    }
}
