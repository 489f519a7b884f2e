//! A server wants a model to be asked while its call runs: who may decide that, and what the server hears.

use aishd_log::tool_name::Alias;
use serde_json::Value;
use tokio::sync::oneshot;

use super::elicitation::PeopleLink;
use super::message::{INTERNAL_ERROR, INVALID_PARAMS};

/// What the protocol has for a person's no.
const REJECTED: i64 = -1;

/// A request for a model. Whoever takes it answers it, or drops it, which dismisses it.
#[derive(Debug)]
pub struct SamplingCall {
    /// Which server asks; a person is to be shown that.
    pub alias: Alias,
    /// As sent.
    pub params: Value,
    /// Closed when the server does not want to know any more.
    pub answer: oneshot::Sender<SamplingOutcome>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub enum SamplingOutcome {
    /// The model's answer, as the server is told it.
    Answered(Value),
    Declined,
    /// Neither yes nor no: the question went away.
    Dismissed,
    /// It cannot be asked, for this reason.
    Refused(String),
    /// It was allowed, and the model gave no whole answer.
    Failed(String),
}

/// The answer to `sampling/createMessage`, as result or as error.
pub(super) async fn answer(
    alias: &Alias,
    people: Option<&PeopleLink>,
    params: Value,
) -> Result<Value, (i64, String)> {
    let asked = match people {
        Some(people) => people.sample(alias, params).await,
        None => None,
    };
    let sampled = asked.unwrap_or_else(|| {
        tracing::warn!(mcp = %alias, "a request for a model of no call that anybody looks at is declined");
        SamplingOutcome::Declined
    });
    match sampled {
        SamplingOutcome::Answered(result) => Ok(result),
        SamplingOutcome::Declined => Err((
            REJECTED,
            "the user rejected the sampling request".to_owned(),
        )),
        SamplingOutcome::Dismissed => {
            Err((REJECTED, "nobody answered the sampling request".to_owned()))
        }
        SamplingOutcome::Refused(why) => Err((INVALID_PARAMS, why)),
        SamplingOutcome::Failed(why) => Err((INTERNAL_ERROR, why)),
    }
}
