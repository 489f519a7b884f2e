//! `blob/put`: input that is too large for one line, in pieces. A blob lives as long as its connection and is
//! used up by the first `turn/send` that names it and is accepted.

use aish_proto::daemon::{BlobPut, BlobPutResult};
use aish_proto::error::ErrorKind;
use aish_proto::id::BlobId;
use aish_proto::limits::{INPUT_BYTES, PDF_BYTES};
use aishd_platform::clock;
use jsonrpsee::RpcModule;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

/// What one connection may have put and not used, in bytes: enough for two questions on the way.
const KEPT_BYTES: usize = 2 * (INPUT_BYTES + PDF_BYTES.div_ceil(3) * 4);

const ANOTHER: &str =
    "blob/put without `blob` begins one; it ends with its connection and is used once";

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<BlobPut, _, _>(module, put_blob);
}

async fn put_blob(call: MethodCall<BlobPut>) -> Result<BlobPutResult, MethodError> {
    let mut blobs = call.connection.blobs.lock();
    let kept: usize = blobs.values().map(String::len).sum();
    if kept + call.params.text.len() > KEPT_BYTES {
        let message = format!("more than {KEPT_BYTES} bytes put and not sent");
        return Err(MethodError::new(ErrorKind::TooLarge, message)
            .hint("turn/send with a blob uses it up, and so does the end of the connection"));
    }
    let blob = match call.params.blob {
        Some(blob) if !blobs.contains_key(&blob) => {
            return Err(
                MethodError::new(ErrorKind::NotFound, "no such blob on this connection")
                    .hint(ANOTHER),
            );
        }
        Some(blob) => blob,
        None => BlobId(clock::ulid()),
    };
    let text = blobs.entry(blob).or_default();
    text.push_str(&call.params.text);
    let bytes = text.len();
    Ok(BlobPutResult { blob, bytes })
}

/// What a blob holds; it stays.
pub(super) fn read(connection: &ClientConnection, blob: BlobId) -> Result<String, MethodError> {
    connection.blobs.lock().get(&blob).cloned().ok_or_else(|| {
        MethodError::new(
            ErrorKind::NotFound,
            format!("no blob {blob} on this connection"),
        )
        .hint(ANOTHER)
    })
}

/// Takes blobs out of their connection.
pub(super) fn use_up(connection: &ClientConnection, blobs: &[BlobId]) {
    connection.blobs.lock().retain(|it, _| !blobs.contains(it));
}
