//! The words of a name or of an action, as far as they matter for what is meant.

/// They say nothing about what is meant.
const EMPTY: [&str; 41] = [
    "a", "an", "the", "of", "to", "in", "into", "for", "from", "on", "at", "by", "with", "and",
    "or", "please", "can", "could", "would", "you", "me", "my", "our", "i", "we", "want", "need",
    "this", "that", "these", "those", "it", "its", "some", "all", "is", "are", "be", "now", "as",
    "up",
];
/// Verbs that people use for one another.
const ALIKE: [&[&str]; 13] = [
    &["create", "make", "new", "add", "open"],
    &[
        "read", "get", "show", "fetch", "view", "open", "cat", "print", "load", "retrieve",
        "display",
    ],
    &["update", "change", "modify", "edit", "alter", "set"],
    &["delete", "remove", "rm", "erase", "drop", "destroy"],
    &["list", "ls", "enumerate", "show", "display"],
    &["search", "find", "grep", "look", "lookup", "locate"],
    &["write", "save", "store", "put"],
    &["run", "execute", "exec", "start", "launch"],
    &["move", "mv", "rename"],
    &["copy", "cp", "duplicate", "clone"],
    &["validate", "check", "verify"],
    &["convert", "translate", "transform"],
    &["directory", "dir", "folder"],
];
/// Shorter words have no slips, and longer ones two.
const SLIP_CHARS: usize = 4;
const TWO_SLIPS_CHARS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IntentWords(Vec<String>);

impl IntentWords {
    /// `readFile`, `read_file` and "Read file" are the same.
    pub(super) fn spelled(text: &str) -> Self {
        let mut words = vec![String::new()];
        let mut after_lower = false;
        for sign in text.chars() {
            if !sign.is_alphanumeric() || (sign.is_uppercase() && after_lower) {
                words.push(String::new());
            }
            after_lower = sign.is_lowercase();
            if let (true, Some(word)) = (sign.is_alphanumeric(), words.last_mut()) {
                word.extend(sign.to_lowercase());
            }
        }
        words.retain(|it| !it.is_empty());
        Self(words)
    }

    /// The same, and "read the files" too.
    pub(super) fn of(text: &str) -> Self {
        let Self(words) = Self::spelled(text);
        let mut told: Vec<String> = words.iter().map(|it| singular(it)).collect();
        told.retain(|it| !EMPTY.contains(&it.as_str()));
        // A name that is made of nothing else is a name all the same.
        Self(if told.is_empty() { words } else { told })
    }

    pub(super) fn followed_by(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// How much an action of these words is like a tool's name: 1 where each says what the other does. What the
    /// provider is called counts for the action, and is not missed in it.
    pub(super) fn likeness(&self, tool: &Self, provider: &Self) -> f64 {
        let said = mean(tool.0.iter().map(|it| self.has(it)));
        let meant = mean(self.0.iter().map(|it| tool.has(it).max(provider.has(it))));
        if said + meant == 0.0 {
            return 0.0;
        }
        2.0 * said * meant / (said + meant)
    }

    /// How sure it is that a word is among these.
    fn has(&self, word: &str) -> f64 {
        self.0.iter().map(|it| same(it, word)).fold(0.0, f64::max)
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    if count == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of words")]
    let count = count as f64;
    values.sum::<f64>() / count
}

fn same(one: &str, other: &str) -> f64 {
    if one == other {
        return 1.0;
    }
    let both = |it: &&&[&str]| it.contains(&one) && it.contains(&other);
    if ALIKE.iter().any(|it| both(&it)) {
        return 0.9;
    }
    let chars = one.chars().count().min(other.chars().count());
    let slips = match chars {
        0..SLIP_CHARS => 0,
        SLIP_CHARS..TWO_SLIPS_CHARS => 1,
        TWO_SLIPS_CHARS.. => 2,
    };
    if strsim::damerau_levenshtein(one, other) <= slips {
        0.8
    } else {
        0.0
    }
}

/// Without the sign of the plural, as far as spelling tells.
fn singular(word: &str) -> String {
    if word.len() > 4
        && let Some(stem) = word.strip_suffix("ies")
    {
        return format!("{stem}y");
    }
    let ends = |it: &str| word.ends_with(it);
    match word.strip_suffix('s') {
        Some(stem) if word.len() > 3 && !ends("ss") && !ends("us") && !ends("is") => {
            stem.to_owned()
        }
        Some(_) | None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_words() {
        for (text, expected) in [
            ("readFile", "read file"),
            ("read_text-file", "read text file"),
            ("Please read the files!", "read file"),
            ("list entries of this class", "list entry class"),
            ("HTTP get", "http get"),
            ("the", "the"),
            ("status bus gas", "status bus gas"),
        ] {
            assert_eq!(expected, IntentWords::of(text).0.join(" "), "{text}");
        }
    }
}
