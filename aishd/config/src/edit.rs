//! Changing the user's file, one key or some new tables, with its comments as they are. What would be invalid is not written.

use std::io;
use std::path::{Path, PathBuf};

use aishd_platform::private_file;
use toml_edit::{DocumentMut, Item, Key, Table, TableLike, Value};

use super::fault::Fault;
use super::file::{self, FileNeed};
use super::layers::{BaseLayers, ConfigLayer, LayerPaths};
use super::settings::Settings;
use super::source::{ConfigOrigin, FileExposure, SourceText};
use super::table_reader::KeyPart as _;
use super::trust::alone_in;
use crate::key_values::IsSet;

#[derive(Debug, thiserror::Error)]
pub enum SetError {
    #[error("{0:?} is no key")]
    NoKey(String),
    #[error("{0} is a table; its keys are set one by one")]
    IsTable(String),
    #[error("{0} is no table in the file")]
    NoTable(String),
    #[error("{0} is in the file already")]
    Exists(String),
    #[error("{0} is not in the file")]
    NotThere(String),
    /// The new file would be wrong.
    #[error("nothing was written: the file would be invalid")]
    Invalid(Vec<Fault>),
    #[error("a key on the command line is seen by every process")]
    SecretArgument,
    #[error("there is no home directory to keep the configuration in; name a file with --config")]
    Homeless,
    #[error("write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    Argument,
    Stdin,
}

/// Sets a key in the user's file. Returns the file.
pub fn set(
    place: &LayerPaths,
    key: &str,
    value: &str,
    given: ValueSource,
    is_set: IsSet<'_>,
) -> Result<PathBuf, SetError> {
    let names = names(key)?;
    let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
    let secret =
        names.last().is_some_and(|it| it == "key") && !super::keys::File::may_show(&borrowed);
    if secret && given == ValueSource::Argument {
        return Err(SetError::SecretArgument);
    }
    let written = rewrite(place, is_set, |file| {
        put(file.as_table_mut(), &names, value, secret)
    });
    match written {
        // A name may look like a number: what cannot be that is a text.
        Err(SetError::Invalid(faults)) => {
            let as_text = rewrite(place, is_set, |file| {
                put(file.as_table_mut(), &names, value, /*is_text*/ true)
            });
            as_text.map_err(|_| SetError::Invalid(faults))
        }
        other => other,
    }
}

/// Takes a key or a table out of the user's file, with the comment directly above it. Returns the file.
pub fn unset(place: &LayerPaths, key: &str, is_set: IsSet<'_>) -> Result<PathBuf, SetError> {
    let names = names(key)?;
    rewrite(place, is_set, |file| take_out(file, &names))
}

/// Adds tables to the user's file. Returns the file; nothing that is there is changed. Rules go beside those that are there.
pub fn add(place: &LayerPaths, text: &str, is_set: IsSet<'_>) -> Result<PathBuf, SetError> {
    let Ok(given) = text.parse::<DocumentMut>() else {
        let name = ConfigOrigin::File(PathBuf::from("standard input"));
        let source = SourceText::new(name, FileExposure::Private, text.to_owned());
        return Err(SetError::Invalid(ConfigLayer::read(source).faults));
    };
    rewrite(place, is_set, |file| {
        merge(given.as_table(), file.as_table_mut(), &mut vec![])
    })
}

/// Changes the user's file, if it holds afterwards.
fn rewrite(
    place: &LayerPaths,
    is_set: IsSet<'_>,
    change: impl FnOnce(&mut DocumentMut) -> Result<(), SetError>,
) -> Result<PathBuf, SetError> {
    let path = place.user.clone().ok_or(SetError::Homeless)?;
    // A file that is a link elsewhere stays one.
    let target = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let unwritable = |source| SetError::Write {
        path: path.clone(),
        source,
    };
    let directory = target.parent().unwrap_or(Path::new("/"));
    super::paths::private_parent(directory).map_err(unwritable)?;
    // From here to the writing: two at the same moment do not lose each other's key.
    let _alone = alone_in(directory).map_err(unwritable)?;
    let old = file::read(
        ConfigOrigin::File(path.clone()),
        &target,
        FileNeed::Optional,
    );
    let old = old.map_err(|fault| SetError::Invalid(vec![fault]))?;
    let old = old.map(|it| it.text().to_owned()).unwrap_or_default();
    let Ok(mut document) = old.parse::<DocumentMut>() else {
        let source = SourceText::new(ConfigOrigin::File(path), FileExposure::Private, old);
        return Err(SetError::Invalid(ConfigLayer::read(source).faults));
    };
    change(&mut document)?;
    let text = document.to_string();
    check(place, &path, &text, is_set)?;
    private_file::replace(&target, text.as_bytes()).map_err(unwritable)?;
    Ok(path)
}

