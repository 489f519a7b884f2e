//! `store`, `backup`, `restore`: looking after what the daemon keeps. Where a daemon runs it is asked; otherwise its program does
//! the same with the files as they lie there. Backups are made of the files in any case, and wait for nobody.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use aish_proto::method::Empty;
use aish_proto::store::{
    Check, CheckedBytes, Compact, Stat, StoreCheck, StoreCompactResult, StoreDamage, StoreStat,
};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, interval};

use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};
use crate::client::spawn;
use crate::command_output::{CommandOutput, PrintResult, print};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::size;
use crate::render::spinner::ERASE;
use crate::safe;

/// How often is asked how far a check is.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const BAR: usize = 30;
/// Of what a program says of its failure.
const WORDS_BYTES: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum StoreCommand {
    /// How much room it takes
    Stat,
    /// Read every record: journal, index, audit trail
    Check,
    /// Give back the room that is not needed
    Compact,
    /// Set aside what is damaged, so that all else can be read; the daemon must not run
    Repair,
}

#[derive(Args, Clone, Debug)]
pub struct BackupArgs {
    /// A directory: empty, or with an earlier backup, to which what is new is added
    pub path: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub struct RestoreArgs {
    /// The directory of a backup
    pub path: PathBuf,
    /// Put the store that is there aside
    #[arg(long)]
    pub replace: bool,
}

/// What a repair did.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RepairDone {
    damage: Vec<StoreDamage>,
    lost: Vec<LostRecords>,
    lost_of_trail: u64,
    index_made_anew: bool,
    set_aside: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LostRecords {
    conversation: String,
    records: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BackupDone {
    at: String,
    files: u64,
    bytes: u64,
    copied_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_aside: Option<PathBuf>,
}

/// What such a command works with.
#[derive(Debug)]
pub struct StoreContext<'a> {
    pub reach: DaemonReach,
    pub global: &'a GlobalArgs,
}

impl StoreContext<'_> {
    pub async fn run(&self, command: StoreCommand) -> PrintResult {
        match command {
            StoreCommand::Stat => self.stat().await,
            StoreCommand::Check => self.check().await,
            StoreCommand::Compact => self.compact().await,
            StoreCommand::Repair => self.repair().await,
        }
    }

    /// The daemon, if one runs.
    async fn daemon(&self) -> Result<Option<DaemonLink>, Failure> {
        if tokio::net::UnixStream::connect(&self.reach.socket)
            .await
            .is_err()
        {
            return Ok(None);
        }
        Ok(Some(self.reach.open(DaemonWait::No).await?))
    }

    async fn stat(&self) -> PrintResult {
        let found: StoreStat = match self.daemon().await? {
            Some(link) => link.caller.call::<Stat>(Empty {}).await?,
            None => self.program(&["stat".as_ref()]).await?,
        };
        print(self.global, &found, || stat_text(&found))
    }

    async fn check(&self) -> PrintResult {
        let found: StoreCheck = match self.daemon().await? {
            Some(link) => self.check_within(&link).await?,
            None => self.program(&["check".as_ref()]).await?,
        };
        let printed = print(self.global, &found, || check_text(&found))?;
        let exit = if found.whole {
            Exit::DONE
        } else {
            Exit::FAILED
        };
        Ok(CommandOutput { exit, ..printed })
    }

