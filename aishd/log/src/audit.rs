//! The audit trail: what is told of every decision about an effect, and of every call.
//!
//! No text of a model, of a tool or of a person stands in it, so that there can be no secret in it: names, rules,
//! digests, sizes and times do. What was said stands in the conversation's log, and `fact` is the digest of that.
//! The serde attributes spell the stored form out, as in [`crate::event`].

#![warn(clippy::wildcard_enum_match_arm)]

pub mod chain;
pub mod fact;
pub mod rules;
pub mod verdict;

use std::num::NonZeroU32;

use aish_proto::id::{ChangesId, ConfirmId, ConversationId, Seq, TurnId};
use serde::{Deserialize, Serialize};

use self::rules::RuleChange;
use crate::access::Access;
use crate::answering_person::AnsweringPerson;
use crate::changes_undo::UndoAct;
use crate::confirm::{ConfirmFate, Decision, Denial, OnConfirm};
use crate::event::{PresetSource, Record};
use crate::grants::GrantScope;
use crate::level_request::LevelStep;
use crate::network::NetworkUse;
use crate::norris::launch::{RunLimits, UnaskedLevels};
use crate::pattern::Patterns;
use crate::profile::Profile;
use crate::resource::ResourceOutcome;
use crate::routed::{self, RoutedSide};
use crate::run_changes::{ChangesOutcome, PartAct, PartStage};
use crate::state::ConversationState;
use crate::time::Timestamp;
use crate::tool::{ContentDigest, DecisionSubject};
use crate::tool_name::{Alias, ToolName};

/// One thing that is told, before it has its place in the trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditDraft {
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// Where the fact stands in the conversation's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Whoever caused it, where that was somebody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweringPerson>,
    /// Of the bytes that stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fact: Option<ContentDigest>,
    pub told: AuditFact,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditFact {
    /// A client asked for a turn; `on_confirm` is what it allowed for it beforehand.
    TurnAsked {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_confirm: Option<OnConfirm>,
    },
    /// The model that gets the conversation to read.
    ModelChosen { model: String, source: PresetSource },
    /// A question's look was asked which preset answers it.
    QuestionRouted(routed::RoutingDecision),
    /// Another model gets the conversation to read, because the first one's server looks down.
    FellBack {
        from: String,
        to: String,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    /// Somebody switched routing or fallback; `None`: as it is configured.
    RoutingSwitched {
        which: RoutedSide,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<bool>,
    },
    /// What people keep for all conversations; what it says is not told.
    MemoryChanged { what: String },
    ConfirmRequested {
        confirm: ConfirmId,
        subject: DecisionSubject,
        needs: Access,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raise_to: Option<Access>,
        why: String,
    },
    /// Somebody let a model work by itself.
    NorrisLaunched {
        levels: UnaskedLevels,
        limits: RunLimits,
        second_opinion: bool,
    },
    /// A level was asked for.
    RaiseRequested {
        confirm: ConfirmId,
        upgrade: LevelStep,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wanted_for: Option<ToolName>,
    },
    /// A fact was proposed; what it says is not told.
    MemoryProposed {
        confirm: ConfirmId,
        /// Of the fact, as an answer is bound to it.
        digest: ContentDigest,
        /// Whose idea it is.
        preset: String,
    },
    ConfirmResolved {
        confirm: ConfirmId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<DecisionSubject>,
        /// What it was about, where that was a level.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        upgrade: Option<LevelStep>,
        fate: ConfirmFate,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited_ms: Option<u64>,
        /// Definitions that run unasked from now on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approved: Vec<(ToolName, ContentDigest)>,
        /// So many places were named of which alone the changes are kept; none: of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<NonZeroU32>,
    },
    /// What a run changed in layers is asked about.
    ChangesProposed {
        confirm: ConfirmId,
        /// Files, directories and links that it would change.
        changed: u64,
    },
    /// A command in layers wanted to reach a host that no rule names.
    HostAsked { confirm: ConfirmId, host: String },
    /// What a run changed is real, or gone.
    ChangesSettled {
        outcome: ChangesOutcome,
        /// Paths that were kept.
        kept: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    },
    /// What a run has changed so far, or a part of it, is kept or dropped while the run goes on.
    ChangesPart {
        act: PartAct,
        stage: PartStage,
        /// Paths that it is about.
        changed: u64,
    },
    /// Somebody wanted what was kept to be taken back, or to be done again.
    ChangesUndone {
        #[serde(default)]
        act: UndoAct,
        changes: ChangesId,
        outcome: UndoOutcome,
        /// Paths that are as before, or as they were kept; of a conflict those that somebody has changed since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        paths: Option<u64>,
    },
    /// A command was tried in layers over the files; nothing of it is real.
    CommandTried {
        confirm: ConfirmId,
        subject: Option<DecisionSubject>,
        /// Files, directories and links that it would change.
        changed: u64,
        ok: bool,
        /// Hosts that it reached, and that it was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<Box<NetworkUse>>,
    },
    /// From here on it may have had its effect.
    CallStarted {
        call: CallMark,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<DecisionSubject>,
        /// What let it through.
        rule: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    },
    CallEnded {
        call: CallMark,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<DecisionSubject>,
        outcome: CallOutcome,
        /// Hosts that it reached, and that it was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<Box<NetworkUse>>,
    },
    /// It never began.
    CallRefused {
        call: CallMark,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<DecisionSubject>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denial: Option<Denial>,
        because: String,
    },
    PermissionChanged {
        /// Absent: the one level of an older layout, which was handed out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Alias>,
        from: Access,
        to: Access,
        #[serde(default)]
        revoked: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    },
    /// A client lets these run unasked while it is attached; nothing: it took that back.
    AutoApproveSet {
        #[serde(default)]
        patterns: Patterns,
        scope: GrantScope,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<NonZeroU32>,
    },
    /// Somebody made a conversation of what was said elsewhere.
    ConversationImported { messages: u64 },
    /// Other rules of the configuration are in force.
    PolicyChanged(RuleChange),
    /// The conversation keeps itself from other things than before.
    ConstraintsChanged(RuleChange),
    /// What a server has under this name is in every request from now on; the digest is of the name.
    ResourcePinned {
        provider: Alias,
        resource: ContentDigest,
    },
    ResourceUnpinned {
        provider: Alias,
        resource: ContentDigest,
    },
    /// The shared context changed. The digest is of the resource's name, which can be a model's text.
    ResourceChanged {
        /// `None`: a person did it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Alias>,
        resource: ContentDigest,
        change: ResourceOutcome,
        revision: u64,
        bytes: u64,
    },
    /// A server was asked for a prompt; its answer became a question, or was shown.
    PromptAsked {
        provider: Alias,
        /// Not named where the server did not know it. The digest is of the name and the arguments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<ToolName>,
        digest: ContentDigest,
        outcome: CallOutcome,
    },
    /// Somebody read a resource of a server.
    ResourceRead {
        provider: Alias,
        /// Of its URI.
        resource: ContentDigest,
    },
    /// Somebody had a server connected to, left or begun anew.
    ServerChanged {
        provider: Alias,
        change: ServerChange,
        /// Of the command or the URL as it is shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<ContentDigest>,
        /// Where somebody signed in or out, as far as it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sign_in: Option<Box<SignInAudit>>,
    },
    /// A program of the configuration was started, for somebody to come to a question.
    NoticeGiven {
        confirm: ConfirmId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subject: Option<DecisionSubject>,
        /// What it is about, where that is a level.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        upgrade: Option<LevelStep>,
        outcome: NotifyOutcome,
    },
    /// A program was started within what its profile lets it reach.
    ProgramHeld {
        /// `None`: it is no server's and no tool's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Alias>,
        profile: Profile,
        /// Whether Landlock holds it as well, beside namespaces and a filter of system calls.
        landlock: bool,
    },
    /// A program under a profile has ended that had wanted to reach hosts.
    ProgramReached {
        /// `None`: it is no server's and no tool's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Alias>,
        network: Box<NetworkUse>,
    },
    /// What an action was taken to mean.
    Routed(RoutedAudit),
    /// Its log goes; what was told of it stays.
    ConversationDeleted,
    /// What could not be read of the store any more was taken out of it.
    StoreRepaired {
        /// As many records of conversations are lost.
        records: u64,
        /// Records of this trail that are lost: the first and the last of each gap.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        trail: Vec<(u64, u64)>,
    },
}

/// A choice of the router, and what the rules say to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutedAudit {
    /// The digest of its words.
    pub action: ContentDigest,
    pub outcome: RoutedAs,
    /// The likeliest, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// How sure, in thousandths.
    pub confidence: u16,
    /// The rule that the action is against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<String>,
}

