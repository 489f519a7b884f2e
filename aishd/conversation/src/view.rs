//! What everybody outside the actor sees of a conversation: one value that changes as a whole.

pub mod follow;
pub mod live_item;
pub mod tail_buffer;
pub mod tool_progress;
pub mod turn_record;
pub mod viewers;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aish_proto::id::Seq;
use aishd_log::confirm::ConfirmSubject;
use aishd_log::event::{Attachment, Event, Record};
use aishd_log::state::ConversationState;
use aishd_model::reply::Delta;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::commands::command_output::{CommandKey, CommandPrinting};
use crate::view::live_item::LiveItem;
use crate::view::tool_progress::{ProgressMessage, ToolProgress};

/// Text of recent records that is kept in memory, so that followers at the head read no disk.
const RECENT_BYTES: usize = 256 << 10;

/// How far the actor is.
#[derive(Clone, Debug)]
pub enum LoadingStage {
    /// It has not read its state yet.
    Loading,
    Ready,
    /// There is no such conversation.
    Missing,
    /// The store could not give it, or take what it had to write.
    Failed(String),
}

/// The conversation at one moment: state as of the head of the log, and the item being written after it.
#[derive(Clone, Debug)]
pub struct ConversationView {
    pub loading: LoadingStage,
    pub state: Arc<ConversationState>,
    pub live: Option<Arc<LiveItem>>,
    /// What commands print, the oldest first.
    pub printing: Vec<Arc<CommandPrinting>>,
    /// What running calls say.
    pub doing: Arc<ToolProgress>,
    /// Why the store does not take a commit, which is tried again.
    pub waits_for_store: Option<String>,
}

/// The actor's end.
#[derive(Debug)]
pub(crate) struct ViewPublisher {
    view: watch::Sender<ConversationView>,
    recent: Arc<RecentRecords>,
    /// Told of every change but the text being written.
    changed: Arc<Notify>,
}

impl ViewPublisher {
    pub(crate) fn new(
        changed: Arc<Notify>,
    ) -> (Self, watch::Sender<ConversationView>, Arc<RecentRecords>) {
        let view = watch::Sender::new(ConversationView {
            loading: LoadingStage::Loading,
            state: Arc::default(),
            live: None,
            printing: vec![],
            doing: Arc::default(),
            waits_for_store: None,
        });
        let recent = Arc::<RecentRecords>::default();
        let publisher = Self {
            view: view.clone(),
            recent: recent.clone(),
            changed,
        };
        (publisher, view, recent)
    }

    pub(crate) fn loaded(&self, loading: LoadingStage, state: &ConversationState) {
        self.view.send_modify(|view| {
            view.loading = loading;
            view.state = Arc::new(state.clone());
        });
        self.changed.notify_one();
    }

    /// New records and the state after them; `live` is what is being written from now on.
    pub(crate) fn advance(
        &self,
        records: Vec<Record>,
        state: &ConversationState,
        live: LiveChange,
    ) {
        let ended: Vec<_> = records.iter().filter_map(ended).collect();
        self.recent.push(records);
        self.view.send_modify(|view| {
            view.loading = LoadingStage::Ready;
            view.state = Arc::new(state.clone());
            view.waits_for_store = None;
            match live {
                LiveChange::Keep => {}
                LiveChange::End => view.live = None,
            }
            for (which, at) in &ended {
                let mut printing = view.printing.iter();
                if let Some(over) = printing.find(|it| it.is_of(which)) {
                    over.end(*at);
                }
            }
        });
        self.changed.notify_one();
    }

    pub(crate) fn begin_live(&self, live: Arc<LiveItem>) {
        self.view.send_modify(|view| view.live = Some(live));
    }

    /// A command begins to print; what others printed whose end is told by now goes.
    pub(crate) fn begin_printing(&self, printing: Arc<CommandPrinting>) {
        self.view.send_modify(|view| {
            view.printing.retain(|it| !it.is_over());
            view.printing.push(printing);
        });
    }

    pub(crate) fn say_waits_for_store(&self, why: String) {
        self.view
            .send_modify(|view| view.waits_for_store = Some(why));
    }

    /// Whether nobody looks: no handle, no follower.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.view.receiver_count() == 0
    }

    /// Waits until nobody looks.
    pub(crate) async fn unwatched(&self) {
        self.view.closed().await;
    }

    pub(crate) fn teller(&self) -> ProgressTeller {
        ProgressTeller(self.view.clone())
    }

    pub(crate) fn printer(&self, printing: Arc<CommandPrinting>) -> OutputPrinter {
        OutputPrinter(self.view.clone(), printing)
    }

    pub(crate) fn live_sender(&self) -> LiveSender {
        LiveSender {
            view: self.view.clone(),
            untold: AtomicUsize::new(0),
        }
    }
}

