//! `key`: keys in files of their own that nobody else can read, below the directory of the configuration. A new one is typed
//! without being shown or comes on stdin, and is in no argument, no environment and no message.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use crate::commands::config::ConfigContext;
use crate::commands::typed_answer;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;

/// No key is longer.
const MOST_BYTES: u64 = 16 << 10;

#[derive(Clone, Debug, Subcommand)]
pub enum KeyCommand {
    /// The names of the keys that are kept here
    #[command(alias = "ls")]
    List,
    /// Keep a key in a file that only you can read; it is typed here, or comes on stdin
    Set {
        /// Its name; presets say key_file with the file that is printed
        name: String,
    },
    /// Take the file of a key away
    #[command(alias = "rm")]
    Remove { name: String },
}

/// Runs it to its end.
pub async fn run(
    context: ConfigContext<'_>,
    command: Option<&KeyCommand>,
) -> Result<Exit, Failure> {
    let name = match command {
        None | Some(KeyCommand::List) => return list(&context),
        Some(KeyCommand::Set { name }) => name,
        Some(KeyCommand::Remove { name }) => return remove(&context, name).await,
    };
    let place = place(context.around, name)?;
    let key = read(context.may_prompt(), &format!("Key {name}"))?;
    write(&place, &key)?;
    context.say(&format!("{}\n", place.display()))?;
    context.reload().await
}

fn list(context: &ConfigContext<'_>) -> Result<Exit, Failure> {
    let directory = directory(context.around)?;
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        Err(error) => Err(error),
    };
    let entries = entries.map_err(|error| {
        let message = format!("cannot read {}: {error}", directory.display());
        Failure::new(Exit::FAILED, message)
    })?;
    let names = entries.iter().filter_map(|it| {
        let name = it.file_name().into_string().ok()?;
        let name = name.strip_suffix(".key")?;
        let is_key = is_name(name) && it.file_type().is_ok_and(|it| it.is_file());
        is_key.then(|| name.to_owned())
    });
    let names: BTreeSet<String> = names.collect();
    let text = if context.global.json || context.global.jsonl {
        format!("{}\n", json!({ "keys": names }))
    } else if names.is_empty() {
        "no key is kept here; aishctl key set NAME keeps one\n".to_owned()
    } else {
        names.iter().map(|it| format!("{it}\n")).collect()
    };
    context.say(&text)?;
    Ok(Exit::DONE)
}

async fn remove(context: &ConfigContext<'_>, name: &str) -> Result<Exit, Failure> {
    let place = place(context.around, name)?;
    fs::remove_file(&place).map_err(|error| {
        let exit = match error.kind() {
            io::ErrorKind::NotFound => Exit::UNKNOWN,
            _ => Exit::FAILED,
        };
        Failure::new(exit, format!("cannot remove {}: {error}", place.display()))
    })?;
    context.say(&format!("{} is gone\n", place.display()))?;
    context.reload().await
}

fn is_name(name: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"_-.".contains(&it);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// The file of a key.
pub(crate) fn place(around: &ClientEnvironment, name: &str) -> Result<PathBuf, Failure> {
    if !is_name(name) {
        let message =
            "the name of a key has letters, digits, _, - and . only, and begins with no .";
        return Err(Failure::new(Exit::USAGE, message).hint("aishctl key set NAME"));
    }
    Ok(directory(around)?.join(format!("{name}.key")))
}

fn directory(around: &ClientEnvironment) -> Result<PathBuf, Failure> {
    let home = around.config_home().ok_or_else(|| {
        let message = "there is no home directory to keep keys in";
        Failure::new(Exit::FAILED, message).hint("name a file: aishctl model add --key-file FILE")
    })?;
    Ok(home.join("aish/keys"))
}

/// A key that is typed, or stands on stdin.
pub(crate) fn read(may_prompt: bool, question: &str) -> Result<String, Failure> {
    let text = if may_prompt {
        typed_answer::ask_hidden(question)?
    } else if io::stdin().is_terminal() {
        // Read from there it would stand on the screen.
        return Err(
            Failure::new(Exit::USAGE, "nobody here may be asked for the key")
                .hint("give it on stdin: aishctl key set NAME < FILE"),
        );
    } else {
        let mut text = String::new();
        let read = io::stdin()
            .lock()
            .take(MOST_BYTES + 1)
            .read_to_string(&mut text);
        let cannot = |error| Failure::new(Exit::FAILED, format!("cannot read stdin: {error}"));
        read.map_err(cannot)?;
        text
    };
    checked(&text)
}

/// A key as it was typed, without what stands around it.
pub(crate) fn checked(text: &str) -> Result<String, Failure> {
    let key = text.trim();
    let wrong = match () {
        () if key.is_empty() => "no key was given",
        () if text.len() as u64 > MOST_BYTES => "that is too long for a key",
        () if key.chars().any(|it| it.is_control() || it.is_whitespace()) => {
            "a key is one word on one line"
        }
        () => return Ok(key.to_owned()),
    };
    Err(Failure::new(Exit::USAGE, wrong).hint("type it at a terminal, or give it on stdin"))
}

/// Nobody ever sees half of it, and who reads the old one until then reads it whole.
pub(crate) fn write(place: &Path, key: &str) -> Result<(), Failure> {
    let directory = place.parent().unwrap_or(Path::new("/"));
    let new = place.with_extension(format!("{}.new", std::process::id()));
    let written = || -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        // What a killed one has left.
        let _usually_none = fs::remove_file(&new);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(format!("{key}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, place)
    };
    written().map_err(|error| {
        let _was_not_made = fs::remove_file(&new);
        let message = format!("cannot write {}: {error}", place.display());
        Failure::new(Exit::FAILED, message).hint("aishctl key set NAME tries it again")
    })
}
