//! What attached clients let run unasked in one conversation for as long as they are there. It is no
//! state of the conversation: it ends with its client, and with the daemon.

use std::num::NonZeroU32;

use aish_proto::id::ClientId;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::grants::GrantScope;
use aishd_log::pattern::{Pattern, Patterns};
use aishd_log::tool_name::ToolName;

/// Characters of what a client calls its place; it is the client's own text.
const PLACE_CHARS: usize = 32;

/// All of one conversation: at most one of each client, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowanceList(Vec<Allowance>);

/// What one client lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub number: AllowanceNumber,
    pub by: AnsweringPerson,
    pub patterns: Patterns,
    pub scope: GrantScope,
    /// So many calls more; `None`: as many as there are.
    pub left: Option<NonZeroU32>,
}

/// Tells an allowance from those that its client set before and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowanceNumber(pub u64);

impl AllowanceList {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Allowance> {
        self.0.iter()
    }

    pub fn of(&self, client: ClientId) -> Option<&Allowance> {
        self.0.iter().find(|it| it.by.client == client)
    }

    /// What lets a tool through: first one that has no number of calls, which then costs nobody anything.
    pub fn covering(&self, tool: &ToolName) -> Option<(&Allowance, &Pattern)> {
        let covering = || {
            let found = self.0.iter();
            found.filter_map(|it| Some((it, it.patterns.covering(tool)?)))
        };
        let unlimited = covering().find(|(it, _)| it.left.is_none());
        unlimited.or_else(|| covering().next())
    }

    /// In the place of what its client had allowed before.
    pub fn set(&mut self, allowance: Allowance) {
        self.remove(allowance.by.client);
        self.0.push(allowance);
    }

    /// False: the client had allowed nothing.
    pub fn remove(&mut self, client: ClientId) -> bool {
        let before = self.0.len();
        self.0.retain(|it| it.by.client != client);
        self.0.len() != before
    }

    /// One call was let through by it; with the last one it ends. False: nothing has changed.
    pub fn take(&mut self, number: AllowanceNumber) -> bool {
        let Some(at) = self.0.iter().position(|it| it.number == number) else {
            return false;
        };
        let Some(left) = self.0[at].left else {
            return false;
        };
        match NonZeroU32::new(left.get() - 1) {
            Some(left) => self.0[at].left = Some(left),
            None => drop(self.0.remove(at)),
        }
        true
    }

    /// The running turn is over. False: nothing has changed.
    pub fn end_turn(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|it| it.scope == GrantScope::Client);
        self.0.len() != before
    }
}

impl Allowance {
    /// Whose it is, for a rule's text: with the id that the audit trail knows the client by.
    pub fn whose(&self) -> String {
        let AnsweringPerson {
            client, name, tty, ..
        } = &self.by;
        let place = tty.as_ref().unwrap_or(name).chars();
        let place: String = place
            .filter(char::is_ascii_graphic)
            .take(PLACE_CHARS)
            .collect();
        if place.is_empty() {
            format!("client {client}")
        } else {
            format!("{place}, client {client}")
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn client(number: u8) -> ClientId {
        ClientId::from_bytes([number; 16])
    }

    /// By the client of this number; its number is the same.
    pub(crate) fn allowed_by(number: u8, patterns: &[&str], left: Option<u32>) -> Allowance {
        Allowance {
            number: AllowanceNumber(u64::from(number)),
            by: AnsweringPerson {
                client: client(number),
                name: "aish".to_owned(),
                tty: Some(format!("pts/{number}")),
                pid: None,
                uid: None,
            },
            patterns: Patterns::new(patterns.iter().map(|it| it.parse().unwrap())),
            scope: GrantScope::Client,
            left: left.and_then(NonZeroU32::new),
        }
    }

    /// Which client's rule lets `fs__rm` through.
    #[track_caller]
    fn check(allowances: &AllowanceList, expected: Option<(u8, &str)>) {
        let found = allowances.covering(&"fs__rm".parse().unwrap());
        let found = found.map(|(it, pattern)| (it.number, pattern.to_string()));
        let expected = expected
            .map(|(number, pattern)| (AllowanceNumber(u64::from(number)), pattern.to_owned()));
        assert_eq!(expected, found);
    }

    #[test]
    fn what_is_counted_is_used_up_call_by_call() {
        let mut all = AllowanceList::default();
        all.set(allowed_by(1, &["fs__*"], Some(2)));
        check(&all, Some((1, "fs__*")));
        assert!(all.take(AllowanceNumber(1)));
        check(&all, Some((1, "fs__*")));
        assert!(all.take(AllowanceNumber(1)));
        check(&all, None);
        assert!(!all.take(AllowanceNumber(1)), "it has ended");
        assert!(all.is_empty());
    }

    #[test]
    fn a_call_that_somebody_allows_without_a_number_costs_nobody_one() {
        let mut all = AllowanceList::default();
        all.set(allowed_by(1, &["fs__rm"], Some(1)));
        check(&all, Some((1, "fs__rm")));
        all.set(allowed_by(2, &["fs__*"], None));
        check(&all, Some((2, "fs__*")));
        assert!(!all.take(AllowanceNumber(2)));
        all.remove(client(2));
        check(&all, Some((1, "fs__rm")));
    }

    #[test]
    fn a_client_has_one_word_and_the_last_one_counts() {
        let mut all = AllowanceList::default();
        all.set(allowed_by(1, &["fs__*"], Some(5)));
        all.set(Allowance {
            number: AllowanceNumber(7),
            ..allowed_by(1, &["db__*"], None)
        });
        check(&all, None);
        assert_eq!(1, all.iter().count());
        assert!(
            !all.take(AllowanceNumber(1)),
            "a call of before costs nothing now"
        );
        assert!(all.remove(client(1)));
        assert!(!all.remove(client(1)));
    }

    #[test]
    fn what_was_said_for_a_turn_ends_with_it() {
        let mut all = AllowanceList::default();
        all.set(allowed_by(1, &["db__*"], None));
        assert!(!all.end_turn());
        all.set(Allowance {
            scope: GrantScope::Turn,
            ..allowed_by(2, &["fs__*"], None)
        });
        check(&all, Some((2, "fs__*")));
        assert!(all.end_turn());
        check(&all, None);
        assert!(all.of(client(1)).is_some());
    }

    #[test]
    fn a_client_cannot_write_what_it_likes_into_a_rule() {
        let mut one = allowed_by(1, &["fs__*"], None);
        assert_eq!(format!("pts/1, client {}", client(1)), one.whose());
        one.by.tty = Some(format!("\u{1b}[2J a\u{202e}b\n{}", "x".repeat(100)));
        assert_eq!(
            format!("[2Jab{}, client {}", "x".repeat(27), client(1)),
            one.whose()
        );
        one.by.tty = Some("\u{7}".to_owned());
        assert_eq!(format!("client {}", client(1)), one.whose());
    }
}
