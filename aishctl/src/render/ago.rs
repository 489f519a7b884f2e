//! How long ago something was, in a word that is the same in every language and time zone.

use std::time::{Duration, SystemTime};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// What is older has its day.
const OLD: u64 = 30 * DAY;

/// The time that things are compared with.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock of the daemon's packages is none of a client's"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// `now`, `5 min`, `3 h`, `2 d`, and the day (UTC) of what is longer ago. A time that is none stays as it is.
pub(crate) fn ago(time: &str, now: SystemTime) -> String {
    let Ok(then) = humantime::parse_rfc3339(time) else {
        return time.to_owned();
    };
    // A clock that was set back is no reason for a word about the future.
    let passed = now.duration_since(then).unwrap_or(Duration::ZERO).as_secs();
    match passed {
        0..MINUTE => "now".to_owned(),
        MINUTE..HOUR => format!("{} min", passed / MINUTE),
        HOUR..DAY => format!("{} h", passed / HOUR),
        DAY..OLD => format!("{} d", passed / DAY),
        _ => time.get(..10).unwrap_or(time).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_word() {
        let now = humantime::parse_rfc3339("2025-06-27T12:00:00Z").unwrap();
        for (time, expected) in [
            ("2025-06-27T11:59:01Z", "now"),
            ("2025-06-27T12:09:00Z", "now"),
            ("2025-06-27T11:01:00Z", "59 min"),
            ("2025-06-27T09:00:00.500Z", "2 h"),
            ("2025-06-20T12:00:00Z", "7 d"),
            ("2025-01-02T23:00:00Z", "2025-01-02"),
            ("odd", "odd"),
        ] {
            assert_eq!(expected, ago(time, now));
        }
    }
}
