//! Times of the wire as numbers.

const DAY_MS: i64 = 86_400_000;

/// Milliseconds since 1970 of a time as the daemon writes it, `2026-11-22T14:02:11.123Z`. `None`: it is none.
pub(super) fn millis(time: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = time.get(from..to)?;
        let all = digits.bytes().all(|it| it.is_ascii_digit());
        all.then(|| digits.parse().ok()).flatten()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let millis = number(20, 23).unwrap_or(0);
    let of_day = ((hour * 60 + minute) * 60 + second) * 1000 + millis;
    Some(days(year, month, day) * DAY_MS + of_day)
}

/// Days since 1970 in the Gregorian calendar, with years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// For people: `2026-11-22 14:02:11 UTC`.
pub(super) fn to_minute(time: &str) -> String {
    let parts = time.get(..10).zip(time.get(11..19));
    parts.map_or_else(
        || time.to_owned(),
        |(date, of_day)| format!("{date} {of_day} UTC"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_numbers() {
        for (time, expected) in [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("1970-01-02T00:00:01Z", Some(86_401_000)),
            ("2000-02-29T12:00:00.500Z", Some(951_825_600_500)),
            ("2026-11-22T14:02:11.123Z", Some(1_795_356_131_123)),
            ("", None),
            ("now", None),
            ("20x6-11-22T14:02:11.123Z", None),
        ] {
            assert_eq!(expected, millis(time), "{time}");
        }
        assert_eq!(
            "2026-11-22 14:02:11 UTC",
            to_minute("2026-11-22T14:02:11.123Z")
        );
    }
}
