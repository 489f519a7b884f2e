//! Ids of calls that come again. Some servers number the calls of each answer anew; this dialect refuses a whole request in
//! which two calls have one id, and a conversation may go on with another model at any time.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::call_id;

/// The ids of a request's calls so far.
#[derive(Default)]
pub(super) struct CallIds<'a> {
    seen: HashMap<&'a str, SeenCall<'a>>,
    sent: HashSet<Cow<'a, str>>,
}

#[derive(Default)]
struct SeenCall<'a> {
    last: Cow<'a, str>,
    /// As those were sent that have no result yet, in their order.
    open: VecDeque<Cow<'a, str>>,
}

impl<'a> CallIds<'a> {
    /// As the call's own is sent.
    pub(super) fn of_call(&mut self, id: &'a str) -> Cow<'a, str> {
        let again = (2_u32..).map(|times| fitting(&format!("{id}__{times}")).into_owned().into());
        let mut names = std::iter::once(fitting(id)).chain(again);
        let free = names.find(|it| !self.sent.contains(it));
        let sent = free.unwrap_or_default();
        self.sent.insert(sent.clone());
        let seen = self.seen.entry(id).or_default();
        seen.last = sent.clone();
        seen.open.push_back(sent.clone());
        sent
    }

    /// As the result of the first call of this id is sent that has none yet.
    pub(super) fn of_result(&mut self, id: &'a str) -> Cow<'a, str> {
        match self.seen.get_mut(id) {
            Some(seen) => seen.open.pop_front().unwrap_or_else(|| seen.last.clone()),
            None => fitting(id),
        }
    }
}

fn fitting(id: &str) -> Cow<'_, str> {
    call_id::fitting(id, |it| {
        it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-')
    })
}
