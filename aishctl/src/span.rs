//! Lengths of time as people write them: `30s`, `5m`, `500ms`.

use std::time::Duration;

/// Reads a number with `ms`, `s`, `m` or `h`; a bare number is seconds, as for timeout(1).
pub fn parse(text: &str) -> Result<Duration, String> {
    let refused = || format!("`{text}` is no length of time (try 30s, 5m or 500ms)");
    let digits = text
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| refused())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(refused()),
    };
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| refused())?;
    if span.is_zero() || span > Duration::from_secs(365 * 86_400) {
        return Err(refused());
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected_ms: Option<u128>) {
        assert_eq!(expected_ms, parse(text).ok().map(|it| it.as_millis()), "{text}");
    }

    #[test]
    fn reads_what_people_write() {
        check("30s", Some(30_000));
        check("5m", Some(300_000));
        check("500ms", Some(500));
        check("1.5h", Some(5_400_000));
        check("2", Some(2_000));
        for wrong in ["", "s", "-1s", "5 m", "1d", "0s", "1e9", "99999999999h", "."] {
            check(wrong, None);
        }
    }
}