    async fn check_within(&self, link: &DaemonLink) -> Result<StoreCheck, Failure> {
        let mut bar = ProgressBar::of(self.global);
        let checked = link.caller.call::<Check>(Empty {});
        let mut checked = std::pin::pin!(checked);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                found = &mut checked => return Ok(found?),
                _ = looks.tick(), if bar.is_shown => {
                    let stat = link.caller.call::<Stat>(Empty {}).await?;
                    if let Some(so_far) = stat.checking {
                        bar.show(so_far);
                    }
                }
            }
        }
    }

    async fn compact(&self) -> PrintResult {
        let done: StoreCompactResult = match self.daemon().await? {
            Some(link) => link.caller.call::<Compact>(Empty {}).await?,
            None => self.program(&["compact".as_ref()]).await?,
        };
        print(self.global, &done, || {
            let StoreCompactResult { before, after } = done;
            match before.checked_sub(after).filter(|it| *it > 0) {
                Some(freed) => format!(
                    "{} given back: {} now\n",
                    size::bytes(freed),
                    size::bytes(after)
                ),
                None => "there was nothing to give back\n".to_owned(),
            }
        })
    }

    async fn repair(&self) -> PrintResult {
        self.without_daemon().await?;
        let done: RepairDone = self.program(&["repair".as_ref()]).await?;
        print(self.global, &done, || repair_text(&done))
    }

    pub async fn backup(&self, args: &BackupArgs) -> PrintResult {
        let target = self.absolute(&args.path);
        let done: BackupDone = self.program(&["backup".as_ref(), &target]).await?;
        print(self.global, &done, || {
            format!(
                "{}: {} in {} files, {} of it new\n",
                safe::one_line(&target.display().to_string()),
                size::bytes(done.bytes),
                done.files,
                size::bytes(done.copied_bytes)
            )
        })
    }

    pub async fn restore(&self, args: &RestoreArgs) -> PrintResult {
        self.without_daemon().await?;
        let source = self.absolute(&args.path);
        let mut line = vec![Path::new("restore"), &source];
        if args.replace {
            line.push(Path::new("--replace"));
        }
        let done: BackupDone = self.program(&line).await?;
        print(self.global, &done, || {
            let mut text = format!(
                "restored as it was at {}: {}\n",
                safe::one_line(&done.at),
                size::bytes(done.bytes)
            );
            if let Some(aside) = &done.set_aside {
                let aside = safe::one_line(&aside.display().to_string());
                text.push_str(&format!("what was there before is in {aside}\n"));
            }
            text
        })
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        Path::new(&self.reach.around.cwd_text()).join(path)
    }

    async fn without_daemon(&self) -> Result<(), Failure> {
        if tokio::net::UnixStream::connect(&self.reach.socket)
            .await
            .is_err()
        {
            return Ok(());
        }
        let message = "aishd runs and has the store open";
        let hint = if self.reach.around.has_socket_unit() {
            "aishctl service stop"
        } else {
            "aishctl rpc daemon/shutdown"
        };
        Err(Failure::new(Exit::CONFLICT, message).hint(hint))
    }

    /// Has the daemon's program do it, and shows how far it is.
    async fn program<T: DeserializeOwned>(&self, line: &[&Path]) -> Result<T, Failure> {
        let program = spawn::daemon_beside(&self.reach.around).ok_or_else(|| {
            Failure::new(Exit::NO_DAEMON, "there is no aishd beside aishctl")
                .hint(".ci/dist of a checkout builds both")
        })?;
        let mut child = Command::new(program)
            .arg("store")
            .args(line)
            .env_clear()
            .envs(&self.reach.around.variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::new(Exit::FAILED, format!("start aishd store: {error}")))?;
        let stdout = child.stdout.take().map(|it| BufReader::new(it).lines());
        let stderr = child.stderr.take();
        let words = async {
            let mut words = String::new();
            if let Some(stderr) = stderr {
                let _cut_off = stderr.take(WORDS_BYTES).read_to_string(&mut words).await;
            }
            words
        };
        let (result, words) =
            tokio::join!(result_among(stdout, ProgressBar::of(self.global)), words);
        let status = child.wait().await;
        let exit = status.map_or(Exit::FAILED, Exit::passed_on);
        result.ok_or_else(|| failure_of(&words, exit))
    }
}

/// What the program says of itself, a line each.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum ProgramLine<T> {
    Progress(CheckedBytes),
    Result(T),
}