/// Puts tables into tables. One that holds values must be new.
fn merge(from: &Table, to: &mut dyn TableLike, path: &mut Vec<String>) -> Result<(), SetError> {
    for (name, item) in from {
        path.push(name.to_owned());
        let whole = match item {
            Item::Table(table) => table.iter().any(|(_, it)| !it.is_table()),
            Item::None | Item::Value(_) | Item::ArrayOfTables(_) => true,
        };
        match (to.get_mut(name), item) {
            (None, _) => {
                let mut new = item.clone();
                unplaced(&mut new);
                to.insert(name, new);
            }
            (Some(there), Item::Table(table)) if !whole => {
                let into = there.as_table_like_mut();
                let into = into.ok_or_else(|| SetError::NoTable(path.join(".")))?;
                merge(table, into, path)?;
            }
            (Some(there), item) if RULES.contains(&path.join(".").as_str()) => {
                add_rules(item, there, path)?;
            }
            (Some(_), _) => return Err(SetError::Exists(path.join("."))),
        }
        path.pop();
    }
    Ok(())
}

/// Where each entry is a rule of its own.
const RULES: [&str; 2] = ["mcp.auto_approve", "permissions"];

/// Puts rules beside rules; one that says something else of the same tool is refused.
fn add_rules(from: &Item, to: &mut Item, path: &mut Vec<String>) -> Result<(), SetError> {
    if let (Some(from), Some(to)) = (from.as_array(), to.as_array_mut()) {
        for rule in from.iter().filter_map(Value::as_str) {
            if to.iter().all(|it| it.as_str() != Some(rule)) {
                to.push(rule);
            }
        }
        return Ok(());
    }
    let (Some(from), Some(to)) = (from.as_table_like(), to.as_table_like_mut()) else {
        return Err(SetError::NoTable(path.join(".")));
    };
    for (name, rule) in from.iter() {
        path.push(name.to_owned());
        match to.get_mut(name) {
            None => {
                to.insert(name, rule.clone());
            }
            Some(there) if there.is_array() => add_rules(rule, there, path)?,
            Some(there) if there.as_bool().is_some() && there.as_bool() == rule.as_bool() => {}
            Some(_) => return Err(SetError::Exists(path.join("."))),
        }
        path.pop();
    }
    Ok(())
}

/// It stands where it is put, not where it stood in another file.
fn unplaced(item: &mut Item) {
    if let Item::Table(table) = item {
        table.set_position(None);
        for (_, below) in table.iter_mut() {
            unplaced(below);
        }
    }
}

/// The parts of a dotted key.
fn names(key: &str) -> Result<Vec<String>, SetError> {
    let no_key = || SetError::NoKey(key.to_owned());
    let keys = Key::parse(key).map_err(|_| no_key())?;
    let names: Vec<String> = keys.iter().map(|it| it.get().to_owned()).collect();
    if names.is_empty() {
        Err(no_key())
    } else {
        Ok(names)
    }
}

fn put(
    table: &mut dyn TableLike,
    names: &[String],
    value: &str,
    is_text: bool,
) -> Result<(), SetError> {
    let Some((last, above)) = names.split_last() else {
        return Ok(());
    };
    let mut at = table;
    for (depth, name) in above.iter().enumerate() {
        let outermost = depth + 1 < above.len();
        let below = at.entry(name).or_insert_with(|| {
            let mut table = Table::new();
            // `[models]` alone is not worth a line.
            table.set_implicit(outermost);
            Item::Table(table)
        });
        at = below
            .as_table_like_mut()
            .ok_or_else(|| SetError::NoTable(name.clone()))?;
    }
    if at.get(last).is_some_and(Item::is_table_like) {
        return Err(SetError::IsTable(names.join(".")));
    }
    let text = || Value::from(value);
    let mut new = if is_text {
        text()
    } else {
        value.trim().parse::<Value>().unwrap_or_else(|_| text())
    };
    match at.get_mut(last) {
        Some(Item::Value(old)) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        Some(_) | None => drop(at.insert(last, Item::Value(new))),
    }
    Ok(())
}

