//! What was read of resources and still holds: until their server says that one changed, until the time is over
//! that it gave (`ttlMs`), or until the session ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

/// Resources of one server that are watched; more are read each time.
const MOST: usize = 64;
/// Nobody's text holds longer without another look.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct ResourceCache(Arc<ResourceCacheInner>);

#[derive(Debug, Default)]
struct ResourceCacheInner {
    known: Mutex<KnownResource>,
    wanted: watch::Sender<BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct KnownResource {
    /// Grows with everything that makes a text old, so that one that was on its way then is not kept.
    age: u64,
    /// The server tells when one of them changes.
    told: BTreeSet<String>,
    texts: BTreeMap<String, CachedText>,
}

#[derive(Debug)]
struct CachedText {
    text: String,
    /// `None`: until we are told.
    until: Option<Instant>,
}

impl ResourceCache {
    /// What was read, if it holds.
    pub(super) fn get(&self, uri: &str) -> Option<String> {
        let known = self.lock();
        let read = known.texts.get(uri)?;
        let holds = match read.until {
            Some(until) => Instant::now() < until,
            None => known.told.contains(uri),
        };
        holds.then(|| read.text.clone())
    }

    pub(super) fn age(&self) -> u64 {
        self.lock().age
    }

    /// Keeps what was asked for at an age, unless something has changed since.
    pub(super) fn keep(&self, uri: &str, text: &str, ttl: Option<Duration>, age: u64) {
        let mut known = self.lock();
        let until = ttl.map(|it| Instant::now() + it.min(LONGEST));
        let told = known.told.contains(uri);
        if known.age != age || known.texts.len() >= MOST || (until.is_none() && !told) {
            return;
        }
        let text = text.to_owned();
        known
            .texts
            .insert(uri.to_owned(), CachedText { text, until });
    }

    /// The server said so, of it or of something in it.
    pub(super) fn changed(&self, uri: &str) {
        let mut known = self.lock();
        known.age += 1;
        known.texts.retain(|it, _| !uri.starts_with(it.as_str()));
    }

    /// From now on the server tells of them.
    pub(super) fn is_told<'a>(&self, uris: impl Iterator<Item = &'a str>) {
        self.lock().told.extend(uris.take(MOST).map(str::to_owned));
    }

    pub(super) fn told_of(&self, uri: &str) -> bool {
        self.lock().told.contains(uri)
    }

    /// Nobody tells of anything any more.
    pub(super) fn forget(&self) {
        let mut known = self.lock();
        known.age += 1;
        known.told.clear();
        known.texts.clear();
    }

    /// Somebody wants to have it as it is, again and again.
    pub(super) fn want(&self, uri: &str) {
        self.0
            .wanted
            .send_if_modified(|wanted| wanted.len() < MOST && wanted.insert(uri.to_owned()));
    }

    /// Nobody wants it any more. Returns whether the server told of it.
    pub(super) fn let_go(&self, uri: &str) -> bool {
        self.0.wanted.send_if_modified(|wanted| wanted.remove(uri));
        let mut known = self.lock();
        known.texts.remove(uri);
        known.told.remove(uri)
    }

    pub(super) fn watch_wanted(&self) -> watch::Receiver<BTreeSet<String>> {
        self.0.wanted.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, KnownResource> {
        self.0.known.lock()
    }
}

/// Until when a list is to be believed (`ttlMs`). It is asked for again when it is wanted after that, and never by
/// itself. All clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct FreshUntil(Arc<Mutex<Option<Instant>>>);

impl FreshUntil {
    /// From now on for so long; `None`: until the server says that it changed, or the session ends.
    pub(super) fn begin(&self, time: Option<Duration>) {
        // A server that wants to be asked each time is asked once a second.
        let time = time.map(|it| it.clamp(Duration::from_secs(1), LONGEST));
        *self.lock() = time.map(|it| Instant::now() + it);
    }

    /// Whether its time is over; said once.
    pub(super) fn is_over(&self) -> bool {
        let mut until = self.lock();
        let over = until.is_some_and(|it| it <= Instant::now());
        if over {
            *until = None;
        }
        over
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_text_holds_until_it_changes_or_its_time_is_over() {
        let fresh = ResourceCache::default();
        let second = Duration::from_secs(1);
        // Nobody would tell, and no time was given.
        fresh.keep("a", "1", None, fresh.age());
        assert_eq!(None, fresh.get("a"));
        fresh.keep("a", "1", Some(second), fresh.age());
        assert_eq!(Some("1".to_owned()), fresh.get("a"));
        tokio::time::advance(second).await;
        assert_eq!(None, fresh.get("a"));
        fresh.is_told(["a", "b"].into_iter());
        fresh.keep("a", "2", None, fresh.age());
        fresh.keep("b", "3", None, fresh.age());
        tokio::time::advance(second * 60).await;
        fresh.changed("a/part");
        assert_eq!(
            (None, Some("3".to_owned())),
            (fresh.get("a"), fresh.get("b"))
        );
        fresh.forget();
        assert_eq!(None, fresh.get("b"));
    }

    #[tokio::test]
    async fn what_was_asked_for_before_a_change_is_not_kept() {
        let fresh = ResourceCache::default();
        fresh.is_told(["a"].into_iter());
        let age = fresh.age();
        fresh.changed("a");
        fresh.keep("a", "old", None, age);
        assert_eq!(None, fresh.get("a"));
        fresh.keep("a", "new", None, fresh.age());
        assert_eq!(Some("new".to_owned()), fresh.get("a"));
    }
}