async fn result_among<T, R>(lines: Option<tokio::io::Lines<R>>, mut bar: ProgressBar) -> Option<T>
where
    T: DeserializeOwned,
    R: tokio::io::AsyncBufRead + Unpin,
{
    let mut lines = lines?;
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(ProgramLine::Progress(so_far)) => bar.show(so_far),
            Ok(ProgramLine::Result(result)) => return Some(result),
            Err(_not_for_us) => {}
        }
    }
    None
}

/// Of what the program wrote to its stderr.
fn failure_of(words: &str, exit: Exit) -> Failure {
    let mut lines = words.lines().filter(|it| !it.is_empty());
    let said = lines.find_map(|it| it.strip_prefix("aishd: "));
    let failure = Failure::new(exit, said.unwrap_or("aishd store ended without a result"));
    match lines.find_map(|it| it.strip_prefix("hint: ")) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// One line on stderr, where that is a terminal; gone when this is dropped.
struct ProgressBar {
    is_shown: bool,
    has_drawn: bool,
}

impl ProgressBar {
    fn of(global: &GlobalArgs) -> Self {
        Self {
            is_shown: !global.quiet && std::io::stderr().is_terminal(),
            has_drawn: false,
        }
    }

    fn show(&mut self, so_far: CheckedBytes) {
        if self.is_shown && so_far.total > 0 {
            self.has_drawn = true;
            let _gone = write!(std::io::stderr(), "{ERASE}{}", bar_text(so_far));
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if self.has_drawn {
            let _gone = write!(std::io::stderr(), "{ERASE}");
        }
    }
}

fn bar_text(so_far: CheckedBytes) -> String {
    let CheckedBytes { done, total } = so_far;
    let of = |most: usize| {
        let part = u128::from(done.min(total)) * most as u128 / u128::from(total.max(1));
        usize::try_from(part).unwrap_or(most)
    };
    let full = of(BAR);
    format!(
        "[{}{}] {:>3} %  {} of {}",
        "#".repeat(full),
        " ".repeat(BAR - full),
        of(100),
        size::bytes(done),
        size::bytes(total)
    )
}

fn stat_text(found: &StoreStat) -> String {
    let mut rows = vec![("path", safe::one_line(&found.path))];
    if let Some(count) = found.conversations {
        rows.push(("conversations", count.to_string()));
    }
    let mut journal = format!(
        "{} in {}",
        size::bytes(found.journal_bytes),
        segments(found.segments)
    );
    if let Some(live) = found.live_bytes {
        journal.push_str(&format!(", {} of it live", size::bytes(live)));
    }
    rows.push(("journal", journal));
    rows.push(("index", size::bytes(found.index_bytes)));
    rows.push(("reserve", size::bytes(found.reserve_bytes)));
    if let Some(most) = found.max_bytes {
        rows.push(("limit", format!("{} (store.max_bytes)", size::bytes(most))));
    }
    if let Some(free) = found.free_bytes {
        rows.push(("free", size::bytes(free)));
    }
    if let Some(oldest) = &found.oldest {
        rows.push(("since", safe::one_line(oldest)));
    }
    rows.extend(
        found
            .damage
            .iter()
            .map(|it| ("damaged", safe::one_line(it))),
    );
    let lines = rows
        .iter()
        .map(|(name, value)| format!("{name:<13}  {value}\n"));
    lines.collect()
}

fn segments(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} segment{plural}")
}

fn check_text(found: &StoreCheck) -> String {
    let mut text = format!(
        "{} records in {}, {}\n",
        found.records,
        segments(found.segments),
        size::bytes(found.journal_bytes)
    );
    if found.torn > 0 {
        let torn = size::bytes(found.torn);
        text.push_str(&format!(
            "a last write of {torn} was not finished; the next start cuts it off, and nothing acknowledged is in it\n"
        ));
    }
    if found.whole {
        text.push_str("journal, index and audit trail are whole\n");
        return text;
    }
    for damage in &found.damage {
        text.push_str(&format!("journal  {}\n", damage_line(damage)));
    }
    let others = [("index", &found.index), ("trail", &found.trail)];
    for (what, findings) in others {
        for finding in findings {
            text.push_str(&format!("{what:<7}  {}\n", safe::one_line(finding)));
        }
    }
    text.push_str(if !found.damage.is_empty() {
        "→ keep a copy or a backup of it, then stop aishd: aishctl store repair\n"
    } else if !found.index.is_empty() {
        "→ nothing is lost: stop aishd, and aishctl store repair makes the index anew\n"
    } else {
        "→ aishctl audit verify tells more\n"
    });
    text
}

fn damage_line(damage: &StoreDamage) -> String {
    let place = safe::one_line(&damage.file);
    let what = safe::one_line(&damage.what);
    let mut line = match damage.bytes {
        0 => format!("{place}: {what}"),
        bytes => format!(
            "{place}, byte {}, {}: {what}",
            damage.offset,
            size::bytes(bytes)
        ),
    };
    if !damage.conversations.is_empty() {
        let named: Vec<String> = damage
            .conversations
            .iter()
            .map(ToString::to_string)
            .collect();
        line.push_str(&format!("; of conversation {}", named.join(", ")));
    }
    line
}

fn repair_text(done: &RepairDone) -> String {
    if done.index_made_anew {
        return "the index was made anew of the journal, which is whole\n".to_owned();
    }
    if done.damage.is_empty() {
        return "nothing of the journal is damaged, and nothing was changed\n".to_owned();
    }
    let mut text = String::new();
    for damage in &done.damage {
        text.push_str(&format!("taken out: {}\n", damage_line(damage)));
    }
    for lost in &done.lost {
        let plural = if lost.records == 1 { "" } else { "s" };
        text.push_str(&format!(
            "conversation {} lost {} record{plural}, and says where\n",
            safe::one_line(&lost.conversation),
            lost.records
        ));
    }
    if done.lost_of_trail > 0 {
        let lost = done.lost_of_trail;
        text.push_str(&format!(
            "the audit trail lost {lost} of its records, and says so\n"
        ));
    }
    if let Some(aside) = &done.set_aside {
        let aside = safe::one_line(&aside.display().to_string());
        text.push_str(&format!("the damaged bytes are in {aside}\n"));
    }
    text.push_str("everything else is as it was\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_how_far_it_is() {
        let at = |done, total| bar_text(CheckedBytes { done, total });
        assert_eq!(
            "[###############               ]  50 %  512 bytes of 1.0 KiB",
            at(512, 1024)
        );
        assert!(at(9, 3).starts_with(&format!("[{}] 100 %", "#".repeat(BAR))));
    }

    #[test]
    fn what_was_found_is_said_with_what_to_do() {
        let whole = StoreCheck {
            whole: true,
            records: 7,
            segments: 1,
            journal_bytes: 2048,
            ..StoreCheck::default()
        };
        assert_eq!(
            "7 records in 1 segment, 2.0 KiB\njournal, index and audit trail are whole\n",
            check_text(&whole)
        );
        let damaged = StoreCheck {
            whole: false,
            damage: vec![StoreDamage {
                file: "/s/1.jsonl".to_owned(),
                offset: 17,
                bytes: 40,
                what: "acknowledged records cannot be read".to_owned(),
                conversations: vec![],
            }],
            trail: vec!["record 3: \u{1b}[2J".to_owned()],
            ..whole
        };
        let text = check_text(&damaged);
        assert!(
            text.contains("/s/1.jsonl, byte 17, 40 bytes: acknowledged records cannot be read")
                && text.contains("aishctl store repair")
                && !text.contains('\u{1b}'),
            "{text}"
        );
    }

    #[test]
    fn what_the_program_says_of_its_failure_is_passed_on() {
        let failure = failure_of("noise\naishd: it is held\nhint: wait\n", Exit::CONFLICT);
        assert_eq!(
            ("it is held", Some("wait")),
            (&*failure.message, failure.hint.as_deref())
        );
        let failure = failure_of("", Exit::FAILED);
        assert!(failure.message.contains("without a result"));
    }
}
