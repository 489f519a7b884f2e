//! Points in the past as people write them: a length of time ago, or a time.

use std::time::Duration;

use crate::span;

const DAY: Duration = Duration::from_secs(86_400);

/// A point in the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastTime {
    Ago(Duration),
    /// Passed on as it is; the daemon reads it.
    Time(String),
}

/// Reads `30m`, `2h`, `7d`, or a time with a date.
pub fn parse(text: &str) -> Result<PastTime, String> {
    if text.contains('T') && text.contains('-') {
        return Ok(PastTime::Time(text.to_owned()));
    }
    let days = text.strip_suffix('d').and_then(|it| it.parse::<u32>().ok());
    if let Some(days) = days.filter(|it| *it > 0) {
        return Ok(PastTime::Ago(DAY * days));
    }
    let refused = || format!("`{text}` is no time (try 30m, 2h, 7d or 2026-11-21T10:00:00Z)");
    span::parse(text)
        .map(PastTime::Ago)
        .map_err(|_other| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let ago = |seconds| Ok(PastTime::Ago(Duration::from_secs(seconds)));
        assert_eq!(ago(1800), parse("30m"));
        assert_eq!(ago(7200), parse("2h"));
        assert_eq!(ago(604_800), parse("7d"));
        let time = "2026-11-21T10:00:00Z";
        assert_eq!(Ok(PastTime::Time(time.to_owned())), parse(time));
        for wrong in ["", "d", "0d", "-1d", "yesterday", "10:00"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
