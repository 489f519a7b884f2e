//! Servers that are children: one JSON message a line on its pipes, its errors in a ring for people.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aishd_log::profile::Profile;
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::settings;
use aishd_process::child::Child;
use aishd_process::spec::{ChildExit, ChildSpec, StandardStream};
use aishd_profile::{ChildNetwork, HeldChild, ProfileError, ProfileGround, ProfileWish};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::error::WireFailure;
use super::inbox::{Inbox, MessageOrigin};
use super::message;
use super::secrets::ServerSecrets;
use super::sse::MAX_LINE_BYTES;
use super::stderr_ring::StderrRing;

/// Messages that wait for a child that does not read; who comes then waits for its own deadline.
const OUTGOING: usize = 64;
const READ_BYTES: usize = 64 << 10;
/// Time to end by itself once its input is closed; then it is told to.
const GRACE: Duration = Duration::from_secs(1);
const MAX_SAID_CHARS: usize = 200;

/// Our end of a child.
#[derive(Debug)]
pub(super) struct StdioTransport {
    lines: mpsc::Sender<String>,
    secrets: ServerSecrets,
}

/// Starts the child. What runs with it is in `pumps`, and ends after `stop`, when nothing of the child is left.
pub(super) async fn start(
    profiles: &ProfileGround,
    (alias, server): (&Alias, &settings::StdioServerSettings),
    inbox: &Arc<Inbox>,
    log: &StderrRing,
    secrets: ServerSecrets,
    stop: CancellationToken,
) -> Result<(StdioTransport, JoinSet<()>), WireFailure> {
    let cwd = server
        .cwd
        .clone()
        .unwrap_or_else(|| Path::new("/").to_owned());
    let mut spec = ChildSpec::new(&server.command, cwd);
    spec.args.clone_from(&server.args);
    spec.env.clone_from(&server.env);
    spec.provider = Some(alias.as_str().into());
    spec.stdin = StandardStream::Piped;
    spec.stderr = StandardStream::Piped;
    let roots: Vec<PathBuf> = server.cwd.iter().cloned().collect();
    let wish = ProfileWish {
        profile: server.contain.profile,
        roots: &roots,
        write: &server.contain.write,
        programs: &[],
        hidden: &[],
        hosts: Some(&server.contain.hosts),
        provider: Some(alias),
    };
    let spawned = profiles.spawn(spec, wish).await;
    let HeldChild { mut child, network } = spawned.map_err(|it| unstarted(&it))?;
    let (lines, outgoing) = mpsc::channel(OUTGOING);
    let mut pumps = JoinSet::new();
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
        return Err(WireFailure::NotConnected(
            "its pipes are missing".to_owned(),
        ));
    };
    log.push(&match server.contain.profile {
        Profile::Open => format!("started as process {}", child.pid()),
        held => format!(
            "started as process {} under the profile {held}",
            child.pid()
        ),
    });
    pumps.spawn(write(stdin, outgoing, stop.clone()));
    pumps.spawn(keep_errors(stderr, log.clone()));
    let last_words = LastWords {
        log: log.clone(),
        secrets: secrets.clone(),
    };
    pumps.spawn(live(
        (child, network),
        stdout,
        inbox.clone(),
        last_words,
        stop,
    ));
    Ok((StdioTransport { lines, secrets }, pumps))
}

fn unstarted(error: &ProfileError) -> WireFailure {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let why = match source {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    match error.hint() {
        Some(hint) => WireFailure::NotHeld { why, hint },
        None => WireFailure::NotConnected(why),
    }
}

/// What is told of a child that ended.
struct LastWords {
    log: StderrRing,
    secrets: ServerSecrets,
}

impl LastWords {
    fn of(&self, exit: &ChildExit) -> String {
        match self.log.last_line() {
            Some(line) => {
                let line = self.secrets.redact(&line);
                format!("{exit}: {}", one_line(&line, MAX_SAID_CHARS))
            }
            None => exit.to_string(),
        }
    }
}

impl StdioTransport {
    pub(super) fn secrets(&self) -> &ServerSecrets {
        &self.secrets
    }

    /// Waits for room; the caller has the deadline.
    pub(super) async fn send(&self, line: String) -> Result<(), WireFailure> {
        let sent = self.lines.send(line).await;
        sent.map_err(|_ended| WireFailure::Cut("its input is closed".to_owned()))
    }
}

/// Dropping the pipe closes it, which is how a child is asked to end.
async fn write(mut stdin: Sender, mut lines: mpsc::Receiver<String>, stop: CancellationToken) {
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = stop.cancelled() => return,
        };
        let Some(mut line) = line else { return };
        line.push('\n');
        let written = tokio::select! {
            written = stdin.write_all(line.as_bytes()) => written,
            () = stop.cancelled() => return,
        };
        if written.is_err() {
            return;
        }
    }
}

