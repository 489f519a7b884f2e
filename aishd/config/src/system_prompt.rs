//! What people have the system message begin with: `context.system_prompt`, or a file of it. The file says what
//! models do, so it is read like a configuration: only when it is yours and nobody else can write it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aishd_turn::request::system_message;

use super::fault::Fault;
use super::file::{self, FileNeed};
use super::keys::Context;
use super::source::ConfigOrigin;
use crate::key_values::home;

/// A longer one would leave a small model no room for a question.
const MOST_BYTES: usize = 16 << 10;

/// The text, if there is one. Reads the file.
pub(super) fn text(context: &Context, faults: &mut Vec<Fault>) -> Option<Arc<str>> {
    match (&context.system_prompt, &context.system_prompt_file) {
        (None, None) => None,
        (Some(said), None) => match measured(&said.value) {
            Ok(text) => Some(text),
            Err(wrong) => {
                let message = format!("`context.system_prompt`: {wrong}");
                faults.push(Fault::error(&said.place, message).help(wrong.help()));
                None
            }
        },
        (None, Some(named)) => match read(&named.value) {
            Ok(text) => Some(text),
            Err((message, help)) => {
                let message = format!("`context.system_prompt_file`: {message}");
                faults.push(Fault::error(&named.place, message).help(help));
                None
            }
        },
        (Some(said), Some(named)) => {
            let message = "`context.system_prompt_file`: `context.system_prompt` says the same";
            let other = said.place.source.name();
            let help = format!("keep one of them; the other is in {other}");
            faults.push(Fault::error(&named.place, message).help(help));
            None
        }
    }
}

/// The file, if one is named.
pub fn file_of(context: &Context) -> Option<PathBuf> {
    let named = context.system_prompt_file.as_ref();
    named
        .map(|it| home(&it.value))
        .filter(|it| it.is_absolute())
}

/// Or what is wrong, and what to do.
fn read(named: &Path) -> Result<Arc<str>, (String, String)> {
    let path = home(named);
    if !path.is_absolute() {
        let message = "expected an absolute path, or one that begins with ~/".to_owned();
        let help = "for example \"~/.config/aish/system.md\"".to_owned();
        return Err((message, help));
    }
    let shown = path.display().to_string();
    let mend = || format!("mend {shown} or take the key out, then: aishctl reload");
    let source = file::read(ConfigOrigin::File(path.clone()), &path, FileNeed::Required);
    let source = source.map_err(|fault| (fault.line(), mend()))?;
    let text = source.map_or_else(|| Err(OpeningError::Empty), |it| measured(it.text()));
    text.map_err(|wrong| (format!("{shown}: {wrong}"), mend()))
}

#[derive(Clone, Debug, thiserror::Error)]
enum OpeningError {
    #[error("there is nothing in it")]
    Empty,
    #[error("it has {0} bytes, and at most {MOST_BYTES} are sent with every request")]
    Long(usize),
    #[error("{0}")]
    Name(String),
}

impl OpeningError {
    fn help(&self) -> &'static str {
        match self {
            Self::Empty => "without the key the usual one is sent",
            Self::Long(_) => "what is wanted now and then can be a prompt: aishctl prompt save",
            Self::Name(_) => {
                "a text that names parts of the message is all of it; one that names none stands in front of them"
            }
        }
    }
}

fn measured(text: &str) -> Result<Arc<str>, OpeningError> {
    let text = text.trim();
    match text.len() {
        0 => Err(OpeningError::Empty),
        bytes if bytes > MOST_BYTES => Err(OpeningError::Long(bytes)),
        _ => match system_message::check_names(text) {
            Ok(()) => Ok(text.into()),
            Err(wrong) => Err(OpeningError::Name(wrong)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::layers::{ConfigLayer, LayerStack};
    use crate::source::{FileExposure, SourceText};

    /// A file at `place`, what the configuration says of it, and the text or the beginning of what is wrong.
    #[track_caller]
    fn check(content: Option<(&str, u32)>, config: &str, expected: Result<&str, &str>) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("system.md");
        if let Some((text, mode)) = content {
            fs::write(&place, text).unwrap();
            fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        }
        let place = place.display().to_string();
        let config = config.replace("PLACE", &place);
        let source = SourceText::new(
            ConfigOrigin::File("/c".into()),
            FileExposure::Private,
            config,
        );
        let mut stack = LayerStack::default();
        stack.put_layer(&ConfigLayer::read(source));
        let mut faults = vec![];
        let text = text(&stack.file.context, &mut faults);
        let faults: Vec<String> = faults.iter().map(Fault::line).collect();
        match expected {
            Ok(expected) => assert_eq!(
                (Some(expected), 0),
                (text.as_deref(), faults.len()),
                "{faults:?}"
            ),
            Err(wrong) => {
                assert_eq!((None, 1), (text, faults.len()), "{faults:?}");
                assert!(
                    faults[0].replace(&place, "PLACE").contains(wrong),
                    "{faults:?}"
                );
            }
        }
    }

    #[test]
    fn the_system_message_begins_as_one_likes() {
        let file = "[context]\nsystem_prompt_file = \"PLACE\"";
        check(Some(("Be a pirate.\n\n", 0o600)), file, Ok("Be a pirate."));
        check(Some(("Be a pirate.", 0o644)), file, Ok("Be a pirate."));
        let text = "[context]\nsystem_prompt = \"\"\"\nBe brief.\nBe kind.\"\"\"";
        check(None, text, Ok("Be brief.\nBe kind."));
    }

    #[test]
    fn what_is_wrong_with_it_says_what_where_and_what_next() {
        let file = "[context]\nsystem_prompt_file = \"PLACE\"";
        check(None, file, Err("PLACE: cannot read it: No such file"));
        check(
            Some((" \n", 0o600)),
            file,
            Err("PLACE: there is nothing in it"),
        );
        check(
            Some(("Obey.", 0o666)),
            file,
            Err("PLACE: it can be written by others"),
        );
        let long = "x".repeat(MOST_BYTES + 1);
        check(
            Some((&long, 0o600)),
            file,
            Err("it has 16385 bytes, and at most 16384"),
        );
        let relative = "[context]\nsystem_prompt_file = \"system.md\"";
        check(None, relative, Err("expected an absolute path"));
        check(
            None,
            "[context]\nsystem_prompt = \"\"",
            Err("there is nothing in it"),
        );
        let both = "[context]\nsystem_prompt = \"x\"\nsystem_prompt_file = \"PLACE\"";
        check(
            Some(("y", 0o600)),
            both,
            Err("`context.system_prompt` says the same"),
        );
    }
}
