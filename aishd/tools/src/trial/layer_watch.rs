//! How much room layers may take of the disk, and a watch over a command that writes in them. Nobody but root can be given a
//! quota, so the disk is asked several times a second, which costs microseconds, and the layers are walked only where the disk
//! says that there can be much in them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::ChangesId;
use aishd_layers::LayerSet;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// How long a command can write before anybody looks, where there is much room.
const LOOK: Duration = Duration::from_millis(250);
/// Where there is next to none.
const LOOK_AGAIN: Duration = Duration::from_millis(4);
/// What a fast disk takes in a millisecond: 4 GiB a second.
const BYTES_IN_MILLISECOND: u64 = 4 << 20;
/// After so long the layers are walked whatever the disk says: somebody else may have made room.
const LONGEST: Duration = Duration::from_secs(10);
/// A walk takes at most this part of the time, as long as the next one is not waited for longer than that.
const RARELY: u32 = 20;
/// What is left on the disk for others, our own store among them; of a small disk it is a part.
const RESERVE: u64 = 512 << 20;
const RESERVED_PART: u64 = 10;

/// What layers took when they were last weighed; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerWeights(Arc<Mutex<HashMap<ChangesId, u64>>>);

impl LayerWeights {
    /// They are gone.
    pub(super) fn forget(&self, id: ChangesId) {
        self.0.lock().remove(&id);
    }
}

/// Over the layers of one trial or one run, while one command writes there.
#[derive(Clone, Debug)]
pub(crate) struct LayerWatch {
    weights: LayerWeights,
    id: ChangesId,
    set: LayerSet,
    /// What the layers may take while this command runs.
    most: u64,
    /// As it was when they were last weighed.
    weighed: u64,
    free: u64,
    /// What could be written when somebody last looked.
    room: u64,
    at: Instant,
    /// How long the next walk is waited for at least.
    pause: Duration,
}

impl LayerWatch {
    /// # Errors
    /// Why nothing may be written there at all.
    pub(super) fn begin(
        weights: &LayerWeights,
        id: ChangesId,
        set: &LayerSet,
        most: u64,
    ) -> Result<Self, String> {
        let weighed = weights.0.lock().get(&id).copied().unwrap_or_default();
        let mut watch = Self {
            weights: weights.clone(),
            id,
            set: set.clone(),
            // A run that has too much may still remove some of it.
            most: most.max(weighed),
            weighed,
            free: u64::MAX,
            room: u64::MAX,
            at: Instant::now(),
            pause: LOOK,
        };
        let (free, lack) = watch.disk();
        lack.map_or(Ok(Self { free, ..watch }), Err)
    }

    /// Waits until the layers have more than they may, and says so. Never, where they do not.
    pub(crate) async fn full(mut self) -> String {
        loop {
            sleep(self.until_next_look()).await;
            let looked = tokio::task::spawn_blocking(move || {
                let found = self.look();
                (self, found)
            });
            let found;
            // A look that panicked has seen nothing, and neither would the next one.
            (self, found) = match looked.await {
                Ok(looked) => looked,
                Err(_panic) => std::future::pending().await,
            };
            if let Some(why) = found {
                return why;
            }
        }
    }

    /// The same when the command has ended: much can be written between two looks.
    pub(crate) fn full_at_end(mut self) -> Option<String> {
        let (free, _lack) = self.disk();
        self.weigh(free)
    }

    /// Before the disk could be full.
    fn until_next_look(&self) -> Duration {
        Duration::from_millis(self.room / BYTES_IN_MILLISECOND).clamp(LOOK_AGAIN, LOOK)
    }

    fn look(&mut self) -> Option<String> {
        let (free, lack) = self.disk();
        if lack.is_some() {
            return lack;
        }
        let took = self.free.saturating_sub(free);
        let since = self.at.elapsed();
        let may_be_near = took >= self.most.saturating_sub(self.weighed) / 2;
        if since >= self.pause && (may_be_near || since >= LONGEST) {
            return self.weigh(free);
        }
        None
    }

    fn weigh(&mut self, free: u64) -> Option<String> {
        let begun = Instant::now();
        let weight = self.set.weight();
        let took = self.free.saturating_sub(free);
        let known = if weight.partly {
            // What cannot be looked into is what the disk has less.
            weight.bytes.max(self.weighed.saturating_add(took))
        } else {
            weight.bytes
        };
        (self.weighed, self.free) = (known, free);
        self.at = Instant::now();
        self.pause = (begun.elapsed() * RARELY).clamp(LOOK, LONGEST);
        self.weights.0.lock().insert(self.id, known);
        (known > self.most).then(|| {
            format!(
                "what it wrote takes more than {} of the disk (contain.max_layer_bytes)",
                mebibytes(self.most)
            )
        })
    }

    /// What is free, and why nothing more may be written, if so.
    fn disk(&mut self) -> (u64, Option<String>) {
        // A disk that does not tell lets nobody write either.
        let Ok(disk) = self.set.disk() else {
            return (self.free, None);
        };
        let reserve = RESERVE.min(disk.size / RESERVED_PART);
        self.room = disk.free.saturating_sub(reserve);
        let lack = (disk.free < reserve).then(|| {
            format!(
                "the disk of aish's state has less than {} left",
                mebibytes(reserve)
            )
        });
        (disk.free, lack)
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
