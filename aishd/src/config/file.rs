//! The configuration file as it is written: every key optional, an unknown one an error with its place
//! (CFG-1). What the values mean is decided in `settings`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
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
    #[serde(default)]
    pub permissions: super::permissions::Permissions,
    #[serde(default)]
    pub mcp: super::mcp::File,
    #[serde(default)]
    pub tools: super::permissions::Tools,
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
    #[error("{path} belongs to the user {owner}; it is read only when it is yours")]
    Foreign { path: String, owner: u32 },
    #[error("{path} can be written by others (mode {mode:04o}): chmod 600 {path}")]
    Open { path: String, mode: u32 },
    #[error("{path} holds a key and can be read by others (mode {mode:04o}): chmod 600 {path}")]
    Readable { path: String, mode: u32 },
    /// With the line, the column and the key.
    #[error("{path}:{place}: {message}")]
    Parse {
        path: String,
        place: String,
        message: String,
    },
}

/// The file, and whether it is closed to others, so that a key may stand in it.
#[derive(Clone, Debug)]
pub struct Found {
    pub file: File,
    pub private: bool,
}

/// Reads the file; none there is an empty one, unless it was named by hand. What others could have written is not
/// read: it names programs to run and servers to talk to.
pub fn read(path: &Path, named: bool) -> Result<Option<Found>, FileError> {
    let shown = || path.display().to_string();
    let unreadable = |source| FileError::Read {
        path: shown(),
        source,
    };
    // Who may write is asked of the file that is then read, not of its name.
    let mut opened = match fs::File::open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !named => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let about = opened.metadata().map_err(unreadable)?;
    let (owner, mode) = (about.uid(), about.mode() & 0o7777);
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(FileError::Foreign {
            path: shown(),
            owner,
        });
    }
    if mode & 0o022 != 0 {
        return Err(FileError::Open {
            path: shown(),
            mode,
        });
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(unreadable)?;
    let file = parse(&text).map_err(|(place, message)| FileError::Parse {
        path: shown(),
        place,
        message,
    })?;
    let private = mode & 0o077 == 0;
    let holds_a_key = file.models.values().any(|it| it.key.is_some());
    if !private && (holds_a_key || file.mcp.holds_a_token()) {
        return Err(FileError::Readable {
            path: shown(),
            mode,
        });
    }
    Ok(Some(Found { file, private }))
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
