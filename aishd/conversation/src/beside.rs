//! What a request tells beside the log, and what has to be read for that: pinned resources before each request, and the
//! directory once for each turn, so that what a turn says of it stays the same to its end. It is read by a task: the
//! actor waits for no server and no disk.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::TurnId;
use futures_util::FutureExt as _;

use super::command::given;
use super::commit::Fact;
use super::context::abandoned;
use super::{Conversation, Done, failed};
use aishd_log::confirm::OnConfirm;
use aishd_log::event::{Event, Level};
use aishd_log::pinned::{Held, Pinned};
use aishd_model::reply::Failure;
use aishd_model::trusted::Trusted;
use aishd_project::{Folders, Looked};
use aishd_rules::catalog::Offer;
use aishd_rules::offered::{Offered, Seen};
use aishd_store::Commit;
use aishd_tools::{Tools, machine};
use aishd_turn::project::Blocks;
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::StreamId;

/// What is to be read.
#[derive(Debug)]
pub struct Beside {
    pinned: Vec<Pinned>,
    tools: Tools,
    directory: Option<Directory>,
}

#[derive(Debug)]
struct Directory {
    folders: Folders,
    path: String,
    trusted: Trusted,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    pub held: Vec<Held>,
    /// `None`: what is known of the directory is enough.
    pub looked: Option<Looked>,
}

/// What a conversation has told of its directory.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The turn for which somebody has looked.
    turn: Option<TurnId>,
    blocks: Option<Blocks>,
    /// For people, at the next opportunity.
    remarks: Vec<String>,
    said: BTreeSet<String>,
    /// What the requests of a turn say of the shell: the same from its first to its last.
    shell: Option<(TurnId, Option<Arc<Offered>>)>,
}

/// Whether the directory is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Unless the turn that runs has.
    Once,
    Anew,
    No,
}

impl Beside {
    /// Reads all of it, each for as long as it may take.
    pub async fn gather(&self) -> Gathered {
        let look = async {
            let directory = self.directory.as_ref()?;
            let looking = directory.folders.look(&directory.path, &directory.trusted);
            Some(looking.await)
        };
        let (held, looked) = tokio::join!(self.tools.held(&self.pinned), look);
        Gathered { held, looked }
    }
}

impl Told {
    /// What the next request is told, unless somebody looks before it.
    pub(super) fn blocks(&self) -> Option<Blocks> {
        self.blocks.clone()
    }

    /// Somebody has told people of this.
    pub(super) fn note(&mut self, told: &[String]) {
        self.said.extend(told.iter().cloned());
    }

    /// What people have not been told yet. Once is enough.
    fn take_remarks(&mut self) -> Vec<String> {
        let mut remarks = std::mem::take(&mut self.remarks);
        remarks.retain(|it| self.said.insert(it.clone()));
        remarks
    }
}

impl Conversation {
    /// What has to be read before anybody can say what a request holds, if anything has.
    pub(super) fn beside(&mut self, look: Look) -> Option<Beside> {
        let running = self.turn.as_ref().map(|it| it.id);
        let looks = match look {
            Look::Once => running.is_none() || self.told.turn != running,
            Look::Anew => true,
            Look::No => false,
        };
        let trusted = self.rules().project.filter(|_| looks);
        if self.state.pinned.is_empty() && trusted.is_none() {
            return None;
        }
        Some(Beside {
            pinned: self.state.pinned.clone(),
            tools: self.tools(),
            directory: trusted.map(|trusted| Directory {
                folders: self.around.folders.clone(),
                path: self.state.cwd.clone(),
                trusted,
            }),
        })
    }

    /// Has it read for a request of the turn that runs.
    pub(super) fn read_beside(&mut self, stream: StreamId, beside: Beside) {
        let Some(active) = &self.turn else { return };
        let (turn, token) = (active.id, active.token.clone());
        self.io.spawn(async move {
            let read = AssertUnwindSafe(beside.gather()).catch_unwind();
            match token.run_until_cancelled(read).await {
                Some(Ok(gathered)) => Done::Gathered(turn, stream, gathered),
                Some(Err(_panic)) => {
                    let failure = Failure::Transport("internal error".to_owned());
                    Done::Turn(turn, Box::new(failed(stream, failure)))
                }
                None => abandoned(turn, stream),
            }
        });
    }

    /// What the requests of the turn that runs say of the shell, or what those of one would say that is asked now. A turn that
    /// runs keeps to what its first request said. `begins` is what is about to be written down of one that starts.
    pub(super) fn shell_told(
        &mut self,
        transcript: &Transcript,
        begins: Option<&Commit>,
    ) -> Option<Arc<Offered>> {
        let running = self.turn.as_ref().map(|it| it.id);
        if let Some((turn, told)) = &self.told.shell
            && Some(*turn) == running
        {
            return told.clone();
        }
        let on_confirm = self.turn.as_ref().map(|it| it.on_confirm.clone());
        let told = self.shell_offered(transcript, begins, &on_confirm.unwrap_or_default());
        let told = told.map(Arc::new);
        if let Some(turn) = running {
            self.told.shell = Some((turn, told.clone()));
        }
        told
    }

    /// What requests of a turn that is asked so say of the shell. `None`: no command could run.
    pub(super) fn shell_offered(
        &self,
        transcript: &Transcript,
        begins: Option<&Commit>,
        on_confirm: &OnConfirm,
    ) -> Option<Offered> {
        let by_itself = transcript.run().is_some();
        let consent = self.with_command_gate_for(on_confirm, |gate| gate.offers(by_itself))?;
        let state = begins.map_or(&self.state, |it| &it.state);
        let seq = match &state.running {
            Some(running) => running.environment_seq,
            None => state.shell.environment_seq(),
        };
        let mut unwritten = begins.iter().flat_map(|it| &it.records);
        let given = match unwritten.find(|it| Some(it.seq) == seq) {
            Some(record) => given(record.event.clone()),
            None => self.given_at(seq),
        };
        let setting = self.setting(given.unwrap_or_default(), &state.cwd);
        let feeds_back = by_itself || self.around.policy.borrow().shell.feed_back;
        let seen = if feeds_back { Seen::AtOnce } else { Seen::Next };
        Some(Offered::new(&setting, machine::system(), consent, seen))
    }

    /// What was found of the directory is what this turn tells.
    pub(super) fn looked(&mut self, turn: TurnId, looked: Looked) {
        let Looked { blocks, remarks } = looked;
        if let Some(transcript) = &mut self.transcript {
            transcript.set_project(blocks.clone());
        }
        self.told.turn = Some(turn);
        self.told.blocks = blocks;
        self.told.remarks = remarks;
    }

    /// People are told what this offer had no room for.
    pub(super) fn remark_on(&mut self, offer: &Offer) {
        let left_out = offer.left_out().map(str::to_owned);
        self.told.remarks.extend(left_out);
    }

    /// What people should know of it, as facts.
    pub(super) fn remark_facts(&mut self, turn: TurnId) -> Vec<Fact> {
        let remarks = self.told.take_remarks().into_iter();
        let facts = remarks.map(|text| Fact {
            turn: Some(turn),
            by: None,
            event: Event::Status {
                level: Level::Info,
                text,
            },
        });
        facts.collect()
    }
}
