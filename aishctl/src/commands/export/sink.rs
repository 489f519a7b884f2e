//! Where an export goes: stdout, a pager, or a file that is there only when it is whole.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::pager::RunningPager;
use crate::stdout::AnswerSink;
use crate::{file, safe};

#[derive(Debug)]
pub enum ExportSink {
    Out {
        to: AnswerSink,
        terminal: bool,
    },
    Pager(RunningPager, pipe::Sender),
    /// Beside its place, under a name of its own; mode 0600.
    File {
        beside: NamedTempFile,
        place: PathBuf,
        replace: bool,
    },
}

impl ExportSink {
    /// A new file, or one that takes the place of what has this name.
    pub fn file(place: &Path, replace: bool) -> Result<Self, Failure> {
        if !replace && place.symlink_metadata().is_ok() {
            return Err(already_exists(place));
        }
        let directory = place.parent().filter(|it| *it != Path::new(""));
        let directory = directory.unwrap_or(Path::new("."));
        let beside = NamedTempFile::with_prefix_in(".aish-export-", directory);
        Ok(Self::File {
            beside: beside.map_err(|error| cannot(place, &error))?,
            place: place.to_owned(),
            replace,
        })
    }

    /// What comes next; JSON keeps its meaning where a terminal or a pipe may not have its bytes.
    pub async fn write(&mut self, text: &str, is_json: bool) -> Result<(), Failure> {
        let shown = |terminal: bool| match (terminal, is_json) {
            (true, true) => safe::json(text),
            (false, true) => safe::json_pipe(text).into_owned(),
            // It is made of safe text.
            (_, false) => text.to_owned(),
        };
        let written = match self {
            Self::Out { to, terminal } => {
                let written = to.write_all(shown(*terminal).as_bytes()).await;
                match written {
                    Ok(()) => to.flush().await,
                    Err(error) => Err(error),
                }
            }
            Self::Pager(_, to) => to.write_all(shown(true).as_bytes()).await,
            Self::File { beside, place, .. } => {
                let written = beside.write_all(shown(false).as_bytes());
                return written.map_err(|error| cannot(place, &error));
            }
        };
        written.map_err(|it| Failure::output(&it))
    }

    /// The end. A file gets its name only now.
    pub async fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Out { mut to, .. } => to.flush().await.map_err(|it| Failure::output(&it)),
            Self::Pager(pager, to) => {
                drop(to);
                pager.wait().map_err(|it| Failure::output(&it))
            }
            Self::File {
                beside,
                place,
                replace,
            } => {
                let synced = beside.as_file().sync_all();
                synced.map_err(|error| cannot(&place, &error))?;
                let named = if replace {
                    beside.persist(&place)
                } else {
                    beside.persist_noclobber(&place)
                };
                match named {
                    Ok(_whole) => Ok(()),
                    Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                        Err(already_exists(&place))
                    }
                    Err(error) => Err(cannot(&place, &error.error)),
                }
            }
        }
    }
}

fn already_exists(place: &Path) -> Failure {
    let name = file::name(place);
    Failure::new(Exit::FAILED, format!("{name} is there already")).hint("--force replaces it")
}

fn cannot(place: &Path, error: &io::Error) -> Failure {
    let name = file::name(place);
    Failure::new(Exit::FAILED, format!("cannot write {name}: {error}"))
}
