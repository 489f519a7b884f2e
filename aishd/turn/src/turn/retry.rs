//! A request that its server cannot answer just now is sent again after a pause, a few times, as long as nothing of an
//! answer has come.

use std::time::Duration;

use aishd_model::reply::{HttpDetail, RequestFailure};

/// The longest pause that is waited for when a server asks for one (`Retry-After`, RFC 9110 section 10.2.3).
const LONGEST_ASKED: Duration = Duration::from_secs(20);
/// Where it asks for none; four times as long before each further try.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(8);
/// What servers call it when somebody has to pay first. That does not pass by itself.
const UNPAID: [&str; 3] = ["insufficient_quota", "billing", "credit"];

/// How often a request may be sent again by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retries {
    /// Of the request that is under way.
    done: u32,
    most: u32,
}

impl Retries {
    /// Another number; what was sent again counts.
    pub(super) fn set_most(&mut self, most: u32) {
        self.most = most;
    }

    /// What the preset says; one pause that a server asks for is waited for all the same.
    pub(super) fn at_most(most: u32) -> Self {
        Self { done: 0, most }
    }

    /// The request was answered; the next one begins anew.
    pub(super) fn over(&mut self) {
        self.done = 0;
    }

    /// How long to wait before it is sent again; `None`: it is not. `goes_elsewhere`: another server is asked at once.
    pub(super) fn pause(
        &mut self,
        failure: &RequestFailure,
        goes_elsewhere: bool,
    ) -> Option<Duration> {
        if is_unpaid(failure) {
            return None;
        }
        let (pause, most) = match asked_for(failure) {
            Some(pause) if goes_elsewhere => (pause, 1),
            Some(pause) => (pause, self.most.max(1)),
            None if passes(failure) && !goes_elsewhere => {
                let longer = 4_u32.saturating_pow(self.done);
                (FIRST.saturating_mul(longer).min(LONGEST), self.most)
            }
            None => return None,
        };
        if self.done >= most || pause > LONGEST_ASKED {
            return None;
        }
        self.done += 1;
        Some(pause)
    }
}

/// The pause that the server asked for.
fn asked_for(failure: &RequestFailure) -> Option<Duration> {
    match failure {
        RequestFailure::Http {
            status: 429 | 503 | 529,
            retry_after_ms: Some(ms),
            ..
        } => Some(Duration::from_millis(*ms)),
        _ => None,
    }
}

/// Whether the same request may well be answered a moment later.
fn passes(failure: &RequestFailure) -> bool {
    matches!(
        failure,
        RequestFailure::Http {
            status: 408 | 429 | 500 | 502..=504 | 529,
            detail: HttpDetail::None,
            ..
        } | RequestFailure::Closed
            | RequestFailure::Cut
    )
}

fn is_unpaid(failure: &RequestFailure) -> bool {
    let RequestFailure::Http { message, .. } = failure else {
        return false;
    };
    let message = message.to_lowercase();
    UNPAID.iter().any(|it| message.contains(it))
}
