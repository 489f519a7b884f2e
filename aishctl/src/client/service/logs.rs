//! `logs` and `service logs`: the journal where the service manager keeps one, else what the daemon still has in
//! memory, else the file that a daemon writes which a client started.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::time::Duration;

use aish_proto::event::{Event, LogLines};
use aish_proto::log::{Tail, TailParams};
use clap::Args;

use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};
use crate::client::service::control::{SERVICE_UNIT, ServiceControl};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::safe;

const ASK_WITHIN: Duration = Duration::from_secs(5);
/// As much of a file's end is looked at for its last lines.
const FILE_TAIL_BYTES: u64 = 256 << 10;

#[derive(Args, Clone, Copy, Debug)]
pub struct LogsArgs {
    /// Go on as lines come
    #[arg(short, long)]
    follow: bool,
    /// How many of the last lines
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 50)]
    lines: u32,
}

/// `service logs`.
pub async fn journal_or_tail(
    reach: &DaemonReach,
    global: &GlobalArgs,
    args: LogsArgs,
) -> Result<Exit, Failure> {
    match ServiceControl::reach(&reach.around).await {
        Ok(control) if has_journal(&control).await => journal(&control, args).await,
        Ok(_) | Err(_) => tail(reach, global, args).await,
    }
}

/// Where journals are not kept by user, those of a user are in the one of the system, for whoever may read it.
async fn has_journal(control: &ServiceControl) -> bool {
    let arguments = [
        "--user-unit",
        SERVICE_UNIT,
        "--lines=1",
        "--quiet",
        "--output=cat",
    ];
    let output = control.output("journalctl", &arguments, ASK_WITHIN).await;
    output.is_ok_and(|it| it.status.success() && !it.stdout.is_empty())
}

/// The newest lines of the journal, if there is one.
pub(super) async fn last(control: &ServiceControl) -> Vec<String> {
    let arguments = [
        "--user-unit",
        SERVICE_UNIT,
        "--identifier=aishd",
        "--lines=3",
        "--quiet",
        "--output=cat",
    ];
    let output = control.output("journalctl", &arguments, ASK_WITHIN).await;
    let text = output.map(|it| it.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

async fn journal(control: &ServiceControl, args: LogsArgs) -> Result<Exit, Failure> {
    let lines = format!("--lines={}", args.lines);
    let mut arguments = vec!["--user-unit", SERVICE_UNIT, "--quiet", "--no-pager", &lines];
    if args.follow {
        arguments.push("--follow");
    }
    let status = control.command("journalctl", &arguments).status().await;
    match status {
        Ok(status) if status.success() => Ok(Exit::DONE),
        Ok(status) => Err(Failure::new(Exit::FAILED, format!("journalctl: {status}"))),
        Err(error) => Err(Failure::new(Exit::FAILED, format!("journalctl: {error}"))),
    }
}

/// `logs`.
pub async fn tail(
    reach: &DaemonReach,
    global: &GlobalArgs,
    args: LogsArgs,
) -> Result<Exit, Failure> {
    let mut link = match reach.open(DaemonWait::No).await {
        Ok(link) => link,
        Err(failure) => return file(reach, args).ok_or(failure)?,
    };
    let mut lines = args.lines;
    loop {
        match link.caller.call::<Tail>(TailParams { lines }).await {
            Ok(_) => {}
            // It is on its way out; the next one has more to say.
            Err(error) if args.follow && error.is_transient() => {
                link = reach.open(DaemonWait::UntilBack).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        if read(&mut link, global, args.follow).await? {
            return Ok(Exit::DONE);
        }
        if !args.follow {
            let message = "aishd ended before it had sent its log";
            return Err(Failure::new(Exit::NO_DAEMON, message).hint("aishctl logs"));
        }
        link = reach.open(DaemonWait::UntilBack).await?;
        print("[aish] aishd was started again\n")?;
        // All that the next one has said is new.
        lines = u32::MAX;
    }
}

/// Prints what comes; true once all that was asked for is there, false when the connection ended before.
async fn read(link: &mut DaemonLink, global: &GlobalArgs, follow: bool) -> Result<bool, Failure> {
    while let Some(event) = link.events.recv().await {
        let Event::LogLines(page) = &event.event.data else {
            continue;
        };
        if global.jsonl {
            print(&format!("{}\n", safe::json_pipe(event.raw.get())))?;
        } else {
            print(&text(page))?;
        }
        if page.complete && !follow {
            return Ok(true);
        }
    }
    Ok(false)
}

fn text(page: &LogLines) -> String {
    let mut text = String::new();
    if page.missed > 0 {
        text.push_str(&format!(
            "[aish] {} lines are gone: they were not read in time\n",
            page.missed
        ));
    }
    for line in &page.lines {
        text.push_str(&safe::screen(line));
        text.push('\n');
    }
    text
}

/// The end of the file that a daemon logs into which aishctl started; `None` when there is no such file.
fn file(reach: &DaemonReach, args: LogsArgs) -> Option<Result<Exit, Failure>> {
    let path = reach.around.state_directory()?.join("aishd.log");
    let mut file = File::open(&path).ok()?;
    let bytes = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(FILE_TAIL_BYTES)))
        .ok()?;
    let mut read = Vec::new();
    file.take(FILE_TAIL_BYTES).read_to_end(&mut read).ok()?;
    let text = String::from_utf8_lossy(&read);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines
        .len()
        .saturating_sub(usize::try_from(args.lines).unwrap_or(usize::MAX));
    let mut shown = format!(
        "[aish] aishd does not run; the end of {}:\n",
        path.display()
    );
    for line in lines.iter().skip(from) {
        shown.push_str(&safe::screen(line));
        shown.push('\n');
    }
    Some(print(&shown).map(|()| Exit::DONE))
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_missed_are_said_and_nothing_speaks_to_the_terminal() {
        let page = LogLines {
            lines: vec!["a\u{1b}[2J".to_owned(), "b".to_owned()],
            missed: 3,
            complete: true,
        };
        let text = text(&page);
        assert!(text.starts_with("[aish] 3 lines are gone"), "{text}");
        assert!(
            text.ends_with("\nb\n") && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
