//! The catalog of models that somebody handed over: a private file of the state directory. One that cannot be read counts as
//! none, with a warning.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use aishd_model::catalog::{CatalogDay, CatalogTable, CatalogTables};
use aishd_model::handed_catalog::{
    self, MOST_FILE_BYTES, MOST_TABLE_BYTES, NoCatalog, ReducedCatalog,
};
use aishd_platform::{clock, private_file};

use super::fault::{Fault, Severity};
use super::key_values::home;
use super::layers::{BaseLayers, LayerPaths};
use super::source::{ConfigOrigin, FileExposure, SourceText};
use super::{file, paths, safe_text};

/// Why a file is not taken over.
#[derive(Debug, thiserror::Error)]
pub enum HandedFileError {
    #[error("read {path}")]
    Read {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("{path} is no catalog of models")]
    NoCatalog {
        path: String,
        #[source]
        source: NoCatalog,
    },
    #[error("write {path}")]
    Write {
        path: String,
        #[source]
        source: io::Error,
    },
}

/// Where it is.
pub fn place(state: &Path) -> PathBuf {
    state.join("models.tsv")
}

/// Reads it, for presets to go by.
pub(super) fn put_into(layers: &mut BaseLayers, paths: &LayerPaths) -> Result<(), Fault> {
    let said = &layers.merged().file.daemon.state;
    let said = said.as_ref().map(|it| home(&it.value));
    let state = match &paths.state {
        Some(state) => state.clone(),
        // Without a home nothing starts at all.
        None => match paths::state(said.as_deref()) {
            Ok(state) => state,
            Err(_homeless) => return Ok(()),
        },
    };
    layers.below.catalog = CatalogTables::new(read(&state)?);
    Ok(())
}

fn read(state: &Path) -> Result<Option<CatalogTable>, Fault> {
    let path = place(state);
    let text = match opened(&path).and_then(|it| text_of(it, MOST_TABLE_BYTES)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(warning(path, format!("cannot read it: {error}"))),
    };
    let table = CatalogTable::parse(&String::from_utf8_lossy(&text));
    let table = table.map_err(|wrong| warning(path, format!("no catalog of models: {wrong}")));
    table.map(Some)
}

fn warning(path: PathBuf, message: String) -> Fault {
    let nothing = SourceText::new(
        ConfigOrigin::File(path),
        FileExposure::Private,
        String::new(),
    );
    Fault {
        severity: Severity::Warning,
        ..Fault::of(&nothing, message)
    }
    .help("the catalog of the program counts; aishctl model catalog reset takes this one away")
}

fn opened(path: &Path) -> io::Result<File> {
    let file = file::open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is no ordinary file"))
    }
}

/// All of it, or one byte more than there may be.
fn text_of(file: File, most: usize) -> io::Result<Vec<u8>> {
    let mut text = vec![];
    file.take(most as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Makes a catalog of a file, and keeps it. Blocks.
pub fn keep(state: &Path, handed: &Path) -> Result<ReducedCatalog, HandedFileError> {
    let shown = || safe_text::safe(&handed.display().to_string()).into_owned();
    let unread = |source| HandedFileError::Read {
        path: shown(),
        source,
    };
    let json = opened(handed)
        .and_then(|it| text_of(it, MOST_FILE_BYTES))
        .map_err(unread)?;
    let reduced =
        handed_catalog::reduced(&json, today()).map_err(|source| HandedFileError::NoCatalog {
            path: shown(),
            source,
        })?;
    let path = place(state);
    private_file::replace(&path, reduced.table.text().as_bytes()).map_err(|source| {
        HandedFileError::Write {
            path: path.display().to_string(),
            source,
        }
    })?;
    Ok(reduced)
}

/// Takes it away; whether there was one. Blocks.
pub fn forget(state: &Path) -> Result<bool, HandedFileError> {
    let path = place(state);
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(HandedFileError::Write {
            path: path.display().to_string(),
            source,
        }),
    }
}

/// In UTC, so that it is the same wherever the table was made.
fn today() -> CatalogDay {
    let now = clock::rfc3339(clock::now());
    now.get(..10)
        .and_then(CatalogDay::parse)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_is_kept_and_a_broken_one_is_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        assert_eq!(None, read(state).unwrap());
        let handed = state.join("api.json");
        fs::write(
            &handed,
            r#"{"openai": {"models": {"owl": {"tool_call": true}}}}"#,
        )
        .unwrap();
        let kept = keep(state, &handed).unwrap();
        assert_eq!(Some(kept.table.clone()), read(state).unwrap());
        assert!(kept.table.day() >= CatalogDay::parse("2026-01-01").unwrap());

        // What is no catalog leaves the one that is there.
        for (text, expected) in [("[]", "expected an object"), ("{}", "it is neither")] {
            fs::write(&handed, text).unwrap();
            let refused = paths::describe(&keep(state, &handed).unwrap_err());
            assert!(refused.contains(expected), "{refused}");
        }
        let refused = paths::describe(&keep(state, state).unwrap_err());
        assert!(refused.contains("it is no ordinary file"), "{refused}");
        assert_eq!(Some(kept.table), read(state).unwrap());

        fs::write(place(state), "nothing").unwrap();
        let fault = read(state).unwrap_err();
        assert!(!fault.is_error(), "{fault:?}");
        assert!(fault.line().contains("says no day"), "{}", fault.line());
        assert!(forget(state).unwrap());
        assert!(!forget(state).unwrap());
    }
}