/// What a step does to the item being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveChange {
    Keep,
    End,
}

/// For so long at most text that has arrived waits for more.
const TOGETHER_FOR: Duration = Duration::from_millis(5);

/// Adds deltas; held by the task that streams. A server, or what lies before it, often sends many at once: what has arrived
/// together is shown together, because to wake a follower costs many times what a delta does.
#[derive(Debug)]
pub(crate) struct LiveSender {
    view: watch::Sender<ConversationView>,
    untold: AtomicUsize,
}

impl LiveSender {
    /// Adds a delta; only within [`LiveSender::while_running`].
    pub(crate) fn push(&self, live: &LiveItem, delta: Delta<'_>) {
        live.push(delta);
        self.untold.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs what pushes; followers are told when a second look finds no more, and at its end. Over HTTP/1 the task that reads
    /// the connection hands over one part and waits until it was taken, so that the first look never finds the next one. Where
    /// the second comes too early, followers are only woken once more.
    pub(crate) async fn while_running<F: Future>(&self, pushing: F) -> F::Output {
        let mut pushing = pin!(pushing);
        let mut since: Option<Instant> = None;
        poll_fn(|context| {
            let before = self.untold.load(Ordering::Relaxed);
            let polled = pushing.as_mut().poll(context);
            let more = polled.is_pending() && self.untold.load(Ordering::Relaxed) > before;
            if more && since.get_or_insert_with(Instant::now).elapsed() < TOGETHER_FOR {
                context.waker().wake_by_ref();
            } else {
                since = None;
                self.tell();
            }
            polled
        })
        .await
    }

    fn tell(&self) {
        if self.untold.swap(0, Ordering::Relaxed) > 0 {
            self.view.send_modify(|_same| {});
        }
    }
}

/// Passes on what a command prints; held by the task that reads it.
#[derive(Clone, Debug)]
pub(crate) struct OutputPrinter(watch::Sender<ConversationView>, Arc<CommandPrinting>);

impl OutputPrinter {
    pub(crate) fn print(&self, text: &str) {
        self.1.push(text);
        self.0.send_modify(|_same| {});
    }
}

/// Passes on what a running call says; held by the task that waits for it.
#[derive(Clone, Debug)]
pub(crate) struct ProgressTeller(watch::Sender<ConversationView>);

impl ProgressTeller {
    pub(crate) fn push(&self, word: ProgressMessage) {
        self.0.send_modify(|view| view.doing.push(word));
    }

    pub(crate) fn forget(&self, call: &str) {
        self.0.borrow().doing.forget(call);
    }
}

/// The newest records, in memory.
#[derive(Debug, Default)]
pub struct RecentRecords(Mutex<RecordRing>);

#[derive(Debug, Default)]
struct RecordRing {
    records: VecDeque<(Arc<Record>, usize)>,
    bytes: usize,
}

impl RecentRecords {
    fn push(&self, records: Vec<Record>) {
        let mut ring = self.0.lock();
        for record in records {
            let bytes = weight(&record);
            ring.bytes += bytes;
            ring.records.push_back((Arc::new(record), bytes));
        }
        while ring.bytes > RECENT_BYTES {
            let Some((_oldest, bytes)) = ring.records.pop_front() else {
                break;
            };
            ring.bytes -= bytes;
        }
    }

