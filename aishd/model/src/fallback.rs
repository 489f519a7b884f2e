//! Whether a request that failed goes to another preset: once, only where the server looks as if it
//! was down, and only while nobody has seen anything of its answer.

use crate::reply::{Failure, HttpDetail, Stage};

/// Where the requests of a turn may go once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
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
pub struct Sent {
    /// No text, reasoning or arguments of its answer have been shown.
    pub silent: bool,
    /// It is the second one already.
    pub again: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same request goes to the other preset, because of this.
    Switch {
        way: Way,
        reason: String,
    },
    /// It would, if it was switched on.
    WouldHelp {
        way: Way,
        reason: String,
    },
    Fails,
}

/// Decides; nothing else does.
pub fn decide(failure: &Failure, sent: Sent, way: Option<&Way>) -> Verdict {
    if !sent.silent || sent.again {
        return Verdict::Fails;
    }
    match (way.cloned(), down(failure)) {
        (Some(way), Some(reason)) if way.allowed => Verdict::Switch { way, reason },
        (Some(way), Some(reason)) => Verdict::WouldHelp { way, reason },
        (_, None) | (None, Some(_)) => Verdict::Fails,
    }
}

/// Why the server looks as if it was down, in our own words; `None`: it does not.
pub fn down(failure: &Failure) -> Option<String> {
    Some(match failure {
        Failure::Refused => "connection refused".to_owned(),
        Failure::Unresolved => "host not found".to_owned(),
        Failure::NoRoute => "no route to the host".to_owned(),
        Failure::Closed => "connection closed before the answer".to_owned(),
        Failure::TimedOut(stage) => match stage {
            Stage::Connect => "timed out connecting".to_owned(),
            Stage::FirstByte => "timed out waiting for the first byte".to_owned(),
            Stage::Idle => "timed out, no byte arrived".to_owned(),
            Stage::ContentIdle => "timed out, no content arrived".to_owned(),
        },
        // It understood the request well enough to find it too long.
        Failure::Http {
            detail: HttpDetail::ContextOverflow,
            ..
        } => return None,
        Failure::Http {
            status: status @ (408 | 500..=599),
            ..
        } => format!("HTTP {status}"),
        Failure::Http {
            status: status @ 404,
            detail: HttpDetail::ModelNotFound,
            ..
        } => format!("HTTP {status}, no such model"),
        Failure::Http { .. }
        | Failure::Transport(_)
        | Failure::Api { .. }
        | Failure::Cut
        | Failure::Empty
        | Failure::Config(_)
        | Failure::Key(_)
        | Failure::TooLarge(_)
        | Failure::TooLong(_)
        | Failure::Unreadable(_) => return None,
    })
}

/// What people are told when it happens.
pub fn status(way: &Way, reason: &str) -> String {
    let Way { from, to, .. } = way;
    format!("local {from} failed ({reason}); retrying via {to}")
}

/// What people are told when it could have happened, with what to type.
pub fn offer(way: &Way, reason: &str) -> String {
    let Way { from, to, .. } = way;
    format!(
        "routing.fallback is off: {from} is not answering ({reason}); start it, ask {to} yourself (-m {to}), or let {to} \
         answer when {from} does not (:fallback on, aishctl fallback on)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(allowed: bool) -> Way {
        Way {
            from: "fast".to_owned(),
            to: "cloud".to_owned(),
            to_model_id: "m".to_owned(),
            allowed,
        }
    }

    fn http(status: u16, detail: HttpDetail) -> Failure {
        Failure::Http {
            status,
            message: "model_not_found, HTTP 500, Connection refused".to_owned(),
            retry_after_ms: None,
            detail,
        }
    }

    #[track_caller]
    fn check(failure: &Failure, expected: Option<&str>) {
        assert_eq!(expected, down(failure).as_deref(), "{failure:?}");
        let sent = Sent {
            silent: true,
            again: false,
        };
        let switches = matches!(
            decide(failure, sent, Some(&way(true))),
            Verdict::Switch { .. }
        );
        assert_eq!(expected.is_some(), switches, "{failure:?}");
        let offers = matches!(
            decide(failure, sent, Some(&way(false))),
            Verdict::WouldHelp { .. }
        );
        assert_eq!(expected.is_some(), offers, "{failure:?}");
        for never in [
            decide(
                failure,
                Sent {
                    again: true,
                    ..sent
                },
                Some(&way(true)),
            ),
            decide(
                failure,
                Sent {
                    silent: false,
                    ..sent
                },
                Some(&way(true)),
            ),
            decide(failure, sent, None),
        ] {
            assert_eq!(Verdict::Fails, never, "{failure:?}");
        }
    }

    #[test]
    fn only_a_server_that_looks_down_is_gone_round() {
        let none = HttpDetail::None;
        check(&Failure::Refused, Some("connection refused"));
        check(&Failure::Unresolved, Some("host not found"));
        check(&Failure::NoRoute, Some("no route to the host"));
        let closed = "connection closed before the answer";
        check(&Failure::Closed, Some(closed));
        for stage in [
            Stage::Connect,
            Stage::FirstByte,
            Stage::Idle,
            Stage::ContentIdle,
        ] {
            let reason = down(&Failure::TimedOut(stage)).unwrap();
            assert!(reason.starts_with("timed out"), "{reason}");
            check(&Failure::TimedOut(stage), Some(&reason));
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
        check(&Failure::Cut, None);
        check(&Failure::Transport("TLS: bad certificate".to_owned()), None);
        let text = || "HTTP 503: Connection refused".to_owned();
        for overflow in [false, true] {
            let message = text();
            check(&Failure::Api { message, overflow }, None);
        }
        check(&Failure::Config(text()), None);
        check(&Failure::Key(text()), None);
        check(&Failure::TooLarge(text()), None);
        check(&Failure::Unreadable(text()), None);
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
