//! Commands that go on in the background, as those have them who read what they print: the newest part of it while they run, and
//! how they ended. None of it is in a log; their starts and their ends are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::JobId;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::command_result::{CommandResult, WholeOutput};
use aishd_log::ending::CommandEnding;
use aishd_log::job::{JobEnded, JobStop};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::view::tail_buffer::TailBuffer;

/// So long a command may print, or fail, before its call has a reply that says that it goes on.
const FIRST_OUTPUT: Duration = Duration::from_secs(1);
/// A model reads so much at a time, which fits into a reply.
const READ_BYTES: usize = 12 << 10;
/// Of those that ended, so many stay here with what they printed last.
const MOST_ENDED: usize = 16;

/// The jobs of a conversation that this daemon has started; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobBook(Arc<Mutex<BTreeMap<JobId, Arc<LiveJob>>>>);

/// One of them, running or ended.
#[derive(Debug)]
pub struct LiveJob {
    job: JobId,
    window: Mutex<TailBuffer>,
    /// Up to here its model has read.
    read: Mutex<u64>,
    stage: watch::Sender<JobStage>,
    reply: Mutex<FirstReply>,
    stop: Mutex<StopWish>,
    /// Cancelled when somebody wants its end.
    token: CancellationToken,
}

/// How far it has come.
#[derive(Clone, Debug, Default)]
struct JobStage {
    /// What it has printed.
    bytes: u64,
    /// Its end, once that is in the log.
    ended: Option<Arc<JobEnded>>,
    /// Nobody is left who could write that down.
    left: bool,
}

/// What the call that began it hears; whoever comes first decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstReply {
    Owed,
    /// That it goes on, or was stopped.
    Given,
    /// How it ended.
    IsItsEnd,
}

/// Who wants its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopWish {
    pub(crate) by: Option<JobStop>,
    pub(crate) person: Option<AnsweringPerson>,
}

/// What its model has not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnreadOutput {
    pub(crate) text: String,
    /// Bytes before it that are not kept.
    pub(crate) lost: u64,
    /// Bytes behind it, for the next time.
    pub(crate) rest: u64,
}

impl JobBook {
    pub(crate) fn begin(&self, job: JobId) -> Arc<LiveJob> {
        let live = Arc::new(LiveJob {
            job,
            window: Mutex::default(),
            read: Mutex::default(),
            stage: watch::Sender::default(),
            reply: Mutex::new(FirstReply::Owed),
            stop: Mutex::default(),
            token: CancellationToken::new(),
        });
        self.0.lock().insert(job, live.clone());
        live
    }

    pub(crate) fn find(&self, job: JobId) -> Option<Arc<LiveJob>> {
        self.0.lock().get(&job).cloned()
    }

    pub(crate) fn running(&self, job: JobId) -> Option<Arc<LiveJob>> {
        self.find(job).filter(|it| it.ended().is_none())
    }

    pub(crate) fn names(&self) -> Vec<JobId> {
        self.0.lock().keys().copied().collect()
    }

    pub(crate) fn any_runs(&self) -> bool {
        self.0.lock().values().any(|it| it.ended().is_none())
    }

    /// Its end is in the log.
    pub(crate) fn end(&self, ended: &JobEnded) {
        if let Some(live) = self.find(ended.job) {
            let ended = Arc::new(ended.clone());
            live.stage.send_modify(|it| it.ended = Some(ended));
        }
        // The log has what is older.
        let mut jobs = self.0.lock();
        let over: Vec<JobId> = jobs
            .values()
            .filter(|it| it.ended().is_some())
            .map(|it| it.job)
            .collect();
        for job in over.iter().take(over.len().saturating_sub(MOST_ENDED)) {
            jobs.remove(job);
        }
    }

    /// Nobody looks after them any more: who waits for an end hears of none.
    pub(crate) fn clear(&self) {
        let jobs = std::mem::take(&mut *self.0.lock());
        for live in jobs.values() {
            live.stage.send_modify(|it| it.left = true);
        }
    }
}

impl JobStage {
    /// Nothing comes after it.
    fn is_last(&self) -> bool {
        self.ended.is_some() || self.left
    }
}

impl LiveJob {
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    pub(crate) fn print(&self, text: &str) {
        self.window.lock().push(text);
        self.stage.send_modify(|it| it.bytes += text.len() as u64);
    }

    /// Ends it; the first who wants that has done it.
    pub(crate) fn stop(&self, by: JobStop, person: Option<AnsweringPerson>) {
        let mut stop = self.stop.lock();
        if stop.by.is_none() {
            *stop = StopWish {
                by: Some(by),
                person,
            };
        }
        self.token.cancel();
    }

    pub(crate) fn stop_wish(&self) -> StopWish {
        self.stop.lock().clone()
    }

    pub(crate) fn ended(&self) -> Option<Arc<JobEnded>> {
        self.stage.borrow().ended.clone()
    }

    /// Returns once its end is in the log; `None`: it never will be.
    pub(crate) async fn until_ended(&self) -> Option<Arc<JobEnded>> {
        let mut stage = self.stage.subscribe();
        let ended = stage.wait_for(JobStage::is_last).await.ok()?;
        ended.ended.clone()
    }

    /// Waits until there is something that its model has not read, or it has ended, or this time is over.
    pub(crate) async fn until_news(&self, wait: Duration) {
        let read = *self.read.lock();
        let mut stage = self.stage.subscribe();
        let news = stage.wait_for(|it| it.bytes > read || it.is_last());
        let _over = timeout(wait, news).await;
    }

