//! `aishd store look`: the store as it lies there, for `aishctl doctor` where no daemon runs that could be asked.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use aishd_store::inspection::{StoreLook, WholeReading, look};
use serde::Serialize;

/// Somebody waits for it.
const WITHIN: Duration = Duration::from_secs(2);

/// One line of a report, as `daemon/doctor` has them.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ReportLine {
    check: &'static str,
    outcome: &'static str,
    detail: String,
    fix: Option<&'static str>,
}

pub(super) fn run(store: &Path) {
    let found = look(store, Instant::now() + WITHIN);
    let check = report_line(&store.display().to_string(), found);
    let text = serde_json::to_string(&check).unwrap_or_default();
    let _nobody_reads = writeln!(std::io::stdout(), "{text}");
}

fn report_line(place: &str, found: StoreLook) -> ReportLine {
    let check = |outcome, detail, fix| ReportLine {
        check: "store",
        outcome,
        detail,
        fix,
    };
    match found {
        StoreLook::Nothing => check("ok", format!("{place}: there is none yet"), None),
        StoreLook::Whole(whole) => {
            let detail = format!("{place}: {}", whole_told(&whole));
            let repaired = !whole.has_index || whole.torn > 0;
            let outcome = if repaired { "warn" } else { "ok" };
            let fix = repaired.then_some("nothing: the next start repairs it");
            check(outcome, detail, fix)
        }
        StoreLook::Newer { found, known } => check(
            "fail",
            format!("{place} has format {found}, and this aishd knows formats up to {known}"),
            Some("install the aishd that wrote it"),
        ),
        StoreLook::Broken(why) => check(
            "fail",
            format!("{place}: {why}; nothing was changed"),
            Some(
                "aishctl store check says what; then aishctl store repair, or aishctl restore BACKUP",
            ),
        ),
    }
}

fn whole_told(whole: &WholeReading) -> String {
    let WholeReading {
        journal_bytes,
        conversations,
        torn,
        has_index,
        is_part,
    } = whole;
    let size = journal_bytes >> 10;
    let mut text = if *is_part {
        format!("journal of {size} KiB; what was read of it is whole")
    } else {
        let plural = if *conversations == 1 { "" } else { "s" };
        format!("{conversations} conversation{plural}, journal of {size} KiB, all of it whole")
    };
    if *torn > 0 {
        text.push_str(&format!("; a last write of {torn} bytes was not finished"));
    }
    if !has_index {
        text.push_str("; the index is missing");
    }
    text
}
