//! Hosts that a command in layers may reach, in the actor: what rules and answers allow it, and questions of the conversation
//! about the others. No turn waits for those; a connection does, for a while. When nobody answers it is a no, so that no command
//! hangs at which nobody looks.

use std::collections::BTreeSet;
use std::time::Duration;

use aish_proto::id::TurnId;
use aishd_log::confirm::host::HostSubject;
use aishd_log::confirm::{ConfirmFate, Resolution};
use aishd_log::event::Event;
use aishd_log::state::confirms::{AsideSubject, OpenConfirm};
use aishd_log::time::Timestamp;
use aishd_log::tool_name::ToolName;
use aishd_platform::clock;
use aishd_rules::asking::may_ask;
use aishd_rules::gate::AdmittedCall;
use aishd_tools::{
    HostAnswer, HostRules, HostScheme, NetworkWish, QuestionSettings, host_patterns,
};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::actor::Conversation;
use crate::actor::aside_questions::answered;
use crate::pending_commit::UncommittedFact;
use crate::questions::hosts::{HostAsker, HostNews, HostWish, OpenHost};
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer};
use crate::view::LiveChange;

/// The question ends first; this is for a log that takes no end.
const BEYOND: Duration = Duration::from_secs(60);
/// Of one command at once.
const MOST_OPEN: usize = 4;
/// Of one command altogether. Names cost nothing, and nobody should say yes to be left alone.
const MOST_ASKED: usize = 12;

impl Conversation {
    /// What a command in layers may reach; what it asks beyond is heard from here on.
    pub(crate) fn network_for(&mut self, command: &str, run: Option<TurnId>) -> NetworkWish {
        let of_run = run.and_then(|it| self.state.hosts_of(it));
        let (allowed, denied) = of_run
            .map(|it| (it.allowed.clone(), it.denied.clone()))
            .unwrap_or_default();
        let command = command.to_owned();
        self.network((command, None), run, (allowed, denied))
    }

    /// What a call that reads pages may reach. What it was not given in a turn nobody is asked about again there.
    pub(crate) fn network_for_call(&mut self, turn: TurnId, go: &AdmittedCall) -> NetworkWish {
        let tool = go.tool.name.clone();
        let url = go.arguments.get("url").and_then(Value::as_str);
        let command = format!("{tool} {}", url.unwrap_or_default());
        let denied = self.hosts.denied_in(turn);
        self.network((command, Some(tool)), None, (vec![], denied))
    }

    fn network(
        &mut self,
        (command, tool): (String, Option<ToolName>),
        run: Option<TurnId>,
        (allowed, denied): (Vec<String>, Vec<String>),
    ) -> NetworkWish {
        if self.state.constraints.no_network {
            return NetworkWish::default();
        }
        let answered: BTreeSet<&String> = self.state.grants.hosts.iter().chain(&allowed).collect();
        let policy = self.services.policy.borrow();
        let wait_ms = policy.host_wait_ms;
        // All were read before they were kept.
        let rules = HostRules {
            allow: host_patterns(&policy.hosts).unwrap_or_default(),
            allow_public: host_patterns(answered).unwrap_or_default(),
            deny: host_patterns(&denied).unwrap_or_default(),
        };
        drop(policy);
        let (sender, asked) = mpsc::channel(MOST_OPEN);
        self.hosts.begin(HostAsker {
            command,
            tool,
            run,
            asked,
            count: 0,
        });
        NetworkWish {
            rules,
            questions: Some(QuestionSettings {
                asked: sender,
                most_open: MOST_OPEN,
                deadline: Duration::from_millis(wait_ms).saturating_add(BEYOND),
            }),
        }
    }

    pub(crate) async fn take_host_news(&mut self, news: HostNews) {
        match news {
            HostNews::Asked(wish) => self.on_wanted_host(*wish).await,
            HostNews::GivenUp(confirm) => match self.state.open_confirm(confirm).cloned() {
                Some(open) => self.end_aside(&open, ConfirmFate::Cancelled).await,
                None => drop(self.hosts.take(confirm)),
            },
        }
    }

