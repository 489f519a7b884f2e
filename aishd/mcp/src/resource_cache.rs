//! What was read of resources and still holds: until their server says that one changed, until the time is over
//! that it gave (`ttlMs`), or until the session ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aishd_log::pinned_resource::MAX_URI_BYTES;
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
    /// What is pinned or watched; changed while `known` is held.
    wanted: watch::Sender<BTreeSet<String>>,
    /// Counted up whenever the server tells of more resources.
    acknowledged: watch::Sender<u64>,
    news: watch::Sender<ServerNews>,
    /// Held by the one request that begins or ends being told of a resource.
    asking: tokio::sync::Mutex<()>,
}

/// What a server has told so far, as counts that only grow: who looks seldom misses none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNews {
    pub resources: u64,
    pub prompts: u64,
    /// Of each resource that is watched.
    pub changed: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct KnownResource {
    /// Grows with everything that makes a text old, so that one that was on its way then is not kept.
    age: u64,
    /// The server tells when one of them changes.
    told: BTreeSet<String>,
    texts: BTreeMap<String, CachedText>,
    /// Some conversation has them in its context.
    pinned: BTreeSet<String>,
    /// How many want to hear of each.
    watched: BTreeMap<String, usize>,
    /// Counted up when nobody tells any more.
    lapses: u64,
    /// It told of them before that, and they may have changed since.
    lapsed: BTreeSet<String>,
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
        let within = |it: &String| is_within(uri, it);
        let changed: Vec<String> = known
            .watched
            .keys()
            .filter(|it| within(it))
            .cloned()
            .collect();
        drop(known);
        self.note_changed(changed);
    }

    fn note_changed(&self, uris: Vec<String>) {
        if uris.is_empty() {
            return;
        }
        self.0.news.send_modify(|news| {
            for uri in uris {
                *news.changed.entry(uri).or_default() += 1;
            }
        });
    }

    /// The server said that it has other ones.
    pub(super) fn resources_changed(&self) {
        self.0.news.send_modify(|it| it.resources += 1);
    }

    /// As [`ResourceCache::resources_changed`].
    pub(super) fn prompts_changed(&self) {
        self.0.news.send_modify(|it| it.prompts += 1);
    }

    /// From now on the server tells of them.
    pub(super) fn is_told<'a>(&self, uris: impl Iterator<Item = &'a str>) {
        let mut known = self.lock();
        let mut may_differ = vec![];
        for uri in uris.take(MOST) {
            if known.lapsed.remove(uri) && known.watched.contains_key(uri) {
                may_differ.push(uri.to_owned());
            }
            // A server that says so of what nobody wants fills no memory.
            if known.told.len() < 2 * MOST && uri.len() <= MAX_URI_BYTES {
                known.told.insert(uri.to_owned());
            }
        }
        drop(known);
        self.note_changed(may_differ);
        self.0.acknowledged.send_modify(|it| *it += 1);
    }

    /// The same for an answer to what was asked when there had been so many lapses.
    pub(super) fn is_told_since(&self, lapses: u64, uri: &str) {
        if self.lapses() == lapses {
            self.is_told(std::iter::once(uri));
        }
    }

    pub(super) fn lapses(&self) -> u64 {
        self.lock().lapses
    }

    /// Returns when the server tells of it.
    pub(super) async fn acknowledged(&self, uri: &str) {
        let mut acknowledged = self.0.acknowledged.subscribe();
        let told = acknowledged.wait_for(|_| self.told_of(uri));
        // The other end is ours.
        let _never = told.await;
    }

    pub(super) fn told_of(&self, uri: &str) -> bool {
        self.lock().told.contains(uri)
    }

    /// Nobody tells of anything any more.
    pub(super) fn forget(&self) {
        let mut known = self.lock();
        let known = &mut *known;
        known.age += 1;
        known.lapses += 1;
        let told = std::mem::take(&mut known.told).into_iter();
        let missed = told.filter(|it| known.watched.contains_key(it));
        known.lapsed.extend(missed);
        known.texts.clear();
    }

    /// Somebody wants to have it as it is, again and again.
    pub(super) fn want(&self, uri: &str) {
        let mut known = self.lock();
        if self.make_wanted(uri) {
            known.pinned.insert(uri.to_owned());
        }
    }

    /// Nobody wants it any more as it is.
    pub(super) fn let_go(&self, uri: &str) {
        let mut known = self.lock();
        known.pinned.remove(uri);
        known.texts.remove(uri);
        drop(known);
        self.drop_unwanted(uri);
    }

    /// One more wants to hear of it. False: there is no room.
    pub(super) fn watch(&self, uri: &str) -> bool {
        let mut known = self.lock();
        let has_room = self.make_wanted(uri);
        if has_room {
            *known.watched.entry(uri.to_owned()).or_default() += 1;
        }
        has_room
    }

    /// One less does.
    pub(super) fn unwatch(&self, uri: &str) {
        let mut known = self.lock();
        let left = known.watched.get(uri).copied().unwrap_or_default();
        if left > 1 {
            known.watched.insert(uri.to_owned(), left - 1);
            return;
        }
        known.watched.remove(uri);
        known.lapsed.remove(uri);
        drop(known);
        self.0
            .news
            .send_if_modified(|it| it.changed.remove(uri).is_some());
        self.drop_unwanted(uri);
    }

    fn make_wanted(&self, uri: &str) -> bool {
        let mut has_room = true;
        self.0.wanted.send_if_modified(|wanted| {
            has_room = wanted.contains(uri) || wanted.len() < MOST;
            has_room && wanted.insert(uri.to_owned())
        });
        has_room
    }

    fn drop_unwanted(&self, uri: &str) {
        let known = self.lock();
        let is_unwanted = !known.pinned.contains(uri) && !known.watched.contains_key(uri);
        self.0
            .wanted
            .send_if_modified(|wanted| is_unwanted && wanted.remove(uri));
    }

    pub(super) fn is_wanted(&self, uri: &str) -> bool {
        self.0.wanted.borrow().contains(uri)
    }

    /// The server is to tell of it no more. Returns whether it did.
    pub(super) fn is_untold(&self, uri: &str) -> bool {
        self.lock().told.remove(uri)
    }

    /// Held while a server is asked to tell, or not to: it is asked once for all who want to know.
    pub(super) async fn asking(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.asking.lock().await
    }

    pub(super) fn news(&self) -> watch::Receiver<ServerNews> {
        self.0.news.subscribe()
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn watch_wanted(&self) -> watch::Receiver<BTreeSet<String>> {
        self.0.wanted.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, KnownResource> {
        self.0.known.lock()
    }
}

/// Whether a resource is another, or a part of it.
fn is_within(uri: &str, whole: &str) -> bool {
    let behind = uri.strip_prefix(whole);
    behind
        .is_some_and(|it| it.is_empty() || whole.ends_with('/') || it.starts_with(['/', '?', '#']))
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

    #[test]
    fn a_server_that_tells_of_what_nobody_wants_fills_no_memory() {
        let fresh = ResourceCache::default();
        for round in 0..3 {
            let uris: Vec<String> = (0..MOST).map(|it| format!("{round} {it}")).collect();
            fresh.is_told(uris.iter().map(String::as_str));
            fresh.is_told(std::iter::once("x".repeat(MAX_URI_BYTES + 1).as_str()));
            assert!(fresh.lock().told.iter().all(|it| it.len() < 9));
            fresh.forget();
            let known = fresh.lock();
            assert_eq!((0, 0), (known.told.len(), known.lapsed.len()));
        }
    }

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

    #[test]
    fn what_is_watched_is_told_of_until_the_last_one_has_gone() {
        let fresh = ResourceCache::default();
        assert!(fresh.watch("a") && fresh.watch("a"));
        fresh.want("a");
        let news = fresh.news();
        let changed = || news.borrow().changed.get("a").copied();
        fresh.is_told(["a"].into_iter());
        assert_eq!(None, changed(), "it was not told of before");
        for (uri, expected) in [
            ("ab", None),
            ("a/b", Some(1)),
            ("a", Some(2)),
            ("b", Some(2)),
        ] {
            fresh.changed(uri);
            assert_eq!(expected, changed(), "{uri}");
        }
        // While nobody told it may have changed.
        fresh.forget();
        assert_eq!(Some(2), changed());
        fresh.is_told(["a"].into_iter());
        assert_eq!(Some(3), changed());
        fresh.is_told(["a"].into_iter());
        assert_eq!(Some(3), changed());
        fresh.unwatch("a");
        fresh.changed("a");
        assert_eq!(Some(4), changed());
        fresh.unwatch("a");
        assert!(fresh.is_wanted("a"), "it is pinned");
        fresh.changed("a");
        assert_eq!(None, changed());
        fresh.let_go("a");
        assert!(!fresh.is_wanted("a"));
        for at in 0..MOST {
            assert!(fresh.watch(&at.to_string()));
        }
        assert!(!fresh.watch("one more") && fresh.watch("0"));
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
