//! The filter of the log. `tracing` takes almost any word as the name of a target, so that a mistyped level would turn
//! the log off; here it is an error.

use tracing_subscriber::EnvFilter;

use super::table_reader::{ValueMisread, nearest};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether this is a filter.
pub fn check(text: &str) -> Result<(), ValueMisread> {
    if text.trim().is_empty() {
        return Err(ValueMisread::new("the filter of the log is empty"));
    }
    for part in text.split(',').map(str::trim) {
        let level = match part.rsplit_once('=') {
            Some((_, level)) if !part.ends_with(']') => level.trim(),
            Some(_) => continue,
            None if part.contains(['[', '{', '"']) => continue,
            None => part,
        };
        if !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            return Err(ValueMisread {
                message: format!("the filter of the log has no level `{level}`"),
                label: Some(match nearest(&level.to_ascii_lowercase(), &LEVELS) {
                    Some(level) => format!("did you mean `{level}`?"),
                    None => format!("there are: {}", LEVELS.join(", ")),
                }),
            });
        }
    }
    EnvFilter::try_new(text).map(|_filter| ()).map_err(|error| {
        ValueMisread::new(format!("the filter of the log cannot be read: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_levels_of_targets() {
        for text in [
            "info",
            "WARN",
            "aishd=debug,info",
            "aishd_store=off",
            "info,aishd=trace",
            "aishd[turn]=debug",
        ] {
            assert_eq!(Ok(()), check(text), "{text}");
        }
        for text in [
            "",
            " ",
            "inof",
            "aishd",
            "aishd=dbug",
            "info,,",
            "aishd=debug,loud",
            "x[=info",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
