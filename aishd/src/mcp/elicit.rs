//! What a server asks of us or of a person (MCP-15). What is off is not announced, and declined if it comes anyway.

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::message::METHOD_NOT_FOUND;
use crate::core::tool_name::Alias;

/// A form or a page that a server wants a person to see. Whoever takes it answers it, or drops it, which declines.
#[derive(Debug)]
pub struct Elicitation {
    /// Which server asks; a person is to be shown that.
    pub alias: Alias,
    /// As sent: `message`, `requestedSchema` or `url`.
    pub params: Value,
    pub answer: oneshot::Sender<Elicited>,
}

/// What the person said.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited {
    Accepted(Map<String, Value>),
    Declined,
    /// Neither yes nor no: the question went away.
    Dismissed,
}

/// Who can answer for this client.
#[derive(Clone)]
pub(super) struct Respondent<'a> {
    pub(super) alias: &'a Alias,
    pub(super) elicitations: Option<&'a mpsc::Sender<Elicitation>>,
    /// `file://` addresses of the open conversations' directories.
    pub(super) roots: &'a (dyn Fn() -> Vec<String> + Send + Sync),
}

impl Respondent<'_> {
    /// The answer to a server's request, as result or as error.
    pub(super) async fn answer(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Value, (i64, &'static str)> {
        match method {
            "ping" => Ok(json!({})),
            "roots/list" => {
                let roots = (self.roots)();
                let roots: Vec<Value> = roots.iter().map(|it| json!({"uri": it})).collect();
                Ok(json!({ "roots": roots }))
            }
            "elicitation/create" => match self.elicitations {
                Some(people) => Ok(self.elicit(people, params).await),
                None => Err((METHOD_NOT_FOUND, "this client shows no forms")),
            },
            _other => Err((METHOD_NOT_FOUND, "this client does not do that")),
        }
    }

    async fn elicit(&self, people: &mpsc::Sender<Elicitation>, params: Value) -> Value {
        let (answer, answered) = oneshot::channel();
        let question = Elicitation {
            alias: self.alias.clone(),
            params,
            answer,
        };
        let elicited = match people.send(question).await {
            Ok(()) => answered.await.unwrap_or(Elicited::Declined),
            Err(_nobody) => Elicited::Declined,
        };
        match elicited {
            Elicited::Accepted(content) => json!({"action": "accept", "content": content}),
            Elicited::Declined => json!({"action": "decline"}),
            Elicited::Dismissed => json!({"action": "cancel"}),
        }
    }
}
