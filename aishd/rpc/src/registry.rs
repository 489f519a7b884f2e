//! `tool/register`, `tool/unregister` and `tool/reload`: manifests of tools.

use std::path::PathBuf;

use aish_proto::error::ErrorKind;
use aish_proto::method::Empty;
use aish_proto::tool::{
    Register, RegisterParams, RegisterResult, Reload, ToolReloadResult, Unregister,
    UnregisterParams,
};
use aishd_config::manifest_store::{
    ManifestReport, ManifestSelection, ManifestStore, ManifestStoreError,
};
use jsonrpsee::RpcModule;

use super::method_error::{HOME, MethodError};
use super::{MethodCall, RpcServer, register};

const MAX_MANIFEST_BYTES: usize = 256 << 10;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Register, _, _>(module, add);
    register::<Unregister, _, _>(module, remove);
    register::<Reload, _, _>(module, reload);
}

async fn add(call: MethodCall<Register>) -> Result<RegisterResult, MethodError> {
    let RegisterParams { manifest, base } = call.params;
    if manifest.len() > MAX_MANIFEST_BYTES {
        let message = format!("a manifest is at most {MAX_MANIFEST_BYTES} bytes long");
        return Err(MethodError::new(ErrorKind::TooLarge, message));
    }
    let base = base.map(PathBuf::from);
    if base.as_ref().is_some_and(|it| !it.is_absolute()) {
        return Err(MethodError::params("base must be an absolute path"));
    }
    let added = ask(&call.server, move |it| it.add(&manifest, base.as_deref()));
    Ok(done(added.await??))
}

async fn remove(call: MethodCall<Unregister>) -> Result<RegisterResult, MethodError> {
    let UnregisterParams { name } = call.params;
    let name = name.parse();
    let name = name.map_err(|error| MethodError::params(&format!("{error}")))?;
    let removed = ask(&call.server, move |it| it.remove(&name)).await?;
    Ok(done(removed?))
}

async fn reload(call: MethodCall<Reload>) -> Result<ToolReloadResult, MethodError> {
    let Empty {} = call.params;
    let ManifestReport {
        changes,
        faults,
        read,
    } = ask(&call.server, |it| it.read(ManifestSelection::All)).await?;
    Ok(ToolReloadResult {
        read: u32::try_from(read).unwrap_or(u32::MAX),
        changes,
        errors: faults,
    })
}

fn done((file, report): (PathBuf, ManifestReport)) -> RegisterResult {
    RegisterResult {
        file: file.display().to_string(),
        changes: report.changes,
    }
}

/// On a thread that may wait for files.
pub(super) async fn ask<T: Send + 'static>(
    server: &RpcServer,
    ask: impl FnOnce(&ManifestStore) -> T + Send + 'static,
) -> Result<T, MethodError> {
    let manifests = server.manifests.clone();
    tokio::task::spawn_blocking(move || ask(&manifests))
        .await
        .map_err(|panic| MethodError::internal(&panic.to_string()))
}

impl From<ManifestStoreError> for MethodError {
    fn from(error: ManifestStoreError) -> Self {
        let message = error.to_string();
        match error {
            ManifestStoreError::Faults(_) => Self::new(ErrorKind::InvalidConfig, message),
            ManifestStoreError::Homeless => Self::new(ErrorKind::InvalidConfig, message).hint(HOME),
            ManifestStoreError::Taken(_) => {
                Self::new(ErrorKind::Busy, message).hint("another `name`")
            }
            ManifestStoreError::Unknown(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl tools list")
            }
            ManifestStoreError::Elsewhere { .. } => Self::new(ErrorKind::NotFound, message),
            ManifestStoreError::Io { .. } => Self::new(ErrorKind::Storage, message),
        }
    }
}
