//! Requests of a server's that we have not answered: how many there may be, and how it takes one back.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// More than any server asks at once. One beyond them is refused, and whatever comes while that is being said is
/// dropped: a flood costs neither tasks nor connections.
const MOST: usize = 32;

#[derive(Clone, Debug, Default)]
pub(super) struct ServerRequests(Arc<Mutex<OpenRequests>>);

#[derive(Debug, Default)]
struct OpenRequests {
    begun: u64,
    requests: Vec<(u64, Value, CancellationToken)>,
}

/// One that is being answered until this is dropped.
#[derive(Debug)]
pub(super) struct AnsweringRequest {
    all: ServerRequests,
    number: u64,
    /// The server does not want to know any more.
    pub(super) taken_back: CancellationToken,
    pub(super) room: RequestRoom,
}

/// Whether a request gets the answer that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestRoom {
    Some,
    /// It is only told that there is none.
    None,
}

impl ServerRequests {
    /// `None`: it asks too much at once, and is being told so.
    pub(super) fn begin(&self, id: &Value) -> Option<AnsweringRequest> {
        let mut open = self.lock();
        let room = match open.requests.len() {
            0..MOST => RequestRoom::Some,
            MOST => RequestRoom::None,
            _more => return None,
        };
        open.begun += 1;
        let (number, taken_back) = (open.begun, CancellationToken::new());
        open.requests.push((number, id.clone(), taken_back.clone()));
        Some(AnsweringRequest {
            all: self.clone(),
            number,
            taken_back,
            room,
        })
    }

    pub(super) fn take_back(&self, id: &Value) {
        let open = self.lock();
        for (_, _, taken_back) in open.requests.iter().filter(|it| it.1 == *id) {
            taken_back.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenRequests> {
        self.0.lock()
    }
}

impl Drop for AnsweringRequest {
    fn drop(&mut self) {
        let number = self.number;
        self.all.lock().requests.retain(|it| it.0 != number);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_can_take_back_its_own_and_not_ask_without_end() {
        let theirs = ServerRequests::default();
        let first = theirs.begin(&json!(1)).unwrap();
        let named = theirs.begin(&json!("1")).unwrap();
        theirs.take_back(&json!("1"));
        theirs.take_back(&json!(9));
        assert!(named.taken_back.is_cancelled() && !first.taken_back.is_cancelled());
        let others: Vec<_> = (2..).map_while(|it| theirs.begin(&json!(it))).collect();
        assert_eq!(MOST + 1, others.len() + 2);
        let rooms = others.iter().map(|it| it.room);
        assert_eq!(1, rooms.filter(|it| *it == RequestRoom::None).count());
        drop((first, named));
        let again = theirs.begin(&json!(1)).unwrap();
        assert_eq!(RequestRoom::Some, again.room);
    }
}