/// How a routing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutedAs {
    Found,
    Ambiguous,
    Unknown,
}

/// What somebody did to the session with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerChange {
    Connected,
    Disconnected,
    Restarted,
    SignedIn,
    SignedOut,
    /// Nobody did it: its token was to be renewed, and was not.
    NotRenewed,
}

/// A sign-in, by what the authorization server calls itself and what it granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInAudit {
    pub issuer: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Of a renewal that failed: the code of OAuth, or what happened in place of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What became of a call that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    Ok {
        bytes: u64,
        ms: u64,
    },
    Failed {
        bytes: u64,
        ms: u64,
    },
    /// It was left while it ran.
    Unknown,
}

/// What became of a wish to take back what was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoOutcome {
    /// All of it.
    Undone,
    /// Somebody has changed the files since, and nothing was touched.
    Conflict,
    /// It began and did not end; the next start goes on with it or takes it back.
    Unfinished,
    /// It did not begin.
    Failed,
}

/// What became of a program that tells of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyOutcome {
    Given,
    /// It could not be started, ended with a fault, or was ended because it did not.
    Failed,
}

/// Ties the start of a call to its end: a few digits of the digest of its id, which is the model server's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallMark(pub String);

impl CallMark {
    pub fn of(call: &str) -> Self {
        let digest = ContentDigest::of(call.as_bytes()).to_string();
        Self(digest.chars().take(16).collect())
    }
}

impl AuditDraft {
    /// What is to be told of a record that comes after `before`. Its `fact` is not known yet.
    pub fn of(
        conversation: ConversationId,
        before: &ConversationState,
        record: &Record,
    ) -> Option<Self> {
        Some(Self {
            at: record.at,
            conversation: Some(conversation),
            seq: Some(record.seq),
            turn: record.turn,
            by: None,
            fact: None,
            told: fact::audit_fact(before, &record.event)?,
        })
    }

    /// The same, put down to somebody.
    pub fn by(self, by: Option<AnsweringPerson>) -> Self {
        Self { by, ..self }
    }

    /// What concerns no event of a conversation's log.
    pub fn outside_conversation(at: Timestamp, told: AuditFact) -> Self {
        Self {
            at,
            conversation: None,
            seq: None,
            turn: None,
            by: None,
            fact: None,
            told,
        }
    }
}
