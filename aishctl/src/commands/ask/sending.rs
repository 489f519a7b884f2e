//! From words to a turn: reaches the daemon, finds or makes the conversation, and sends the question until it is there.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use aish_proto::attach::{Attach, AttachParams, AttachResult, ReplayStart};
use aish_proto::daemon::{BlobPut, BlobPutParams};
use aish_proto::error::ErrorKind;
use aish_proto::id::BlobId;
use aish_proto::limits::INPUT_BYTES;
use aish_proto::turn::{Attachment, OnConfirm, Send, SendParams, SendResult};
use ulid::Ulid;

use crate::ask_args::AskArgs;
use crate::client::connect::{CallFailure, Caller, RpcCallError};
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonWait};
use crate::commands::ask::target::{AskTarget, may_prompt, on_confirm, place, place_unasked};
use crate::commands::ask_progress::{AskProgress, SentTurn};
use crate::commands::input::{AskInput, GivenInput};
use crate::commands::last_said::{LONG_QUESTION, QUESTION_NAME};
use crate::commands::resource_mention::{self, MentionedResource};
use crate::commands::typed_answer;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::notice::Notices;

/// Follows a question that wants commands and nothing else.
const IN_COMMANDS: &str = "\n\nAnswer with commands for this machine's shell: each on a line of its own that begins with \
`CMD:`, outside of code fences.";

/// Reaches the daemon, finds or makes the conversation, and asks.
pub(super) async fn begin(
    reach: &DaemonReach,
    global: &GlobalArgs,
    notices: &mut Notices,
    args: &AskArgs,
    given: GivenInput,
    progress: &AskProgress,
) -> Result<SentTurn, Failure> {
    let key = Ulid::new().to_string();
    let on_confirm = on_confirm(args, may_prompt(&reach.around, global));
    let question = |place, input| OutgoingAsk {
        accepts_cost: Cell::new(args.accept_cost),
        may_prompt: may_prompt(&reach.around, global),
        place,
        input,
        key: &key,
        args,
        model: global.model.as_deref(),
        on_confirm: &on_confirm,
    };
    if let Some(place) = place_unasked(reach, global, args)
        && given.is_short()
        && !resource_mention::may_be_in(given.question())
    {
        // Nothing has to be known of the daemon: the question goes with the introduction.
        let (input, notes) = given.fit(INPUT_BYTES, args.strict)?;
        let question = question(place, &input);
        let first = |caller: Caller| {
            let question = &question;
            // Calls are large, and who only waits would carry them.
            Box::pin(async move { send(&caller, question, progress).await })
        };
        let (link, first) = reach
            .open_calling(DaemonWait::No, first, || !progress.is_stopped())
            .await?;
        say_started(&link, notices);
        for note in notes {
            notices.print(&note);
        }
        return sent(reach, link, &question, progress, first).await;
    }
    let mut link = reach.open(DaemonWait::No).await?;
    say_started(&link, notices);
    let limit = link.hello.limits.input_bytes.min(INPUT_BYTES);
    let mut given = given;
    for found in resource_mention::read(&link.caller, given.question()).await? {
        match found {
            MentionedResource::Text { name, text } => given.add_text(name, text),
            MentionedResource::Picture(picture) => given.add_picture(picture)?,
        }
    }
    let (input, notes) = given.fit(limit, args.strict)?;
    for note in notes {
        notices.print(&note);
    }
    let place = loop {
        match place(reach, global, &link.caller, args).await {
            Ok(place) => break place,
            Err(failure) if failure.transient => link = reach.open(DaemonWait::UntilBack).await?,
            Err(failure) => return Err(failure),
        }
    };
    let question = question(place, &input);
    sent(reach, link, &question, progress, None).await
}

/// What the daemon said of a question that was sent.
type AskReceipt = Result<(SendResult, Option<AttachResult>), RpcCallError>;

/// Sends it until it is there; `first` is what became of it at the first attempt.
async fn sent(
    reach: &DaemonReach,
    mut link: DaemonLink,
    question: &OutgoingAsk<'_>,
    progress: &AskProgress,
    mut first: Option<AskReceipt>,
) -> Result<SentTurn, Failure> {
    loop {
        let receipt = match first.take() {
            Some(receipt) => receipt,
            None => Box::pin(send(&link.caller, question, progress)).await,
        };
        match receipt {
            Ok((sent, attached)) => {
                link.attached = attached;
                return Ok((link, question.place.id, sent));
            }
            // The key makes it the same question, whether or not it had arrived.
            Err(error) if error.is_transient() && !progress.is_stopped() => {
                link = reach.open(DaemonWait::UntilBack).await?;
            }
            Err(error) => match error.kind {
                CallFailure::Refused(ErrorKind::Costly) if question.may_prompt => {
                    if !typed_answer::is_accepted(&error.message).await? {
                        return Err(Failure::new(Exit::BUDGET, "it was not sent"));
                    }
                    question.accepts_cost.set(true);
                }
                _ => return Err(error.into()),
            },
        }
    }
}

