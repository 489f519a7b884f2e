//! A statement for a database that only reads.

/// Words that a statement may have besides names, in any letters.
const FUNCTIONS: &str = "count sum avg min max now version length lower upper date coalesce round abs distinct in values exists cast extract strftime";

/// Words that change something, wherever they stand.
const CHANGES: &str = "insert update delete drop truncate alter create grant revoke copy into vacuum reindex attach detach call do execute load \
    replace merge rename set pragma lock kill shutdown outfile dumpfile analyze begin commit rollback import";

/// Whether a statement certainly only reads. What is not plain is not.
pub(super) fn reads(statement: &str) -> bool {
    let statement = statement.trim().trim_end_matches(';').trim();
    if let Some(command) = statement.strip_prefix('\\') {
        let name = command.split_whitespace().next().unwrap_or_default();
        return matches!(
            name,
            "d" | "dt"
                | "dt+"
                | "d+"
                | "l"
                | "l+"
                | "du"
                | "dn"
                | "di"
                | "dv"
                | "df"
                | "conninfo"
                | "timing"
        ) && !command.contains(['|', '!', '`', '\\']);
    }
    if let Some(command) = statement.strip_prefix('.') {
        let plain = command
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || it == '_' || it == ' ');
        let name = command.split_whitespace().next().unwrap_or_default();
        return plain
            && matches!(
                name,
                "tables"
                    | "schema"
                    | "databases"
                    | "indexes"
                    | "indices"
                    | "dbinfo"
                    | "headers"
                    | "mode"
            );
    }
    let lower = statement.to_lowercase();
    if statement.contains([';', '\\', '`', '$']) || lower.contains("--") || lower.contains("/*") {
        return false;
    }
    let mut words = lower
        .split(|it: char| !(it.is_alphanumeric() || it == '_'))
        .filter(|it| !it.is_empty());
    let begins = words
        .next()
        .is_some_and(|it| matches!(it, "select" | "show" | "describe" | "desc" | "explain"));
    let changes = words.any(|it| CHANGES.split_whitespace().any(|change| change == it));
    begins
        && !changes
        && calls(&lower).all(|it| FUNCTIONS.split_whitespace().any(|known| known == it))
}

/// The names right before parentheses.
fn calls(statement: &str) -> impl Iterator<Item = &str> {
    statement.match_indices('(').filter_map(|(at, _)| {
        let before = statement.get(..at)?.trim_end();
        let name = before
            .rsplit(|it: char| !(it.is_alphanumeric() || it == '_'))
            .next()?;
        let word = matches!(
            name,
            "where"
                | "and"
                | "or"
                | "from"
                | "as"
                | "on"
                | "not"
                | "select"
                | "by"
                | "then"
                | "else"
                | "when"
        );
        (!name.is_empty() && !word).then_some(name)
    })
}