async fn keep_errors(mut stderr: impl AsyncRead + Unpin, log: StderrRing) {
    let mut piece = vec![0; 8 << 10];
    while let Ok(got @ 1..) = stderr.read(&mut piece).await {
        log.add(&piece[..got]);
    }
}

/// Reads until the child ends or is to end, and stays until nothing of it is left.
async fn live(
    (mut child, network): (Child, Option<ChildNetwork>),
    stdout: impl AsyncRead + Unpin,
    inbox: Arc<Inbox>,
    last_words: LastWords,
    stop: CancellationToken,
) {
    let reading = read(stdout, &inbox);
    tokio::pin!(reading);
    let exit = tokio::select! {
        exit = child.wait() => {
            // Its last words may still be in the pipe, and somebody else may hold it open.
            let _held = tokio::time::timeout(Duration::from_millis(500), &mut reading).await;
            Some(exit)
        }
        () = &mut reading => None,
        () = stop.cancelled() => None,
    };
    let asked = stop.is_cancelled();
    let exit = match exit {
        Some(exit) => exit,
        None => child.end(GRACE).await,
    };
    drop(network);
    last_words.log.push(&format!("ended: {exit}"));
    if !asked {
        inbox.close(WireFailure::Ended(last_words.of(&exit))).await;
    }
}

pub(super) async fn read(mut stdout: impl AsyncRead + Unpin, inbox: &Inbox) {
    let mut line = vec![];
    let mut skipping = false;
    let mut piece = vec![0; READ_BYTES];
    while let Ok(got @ 1..) = stdout.read(&mut piece).await {
        let mut bytes = &piece[..got];
        while let Some(end) = bytes.iter().position(|it| *it == b'\n') {
            let (head, rest) = bytes.split_at(end);
            bytes = &rest[1..];
            if !std::mem::take(&mut skipping) {
                line.extend_from_slice(head);
                take(&line, inbox).await;
            }
            line.clear();
        }
        if !skipping {
            line.extend_from_slice(bytes);
        }
        if line.len() > MAX_LINE_BYTES {
            // Its end is looked for, and nothing of it is held.
            skipping = true;
            line = vec![];
            inbox.spoiled(WireFailure::TooLarge(MAX_LINE_BYTES >> 20));
        }
    }
}

async fn take(line: &[u8], inbox: &Inbox) {
    if line.len() > MAX_LINE_BYTES {
        inbox.spoiled(WireFailure::TooLarge(MAX_LINE_BYTES >> 20));
        return;
    }
    match message::read(line) {
        Some(messages) => {
            for message in messages {
                inbox.take(message, MessageOrigin::Pipe).await;
            }
        }
        // Programs print all kinds of things; only what looks like a message is one that was lost.
        None if line.trim_ascii_start().starts_with(b"{") => {
            tracing::debug!(bytes = line.len(), "a line that is no JSON");
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::error::ExchangeError;
    use crate::inbox::{CallHearer, QuestionPurpose};

    async fn check(bytes: &[u8], expected: &str) {
        let (to_actor, _actor) = mpsc::channel(8);
        let (changed, _changes) = watch::channel(0);
        let inbox = Inbox::new(1, to_actor, changed, Default::default());
        let mut question = inbox.ask(QuestionPurpose::Upkeep, CallHearer::default());
        read(bytes, &inbox).await;
        let seen = match question.reply.try_recv() {
            Ok(Ok(result)) => result.to_string(),
            Ok(Err(ExchangeError::Failure(failure))) => failure.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(expected, seen);
    }

    #[tokio::test]
    async fn noise_around_a_message_does_not_hide_it() {
        check(b"Starting on stdio\n\n{\"id\":1,\"result\":7}\n", "7").await;
        check(b"{ broken\r\n{\"id\":1,\"result\":7}\r\n", "7").await;
        check(
            b"\xff\xfe\n{\"id\":1,\"result\":\"\xff\"}\n",
            "\"\u{fffd}\"",
        )
        .await;
    }

    /// A long line was dropped and its call hung.
    #[tokio::test]
    async fn a_line_that_is_too_long_ends_the_call_and_is_not_held() {
        let mut bytes = br#"{"id":1,"result":""#.to_vec();
        bytes.resize(10 << 20, b'x');
        bytes.extend_from_slice(b"\"}\n");
        check(&bytes, "the answer is longer than 4 MiB").await;
    }
}
