//! Where answers go: each is a line, or those to one batch are one line together.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::outlet::Outlet;

/// Of one line; cheap to clone. The answers to a batch are said when the last clone has gone.
#[derive(Clone, Debug)]
pub(super) enum Replies {
    One(Outlet),
    Batch(Arc<Batch>),
}

#[derive(Debug)]
pub(super) struct Batch {
    out: Outlet,
    answers: Mutex<Vec<Value>>,
}

impl Replies {
    pub(super) fn one(out: &Outlet) -> Self {
        Self::One(out.clone())
    }

    pub(super) fn batch(out: &Outlet) -> Self {
        Self::Batch(Arc::new(Batch {
            out: out.clone(),
            answers: Mutex::default(),
        }))
    }

    pub(super) async fn give(&self, answer: Value) {
        match self {
            Self::One(out) => out.say(&answer).await,
            Self::Batch(batch) => {
                let mut answers = batch.answers.lock();
                answers.push(answer);
            }
        }
    }

    /// Says what there is to say together, if nobody else has an answer to add.
    pub(super) async fn done(self) {
        if let Self::Batch(batch) = self
            && let Some(batch) = Arc::into_inner(batch)
        {
            let answers = batch.answers.into_inner();
            if !answers.is_empty() {
                batch.out.say(&Value::Array(answers)).await;
            }
        }
    }
}
