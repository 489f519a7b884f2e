//! What a prompt says, asked as a question: one of a server, or one that people keep.

use aish_proto::id::ConversationId;
use aish_proto::mcp::{CallPrompt, CallPromptParams};
use aish_proto::prompt;
use aish_proto::turn::{OnConfirm, SendMode, SendResult};
use tokio::io::AsyncWrite;
use ulid::Ulid;

use crate::args::{AskArgs, Command, Global};
use crate::ask::{self, Asker, Place};
use crate::connect::{CallError, Caller};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hello::{Reach, Wait};
use crate::mcp::{ASK_DEADLINE, AskPrompt, Mcp};
use crate::receipt::{Begun, Progress, Sent, or_stop};
use crate::saved_prompt::{AskSaved, Prompt};

/// Which prompt, and what it is to be made with.
#[derive(Clone, Debug)]
pub enum Prompted {
    Served(AskPrompt),
    Saved(AskSaved),
}

impl Prompted {
    /// What a command asks, when it asks a prompt.
    pub fn of(command: &Command) -> Option<Self> {
        if let Command::Mcp {
            command: Some(Mcp::Ask(args)),
        } = command
        {
            Some(Self::Served(args.clone()))
        } else if let Command::Prompt {
            command: Some(Prompt::Ask(args)),
        } = command
        {
            Some(Self::Saved(args.clone()))
        } else {
            None
        }
    }
}

/// A question, the same one however often it is sent.
struct Question<'a> {
    prompted: &'a Prompted,
    place: Place,
    key: String,
    model: Option<String>,
    on_confirm: Option<OnConfirm>,
}

/// Asks, and prints the answer.
pub async fn run<O: AsyncWrite + Unpin>(
    mut asker: Asker<'_, O>,
    prompted: &Prompted,
) -> Result<Exit, Failure> {
    let done = answered(&mut asker, prompted).await;
    asker.report_failure(&done).await;
    done
}

async fn answered<O: AsyncWrite + Unpin>(
    asker: &mut Asker<'_, O>,
    prompted: &Prompted,
) -> Result<Exit, Failure> {
    asker.listen()?;
    let progress = Progress::default();
    let asking = begin(asker.reach, asker.global, prompted, &progress);
    match or_stop(asker.signals, asker.give_up(), &progress, asking).await? {
        Begun::Sent(sent) => {
            let (link, conversation, sent) = *sent;
            asker.answer(link, conversation, &sent).await
        }
        Begun::Stopped(exit) => ask::stopped_by(exit),
    }
}

async fn begin(
    reach: &Reach,
    global: &Global,
    prompted: &Prompted,
    progress: &Progress,
) -> Result<Sent, Failure> {
    let mut link = reach.open(Wait::No).await?;
    let usual = AskArgs::default();
    let place = ask::place(reach, global, &link.caller, &usual).await?;
    let on_confirm = ask::on_confirm(&usual, ask::may_prompt(&reach.around, global));
    let question = Question {
        prompted,
        place,
        key: Ulid::new().to_string(),
        model: global.model.clone(),
        on_confirm: Some(on_confirm),
    };
    loop {
        progress.sending();
        let within = global.timeout.unwrap_or(ASK_DEADLINE);
        match question.send(&link.caller, within).await {
            Ok(sent) => return Ok((link, question.place.id, sent)),
            // The key makes it the same turn, whether or not it had arrived.
            Err(error) if error.is_transient() && !progress.is_stopped() => {
                link = reach.open(Wait::UntilBack).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Asks in a conversation that somebody looks at.
pub async fn send(
    caller: &Caller,
    conversation: ConversationId,
    prompted: &Prompted,
    model: Option<String>,
) -> Result<SendResult, Failure> {
    let question = Question {
        prompted,
        place: Place {
            id: conversation,
            new: None,
        },
        key: Ulid::new().to_string(),
        model,
        on_confirm: None,
    };
    Ok(question.send(caller, ASK_DEADLINE).await?)
}

impl Question<'_> {
    async fn send(
        &self,
        caller: &Caller,
        within: std::time::Duration,
    ) -> Result<SendResult, CallError> {
        let within = Some(within);
        match self.prompted {
            Prompted::Served(args) => {
                let params = CallPromptParams {
                    conversation: self.place.id,
                    alias: args.alias.clone(),
                    name: args.prompt.clone(),
                    arguments: args.arguments.iter().cloned().collect(),
                    new: self.place.new.clone(),
                    idempotency_key: self.key.clone(),
                    mode: SendMode::Queue,
                    model: self.model.clone(),
                    on_confirm: self.on_confirm.clone(),
                };
                caller.call_within::<CallPrompt>(params, within).await
            }
            Prompted::Saved(args) => {
                let params = prompt::CallParams {
                    conversation: self.place.id,
                    name: args.name.clone(),
                    arguments: args.arguments.iter().cloned().collect(),
                    new: self.place.new.clone(),
                    idempotency_key: self.key.clone(),
                    mode: SendMode::Queue,
                    model: self.model.clone(),
                    on_confirm: self.on_confirm.clone(),
                };
                caller.call_within::<prompt::Call>(params, within).await
            }
        }
    }
}
