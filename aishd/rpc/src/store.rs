//! `store/*`: looking after the store.

use std::sync::atomic::{AtomicU64, Ordering};

use aish_proto::error::ErrorKind;
use aish_proto::method::Empty;
use aish_proto::store::{
    self as wire, Check, CheckedBytes, Compact, Stat, StoreCompactResult, StoreDamage,
};
use aishd_conversation::store_upkeep::{JournalDamage, StoreStat, StoreVerdict};
use aishd_log::audit::verdict::ChainFinding;
use aishd_platform::clock;
use jsonrpsee::RpcModule;
use tokio::sync::Mutex;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Stat, _, _>(module, stat);
    register::<Check, _, _>(module, check);
    register::<Compact, _, _>(module, compact);
}

/// The check of the store that runs, if one does.
#[derive(Debug, Default)]
pub(super) struct RunningCheck {
    done: AtomicU64,
    /// 0: none runs.
    total: AtomicU64,
    /// What was found last, and how many checks had begun by then. Held while one runs.
    found: Mutex<(u64, Option<wire::StoreCheck>)>,
    begun: AtomicU64,
}

impl RunningCheck {
    fn progress(&self) -> Option<CheckedBytes> {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed);
        (total > 0).then_some(CheckedBytes { done, total })
    }

    /// At its end it runs no more, also where nobody waits for it any longer.
    fn tell(&self, done: u64, total: u64) {
        let total = if done < total { total } else { 0 };
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

async fn stat(call: MethodCall<Stat>) -> Result<wire::StoreStat, MethodError> {
    let Empty {} = call.params;
    let server = &call.server;
    let found = server.directory.store_stat().await?;
    let health = server.directory.health();
    Ok(wire::StoreStat {
        conversations: Some(server.directory.count().await?),
        max_bytes: server.config.watch_status().borrow().store.max_bytes,
        damage: health.damage,
        checking: server.check.progress(),
        ..wire_stat(
            &server.about.state_dir.join("store").display().to_string(),
            &found,
        )
    })
}

async fn check(call: MethodCall<Check>) -> Result<wire::StoreCheck, MethodError> {
    let Empty {} = call.params;
    let running = &call.server.check;
    let came = running.begun.load(Ordering::SeqCst);
    let mut found = running.found.lock().await;
    // One that began after this one was asked for has seen all that it would.
    if let (begun, Some(known)) = &*found
        && *begun > came
    {
        return Ok(known.clone());
    }
    let begun = 1 + running.begun.fetch_add(1, Ordering::SeqCst);
    let server = call.server.clone();
    let progress = move |done, total| server.check.tell(done, total);
    let checked = call.server.directory.check_store(progress).await;
    running.tell(0, 0);
    let verdict = wire_check(&checked?);
    *found = (begun, Some(verdict.clone()));
    Ok(verdict)
}

async fn compact(call: MethodCall<Compact>) -> Result<StoreCompactResult, MethodError> {
    let Empty {} = call.params;
    let directory = &call.server.directory;
    let before = directory.store_stat().await?.bytes();
    let compacted = directory.compact_store().await;
    compacted.map_err(|why| {
        let message = format!("the store was not compacted: {why}");
        MethodError::new(ErrorKind::Storage, message).hint("aishctl doctor")
    })?;
    let after = directory.store_stat().await?.bytes();
    Ok(StoreCompactResult { before, after })
}

/// As it lies there; whoever has it open knows more.
pub fn wire_stat(path: &str, found: &StoreStat) -> wire::StoreStat {
    wire::StoreStat {
        path: path.to_owned(),
        segments: found.segments,
        journal_bytes: found.journal_bytes,
        live_bytes: found.live_bytes,
        index_bytes: found.index_bytes,
        reserve_bytes: found.reserve_bytes,
        free_bytes: found.free_bytes,
        oldest: found.oldest.map(clock::rfc3339),
        epoch: found.epoch,
        ..wire::StoreStat::default()
    }
}

pub fn wire_check(found: &StoreVerdict) -> wire::StoreCheck {
    let more = found.trail.more;
    let mut trail: Vec<String> = found.trail.findings.iter().map(trail_finding).collect();
    if more > 0 {
        trail.push(format!("and {more} more"));
    }
    wire::StoreCheck {
        whole: found.is_whole(),
        segments: found.segments,
        journal_bytes: found.journal_bytes,
        records: found.records,
        torn: found.torn,
        damage: found.damage.iter().map(wire_damage).collect(),
        index: found.index.clone(),
        trail,
    }
}

fn trail_finding(finding: &ChainFinding) -> String {
    match finding.n {
        Some(n) => format!("record {n}: {}", finding.fault),
        None => finding.fault.to_string(),
    }
}

pub fn wire_damage(damage: &JournalDamage) -> StoreDamage {
    StoreDamage {
        file: damage.file.display().to_string(),
        offset: damage.offset,
        bytes: damage.bytes,
        what: damage.what.clone(),
        conversations: damage.conversations.clone(),
    }
}