fn take_out(file: &mut DocumentMut, names: &[String]) -> Result<(), SetError> {
    let not_there = || SetError::NotThere(names.join("."));
    let (last, above) = names.split_last().ok_or_else(not_there)?;
    let before = file.to_string();
    let mut at: &mut dyn TableLike = file.as_table_mut();
    for name in above {
        let below = at.get_mut(name).and_then(Item::as_table_like_mut);
        at = below.ok_or_else(not_there)?;
    }
    let decor = match at.get(last).ok_or_else(not_there)? {
        Item::Table(table) => Some(table.decor()),
        Item::None | Item::Value(_) | Item::ArrayOfTables(_) => at.key(last).map(Key::leaf_decor),
    };
    let prefix = decor.and_then(|it| it.prefix()?.as_str());
    let others = prefix.map(|it| others_comments(it).to_owned());
    at.remove(last);
    // The parser counts to a key all that stands above it.
    if let Some(others) = others.filter(|it| !it.trim().is_empty())
        && let Some(whole) = with_comments(&before, file.to_string(), &others)
    {
        *file = whole;
    }
    Ok(())
}

/// The file after a key was taken out, with these comments where they stood above it.
fn with_comments(before: &str, mut after: String, comments: &str) -> Option<DocumentMut> {
    let same = before.bytes().zip(after.bytes());
    let same = same.take_while(|(a, b)| a == b).count();
    let begins_line = |it: &usize| {
        let above = after.get(..*it);
        above.is_some_and(|it| it.is_empty() || it.ends_with('\n'))
    };
    let places = before.match_indices(comments).map(|it| it.0);
    let place = places.take_while(|it| *it <= same).filter(begins_line);
    after.insert_str(place.last()?, comments);
    after.parse().ok()
}

/// What stands above a key up to the last blank line: it is not said of the key.
fn others_comments(prefix: &str) -> &str {
    let end = prefix.rfind("\n\n").map_or(0, |it| it + 2);
    prefix.get(..end).unwrap_or_default()
}

/// Whether the whole configuration would hold with this text in the user's file.
fn check(place: &LayerPaths, path: &Path, text: &str, is_set: IsSet<'_>) -> Result<(), SetError> {
    let source = SourceText::new(
        ConfigOrigin::File(path.to_path_buf()),
        FileExposure::Private,
        text.to_owned(),
    );
    let layers = BaseLayers::read_with(place, source.clone());
    let (_settings, meaning) = Settings::of(&layers.merged(), is_set);
    let all = layers.faults.into_iter().chain(meaning);
    let wrong: Vec<Fault> = all
        .filter(|it| it.is_error() && std::sync::Arc::ptr_eq(&it.source, &source))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(SetError::Invalid(wrong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, given: &str, expected: &str) {
        let mut document: DocumentMut = file.parse().unwrap();
        let given: DocumentMut = given.parse().unwrap();
        let merged = merge(given.as_table(), document.as_table_mut(), &mut vec![]);
        let seen = match merged {
            Ok(()) => document.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(expected, seen);
    }

    /// What is said of something else stays, wherever it stands.
    #[test]
    fn what_is_taken_out_goes_with_the_comment_directly_above_it() {
        let file = "# my notes\n\n# mine\ndefault_model = \"a\" # so\nlimit = 1\n\n[models.a]\nmodel = \"x\"\n\
            # temperature = 0.2\n\n# the other\n[models.b]\nmodel = \"y\"\n\n# of b\n[models.b.timeouts]\nidle = 1\n\n# the end\n";
        for (key, expected) in [
            (
                "default_model",
                file.replace("# mine\ndefault_model = \"a\" # so\n", ""),
            ),
            (
                "models.b",
                file.replace("# the other\n[models.b]\nmodel = \"y\"\n\n# of b\n[models.b.timeouts]\nidle = 1\n", ""),
            ),
            ("models.b.timeouts", file.replace("\n# of b\n[models.b.timeouts]\nidle = 1\n", "")),
            ("models.a", file.replace("\n[models.a]\nmodel = \"x\"\n", "")),
            ("models.a.model", file.replace("model = \"x\"\n", "")),
        ] {
            let mut document: DocumentMut = file.parse().unwrap();
            take_out(&mut document, &names(key).unwrap()).unwrap();
            assert_eq!(expected, document.to_string(), "{key}");
        }
    }

    #[test]
    fn tables_are_added_behind_what_is_there() {
        let given =
            "# from a\n[mcp.servers.b]\ncommand = \"x\"\n\n[mcp.servers.b.env]\nK = \"1\"\n";
        check("", given, given);
        check(
            "# mine\n[mcp]\nroots = true # so\n\n[ui]\ncolor = \"auto\"\n",
            given,
            "# mine\n[mcp]\nroots = true # so\n# from a\n[mcp.servers.b]\ncommand = \"x\"\n\n[mcp.servers.b.env]\nK = \"1\"\n\n[ui]\ncolor = \"auto\"\n",
        );
        check(
            "[mcp.servers.b]\nurl = \"y\"\n",
            given,
            "mcp.servers.b is in the file already",
        );
        check("mcp = 7\n", given, "mcp is no table in the file");
    }
}