fn say_started(link: &DaemonLink, notices: &mut Notices) {
    if link.started {
        notices.print(&format!("started aishd {}", link.hello.server.version));
    }
}

/// A question with all that belongs to it.
struct OutgoingAsk<'a> {
    /// Whoever asks knows what it takes.
    accepts_cost: Cell<bool>,
    /// A person at this terminal can be asked about that.
    may_prompt: bool,
    place: AskTarget,
    input: &'a AskInput,
    key: &'a str,
    args: &'a AskArgs,
    model: Option<&'a str>,
    on_confirm: &'a OnConfirm,
}

/// Sends a question; what is too large for one line goes ahead in pieces.
async fn send(caller: &Caller, question: &OutgoingAsk<'_>, progress: &AskProgress) -> AskReceipt {
    // Six bytes is the longest that JSON makes of one; a control character, say.
    let line = caller.line_bytes().saturating_sub(16 << 10) / 2;
    let escaped = |text: &str| serde_json::to_string(text).map_or(usize::MAX, |it| it.len());
    let input = question.input;
    let mut room = line;
    let mut attachments = Vec::new();
    let mut text = input.question.clone();
    if question.args.cmd {
        // A model that is not asked to run anything knows nothing of such lines.
        text.push_str(IN_COMMANDS);
    }
    if escaped(&text) > line {
        let blob = put_blob(caller, &text).await?;
        attachments.push(Attachment {
            name: QUESTION_NAME.to_owned(),
            text: None,
            blob: Some(blob),
            base64: false,
        });
        text = LONG_QUESTION.to_owned();
    }
    let texts = input.attachments.iter();
    let texts = texts.map(|(name, content)| (name, content, false));
    let pictures = input.pictures.iter();
    let pictures = pictures.map(|it| (&it.name, &it.base64, true));
    for (name, content, base64) in texts.chain(pictures) {
        let size = escaped(content);
        let inline = size <= room;
        let blob = if inline {
            None
        } else {
            Some(put_blob(caller, content).await?)
        };
        room -= if inline { size } else { 0 };
        attachments.push(Attachment {
            name: name.clone(),
            text: inline.then(|| content.clone()),
            blob,
            base64,
        });
    }
    let AskTarget { id, new } = &question.place;
    let params = SendParams {
        conversation: *id,
        text,
        new: new.clone(),
        idempotency_key: question.key.to_owned(),
        mode: question.args.mode.into(),
        expected_turn: None,
        model: question.model.map(str::to_owned),
        attachments,
        on_confirm: Some(question.on_confirm.clone()),
        max_tool_depth: question.args.max_tool_depth,
        accept_cost: question.accepts_cost.get(),
    };
    progress.sending();
    let deadline = Some(caller.deadline().max(Duration::from_secs(10)));
    let sending = caller.call_within::<Send>(params, deadline);
    if new.is_none() || question.args.detach {
        return Ok((sending.await?, None));
    }
    // All that happens in a new conversation is ours, so it need not be known first where the question stands.
    let attaching = caller.call::<Attach>(AttachParams {
        id: *id,
        since: ReplayStart::Start,
        deltas: true,
    });
    let (mut sending, mut attaching) = (pin!(sending), pin!(attaching));
    let mut attached = None;
    let sent = loop {
        tokio::select! {
            // The question's line goes first: what is attached to is made by it.
            biased;
            sent = &mut sending => break sent?,
            done = &mut attaching, if attached.is_none() => attached = Some(done.ok()),
        }
    };
    let attached = match attached {
        Some(attached) => attached,
        None => attaching.await.ok(),
    };
    Ok((sent, attached))
}

/// Puts a text in pieces, each of which fits a line.
pub(crate) async fn put_blob(caller: &Caller, text: &str) -> Result<BlobId, RpcCallError> {
    let piece_bytes = caller.line_bytes() / 8;
    let mut blob = None;
    let mut rest = text;
    loop {
        let at = rest.floor_char_boundary(piece_bytes.min(rest.len()));
        let (piece, more) = rest.split_at(at);
        let result = caller
            .call::<BlobPut>(BlobPutParams {
                blob,
                text: piece.to_owned(),
            })
            .await?;
        if more.is_empty() {
            return Ok(result.blob);
        }
        (blob, rest) = (Some(result.blob), more);
    }
}
