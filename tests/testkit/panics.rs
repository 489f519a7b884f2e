//! A panic is never a way of telling: none of our programs may have had one, whatever a test was about.

use std::thread;

/// What the standard library says of each panic, ahead of its place in the sources.
const SAYS: &str = "panicked at ";

/// Where panics are caught by design: sled may panic on damaged files, and the store answers for it.
const CAUGHT: &str = "/sled-";

/// Fails the test when one of our programs has panicked, unless it fails already.
#[track_caller]
pub(crate) fn refuse_in(what: &str, text: &str) {
    let found = first_in(text);
    assert!(
        found.is_none() || thread::panicking(),
        "{what} tells of a panic: {}",
        found.unwrap_or_default()
    );
}

/// The line of the first panic that nobody planned for.
fn first_in(text: &str) -> Option<&str> {
    text.lines().find(|line| {
        line.split_once(SAYS)
            .and_then(|(_, place)| place.split_whitespace().next())
            .is_some_and(|place| place.contains(".rs:") && !place.contains(CAUGHT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_ours_is_found_and_one_of_the_database_is_not() {
        let ours = "ERROR thread=\"main\" panicked at aishd/broker/src/error.rs:7:9: no";
        let cases = [
            ("all is well\n", None),
            ("somebody panicked at noon\n", None),
            (
                "INFO x\nERROR panicked at /r/sled-0.34.7/src/pagecache/mod.rs:1:1:\n",
                None,
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(expected, first_in(text), "{text}");
        }
        assert_eq!(Some(ours), first_in(&format!("INFO x\n{ours}\nINFO y\n")));
    }
}
