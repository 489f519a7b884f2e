//! The rules of this repository as tests. Each failure says what to do about it.

#![expect(
    clippy::unwrap_used,
    reason = "a rule that cannot be looked at is not kept"
)]

mod circles;
mod figures;
mod map;
mod packages;
mod places;
mod protocol;
mod references;
mod shape;

/// Fails with every finding at once, and with what to do.
#[track_caller]
fn none(findings: &[String], fix: &str) {
    assert!(
        findings.is_empty(),
        "\n{}\nfix: {fix}\n",
        findings.join("\n")
    );
}

/// The code of a file: no comments, no tests at its end. Lines keep their numbers.
fn code(text: &str) -> Vec<&str> {
    let begins_tests = |line: &str| line.ends_with("mod tests {") && !line.starts_with(' ');
    let tests = text.lines().position(begins_tests);
    // The attribute is the line before.
    let tests = tests.map_or(usize::MAX, |it| it.saturating_sub(1));
    text.lines()
        .take(tests)
        .map(|line| match line.find("//") {
            // An address is no comment.
            Some(at) if !line[..at].ends_with(':') => &line[..at],
            Some(_) | None => line,
        })
        .collect()
}
