//! The daemon as the parent of its trampolines: it reaps them, and it ends what one that was killed has left.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{getpid, set_child_subreaper};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Children;
use super::child_table::{ChildTable, KeeperStep};
use super::process_tree::SeenProcess;

/// From killing an orphan to the look whether it is gone.
const PAUSE: Duration = Duration::from_millis(10);

/// Does its work in [`Keeper::run`]. One for each process.
#[derive(Debug)]
pub struct Keeper {
    table: Arc<ChildTable>,
    child_ended: Signal,
    strangers: Arc<[SeenProcess]>,
}

impl Children {
    /// Makes this process the parent of every orphan below it. Before the first child.
    pub fn keeper(&self) -> io::Result<Keeper> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Keeper {
            table: self.table.clone(),
            child_ended: signal(SignalKind::child())?,
            strangers: self.table.strangers().into(),
        })
    }
}

impl Keeper {
    /// Never ends by itself.
    pub async fn run(mut self) {
        while self.child_ended.recv().await == Some(()) {
            while self.look().await == KeeperStep::LookAgain {
                tokio::time::sleep(PAUSE).await;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn look(&self) -> KeeperStep {
        let (table, strangers) = (self.table.clone(), self.strangers.clone());
        let looked = tokio::task::spawn_blocking(move || table.reap(&strangers)).await;
        looked.unwrap_or(KeeperStep::Rest)
    }
}