    /// What its model has not read, as much as it reads at a time; it has read that then.
    pub(crate) fn read(&self) -> UnreadOutput {
        let mut read = self.read.lock();
        let before = *read;
        let part = self.window.lock().unseen(&mut read, READ_BYTES);
        let Some(part) = part else {
            return UnreadOutput::default();
        };
        UnreadOutput {
            lost: part.offset - before,
            rest: self.stage.borrow().bytes.saturating_sub(*read),
            text: part.text,
        }
    }

    /// The end of what it has printed, and where that begins.
    pub fn tail(&self, max_bytes: usize) -> (u64, String) {
        let window = self.window.lock();
        let (offset, text) = window.tail(max_bytes);
        (offset, text.to_owned())
    }

    /// Whether its end is what its call hears. Asked once, before the end is written down.
    pub(crate) fn replies_with_end(&self) -> bool {
        self.decide_reply(FirstReply::IsItsEnd) == FirstReply::IsItsEnd
    }

    fn decide_reply(&self, wanted: FirstReply) -> FirstReply {
        let mut reply = self.reply.lock();
        if *reply == FirstReply::Owed {
            *reply = wanted;
        }
        *reply
    }

    /// What its call hears: how it ended, if that came soon, or that it goes on, with what it has printed so far. Who stops
    /// the turn meanwhile stops it too.
    pub(crate) async fn first_reply(
        &self,
        turn: &CancellationToken,
        ran_in: &str,
    ) -> CommandResult {
        let cancelled = tokio::select! {
            biased;
            () = turn.cancelled() => true,
            _ended = self.until_ended() => false,
            () = sleep(FIRST_OUTPUT) => false,
        };
        if cancelled {
            self.decide_reply(FirstReply::Given);
            self.stop(JobStop::Turn, None);
            return self.reply(CommandEnding::Cancelled, ran_in);
        }
        if self.decide_reply(FirstReply::Given) == FirstReply::IsItsEnd
            && let Some(ended) = self.until_ended().await
        {
            return CommandResult {
                bytes: ended.bytes,
                ms: ended.ms.unwrap_or_default(),
                kept: ended.kept.map(WholeOutput::Stored),
                ending: ended.ending,
                ..CommandResult::failed(ended.output.clone(), ran_in)
            };
        }
        self.reply(CommandEnding::Background { job: self.job }, ran_in)
    }

    fn reply(&self, ending: CommandEnding, ran_in: &str) -> CommandResult {
        let unread = self.read();
        CommandResult {
            ending,
            bytes: unread.text.len() as u64,
            ..CommandResult::failed(unread.text, ran_in)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(job: JobId) -> JobEnded {
        JobEnded {
            job,
            command: "x".to_owned(),
            ending: CommandEnding::Exited { code: 3 },
            stopped: None,
            output: "all".to_owned(),
            bytes: 3,
            ms: Some(9),
            kept: None,
            replied: true,
        }
    }

    #[test]
    fn a_model_reads_each_byte_once() {
        let live = JobBook::default().begin(JobId(1));
        assert_eq!(UnreadOutput::default(), live.read());
        live.print("one\n");
        live.print("two\n");
        assert_eq!("one\ntwo\n", live.read().text);
        assert_eq!(UnreadOutput::default(), live.read());
        live.print(&"x".repeat(READ_BYTES + 5));
        let begin = live.read();
        assert_eq!((READ_BYTES, 5), (begin.text.len(), begin.rest));
        assert_eq!("xxxxx", live.read().text);
        // What nobody has read for long is not kept.
        for _ in 0..1000 {
            live.print(&"y".repeat(1000));
        }
        live.print("end");
        let unread = live.read();
        assert!(unread.lost > 0, "{unread:?}");
        assert_eq!(
            1_000_003,
            unread.lost + unread.text.len() as u64 + unread.rest
        );
        let (offset, tail) = live.tail(5);
        assert_eq!("yyend", tail);
        assert_eq!(8 + READ_BYTES as u64 + 5 + 1_000_003 - 5, offset);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_hears_of_the_end_or_that_it_goes_on_and_never_of_neither() {
        let book = JobBook::default();
        let turn = CancellationToken::new();
        let short = book.begin(JobId(1));
        assert!(short.replies_with_end());
        book.end(&ended(JobId(1)));
        let heard = short.first_reply(&turn, "/").await;
        assert_eq!(
            (CommandEnding::Exited { code: 3 }, "all"),
            (heard.ending, heard.output.as_str())
        );
        let long = book.begin(JobId(2));
        long.print("ready\n");
        let heard = long.first_reply(&turn, "/").await;
        assert_eq!(
            (CommandEnding::Background { job: JobId(2) }, "ready\n"),
            (heard.ending, heard.output.as_str())
        );
        assert!(!long.replies_with_end(), "its end is told by itself");
        assert!(book.any_runs() && book.running(JobId(1)).is_none());
        // Its end was decided on while the second went by, and is not in the log yet.
        let late = book.begin(JobId(3));
        assert!(late.replies_with_end());
        let (heard, ()) = tokio::join!(late.first_reply(&turn, "/"), async {
            sleep(2 * FIRST_OUTPUT).await;
            book.end(&ended(JobId(3)));
        });
        assert_eq!(CommandEnding::Exited { code: 3 }, heard.ending);
        let stopped = book.begin(JobId(4));
        turn.cancel();
        let heard = stopped.first_reply(&turn, "/").await;
        assert_eq!(CommandEnding::Cancelled, heard.ending);
        assert!(stopped.token().is_cancelled());
        assert_eq!(Some(JobStop::Turn), stopped.stop_wish().by);
    }
}
