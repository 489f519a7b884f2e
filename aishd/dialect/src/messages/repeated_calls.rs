//! Ids of calls that come again. Some servers number the calls of each answer anew; this dialect refuses a whole request in
//! which two calls have one id, and a conversation may go on with another model at any time.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::call_id;

/// The ids of a request's calls so far.
#[derive(Default)]
pub(super) struct CallIds<'a> {
    seen: HashMap<&'a str, SeenCall>,
}

#[derive(Default)]
struct SeenCall {
    times: u32,
    /// Which of them have no result yet, in their order.
    open: VecDeque<u32>,
}

impl<'a> CallIds<'a> {
    /// As the call's own is sent.
    pub(super) fn of_call(&mut self, id: &'a str) -> Cow<'a, str> {
        let seen = self.seen.entry(id).or_default();
        seen.times += 1;
        seen.open.push_back(seen.times);
        sent(id, seen.times)
    }

    /// As the result of the first call of this id is sent that has none yet.
    pub(super) fn of_result(&mut self, id: &'a str) -> Cow<'a, str> {
        let seen = self.seen.entry(id).or_default();
        let times = seen.open.pop_front().unwrap_or(seen.times);
        sent(id, times)
    }
}

fn sent(id: &str, times: u32) -> Cow<'_, str> {
    let fits = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-');
    if times < 2 {
        return call_id::fitting(id, fits);
    }
    let again = format!("{id}__{times}");
    Cow::Owned(call_id::fitting(&again, fits).into_owned())
}
