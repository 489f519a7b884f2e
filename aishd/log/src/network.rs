//! Which hosts a contained program reached by their names, and which it was not given. Names come here parsed: they are
//! letters, digits and few signs, and nothing in them moves a cursor.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// So many hosts of each kind are listed.
const LISTED: usize = 20;
/// So many of them stand in the line for people.
const SHOWN: usize = 5;
/// Ports that go without saying.
const USUAL_PORTS: [&str; 2] = [":443", ":80"];

/// What went through the listener of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUse {
    /// Hosts that were connected to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<HostCount>,
    /// Hosts that a rule or a person did not want reached, or that nobody allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<HostCount>,
    /// Hosts that were allowed and could not be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<HostCount>,
    /// Connections to hosts behind the listed ones, whatever became of them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub others: u64,
}

/// Connections to one host and port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCount {
    /// `example.org:443`
    pub host: String,
    pub times: u64,
    /// Both ways together.
    #[serde(default, skip_serializing_if = "is_none")]
    pub bytes: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl NetworkUse {
    pub fn is_empty(&self) -> bool {
        self.reached.is_empty()
            && self.refused.is_empty()
            && self.failed.is_empty()
            && self.others == 0
    }

    /// Counts what another program did as well.
    pub fn add(&mut self, other: &Self) {
        for (into, from) in [
            (&mut self.reached, &other.reached),
            (&mut self.refused, &other.refused),
            (&mut self.failed, &other.failed),
        ] {
            for count in from {
                let known = into.iter().position(|it| it.host == count.host);
                match known {
                    Some(at) => {
                        let known = &mut into[at];
                        known.times = known.times.saturating_add(count.times);
                        known.bytes = known.bytes.saturating_add(count.bytes);
                    }
                    None if into.len() < LISTED => into.push(count.clone()),
                    None => self.others = self.others.saturating_add(count.times),
                }
            }
        }
        self.others = self.others.saturating_add(other.others);
    }

    /// What it was not given, and nothing else.
    pub fn only_refused(&self) -> Self {
        Self {
            refused: self.refused.clone(),
            ..Self::default()
        }
    }

    /// For people, in one line: `crates.io 3× (1.2 MB) · refused evil.example 2×`. `None`: there was nothing.
    pub fn line(&self) -> Option<String> {
        let kinds = [
            ("", &self.reached),
            ("refused ", &self.refused),
            ("not reached: ", &self.failed),
        ];
        let mut parts: Vec<String> = kinds
            .into_iter()
            .filter(|(_, hosts)| !hosts.is_empty())
            .map(|(word, hosts)| format!("{word}{}", few(hosts)))
            .collect();
        if self.others > 0 {
            parts.push(format!("{} connections to others", self.others));
        }
        (!parts.is_empty()).then(|| parts.join(" · "))
    }
}

fn few(hosts: &[HostCount]) -> String {
    let mut text = String::new();
    for it in hosts.iter().take(SHOWN) {
        let host = short(&it.host);
        let comma = if text.is_empty() { "" } else { ", " };
        let _infallible = write!(text, "{comma}{host} {}×", it.times);
        if it.bytes > 0 {
            let _infallible = write!(text, " ({})", size(it.bytes));
        }
    }
    if let Some(more @ 1..) = hosts.len().checked_sub(SHOWN) {
        let _infallible = write!(text, " and {more} more");
    }
    text
}

/// A host without a port that goes without saying.
pub fn short(host: &str) -> &str {
    let port = USUAL_PORTS.iter().find_map(|it| host.strip_suffix(it));
    port.unwrap_or(host)
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut tenths, mut unit) = (bytes / 100, UNITS[0]);
    for it in &UNITS[1..] {
        if tenths < 10_000 {
            break;
        }
        (tenths, unit) = (tenths / 1000, it);
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(host: &str, times: u64, bytes: u64) -> HostCount {
        let host = host.to_owned();
        HostCount { host, times, bytes }
    }

    #[test]
    fn people_read_it_in_one_line() {
        let mut used = NetworkUse::default();
        assert_eq!(None, used.line());
        used.reached.push(count("crates.io:443", 3, 1_234_567));
        used.refused.push(count("evil.example:443", 2, 0));
        assert_eq!(
            Some("crates.io 3× (1.2 MB) · refused evil.example 2×"),
            used.line().as_deref()
        );
        used.failed.push(count("[2001:db8::1]:8080", 1, 0));
        used.others = 4;
        assert_eq!(
            Some(
                "crates.io 3× (1.2 MB) · refused evil.example 2× · not reached: [2001:db8::1]:8080 1× · 4 connections to others"
            ),
            used.line().as_deref()
        );
        assert_eq!(
            Some("refused evil.example 2×"),
            used.only_refused().line().as_deref()
        );
    }

    #[test]
    fn what_commands_did_is_counted_together_and_stays_short() {
        let mut all = NetworkUse::default();
        for at in 0..30 {
            let mut one = NetworkUse::default();
            one.refused.push(count(&format!("h{at}.example:443"), 1, 0));
            one.refused.push(count("h0.example:443", 1, 0));
            all.add(&one);
        }
        assert_eq!((LISTED, 10), (all.refused.len(), all.others));
        assert_eq!(31, all.refused[0].times);
        let line = all.line().unwrap();
        assert!(line.contains(" and 15 more") && line.len() < 200, "{line}");
    }

    #[test]
    fn sizes_have_three_digits_or_so() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (1_250_000, "1.2 MB"),
            (5_000_000_000, "5.0 GB"),
        ] {
            assert_eq!(expected, size(bytes));
        }
    }
}
