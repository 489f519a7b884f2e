//! Where it is kept what commands of conversations have exported.

use aishd_store::Store;
use aishd_tools::environment_folder::EnvironmentFolder;
use anyhow::Context as _;

use super::DaemonPaths;

/// Opens it, without what belongs to conversations that were deleted.
pub(super) async fn open(around: &DaemonPaths, store: &Store) -> anyhow::Result<EnvironmentFolder> {
    let (directory, store) = (around.state_dir.join("environments"), store.clone());
    let opened = tokio::task::spawn_blocking(move || {
        let folder = EnvironmentFolder::open(&directory)?;
        // What cannot be looked at may be there.
        folder.keep_only(|it| !matches!(store.state(it), Ok(None)))?;
        Ok::<_, std::io::Error>(folder)
    });
    opened
        .await?
        .context("open the folder of exported variables")
}
