//! `aishd store …`: looking after a store without a daemon that has it open. What is found is written as lines of JSON, for
//! `aishctl`: `{"progress": …}` while it works, and `{"result": …}` at the end.

use std::cell::Cell;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aish_proto::store::{CheckedBytes, StoreCompactResult};
use aishd_config::environment_variables;
use aishd_platform::clock;
use aishd_rpc::store::{wire_check, wire_damage, wire_stat};
use aishd_store::backup::{self, BackupError, StoreBackup};
use aishd_store::{OpenError, Store, check, repair, restore, stat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use serde_json::{Value, json};

use super::{configuration, exit, store_look};
use crate::args::{DaemonArgs, StoreCommand};

/// How often is said how far it is.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Why it was not done, and what to do.
struct CommandFault {
    exit: u8,
    message: String,
    hint: Option<&'static str>,
}

pub(super) fn run(args: &DaemonArgs, command: &StoreCommand) -> ExitCode {
    let configured = match configuration::load(args, &environment_variables::read()) {
        Ok(configured) => configured,
        // That is told by those who look at the configuration.
        Err(error) => {
            let _nobody_reads = writeln!(std::io::stderr(), "aishd: {error:#}");
            return ExitCode::from(exit::CONFIG);
        }
    };
    let (state, store) = (&configured.state, configured.state.join("store"));
    let done = match command {
        StoreCommand::Look => {
            store_look::run(&store);
            return ExitCode::SUCCESS;
        }
        StoreCommand::Stat => room(&store),
        StoreCommand::Check => checked(&store),
        StoreCommand::Compact => compacted(&store),
        StoreCommand::Repair => repaired(&store, state),
        StoreCommand::Backup { target } => backed_up(&store, target),
        StoreCommand::Restore { backup, replace } => restored(&store, backup, *replace),
    };
    match done {
        Ok(result) => {
            say(&json!({ "result": result }));
            ExitCode::SUCCESS
        }
        Err(fault) => {
            let mut stderr = std::io::stderr().lock();
            let _nobody_reads = writeln!(stderr, "aishd: {}", fault.message);
            if let Some(hint) = fault.hint {
                let _nobody_reads = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::from(fault.exit)
        }
    }
}

fn say(line: &Value) {
    let mut stdout = std::io::stdout().lock();
    let _nobody_reads = writeln!(stdout, "{line}");
}

fn as_value(it: &impl Serialize) -> Value {
    serde_json::to_value(it).unwrap_or_default()
}

/// Says now and then how far it is.
fn progress() -> impl Fn(u64, u64) {
    let said = Cell::new(None::<Instant>);
    move |done, total| {
        if said.get().is_none_or(|it| it.elapsed() >= PROGRESS_EVERY) {
            said.set(Some(Instant::now()));
            say(&json!({ "progress": CheckedBytes { done, total } }));
        }
    }
}

fn room(store: &Path) -> Result<Value, CommandFault> {
    let found = stat::stat(store)?;
    Ok(as_value(&wire_stat(&store.display().to_string(), &found)))
}

fn checked(store: &Path) -> Result<Value, CommandFault> {
    Ok(as_value(&wire_check(&check::check(store, &progress())?)))
}

fn compacted(store: &Path) -> Result<Value, CommandFault> {
    let before = stat::stat(store)?.bytes();
    let opened = Store::open(store)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|it| CommandFault::plain(it.to_string()))?;
    let compacted = runtime.block_on(opened.compact());
    opened.close();
    compacted.map_err(CommandFault::plain)?;
    let after = stat::stat(store)?.bytes();
    Ok(as_value(&StoreCompactResult { before, after }))
}

fn repaired(store: &Path, aside: &Path) -> Result<Value, CommandFault> {
    let done = repair::repair(store, aside)?;
    let is_index_damaged = done.damage.is_empty() && {
        let found = check::check(store, &progress())?;
        found.damage.is_empty() && !found.index.is_empty()
    };
    if is_index_damaged {
        repair::make_index_anew(store)?;
    }
    let lost = done.lost.iter();
    let lost: Vec<Value> = lost
        .map(|(id, records)| json!({ "conversation": id, "records": records }))
        .collect();
    Ok(json!({
        "damage": done.damage.iter().map(wire_damage).collect::<Vec<_>>(),
        "lost": lost,
        "lostOfTrail": done.lost_of_trail,
        "indexMadeAnew": is_index_damaged,
        "setAside": done.set_aside,
    }))
}

fn backed_up(store: &Path, target: &Path) -> Result<Value, CommandFault> {
    // Each segment is open meanwhile.
    let limits = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limits.maximum,
        ..limits
    };
    let _as_many_as_there_are = setrlimit(Resource::Nofile, all);
    Ok(of_backup(&backup::back_up(store, target, &progress())?))
}

fn restored(store: &Path, from: &Path, replace: bool) -> Result<Value, CommandFault> {
    let (done, aside) = restore::restore_in_place(from, store, replace, &progress())?;
    let mut told = of_backup(&done);
    told["setAside"] = json!(aside);
    Ok(told)
}

fn of_backup(backup: &StoreBackup) -> Value {
    json!({
        "at": clock::rfc3339(backup.at),
        "files": backup.files,
        "bytes": backup.bytes,
        "copiedBytes": backup.copied_bytes,
    })
}

impl CommandFault {
    fn plain(message: String) -> Self {
        Self {
            exit: 1,
            message,
            hint: None,
        }
    }
}

impl From<OpenError> for CommandFault {
    fn from(error: OpenError) -> Self {
        let error = anyhow::Error::from(error);
        Self {
            exit: super::exit_code(&error),
            message: format!("{error:#}"),
            hint: super::hint(&error),
        }
    }
}

impl From<BackupError> for CommandFault {
    fn from(error: BackupError) -> Self {
        if let BackupError::Open(error) = error {
            return error.into();
        }
        let hint = match &error {
            BackupError::HasStore(_) => Some("--replace puts it aside and says where"),
            BackupError::Damaged { .. } => Some("restore an older one; this one is as it was"),
            BackupError::Link(_) => Some("name the directory itself; what else is a link, remove"),
            _ => None,
        };
        Self {
            hint,
            ..Self::plain(format!("{:#}", anyhow::Error::from(error)))
        }
    }
}
