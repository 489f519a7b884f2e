//! Lists that come in pages: all of them, and no list without an end.

use std::io::{self, Write};
use std::time::Duration;

use aishd_mcp_messages::remarks::RemarkList;
use serde_json::{Map, Value, json};

const MAX_PAGES: usize = 100;
const MAX_CURSOR_BYTES: usize = 4 << 10;
/// Entries of one list; more than is taken of anything.
const MAX_ENTRIES: usize = 4096;
/// All entries of one list, as JSON.
const MAX_BYTES: usize = 8 << 20;

/// A list while it is fetched: `next` gives the params of a request, `take` gets its result.
#[derive(Debug)]
pub(super) struct ListPages {
    method: &'static str,
    field: &'static str,
    seen: Vec<String>,
    done: bool,
    /// What there is room for.
    bytes: usize,
    list: FetchedList,
}

/// All entries of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FetchedList {
    pub(super) entries: Vec<Value>,
    /// What was odd.
    pub(super) remarks: RemarkList,
    /// For how long it is to be believed, where the server says so (`ttlMs`); of its pages the shortest.
    pub(super) holds: Option<Duration>,
}

impl ListPages {
    /// Of the list that `method` gives, whose entries are in `field`.
    pub(super) fn new(method: &'static str, field: &'static str) -> Self {
        Self {
            method,
            field,
            seen: vec![],
            done: false,
            bytes: MAX_BYTES,
            list: FetchedList::default(),
        }
    }

    pub(super) fn next(&self) -> Option<Map<String, Value>> {
        if self.done {
            return None;
        }
        let mut params = Map::new();
        if let Some(cursor) = self.seen.last() {
            params.insert("cursor".to_owned(), json!(cursor));
        }
        Some(params)
    }

    pub(super) fn take(&mut self, mut page: Value) {
        let (method, field) = (self.method, self.field);
        match page.get_mut(field).map(Value::take) {
            Some(Value::Array(entries)) => {
                if let Err(why) = self.add(entries) {
                    self.stop(why);
                    return;
                }
            }
            _other => {
                let remark = format!("its answer to {method} has no list of {field}");
                self.list.remarks.push(remark);
            }
        }
        let holds = page.get("ttlMs").and_then(Value::as_u64);
        let holds = holds.map(Duration::from_millis).into_iter();
        self.list.holds = holds.chain(self.list.holds).min();
        let next = page.get("nextCursor").and_then(Value::as_str);
        let Some(next) = next.filter(|it| !it.is_empty()) else {
            self.done = true;
            return;
        };
        let stop = if next.len() > MAX_CURSOR_BYTES {
            Some("a cursor of its is too long")
        } else if self.seen.iter().any(|it| it == next) {
            Some("its pages go in a circle")
        } else if self.seen.len() + 1 >= MAX_PAGES {
            Some("it has more than 100 pages")
        } else {
            None
        };
        if let Some(why) = stop {
            self.stop(why);
        }
        self.seen.push(next.to_owned());
    }

    /// Takes as many as there is room for, and says why it takes no more.
    fn add(&mut self, entries: Vec<Value>) -> Result<(), &'static str> {
        for entry in entries {
            if self.list.entries.len() >= MAX_ENTRIES {
                return Err("it has more than 4096 entries");
            }
            let left = self.bytes.checked_sub(bytes(&entry));
            self.bytes = left.ok_or("it is longer than 8 MiB")?;
            self.list.entries.push(entry);
        }
        Ok(())
    }

    fn stop(&mut self, why: &str) {
        let remark = format!("{}: {why}; what came before is used", self.method);
        self.list.remarks.push(remark);
        self.done = true;
    }

    pub(super) fn list(self) -> FetchedList {
        self.list
    }
}

/// How long it is as JSON, which is about what it was sent in.
fn bytes(value: &Value) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither can fail: the keys are texts, and nothing is written.
    let _counted = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: impl Fn(usize) -> Value, entries: usize, asked: usize, remark: &str) {
        let mut pages = ListPages::new("x/list", "items");
        let mut count = 0;
        while let Some(_params) = pages.next() {
            count += 1;
            pages.take(page(count));
        }
        let list = pages.list();
        assert_eq!((entries, asked), (list.entries.len(), count));
        let said = list.remarks.lines().join("; ");
        assert!(
            said.contains(remark) && said.is_empty() == remark.is_empty(),
            "{said}"
        );
    }

    /// 100 pages, cursors of 4 KiB, and no circle.
    #[test]
    fn every_list_comes_to_an_end() {
        let page = |next: Value| json!({"items": [1, 2], "nextCursor": next});
        check(|_| page(Value::Null), 2, 1, "");
        let three = |n: usize| {
            if n < 3 {
                json!(n.to_string())
            } else {
                json!("")
            }
        };
        check(|n| page(three(n)), 6, 3, "");
        check(
            |n| page(json!(n.to_string())),
            200,
            100,
            "more than 100 pages",
        );
        check(|_| page(json!("same")), 4, 2, "in a circle");
        check(|_| page(json!("x".repeat(5000))), 2, 1, "too long");
        check(|_| json!({"items": 7}), 0, 1, "no list of items");
        check(|_| json!([]), 0, 1, "no list of items");
    }

    /// Neither many entries nor long ones, on one page or on several.
    #[test]
    fn a_list_has_so_many_entries_of_so_many_bytes() {
        let many = |count: usize| json!({"items": vec![0; count], "nextCursor": null});
        check(|_| many(MAX_ENTRIES), MAX_ENTRIES, 1, "");
        check(|_| many(150_000), MAX_ENTRIES, 1, "more than 4096 entries");
        let more = |n: usize| json!({"items": vec![0; 3000], "nextCursor": n.to_string()});
        check(more, MAX_ENTRIES, 2, "more than 4096 entries");
        let long = |n: usize| json!({"items": ["x".repeat(3 << 20)], "nextCursor": n.to_string()});
        check(long, 2, 3, "longer than 8 MiB");
    }
}
