//! The configuration file as it is written: every key optional, an unknown one an error with its place
//! (CFG-1). What the values mean is decided in `settings`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// All of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub config_version: Option<u32>,
    pub default_model: Option<String>,
    #[serde(default)]
    pub models: BTreeMap<String, Model>,
    #[serde(default)]
    pub discovery: Discovery,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub logging: Logging,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub endpoint: Option<String>,
    pub model: Option<String>,
    pub key_env: Option<String>,
    pub key_file: Option<PathBuf>,
    pub key_cmd: Option<Vec<String>>,
    pub key: Option<String>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u64>,
    pub context_tokens: Option<u64>,
    pub use_tool_role: Option<bool>,
    pub tools: Option<bool>,
    pub include_usage: Option<bool>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub timeouts: Timeouts,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    pub connect: Option<String>,
    pub first_byte: Option<String>,
    pub idle: Option<String>,
    pub content_idle: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discovery {
    pub servers: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_clients: Option<usize>,
    pub max_queue_per_conversation: Option<usize>,
    pub max_conversations_in_memory: Option<usize>,
    pub client_stall: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logging {
    pub level: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        source: io::Error,
    },
    /// With the line, the column and the key.
    #[error("{path}:{place}: {message}")]
    Parse {
        path: String,
        place: String,
        message: String,
    },
}

/// Reads the file; none there is an empty one, unless it was named by hand.
pub fn read(path: &Path, named: bool) -> Result<Option<(File, String)>, FileError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !named => return Ok(None),
        Err(source) => {
            let path = path.display().to_string();
            return Err(FileError::Read { path, source });
        }
    };
    let file = parse(&text).map_err(|(place, message)| FileError::Parse {
        path: path.display().to_string(),
        place,
        message,
    })?;
    Ok(Some((file, text)))
}

/// The file's content, or where it is wrong (`line:column`) and how.
pub fn parse(text: &str) -> Result<File, (String, String)> {
    toml::from_str(text).map_err(|error| {
        let place = error
            .span()
            .map_or_else(|| "1:1".to_owned(), |it| place(text, it.start));
        (place, with_suggestion(error.message()))
    })
}

fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    format!("{line}:{column}")
}

/// Names the nearest key when an unknown one was probably meant to be it.
fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let (true, Some(unknown)) = (message.starts_with("unknown field"), quoted.next()) else {
        return message.to_owned();
    };
    let nearest = quoted
        .map(|known| (strsim::damerau_levenshtein(unknown, known), known))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    match nearest {
        Some((_, known)) => format!("unknown key `{unknown}`; did you mean `{known}`?"),
        None => message.replacen("field", "key", 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let (place, message) = parse(text).unwrap_err();
        assert_eq!(expected, format!("{place}: {message}"));
    }

    #[test]
    fn errors_say_where_and_what_was_probably_meant() {
        check(
            "[models.deep]\nendpont = \"x\"\n",
            "2:1: unknown key `endpont`; did you mean `endpoint`?",
        );
        check(
            "default_model = 3\n",
            "1:17: invalid type: integer `3`, expected a string",
        );
        check(
            "[limits]\nmax_clients = -1\n",
            "2:15: invalid value: integer `-1`, expected usize",
        );
    }
}
