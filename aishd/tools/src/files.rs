//! Calls of the tools for files. Each is done by this program itself, started once more behind a boundary: the daemon opens no
//! file that a model names.

use std::path::PathBuf;
use std::time::Duration;

use aishd_files::{ARGUMENT, FileReply, FileRequest};
use aishd_log::block::BlockKind;
use aishd_log::profile::Profile;
use aishd_mcp_messages::outcome::{AttachmentBody, OutcomeAttachment};
use aishd_process::Children;
use aishd_process::child::{Child, OutputExtent};
use aishd_process::spec::{ChildSpec, StandardStream};
use aishd_profile::{HeldChild, ProfileGround, ProfileWish};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::ToolOutput;
use super::trial::Trial;

/// What a reply can come to: the text is short, and a picture as large as a model takes it.
const REPLY_BYTES: usize = 32 << 20;
/// A search ends by itself long before.
const WITHIN: Duration = Duration::from_secs(90);
const OURSELVES: &str = "/proc/self/exe";

/// Does a call that changes nothing, where the program can write nothing.
///
/// # Errors
/// Why there is no reply.
pub(super) async fn read(
    profiles: &ProfileGround,
    request: &FileRequest,
    roots: &[PathBuf],
) -> Result<FileReply, String> {
    let wish = ProfileWish {
        profile: Profile::Read,
        roots,
        ..ProfileWish::OPEN
    };
    let child = profiles.spawn(spec(request), wish).await;
    let HeldChild { child, .. } =
        child.map_err(|error| format!("{error}; `aishctl doctor` says more"))?;
    reply_of(child, request).await
}

/// Does a call that changes files, in the layers of a trial.
///
/// # Errors
/// Why there is no reply.
pub(super) async fn change(
    children: &Children,
    request: &FileRequest,
    trial: &Trial,
    umask: u32,
) -> Result<FileReply, String> {
    let mut spec = spec(request);
    // A new file is for others what the person's are.
    spec.umask = umask;
    spec.contained = Some(Box::new(trial.containment.clone()));
    let child = children.spawn(&spec).await;
    let child = child.map_err(|error| format!("{error}; `aishctl doctor` says more"))?;
    reply_of(child, request).await
}

/// The program, in the conversation's directory.
fn spec(request: &FileRequest) -> ChildSpec {
    ChildSpec {
        args: vec![ARGUMENT.to_owned()],
        stdin: StandardStream::Piped,
        ..ChildSpec::new(OURSELVES, request.directory.clone())
    }
}

async fn reply_of(mut child: Child, request: &FileRequest) -> Result<FileReply, String> {
    let question = serde_json::to_vec(request).map_err(|error| error.to_string())?;
    let stdin = child.stdin.take();
    let asking = async move {
        if let Some(mut stdin) = stdin {
            // One that ended early says why, or its end does.
            let _closed = stdin.write_all(&question).await;
        }
    };
    let both = async { tokio::join!(asking, child.output(REPLY_BYTES)).1 };
    let printed = match timeout(WITHIN, both).await {
        Ok(printed) => printed.map_err(|error| format!("read its reply: {error}"))?,
        Err(_elapsed) => {
            return Err(format!(
                "it took longer than {} s and was ended",
                WITHIN.as_secs()
            ));
        }
    };
    match printed.extent {
        OutputExtent::Cut => Err("its reply is too large".to_owned()),
        OutputExtent::Whole | OutputExtent::Held => serde_json::from_slice(&printed.bytes)
            .map_err(|_| format!("it gave no reply ({})", printed.exit)),
    }
}

/// A reply as the output of its call.
pub(super) fn output(reply: Result<FileReply, String>) -> ToolOutput {
    let reply = match reply {
        Ok(reply) => reply,
        Err(why) => return ToolOutput::failed(format!("[aish] tool dispatch failed: {why}")),
    };
    if reply.failure.is_some() {
        return ToolOutput::refused(reply.text);
    }
    let mut output = ToolOutput::from_text(reply.text);
    let picture = reply.picture.and_then(|it| {
        let bytes = BASE64.decode(&it.base64).ok()?;
        Some((it.media_type, bytes))
    });
    if let Some((media_type, bytes)) = picture {
        output.attachments.push(OutcomeAttachment {
            kind: BlockKind::Image,
            mime: media_type,
            uri: None,
            body: AttachmentBody::Bytes(bytes),
            end: output.text.len(),
        });
    }
    output
}
