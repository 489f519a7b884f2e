//! Values and tables as TOML text, for `aishd config add`, which puts them into the person's file as they stand.

use std::fmt::Write as _;
use std::path::Path;

use crate::exit::Exit;
use crate::failure::Failure;

/// One table with its keys, in the order in which they were said.
#[derive(Clone, Debug)]
pub(crate) struct TomlTable(String);

impl TomlTable {
    /// `[PARENT.NAME]`
    pub(crate) fn new(parent: &str, name: &str) -> Result<Self, Failure> {
        Ok(Self(format!("[{parent}.{}]\n", key(name)?)))
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Result<Self, Failure> {
        let _never_fails = writeln!(self.0, "{name} = {}", string(value)?);
        Ok(self)
    }

    pub(crate) fn number(mut self, name: &str, value: u64) -> Self {
        let _never_fails = writeln!(self.0, "{name} = {value}");
        self
    }

    /// Nothing, where there are none.
    pub(crate) fn list<'a>(
        mut self,
        name: &str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let values: Vec<String> = values.into_iter().map(string).collect::<Result<_, _>>()?;
        if !values.is_empty() {
            let _never_fails = writeln!(self.0, "{name} = [{}]", values.join(", "));
        }
        Ok(self)
    }

    /// Nothing, where there are none.
    pub(crate) fn inline(
        mut self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<Self, Failure> {
        let pair = |(name, value): &(String, String)| -> Result<String, Failure> {
            Ok(format!("{} = {}", key(name)?, string(value)?))
        };
        let values: Vec<String> = values.iter().map(pair).collect::<Result<_, _>>()?;
        if !values.is_empty() {
            let _never_fails = writeln!(self.0, "{name} = {{ {} }}", values.join(", "));
        }
        Ok(self)
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

pub(crate) fn key(name: &str) -> Result<String, Failure> {
    let is_bare = |it: u8| it.is_ascii_alphanumeric() || b"_-".contains(&it);
    if !name.is_empty() && name.bytes().all(is_bare) {
        return Ok(name.to_owned());
    }
    string(name)
}

/// A text in quotes. JSON's are TOML's, where no control character is in it.
pub(crate) fn string(text: &str) -> Result<String, Failure> {
    if text.chars().any(char::is_control) {
        let message = "a value of the configuration has no control characters";
        return Err(Failure::new(Exit::USAGE, message).hint("aishctl config edit"));
    }
    serde_json::to_string(text)
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot write a value: {error}")))
}

/// A path as text; the configuration has no others.
pub(crate) fn path(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        let message = format!("{} is not UTF-8", path.display());
        Failure::new(Exit::USAGE, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_as_they_are_read_back() {
        let table = TomlTable::new("models", "a.b c")
            .and_then(|it| it.text("model", "x \"y\" \\ z ü"))
            .and_then(|it| it.list("args", ["-y", "a b"]))
            .and_then(|it| it.list("none", []))
            .and_then(|it| it.inline("env", &[("A".to_owned(), "1".to_owned())]))
            .map(|it| it.number("n", 7).into_text());
        let expected = "[models.\"a.b c\"]\nmodel = \"x \\\"y\\\" \\\\ z ü\"\nargs = [\"-y\", \"a b\"]\nenv = { A = \"1\" }\nn = 7\n";
        assert_eq!(Ok(expected.to_owned()), table);
        for hostile in ["a\nb", "a\u{7f}", "\u{85}"] {
            assert!(string(hostile).is_err());
        }
    }
}
