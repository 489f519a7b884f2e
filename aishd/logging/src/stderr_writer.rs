//! The one place where lines leave: each as a whole, without secrets, on one row.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use aishd_platform::clock;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::line_ring::LogRing;
use super::outlet::LogOutlet;
use super::redact::Redactor;

/// How lines are written to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StderrForm {
    Text,
    /// The journal has a clock of its own; it takes the level as a prefix.
    Journal,
    Json {
        to_journal: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct StderrEdge(Arc<EdgeInner>);

#[derive(Debug)]
struct EdgeInner {
    form: StderrForm,
    redactor: Redactor,
    outlet: LogOutlet,
    ring: LogRing,
}

/// One line on its way out; it leaves when it is dropped.
#[derive(Debug)]
pub(super) struct OutgoingLine {
    edge: Arc<EdgeInner>,
    level: Level,
    bytes: Vec<u8>,
}

impl StderrEdge {
    pub(super) fn new(
        form: StderrForm,
        redactor: Redactor,
        outlet: LogOutlet,
        ring: LogRing,
    ) -> Self {
        Self(Arc::new(EdgeInner {
            form,
            redactor,
            outlet,
            ring,
        }))
    }

    fn line(&self, level: Level) -> OutgoingLine {
        OutgoingLine {
            edge: self.0.clone(),
            level,
            bytes: vec![],
        }
    }
}

impl<'a> MakeWriter<'a> for StderrEdge {
    type Writer = OutgoingLine;

    fn make_writer(&'a self) -> OutgoingLine {
        self.line(Level::INFO)
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> OutgoingLine {
        self.line(*about.level())
    }
}

impl Write for OutgoingLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutgoingLine {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes);
        let text = text.trim_end_matches('\n');
        if text.is_empty() {
            return;
        }
        let text = one_row(&self.edge.redactor.redact(text));
        let (written, kept) = self.edge.form.finish(self.level, text);
        self.edge.outlet.put(written);
        self.edge.ring.push(&kept);
    }
}

impl StderrForm {
    /// The line as it is written, and as it is kept.
    fn finish(self, level: Level, text: String) -> (String, String) {
        let dated = |text: &str| format!("{} {level:>5} {text}", clock::rfc3339(clock::now()));
        match self {
            Self::Text => {
                let line = dated(&text);
                (line.clone(), line)
            }
            Self::Journal => (format!("<{}>{text}", priority(level)), dated(&text)),
            Self::Json { to_journal: true } => (format!("<{}>{text}", priority(level)), text),
            Self::Json { to_journal: false } => (text.clone(), text),
        }
    }

    /// The line that stands where so many are missing.
    pub(super) fn missing(self, count: u64) -> String {
        let plural = if count == 1 { "" } else { "s" };
        let said = format!("{count} line{plural} dropped: nobody read them in time");
        let text = match self {
            Self::Text | Self::Journal => format!("{}: {said}", module_path!()),
            Self::Json { .. } => serde_json::json!({
                "timestamp": clock::rfc3339(clock::now()),
                "level": "WARN",
                "fields": {"message": said, "count": count},
                "target": module_path!(),
            })
            .to_string(),
        };
        self.finish(Level::WARN, text).0
    }
}

/// As syslog numbers them (sd-daemon(3)).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// Control characters made visible, so that nobody's text begins a line of its own or speaks to a terminal.
fn one_row(text: &str) -> String {
    let mut row = String::with_capacity(text.len());
    for sign in text.chars() {
        if sign.is_control() && sign != '\t' {
            let _infallible = write!(row, "{}", sign.escape_default());
        } else {
            row.push(sign);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogSettings;

    /// What is kept of a line that says `text`.
    fn redacted(form: StderrForm, text: &str) -> String {
        let ring = LogRing::default();
        let redactor = Redactor::new(&LogSettings::default().redact);
        redactor.learn("s3cret-value");
        let outlet = LogOutlet::start(io::sink(), |_| String::new()).unwrap();
        let edge = StderrEdge::new(form, redactor, outlet, ring.clone());
        let mut line = edge.line(Level::WARN);
        line.write_all(text.as_bytes()).unwrap();
        drop(line);
        let page = ring.after(0, usize::MAX);
        page.lines
            .first()
            .map_or_else(String::new, |it| it.to_string())
    }

    #[test]
    fn a_line_has_a_time_a_level_and_no_secret() {
        let line = redacted(StderrForm::Journal, "it said s3cret-value\n");
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.ends_with('Z'), "{line}");
        assert_eq!(" WARN it said [redacted]", rest);
    }

    #[test]
    fn nobody_else_begins_a_line_or_speaks_to_a_terminal() {
        let line = redacted(StderrForm::Text, "said: a\n<0>b\u{1b}[2Jc\u{85}d\te\n");
        assert!(
            line.ends_with("said: a\\n<0>b\\u{1b}[2Jc\\u{85}d\te"),
            "{line}"
        );
        assert_eq!("", redacted(StderrForm::Text, "\n"));
    }

    #[test]
    fn a_gap_is_a_line_like_others() {
        let text = StderrForm::Journal.missing(1);
        assert!(
            text.starts_with("<4>") && text.ends_with("1 line dropped: nobody read them in time")
        );
        let value: serde_json::Value =
            serde_json::from_str(&StderrForm::Json { to_journal: false }.missing(7)).unwrap();
        assert_eq!(
            (7, "WARN"),
            (
                value["fields"]["count"].as_u64().unwrap(),
                value["level"].as_str().unwrap()
            )
        );
    }

    #[test]
    fn json_stays_json() {
        let text = r#"{"fields":{"api_key":"abc","n":1}}"#;
        let line = redacted(StderrForm::Json { to_journal: false }, text);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!("[redacted]", value["fields"]["api_key"]);
        assert_eq!(1, value["fields"]["n"]);
    }
}
