//! The one place that asks what time it is, and the one that makes new identities.

use std::time::SystemTime;

use aishd_log::time::Timestamp;
use ulid::Ulid;

/// The wall clock, for what people read; order never depends on it.
pub fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everything else is given"
    )]
    let now = SystemTime::now();
    let since_epoch = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// A new identity: sorts by time, and 80 bits of it are random.
pub fn ulid() -> Ulid {
    let millis = u64::try_from(now().0).unwrap_or_default();
    Ulid::from_parts(millis, Ulid::new().random())
}

/// The time as the wire writes it (RFC 3339, UTC, milliseconds).
pub fn rfc3339(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(time) => format!("{time:.3}"),
        Err(_out_of_range) => "1970-01-01T00:00:00.000Z".to_owned(),
    }
}

/// A time as the wire writes it, or with another offset.
pub fn parse(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(time.as_millisecond()))
}

/// The time as people here read it, with the offset from UTC.
pub fn local(at: Timestamp) -> String {
    here(at, "%A, %Y-%m-%d %H:%M:%S %:z")
}

/// The day here. Each is as long as another, so that a request with it takes as many tokens on any.
pub fn local_day(at: Timestamp) -> String {
    here(at, "%Y-%m-%d")
}

fn here(at: Timestamp, format: &str) -> String {
    let zone = jiff::tz::TimeZone::system();
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(time) => time.to_zoned(zone).strftime(format).to_string(),
        Err(_out_of_range) => rfc3339(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        assert_eq!("1970-01-01T00:00:00.000Z", rfc3339(Timestamp(0)));
        assert_eq!(
            "2026-11-21T10:00:00.250Z",
            rfc3339(Timestamp(1_795_255_200_250))
        );
    }
}
