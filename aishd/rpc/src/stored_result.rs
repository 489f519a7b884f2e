//! `result/read`, and what events say of kept results.

use aish_proto::error::ErrorKind;
use aish_proto::kept::{self as wire, BlockEncoding, ReadResult, ReadResultResult};
use aishd_log::block::{BlockForm, BlockKind, KeptBlock};
use aishd_log::kept_result::KeptResult;
use aishd_tools::builtin;
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

/// Bytes of a kept result in one reply.
const READ_BYTES: u64 = 1 << 20;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<ReadResult, _, _>(module, read_result);
}

async fn read_result(call: MethodCall<ReadResult>) -> Result<ReadResultResult, MethodError> {
    let params = call.params;
    let wanted = builtin::ReadResult {
        result: params.result,
        offset: params.offset,
        bytes: params.bytes.unwrap_or(READ_BYTES).min(READ_BYTES),
    };
    let handle = call.server.directory.open(params.conversation).await?;
    let read = tokio::task::spawn_blocking(move || handle.read_result(wanted)).await;
    let read = read.map_err(|panic| MethodError::internal(&panic.to_string()))??;
    let part = read.ok_or_else(|| {
        MethodError::new(
            ErrorKind::NotFound,
            "no such result is kept in this conversation",
        )
        .hint("aishctl result")
    })?;
    let form = part.block.as_ref().map(|it| it.form);
    Ok(ReadResultResult {
        text: part.text,
        offset: part.offset,
        bytes: part.bytes,
        encoding: match form {
            Some(BlockForm::Base64) => Some(BlockEncoding::Base64),
            Some(BlockForm::Text) | None => None,
        },
        mime_type: part.block.map(|it| it.mime),
    })
}

pub(super) fn result(kept: KeptResult) -> wire::KeptResult {
    wire::KeptResult {
        result: kept.result,
        bytes: kept.bytes,
    }
}

pub(super) fn block(kept: KeptBlock) -> wire::KeptBlock {
    wire::KeptBlock {
        result: kept.result,
        kind: match kept.kind {
            BlockKind::Image => wire::BlockKind::Image,
            BlockKind::Audio => wire::BlockKind::Audio,
            BlockKind::Resource => wire::BlockKind::Resource,
            BlockKind::Link => wire::BlockKind::Link,
            BlockKind::Other => wire::BlockKind::Other,
        },
        mime_type: kept.mime,
        bytes: kept.bytes,
        uri: kept.uri,
    }
}
