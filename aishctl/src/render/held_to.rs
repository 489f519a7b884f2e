//! A column of what the kernel holds programs to, in tables that have more to say.

use aish_proto::mcp::Profile;

use crate::render::table;

/// A table with that column at this place, where it has anything to tell.
pub(crate) fn columns(
    head: &[&str],
    mut rows: Vec<Vec<String>>,
    at: usize,
    held: &[Option<Profile>],
) -> String {
    let mut head = head.to_vec();
    if held.iter().any(Option::is_some) {
        head.insert(at, "held to");
        for (row, profile) in rows.iter_mut().zip(held) {
            let word = profile.unwrap_or(Profile::Open).word();
            row.insert(at, word.to_owned());
        }
    }
    table::columns(&head, &rows)
}
