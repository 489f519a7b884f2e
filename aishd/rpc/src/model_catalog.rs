//! `model/catalog`, `model/updateCatalog` and `model/resetCatalog`.

use std::path::PathBuf;

use aish_proto::error::ErrorKind;
use aish_proto::method::Empty;
use aish_proto::model::{
    CatalogStatus, ModelCatalog, ModelCatalogResult, ResetCatalog, UpdateCatalog,
    UpdateCatalogParams, UpdateCatalogResult,
};
use aishd_config::catalog_file::{self, HandedFileError};
use aishd_config::live::{LiveConfig, OnErrors, ReloadOutcome};
use aishd_config::paths;
use aishd_model::catalog::{CatalogTable, CatalogTables};
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, config, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<ModelCatalog, _, _>(module, catalog);
    register::<UpdateCatalog, _, _>(module, update);
    register::<ResetCatalog, _, _>(module, reset);
}

async fn catalog(call: MethodCall<ModelCatalog>) -> Result<ModelCatalogResult, MethodError> {
    let Empty {} = call.params;
    let standing = call.server.config.watch_status().borrow().clone();
    Ok(status(&call.server.config, standing.errors.clone()))
}

async fn update(call: MethodCall<UpdateCatalog>) -> Result<UpdateCatalogResult, MethodError> {
    let UpdateCatalogParams { file } = call.params;
    let file = PathBuf::from(file);
    if !file.is_absolute() {
        return Err(MethodError::params("file must be an absolute path"));
    }
    let state = call.server.about.state_dir.clone();
    config::read(&call.server, move |live| {
        let reduced = catalog_file::keep(&state, &file).map_err(|it| refused(&it))?;
        Ok(UpdateCatalogResult {
            catalog: taken_over(live),
            left_out: reduced.left_out as u64,
        })
    })
    .await?
}

async fn reset(call: MethodCall<ResetCatalog>) -> Result<ModelCatalogResult, MethodError> {
    let Empty {} = call.params;
    let state = call.server.about.state_dir.clone();
    config::read(&call.server, move |live| {
        catalog_file::forget(&state).map_err(|it| refused(&it))?;
        Ok(taken_over(live))
    })
    .await?
}

/// Presets are made anew; where the configuration has errors now, they stay as they are until it can be read.
fn taken_over(live: &LiveConfig) -> ModelCatalogResult {
    let errors = match live.reload(OnErrors::Tell) {
        ReloadOutcome::Told(standing) => standing.errors.clone(),
        ReloadOutcome::Held => vec![],
    };
    status(live, errors)
}

fn status(live: &LiveConfig, errors: Vec<String>) -> ModelCatalogResult {
    let catalog = live.catalog();
    ModelCatalogResult {
        built_in: shown(CatalogTables::built_in()).unwrap_or_default(),
        handed: shown(catalog.handed()),
        errors,
    }
}

fn shown(table: Option<&CatalogTable>) -> Option<CatalogStatus> {
    table.map(|it| CatalogStatus {
        day: it.day().to_string(),
        origin: it.origin().to_owned(),
        models: it.models() as u64,
    })
}

fn refused(error: &HandedFileError) -> MethodError {
    let said = paths::describe(error);
    match error {
        HandedFileError::Read { .. } | HandedFileError::NoCatalog { .. } => {
            MethodError::params(&said)
        }
        HandedFileError::Write { .. } => MethodError::new(ErrorKind::Storage, said),
    }
}