    /// Records after `cursor`, about `max_bytes` of them; `None` when they begin before what is kept.
    pub(crate) fn after(&self, cursor: Seq, max_bytes: usize) -> Option<Vec<Arc<Record>>> {
        let ring = self.0.lock();
        let first = ring.records.front()?.0.seq;
        let skip = usize::try_from((cursor.0 + 1).checked_sub(first.0)?).ok()?;
        let mut left = max_bytes;
        let page = ring.records.iter().skip(skip).take_while(|(_, bytes)| {
            let fits = left > 0;
            left = left.saturating_sub(*bytes);
            fits
        });
        Some(page.map(|(record, _)| record.clone()).collect())
    }
}

/// The command whose end a record is.
fn ended(record: &Record) -> Option<(CommandKey, Seq)> {
    if let Event::ShellFinished { call, .. } = &record.event {
        return Some(((record.turn, call.clone()), record.seq));
    }
    None
}

/// A picture is not on the wire, but in memory.
fn attached(it: &Attachment) -> usize {
    it.text.len() + it.picture.as_ref().map_or(0, |it| it.data.len())
}

/// About what a record takes in memory and on the wire.
fn weight(record: &Record) -> usize {
    use aishd_log::call_list::CallList;
    let text = match &record.event {
        Event::UserMessage {
            text,
            attachments,
            calls,
            ..
        } => {
            let attached = attachments.iter().map(attached).sum::<usize>();
            text.len() + attached + calls.as_ref().map_or(0, CallList::bytes)
        }
        Event::AssistantMessage {
            text,
            reasoning,
            calls,
            ..
        } => {
            text.len() + reasoning.len() + calls.iter().map(|it| it.arguments.len()).sum::<usize>()
        }
        Event::ToolResult { content, .. } => content.len(),
        Event::ShellStarted { command, .. } => command.len(),
        Event::ShellFinished {
            command, output, ..
        } => command.len() + output.len(),
        Event::JobStarted(started) => started.command.len(),
        Event::JobEnded(ended) => ended.command.len() + ended.output.len(),
        Event::ConfirmRequested(confirm) => {
            let call = confirm.call();
            let wanted = match &confirm.subject {
                ConfirmSubject::Form(subject) => subject.params.to_string().len(),
                ConfirmSubject::Model(subject) => subject.asked.params.to_string().len(),
                ConfirmSubject::Memory(subject) => subject.text.len(),
                ConfirmSubject::Changes(subject) => {
                    let paths = subject.changed.listed.iter().map(|it| it.path.len());
                    subject.goal.len() + paths.sum::<usize>()
                }
                ConfirmSubject::Host(subject) => subject.command.len(),
                _ => 0,
            };
            3 * call.map_or(0, |it| it.arguments.len()) + wanted + 4096
        }
        Event::ToolStarted { arguments, .. } => arguments.len(),
        Event::ResourceChanged(changed) => usize::try_from(changed.bytes()).unwrap_or(usize::MAX),
        Event::ResultKept { text, .. } => text.len(),
        Event::Evicted(eviction) => 64 * eviction.exchanges.len(),
        Event::SummaryUpdated(summary) => summary.text.len(),
        Event::TodosChanged { todos } => todos.iter().map(|it| it.content.len() + 32).sum(),
        Event::ToolsChosen { added, dropped } => 64 * (added.len() + dropped.len()),
        Event::TurnFinished { text, .. } => text.len(),
        Event::Status { text, .. } => text.len(),
        Event::FellBack { cause, .. } => cause.len(),
        _ => 0,
    };
    text + 256
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use aish_proto::id::TurnId;
    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;

    fn live() -> LiveItem {
        LiveItem::new(TurnId::from_bytes([1; 16]), 0, Seq(0))
    }

    #[tokio::test(start_paused = true)]
    async fn what_arrives_together_is_told_together_and_soon() {
        let (publisher, view, _recent) = ViewPublisher::new(Arc::default());
        let (sender, live, mut told) = (publisher.live_sender(), live(), view.subscribe());
        let mut changed = move || {
            let changed = told.has_changed().is_ok_and(|it| it);
            told.mark_unchanged();
            changed
        };
        let answer = async {
            for _ in 0..100 {
                sender.push(&live, Delta::Text("a"));
                yield_now().await;
                assert!(!changed(), "the next one may be there");
            }
            sender.push(&live, Delta::Text("b"));
            advance(TOGETHER_FOR).await;
            assert!(
                changed(),
                "an answer without a pause is seen while it comes"
            );
            sender.push(&live, Delta::Text("c"));
            yield_now().await;
            assert!(!changed(), "the next one may be there");
            yield_now().await;
            assert!(changed(), "a second look has found no more");
            yield_now().await;
            assert!(!changed(), "nothing came");
            sender.push(&live, Delta::Text("d"));
        };
        sender.while_running(answer).await;
        assert!(changed(), "what came last is told at the end");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_silent_stream_said_last_is_told_though_nothing_wakes_it() {
        let (publisher, view, _recent) = ViewPublisher::new(Arc::default());
        let (sender, live, mut told) = (publisher.live_sender(), live(), view.subscribe());
        let began = Instant::now();
        let silent = async {
            sender.push(&live, Delta::Text("a"));
            pending::<()>().await;
        };
        tokio::select! {
            () = sender.while_running(silent) => {}
            changed = told.changed() => changed.unwrap(),
            () = tokio::time::sleep(TOGETHER_FOR) => {}
        }
        assert_eq!(Duration::ZERO, began.elapsed());
    }
}
