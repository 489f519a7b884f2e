//! What a server asks of us or of a person. What is off is not announced, and refused if it comes anyway.

use std::path::PathBuf;

use aishd_log::tool_name::Alias;
use reqwest::Url;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::era::ClientAbilities;
use super::message::{INVALID_PARAMS, METHOD_NOT_FOUND};
use super::sampling::{self, SamplingCall, SamplingOutcome};
use crate::call_listener::CallListener;

/// More directories than anybody works in.
const MAX_ROOTS: usize = 64;

/// A form or a page that a server wants a person to see. Whoever takes it answers it, or drops it, which dismisses it.
#[derive(Debug)]
pub struct ElicitationCall {
    /// Which server asks; a person is to be shown that.
    pub alias: Alias,
    /// As sent: `message`, `requestedSchema` or `url`.
    pub params: Value,
    /// Closed when the server does not want to know any more.
    pub answer: oneshot::Sender<ElicitationAnswer>,
}

/// What the person said.
#[derive(Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// A form, filled in.
    Accepted(Map<String, Value>),
    /// A page is looked at.
    Agreed,
    Declined,
    /// Neither yes nor no: the question went away.
    Dismissed,
    /// It cannot be shown to anybody, for this reason.
    Refused(String),
}

/// What a person typed is nobody else's.
impl std::fmt::Debug for ElicitationAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accepted(content) => write!(f, "Accepted({} fields)", content.len()),
            Self::Agreed => f.write_str("Agreed"),
            Self::Declined => f.write_str("Declined"),
            Self::Dismissed => f.write_str("Dismissed"),
            Self::Refused(why) => write!(f, "Refused({why:?})"),
        }
    }
}

/// The way from a call to the people who can answer its server's questions.
#[derive(Clone, Debug)]
pub(super) struct PeopleLink {
    forms: Option<mpsc::Sender<ElicitationCall>>,
    models: Option<mpsc::Sender<SamplingCall>>,
    /// Questions that wait for them. While there is one, the clock of the call stands still.
    waiting: watch::Sender<usize>,
}

/// A question waits for a person until this is dropped.
struct QuestionWait<'a>(&'a watch::Sender<usize>);

impl<'a> QuestionWait<'a> {
    fn begin(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|it| *it += 1);
        Self(waiting)
    }
}

impl Drop for QuestionWait<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|it| *it -= 1);
    }
}

impl PeopleLink {
    /// Those who hear of a call, if anybody does.
    pub(super) fn of(ears: &CallListener) -> Option<Self> {
        let (forms, models) = (ears.forms.clone(), ears.models.clone());
        (forms.is_some() || models.is_some()).then(|| Self {
            forms,
            models,
            waiting: watch::Sender::new(0),
        })
    }

    /// How many questions wait for them, as it changes.
    pub(super) fn waiting(&self) -> watch::Receiver<usize> {
        self.waiting.subscribe()
    }

    /// `None`: there is nobody for it.
    pub(super) async fn sample(&self, alias: &Alias, params: Value) -> Option<SamplingOutcome> {
        let models = self.models.as_ref()?;
        let _clock_stands = QuestionWait::begin(&self.waiting);
        let (answer, answered) = oneshot::channel();
        let wanted = SamplingCall {
            alias: alias.clone(),
            params,
            answer,
        };
        Some(match models.send(wanted).await {
            Ok(()) => answered.await.unwrap_or(SamplingOutcome::Dismissed),
            Err(_nobody) => SamplingOutcome::Dismissed,
        })
    }

    /// `None`: there is nobody for it.
    async fn ask(&self, alias: &Alias, params: Value) -> Option<ElicitationAnswer> {
        let forms = self.forms.as_ref()?;
        let _clock_stands = QuestionWait::begin(&self.waiting);
        let (answer, answered) = oneshot::channel();
        let question = ElicitationCall {
            alias: alias.clone(),
            params,
            answer,
        };
        Some(match forms.send(question).await {
            Ok(()) => answered.await.unwrap_or(ElicitationAnswer::Dismissed),
            Err(_nobody) => ElicitationAnswer::Dismissed,
        })
    }
}

/// Who can answer for this client.
#[derive(Clone)]
pub(super) struct ElicitRespondent<'a> {
    pub(super) alias: &'a Alias,
    pub(super) abilities: ClientAbilities,
    /// Those of the call that is asked about; `None`: it belongs to no call that anybody looks at.
    pub(super) people: Option<PeopleLink>,
    /// The directories of the conversations.
    pub(super) roots: &'a (dyn Fn() -> Vec<PathBuf> + Send + Sync),
}

impl ElicitRespondent<'_> {
    /// The answer to a server's request, as result or as error.
    pub(super) async fn answer(&self, method: &str, params: Value) -> Result<Value, (i64, String)> {
        let refuse = |why: &str| Err((METHOD_NOT_FOUND, why.to_owned()));
        match method {
            "ping" => Ok(json!({})),
            "roots/list" => {
                let urls = (self.roots)().into_iter().take(MAX_ROOTS);
                let urls = urls.filter_map(|it| Url::from_file_path(it).ok());
                let roots: Vec<Value> = urls.map(|it| json!({"uri": it.as_str()})).collect();
                Ok(json!({ "roots": roots }))
            }
            "elicitation/create" if self.abilities.elicitation => self.elicit(params).await,
            "elicitation/create" => refuse("this client shows no forms"),
            "sampling/createMessage" if self.abilities.sampling => {
                sampling::answer(self.alias, self.people.as_ref(), params).await
            }
            "sampling/createMessage" => refuse("this client lends no model to this server"),
            _other => refuse("this client does not do that"),
        }
    }

    async fn elicit(&self, params: Value) -> Result<Value, (i64, String)> {
        let asked = match &self.people {
            Some(people) => people.ask(self.alias, params).await,
            None => None,
        };
        let elicited = asked.unwrap_or_else(|| {
            tracing::warn!(mcp = %self.alias, "a form of no call that anybody looks at is declined");
            ElicitationAnswer::Declined
        });
        match elicited {
            ElicitationAnswer::Accepted(content) => {
                Ok(json!({"action": "accept", "content": content}))
            }
            ElicitationAnswer::Agreed => Ok(json!({"action": "accept"})),
            ElicitationAnswer::Declined => Ok(json!({"action": "decline"})),
            ElicitationAnswer::Dismissed => Ok(json!({"action": "cancel"})),
            ElicitationAnswer::Refused(why) => Err((INVALID_PARAMS, why)),
        }
    }
}
