//! The environment variables that change how the suites run. No other file of the tests reads any.

use std::ffi::OsString;

/// `UPDATE_EXPECT=1`: expected texts and documents are rewritten from what really happened.
pub fn updating() -> bool {
    read("UPDATE_EXPECT").is_some_and(|it| it == "1")
}

/// `AISH_TEST_SEED`: repeats a random run.
pub fn seed() -> Option<u64> {
    read("AISH_TEST_SEED").map(|text| {
        text.to_str()
            .and_then(|it| it.parse().ok())
            .unwrap_or_else(|| panic!("AISH_TEST_SEED must be a number, not {text:?}"))
    })
}

/// The cargo that runs the suites; the one on the `PATH` where none does.
pub fn cargo() -> OsString {
    read("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A count that makes a suite longer, such as `AISH_TEST_KILLS`.
pub fn count(name: &str) -> Option<usize> {
    read(name).map(|text| {
        text.to_str()
            .and_then(|it| it.parse().ok())
            .unwrap_or_else(|| panic!("{name} must be a number, not {text:?}"))
    })
}

/// `AISH_TEST_BODIES`: where the upstream keeps the requests that it gets, for `tests/check-bodies.py`.
pub fn bodies() -> Option<OsString> {
    read("AISH_TEST_BODIES")
}

/// `AISH_TEST_KILLS`: how often a program is killed at each point; three times in the short form.
pub fn kills() -> usize {
    count("AISH_TEST_KILLS").unwrap_or(3)
}

/// `AISH_TEST_RACES`: how often two answer the same question at the same moment; 300 times in the short form.
pub fn races() -> usize {
    count("AISH_TEST_RACES").unwrap_or(300)
}

/// `AISH_TEST_BULK`: how many tenths there are of what is said to see what stays in memory; three in the short form.
pub fn bulk() -> usize {
    count("AISH_TEST_BULK").unwrap_or(3)
}

/// The time zone of the person who runs the tests, and the clock if `tests/days` has moved it (libfaketime): every
/// program of a test lives in both.
pub fn clock_and_zone() -> Vec<(OsString, OsString)> {
    let zone = read("AISH_TEST_ZONE").unwrap_or_else(|| "UTC".into());
    let mut all = vec![("TZ".into(), zone)];
    if is_clock_moved() {
        let names = [
            "LD_PRELOAD",
            "FAKETIME",
            "DONT_FAKE_MONOTONIC",
            "NO_FAKE_STAT",
        ];
        all.extend(
            names
                .iter()
                .filter_map(|it| Some(((*it).into(), read(it)?))),
        );
    }
    all
}

/// Whether that clock was moved. The library that does it opens files of its own.
pub fn is_clock_moved() -> bool {
    read("FAKETIME").is_some()
}

fn read(name: &str) -> Option<OsString> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the tests read the environment"
    )]
    std::env::var_os(name)
}
