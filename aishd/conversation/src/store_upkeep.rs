//! Looking after the store on behalf of whoever asks.

use aish_proto::id::ConversationId;
use aishd_log::time::Timestamp;
pub use aishd_store::JournalDamage;
pub use aishd_store::check::StoreVerdict;
pub use aishd_store::stat::StoreStat;

use crate::directory::ConversationDirectory;
use crate::handle::ConversationHandle;
use crate::request_error::RequestError;

impl ConversationDirectory {
    /// Returns once what was deleted and forgotten has left every file of the store.
    ///
    /// # Errors
    /// Why it has not, in words.
    pub async fn erase(&self) -> Result<(), String> {
        self.services.store.erase().await
    }

    /// Returns once the store takes no more room than it needs.
    ///
    /// # Errors
    /// Why it does, in words.
    pub async fn compact_store(&self) -> Result<(), String> {
        self.services.store.compact().await
    }

    pub async fn store_stat(&self) -> Result<StoreStat, RequestError> {
        Ok(self.blocking(|store| store.stat()).await??)
    }

    /// Deletes a conversation that nobody has used since then, and in which nothing runs or waits. Returns whether it did.
    pub async fn delete_unused(
        &self,
        id: ConversationId,
        since: Timestamp,
    ) -> Result<bool, RequestError> {
        let deletion =
            |handle: ConversationHandle| async move { handle.delete_unused(since).await };
        self.with(id, deletion).await
    }

    /// Reads all that is stored. `progress` is told how many bytes of how many were read.
    pub async fn check_store(
        &self,
        progress: impl Fn(u64, u64) + Send + 'static,
    ) -> Result<StoreVerdict, RequestError> {
        Ok(self.blocking(move |store| store.check(&progress)).await??)
    }
}
