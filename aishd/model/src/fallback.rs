//! Whether a request that failed goes to another preset: once, only where the server looks as if it
//! was down, and only while nobody has seen anything of its answer.

use crate::reply::{HttpDetail, RequestFailure, TimeoutStage};

/// Where the requests of a turn may go once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackWay {
    /// The preset that is asked first.
    pub from: String,
    /// The preset that is asked then.
    pub to: String,
    /// What the server of that one is asked for.
    pub to_model_id: String,
    /// Whether it is switched on.
    pub allowed: bool,
}

/// How far the request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentSoFar {
    /// No text, reasoning or arguments of its answer have been shown.
    pub silent: bool,
    /// It is the second one already.
    pub again: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FallbackVerdict {
    /// The same request goes to the other preset, because of this.
    Switch {
        way: FallbackWay,
        reason: String,
    },
    /// It would, if it was switched on.
    WouldHelp {
        way: FallbackWay,
        reason: String,
    },
    Fails,
}

/// Decides; nothing else does.
pub fn decide(
    failure: &RequestFailure,
    sent: SentSoFar,
    way: Option<&FallbackWay>,
) -> FallbackVerdict {
    if !sent.silent || sent.again {
        return FallbackVerdict::Fails;
    }
    match (way.cloned(), down(failure)) {
        (Some(way), Some(reason)) if way.allowed => FallbackVerdict::Switch { way, reason },
        (Some(way), Some(reason)) => FallbackVerdict::WouldHelp { way, reason },
        (_, None) | (None, Some(_)) => FallbackVerdict::Fails,
    }
}

/// Why the server looks as if it was down, in our own words; `None`: it does not.
pub fn down(failure: &RequestFailure) -> Option<String> {
    Some(match failure {
        RequestFailure::Refused => "connection refused".to_owned(),
        RequestFailure::Unresolved => "host not found".to_owned(),
        RequestFailure::NoRoute => "no route to the host".to_owned(),
        RequestFailure::Closed => "connection closed before the answer".to_owned(),
        RequestFailure::TimedOut(stage) => match stage {
            TimeoutStage::Connect => "timed out connecting".to_owned(),
            TimeoutStage::FirstByte => "timed out waiting for the first byte".to_owned(),
            TimeoutStage::Idle => "timed out, no byte arrived".to_owned(),
            TimeoutStage::ContentIdle => "timed out, no content arrived".to_owned(),
        },
        // It understood the request well enough to find it too long.
        RequestFailure::Http {
            detail: HttpDetail::ContextOverflow,
            ..
        } => return None,
        RequestFailure::Http {
            status: status @ (408 | 500..=599),
            ..
        } => format!("HTTP {status}"),
        RequestFailure::Http {
            status: status @ 404,
            detail: HttpDetail::ModelNotFound,
            ..
        } => format!("HTTP {status}, no such model"),
        _ => return None,
    })
}

/// What people are told when it happens.
pub fn status(way: &FallbackWay, reason: &str) -> String {
    let FallbackWay { from, to, .. } = way;
    format!("local {from} failed ({reason}); retrying via {to}")
}

/// What people are told when it could have happened, with what to type.
pub fn offer(way: &FallbackWay, reason: &str) -> String {
    let FallbackWay { from, to, .. } = way;
    format!(
        "routing.fallback is off: {from} is not answering ({reason}); start it, ask {to} yourself (-m {to}), or let {to} \
         answer when {from} does not (:fallback on, aishctl fallback on)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(allowed: bool) -> FallbackWay {
        FallbackWay {
            from: "fast".to_owned(),
            to: "cloud".to_owned(),
            to_model_id: "m".to_owned(),
            allowed,
        }
    }

    fn http(status: u16, detail: HttpDetail) -> RequestFailure {
        RequestFailure::Http {
            status,
            message: "model_not_found, HTTP 500, Connection refused".to_owned(),
            retry_after_ms: None,
            detail,
        }
    }

    #[track_caller]
    fn check(failure: &RequestFailure, expected: Option<&str>) {
        assert_eq!(expected, down(failure).as_deref(), "{failure:?}");
        let sent = SentSoFar {
            silent: true,
            again: false,
        };
        let switches = matches!(
            decide(failure, sent, Some(&way(true))),
            FallbackVerdict::Switch { .. }
        );
        assert_eq!(expected.is_some(), switches, "{failure:?}");
        let offers = matches!(
            decide(failure, sent, Some(&way(false))),
            FallbackVerdict::WouldHelp { .. }
        );
        assert_eq!(expected.is_some(), offers, "{failure:?}");
        for never in [
            decide(
                failure,
                SentSoFar {
                    again: true,
                    ..sent
                },
                Some(&way(true)),
            ),
            decide(
                failure,
                SentSoFar {
                    silent: false,
                    ..sent
                },
                Some(&way(true)),
            ),
            decide(failure, sent, None),
        ] {
            assert_eq!(FallbackVerdict::Fails, never, "{failure:?}");
        }
    }

    #[test]
    fn only_a_server_that_looks_down_is_gone_round() {
        let none = HttpDetail::None;
        check(&RequestFailure::Refused, Some("connection refused"));
        check(&RequestFailure::Unresolved, Some("host not found"));
        check(&RequestFailure::NoRoute, Some("no route to the host"));
        let closed = "connection closed before the answer";
        check(&RequestFailure::Closed, Some(closed));
        for stage in [
            TimeoutStage::Connect,
            TimeoutStage::FirstByte,
            TimeoutStage::Idle,
            TimeoutStage::ContentIdle,
        ] {
            let reason = down(&RequestFailure::TimedOut(stage)).unwrap();
            assert!(reason.starts_with("timed out"), "{reason}");
            check(&RequestFailure::TimedOut(stage), Some(&reason));
        }
        for status in [500, 502, 503, 504, 529, 599, 408] {
            check(&http(status, none), Some(&format!("HTTP {status}")));
        }
        let missing = HttpDetail::ModelNotFound;
        check(&http(404, missing), Some("HTTP 404, no such model"));
        for status in [400, 401, 402, 403, 404, 405, 409, 422, 429, 600, 307] {
            check(&http(status, none), None);
        }
        check(&http(400, missing), None);
        check(&http(500, HttpDetail::ContextOverflow), None);
        check(&RequestFailure::Cut, None);
        check(
            &RequestFailure::Transport("TLS: bad certificate".to_owned()),
            None,
        );
        let text = || "HTTP 503: Connection refused".to_owned();
        for overflow in [false, true] {
            let message = text();
            check(&RequestFailure::Api { message, overflow }, None);
        }
        check(&RequestFailure::Config(text()), None);
        check(&RequestFailure::Key(text()), None);
        check(&RequestFailure::TooLarge(text()), None);
        check(&RequestFailure::Unreadable(text()), None);
    }

    #[test]
    fn people_are_told_what_happened_and_what_to_type() {
        let way = way(true);
        assert_eq!(
            "local fast failed (connection refused); retrying via cloud",
            status(&way, "connection refused")
        );
        let offer = offer(&way, "HTTP 503");
        assert!(offer.starts_with("routing.fallback is off: fast is not answering (HTTP 503);"));
        assert!(offer.contains(":fallback on"), "{offer}");
    }
}