    /// Puts it before people, or answers in their place.
    async fn on_wanted_host(&mut self, wish: HostWish) {
        let HostWish {
            command,
            tool,
            run,
            question,
            count,
        } = wish;
        let asked = question.question();
        let host = asked.target.to_string();
        if self.state.grants.hosts.contains(&host) {
            return question.settle(HostAnswer::Allow);
        }
        let turn = self.turn.as_ref();
        let may_be_asked = turn.is_some_and(|it| {
            let is_over = it.token.is_cancelled() || self.services.draining.is_cancelled();
            !is_over && may_ask(&it.on_confirm, self.expiry.presence()).is_ok()
        });
        if !may_be_asked || count > MOST_ASKED || self.state.constraints.no_network {
            return question.settle(HostAnswer::Deny);
        }
        let now = clock::now();
        let wait_ms = self.services.policy.borrow().host_wait_ms;
        let deadline = Timestamp(now.0.saturating_add_unsigned(wait_ms));
        let sooner = turn.and_then(|it| it.on_confirm.expires_at(now));
        let expires_at = sooner.map_or(deadline, |it| it.min(deadline));
        let plain = asked.scheme == HostScheme::PlainHttp;
        let is_of_call = tool.is_some();
        let subject = HostSubject::new(host, plain, (&command, tool), run);
        let confirm = subject.confirm(self.next_confirm(), expires_at);
        let id = confirm.id;
        let of_call = turn.map(|it| it.id).filter(|_| is_of_call);
        let fact = UncommittedFact {
            // Who follows the run, or the turn of the call, sees it; neither waits for it.
            turn: run.or(of_call),
            by: None,
            event: Event::ConfirmRequested(Box::new(confirm)),
        };
        // Dropped, it is a no.
        match self.commit(&[fact], LiveChange::Keep).await {
            Ok(_) => self.hosts.add(OpenHost {
                confirm: id,
                question,
                is_of_call,
            }),
            Err(error) => {
                tracing::warn!(conversation = %self.id, %error, "a host is not asked about");
            }
        }
    }

    /// The answer is a fact before the connection goes on.
    pub(crate) async fn answer_host(
        &mut self,
        open: &OpenConfirm,
        answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        if !self.hosts.is_open(open.id) {
            self.end_aside(open, ConfirmFate::Cancelled).await;
            return Ok(AnswerOutcome::Cancelled);
        }
        let end = UncommittedFact {
            turn: open.turn_of_host(),
            ..answered(open, answering)
        };
        self.commit(&[end], LiveChange::Keep).await?;
        Ok(AnswerOutcome::Resolved)
    }

    /// A question is over: so it is for the connections that wait, and for those of the same command that come later.
    pub(crate) fn settle_host(&mut self, resolution: &Resolution) {
        let Some(OpenHost {
            question,
            is_of_call,
            ..
        }) = self.hosts.take(resolution.confirm)
        else {
            return;
        };
        let is_no = matches!(resolution.fate, ConfirmFate::Denied | ConfirmFate::Expired);
        let turn = self.turn.as_ref().map(|it| it.id);
        if let Some(turn) = turn.filter(|_| is_of_call && is_no) {
            let host = question.question().target.to_string();
            self.hosts.deny_in(turn, host);
        }
        match resolution.fate {
            ConfirmFate::Allowed => question.settle(HostAnswer::Allow),
            ConfirmFate::Denied => question.settle(HostAnswer::Deny),
            ConfirmFate::Expired => question.settle(HostAnswer::Unanswered),
            ConfirmFate::Cancelled => drop(question),
        }
    }

    /// The ends of questions of a daemon before this one, whose connections are gone.
    pub(crate) fn hosts_left(&self) -> Vec<UncommittedFact> {
        let open = self.state.confirms.iter();
        let open = open.filter(|it| matches!(it.aside, Some(AsideSubject::Host(_))));
        let ended = open.map(|it| UncommittedFact {
            turn: it.turn_of_host(),
            by: None,
            event: Event::ConfirmResolved(Box::new(
                it.unanswered(ConfirmFate::Cancelled, clock::now()),
            )),
        });
        ended.collect()
    }
}
