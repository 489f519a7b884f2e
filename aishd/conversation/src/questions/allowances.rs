//! What attached clients let run unasked, in all conversations: one value, so that whoever shows it misses nothing.
//! Nothing of it is stored. Each client's word ends with its last place in the conversation, whichever way it went.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use aish_proto::id::{ClientId, ConversationId};
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::grants::GrantScope;
use aishd_log::pattern::Patterns;
use aishd_rules::allowances::{Allowance, AllowanceList, AllowanceNumber};
use tokio::sync::watch;

/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClientAllowances(watch::Sender<AllowanceBook>);

/// Of every conversation.
#[derive(Clone, Debug, Default)]
pub struct AllowanceBook {
    set: BTreeMap<ConversationId, Arc<AllowanceList>>,
    /// How many places each client has in a conversation.
    here: BTreeMap<(ConversationId, ClientId), usize>,
    last: u64,
}

/// What a client wants to let run unasked.
#[derive(Clone, Debug)]
pub struct WantedAllowance {
    pub by: AnsweringPerson,
    pub patterns: Patterns,
    pub scope: GrantScope,
    pub count: Option<NonZeroU32>,
}

/// A place of a client in a conversation; with the last one that is dropped, what the client allowed there ends.
#[derive(Debug)]
pub struct ClientPlace {
    allowances: ClientAllowances,
    conversation: ConversationId,
    client: ClientId,
}

/// The client is not attached to the conversation, so nobody would see what it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHere;

impl AllowanceBook {
    pub fn of(&self, conversation: ConversationId) -> Arc<AllowanceList> {
        self.set.get(&conversation).cloned().unwrap_or_default()
    }

    /// True when something of this conversation has changed.
    fn change(
        &mut self,
        conversation: ConversationId,
        change: impl FnOnce(&mut AllowanceList) -> bool,
    ) -> bool {
        let Some(set) = self.set.get_mut(&conversation) else {
            return false;
        };
        let changed = change(Arc::make_mut(set));
        if set.is_empty() {
            self.set.remove(&conversation);
        }
        changed
    }
}

impl ClientAllowances {
    pub fn of(&self, conversation: ConversationId) -> Arc<AllowanceList> {
        self.0.borrow().of(conversation)
    }

    pub fn watch(&self) -> watch::Receiver<AllowanceBook> {
        self.0.subscribe()
    }

    /// A client attaches.
    pub fn arrive(&self, conversation: ConversationId, client: ClientId) -> ClientPlace {
        self.0.send_if_modified(|all| {
            *all.here.entry((conversation, client)).or_default() += 1;
            false
        });
        ClientPlace {
            allowances: self.clone(),
            conversation,
            client,
        }
    }

    pub fn is_here(&self, conversation: ConversationId, client: ClientId) -> bool {
        self.0.borrow().here.contains_key(&(conversation, client))
    }

    /// From now on, in the place of what the client had allowed here before; of calls that are judged from now on.
    pub fn set(
        &self,
        conversation: ConversationId,
        wanted: WantedAllowance,
    ) -> Result<(), NotHere> {
        let WantedAllowance {
            by,
            patterns,
            scope,
            count,
        } = wanted;
        let mut done = Err(NotHere);
        self.0.send_if_modified(|all| {
            if !all.here.contains_key(&(conversation, by.client)) {
                return false;
            }
            all.last += 1;
            let set = all.set.entry(conversation).or_default();
            Arc::make_mut(set).set(Allowance {
                number: AllowanceNumber(all.last),
                by,
                patterns,
                scope,
                left: count,
            });
            done = Ok(());
            true
        });
        done
    }

    /// False: the client had allowed nothing here.
    pub fn take_back(&self, conversation: ConversationId, client: ClientId) -> bool {
        self.0
            .send_if_modified(|all| all.change(conversation, |it| it.remove(client)))
    }

    /// The client may not allow anything any more; what it let run unasked, anywhere, is over.
    pub fn forget(&self, client: ClientId) {
        self.0.send_if_modified(|all| {
            let places: Vec<ConversationId> = all.set.keys().copied().collect();
            let mut changed = false;
            for conversation in places {
                changed |= all.change(conversation, |it| it.remove(client));
            }
            changed
        });
    }

