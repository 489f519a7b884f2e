//! Where answers go: each is a line, or those to one batch are one line together.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::stdout_lines::GatewayOutlet;

/// Of one line; cheap to clone. The answers to a batch are said when the last clone has gone.
#[derive(Clone, Debug)]
pub(super) enum LineReplies {
    One(GatewayOutlet),
    Batch(Arc<ReplyBatch>),
}

#[derive(Debug)]
pub(super) struct ReplyBatch {
    out: GatewayOutlet,
    answers: Mutex<Vec<Value>>,
}

impl LineReplies {
    pub(super) fn one(out: &GatewayOutlet) -> Self {
        Self::One(out.clone())
    }

    pub(super) fn batch(out: &GatewayOutlet) -> Self {
        Self::Batch(Arc::new(ReplyBatch {
            out: out.clone(),
            answers: Mutex::default(),
        }))
    }

    pub(super) async fn give(&self, answer: Value) {
        match self {
            Self::One(out) => out.write(&answer).await,
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
                batch.out.write(&Value::Array(answers)).await;
            }
        }
    }
}
