//! The log: to stderr, where the service manager or a file takes it, and into a ring that clients can read.
//! Whatever is written passes one edge, which cuts out secrets and makes control characters visible.

mod line_ring;
mod outlet;
mod redact;
mod stderr_writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

pub use self::line_ring::{LogRing, RingPage};
use self::outlet::LogOutlet;
pub use self::redact::Redactor;
use self::stderr_writer::{StderrEdge, StderrForm};

/// Text of prompts and answers is logged with this target, at debug and below; see [`LogSettings::content`].
const CONTENT_OFF: &str = "aishd::content=off";
/// Whose lines count at every level: packages whose names begin so. At debug and below other crates print what passes through them, such
/// as what is written to the database or sent to a server, where no setting of ours says what of it may be seen.
const OURS: [&str; 2] = ["aishd", "aish_"];

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineFormat {
    /// Text, in the manner of the journal where stderr is the journal.
    #[default]
    Auto,
    Text,
    Json,
    Journald,
}

/// What is configured about the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// A level, or levels by target: `warn,aishd_store=debug`.
    pub level: String,
    /// Taken at start only.
    pub format: LineFormat,
    /// Values of fields and headers whose names have one of these words are cut out.
    pub redact: Vec<String>,
    /// Whether prompts and answers may be logged, at the level debug.
    pub content: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LineFormat::Auto,
            redact: ["authorization", "key", "token"]
                .map(str::to_owned)
                .to_vec(),
            content: false,
        }
    }
}

/// The log while the daemon runs.
#[derive(Clone, Debug)]
pub struct RunningLog {
    filter: reload::Handle<EnvFilter, Registry>,
    redactor: Redactor,
    ring: LogRing,
    outlet: LogOutlet,
}

/// Dropped at the end, it lets the last lines out.
#[derive(Debug)]
pub struct LastLines(LogOutlet);

impl Drop for LastLines {
    fn drop(&mut self) {
        self.0.flush();
    }
}

impl RunningLog {
    /// Begins to log. `journal_stream` is what the service manager says of the stream that it made for us.
    ///
    /// # Errors
    ///
    /// There is no thread that could write lines.
    pub fn start(settings: &LogSettings, journal_stream: Option<&str>) -> io::Result<Self> {
        let redactor = Redactor::new(&settings.redact);
        let ring = LogRing::default();
        let (filter, handle) = reload::Layer::new(filter(settings));
        let to_journal = match settings.format {
            LineFormat::Journald => true,
            LineFormat::Auto | LineFormat::Json => journal_stream.is_some_and(is_our_stderr),
            LineFormat::Text => false,
        };
        let form = match (settings.format, to_journal) {
            (LineFormat::Json, _) => StderrForm::Json { to_journal },
            (LineFormat::Auto | LineFormat::Text | LineFormat::Journald, true) => {
                StderrForm::Journal
            }
            (LineFormat::Auto | LineFormat::Text | LineFormat::Journald, false) => StderrForm::Text,
        };
        let outlet = LogOutlet::start(io::stderr(), move |count| form.missing(count))?;
        let edge = StderrEdge::new(form, redactor.clone(), outlet.clone(), ring.clone());
        let lines = match form {
            StderrForm::Json { .. } => fmt::layer().json().with_writer(edge).boxed(),
            // The edge writes time and level, each where it is wanted.
            StderrForm::Text | StderrForm::Journal => fmt::layer()
                .with_ansi(false)
                .without_time()
                .with_level(false)
                .with_writer(edge)
                .boxed(),
        };
        let _set_before = tracing_subscriber::registry()
            .with(filter)
            .with(filter_fn(is_shown))
            .with(lines)
            .try_init();
        // What a panic says goes the way of everything else.
        std::panic::set_hook(Box::new(|panic| {
            let thread = std::thread::current();
            let trace = Backtrace::capture();
            if trace.status() == BacktraceStatus::Captured {
                tracing::error!(thread = thread.name(), %trace, "{panic}");
            } else {
                tracing::error!(thread = thread.name(), "{panic}");
            }
        }));
        Ok(Self {
            filter: handle,
            redactor,
            ring,
            outlet,
        })
    }

    /// To be dropped when everything else has ended.
    pub fn last_lines(&self) -> LastLines {
        LastLines(self.outlet.clone())
    }

    /// Takes over what may change while the daemon runs.
    pub fn follow(&self, settings: &LogSettings) {
        self.redactor.name(&settings.redact);
        let _gone = self.filter.reload(filter(settings));
    }

    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    pub fn ring(&self) -> LogRing {
        self.ring.clone()
    }
}

fn filter(settings: &LogSettings) -> EnvFilter {
    let filter =
        EnvFilter::try_new(&settings.level).unwrap_or_else(|_unreadable| EnvFilter::new("info"));
    // Last, because of two that name one target the last one counts.
    match CONTENT_OFF.parse() {
        Ok(off) if !settings.content => filter.add_directive(off),
        Ok(_) | Err(_) => filter,
    }
}

/// Whatever the configured filter says: of crates that are not ours only what is meant for everybody.
fn is_shown(about: &Metadata<'_>) -> bool {
    let from = about.target().split("::").next();
    *about.level() <= Level::INFO
        || from.is_some_and(|it| OURS.iter().any(|ours| it.starts_with(ours)))
}

/// Whether stderr is the stream that the journal reads: `JOURNAL_STREAM` is `device:inode`.
fn is_our_stderr(journal_stream: &str) -> bool {
    let Ok(about) = rustix::fs::fstat(rustix::stdio::stderr()) else {
        return false;
    };
    journal_stream == format!("{}:{}", about.st_dev, about.st_ino)
}