    /// A call was let through.
    pub(crate) fn take(&self, conversation: ConversationId, number: AllowanceNumber) {
        self.0
            .send_if_modified(|all| all.change(conversation, |it| it.take(number)));
    }

    /// The running turn is over.
    pub(crate) fn end_turn(&self, conversation: ConversationId) {
        self.0
            .send_if_modified(|all| all.change(conversation, AllowanceList::end_turn));
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let Self {
            allowances,
            conversation,
            client,
        } = self;
        allowances.0.send_if_modified(|all| {
            let key = (*conversation, *client);
            let left = all.here.get_mut(&key).map(|it| {
                *it -= 1;
                *it
            });
            if left != Some(0) {
                return false;
            }
            all.here.remove(&key);
            all.change(*conversation, |it| it.remove(*client))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(number: u8) -> ConversationId {
        ConversationId::from_bytes([number; 16])
    }

    fn client(number: u8) -> ClientId {
        ClientId::from_bytes([number; 16])
    }

    fn wanted(by: u8) -> WantedAllowance {
        WantedAllowance {
            by: AnsweringPerson {
                client: client(by),
                name: "aish".to_owned(),
                tty: None,
                pid: None,
                uid: None,
            },
            patterns: Patterns::new(["fs__*".parse().unwrap()]),
            scope: GrantScope::Client,
            count: NonZeroU32::new(2),
        }
    }

    #[track_caller]
    fn check(all: &ClientAllowances, expected: [usize; 2]) {
        let here = [1, 2].map(|it| all.of(conversation(it)).iter().count());
        assert_eq!(expected, here);
    }

    #[test]
    fn a_word_ends_with_the_last_place_of_its_client() {
        let all = ClientAllowances::default();
        let one = conversation(1);
        assert_eq!(Err(NotHere), all.set(one, wanted(1)));
        let first = all.arrive(one, client(1));
        let second = all.arrive(one, client(1));
        let other = all.arrive(one, client(2));
        let elsewhere = all.arrive(conversation(2), client(1));
        for id in [1, 2] {
            all.set(conversation(id), wanted(1)).unwrap();
        }
        all.set(one, wanted(2)).unwrap();
        check(&all, [2, 1]);
        drop(first);
        check(&all, [2, 1]);
        drop(second);
        check(&all, [1, 1]);
        assert!(!all.is_here(one, client(1)) && all.is_here(one, client(2)));
        drop((other, elsewhere));
        check(&all, [0, 0]);
    }

    #[test]
    fn who_may_not_allow_any_more_has_allowed_nothing_anywhere() {
        let all = ClientAllowances::default();
        let places = [(1, 1), (1, 2), (2, 1)];
        let _here = places.map(|(id, by)| all.arrive(conversation(id), client(by)));
        for (id, by) in places {
            all.set(conversation(id), wanted(by)).unwrap();
        }
        let mut seen = all.watch();
        all.forget(client(1));
        check(&all, [1, 0]);
        assert!(seen.has_changed().unwrap());
        seen.mark_unchanged();
        all.forget(client(1));
        assert!(!seen.has_changed().unwrap());
    }

    #[test]
    fn who_watches_wakes_for_what_it_would_show_and_for_nothing_else() {
        let all = ClientAllowances::default();
        let mut seen = all.watch();
        let one = conversation(1);
        let mut woke = || {
            let woke = seen.has_changed().unwrap();
            seen.mark_unchanged();
            woke
        };
        let place = all.arrive(one, client(1));
        all.end_turn(one);
        assert!(!woke());
        all.set(one, wanted(1)).unwrap();
        assert!(woke());
        let number = all.of(one).of(client(1)).unwrap().number;
        all.take(one, number);
        assert!(woke());
        all.end_turn(one);
        all.take(conversation(2), number);
        all.take(one, AllowanceNumber(number.0 + 1));
        assert!(!woke());
        all.take(one, number);
        assert!(woke());
        check(&all, [0, 0]);
        assert!(!all.take_back(one, client(1)));
        drop(place);
        assert!(!woke());
    }
}
