//! Secrets among the arguments of a command, as far as what stands before them tells: `--token VALUE`, `NAME=VALUE`,
//! `Authorization: Bearer VALUE`, `scheme://user:VALUE@host`. Rather too much is taken for one than too little.

use std::ops::Range;

use crate::secret_name;

/// What is shown in its place.
const MARK: &str = "[key]";

/// The arguments as people may see them.
pub fn covered(arguments: &[String]) -> Vec<String> {
    let places = places(arguments);
    let covered = arguments.iter().zip(places).map(|(word, mut places)| {
        let mut word = word.clone();
        places.sort_by_key(|it| std::cmp::Reverse(it.start));
        for place in places {
            word.replace_range(place, MARK);
        }
        word
    });
    covered.collect()
}

/// The secrets themselves.
pub fn secrets(arguments: &[String]) -> impl Iterator<Item = &str> {
    let places = places(arguments);
    let each = arguments.iter().zip(places);
    each.flat_map(|(word, places)| places.into_iter().filter_map(|it| word.get(it)))
}

/// Where they stand in each argument.
fn places(arguments: &[String]) -> Vec<Vec<Range<usize>>> {
    let mut announced = false;
    let each = arguments.iter().map(|word| {
        let own = std::mem::take(&mut announced);
        let name = word.trim_start_matches('-');
        announced =
            word.starts_with('-') && !word.contains('=') && secret_name::is_secret_name(name);
        if own && !word.starts_with('-') {
            return hidden(word, 0, word.len()).into_iter().collect();
        }
        let named = named_secret(word);
        if named.is_some() {
            return named.into_iter().collect();
        }
        in_address(word)
    });
    each.collect()
}

/// `name=value`, or `Name: value`, where the scheme of a header stays to be seen.
fn named_secret(word: &str) -> Option<Range<usize>> {
    let at = word.find(['=', ':'])?;
    let (name, rest) = word.split_at(at);
    if rest.starts_with("://") || !secret_name::is_secret_name(name) {
        return None;
    }
    let value = rest[1..].trim_start();
    let bare = value.split_once(' ').map_or(value, |(_scheme, bare)| bare);
    hidden(word, word.len() - bare.len(), word.len())
}

/// The password and the telling parts of a query.
fn in_address(word: &str) -> Vec<Range<usize>> {
    let Some(scheme) = word.find("://") else {
        return vec![];
    };
    let begin = scheme + 3;
    let rest = &word[begin..];
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let mut found = vec![];
    if let Some(end) = authority.rfind('@') {
        let from = authority[..end].find(':').map_or(0, |it| it + 1);
        found.extend(hidden(word, begin + from, begin + end));
    }
    let mut at = begin;
    for part in rest.split_inclusive(['?', '&', '#']) {
        let value = part.trim_end_matches(['?', '&', '#']);
        if let Some((name, _)) = value
            .split_once('=')
            .filter(|(name, _)| secret_name::is_secret_name(name))
        {
            found.extend(hidden(word, at + name.len() + 1, at + value.len()));
        }
        at += part.len();
    }
    found
}

/// Nothing, and the name of a variable, need not be hidden.
fn hidden(word: &str, from: usize, to: usize) -> Option<Range<usize>> {
    let text = word.get(from..to)?;
    let is_reference = text.starts_with("${") && text.find('}') == Some(text.len() - 1);
    (!text.is_empty() && !is_reference).then_some(from..to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, shown: &str, hidden: &[&str]) {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        assert_eq!(shown, covered(&words).join("|"), "{line}");
        assert_eq!(hidden, secrets(&words).collect::<Vec<_>>(), "{line}");
    }

    #[test]
    fn what_stands_before_a_secret_tells_of_it() {
        check("-y|--api-key|abc|/tmp", "-y|--api-key|[key]|/tmp", &["abc"]);
        check("--token=abc=d", "--token=[key]", &["abc=d"]);
        check("-e|GITHUB_TOKEN=abc", "-e|GITHUB_TOKEN=[key]", &["abc"]);
        check(
            "--header|Authorization: Bearer abc",
            "--header|Authorization: Bearer [key]",
            &["abc"],
        );
        check(
            "postgresql://me:abc@host/db?sslkey=d&x=1",
            "postgresql://me:[key]@host/db?sslkey=[key]&x=1",
            &["abc", "d"],
        );
        check("https://abc@host", "https://[key]@host", &["abc"]);
    }

    #[test]
    fn nothing_else_is_hidden() {
        for line in [
            "run|-i|--rm|-e|GITHUB_TOKEN|ghcr.io/x/y",
            "--api-key|${KEY}",
            "--token=${KEY}",
            "https://host/a?b=c",
            "--key|--verbose",
            "C:\\tokens é",
        ] {
            check(line, line, &[]);
        }
    }
}
