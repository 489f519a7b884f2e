//! Reading the shared context: what there is under a name, its data, and lists of names.

use std::ops::Bound;

use aish_proto::id::ConversationId;
use aishd_log::event::Event;
use aishd_log::resource::{ResourceData, ResourceHead, ResourceName, ResourceStatus};
use sled::Db;

use super::index::IndexFault;
use super::{ReadError, Store, records, values};

impl Store {
    /// What there is under a name.
    pub fn resource(
        &self,
        conversation: ConversationId,
        name: &ResourceName,
    ) -> Result<ResourceStatus, ReadError> {
        self.read(|db| status_of(db, conversation, name))
    }

    /// A resource with its data; `None`: there is none.
    pub fn resource_data(
        &self,
        conversation: ConversationId,
        name: &ResourceName,
    ) -> Result<Option<(ResourceHead, ResourceData)>, ReadError> {
        self.read(|db| {
            let ResourceStatus::There(head) = status_of(db, conversation, name)? else {
                return Ok(None);
            };
            let record = records::record(db, &self.shared.files, conversation, head.seq)?;
            if let Some(Event::ResourceChanged(changed)) = record.map(|it| it.event)
                && changed.name == *name
                && let Some(data) = changed.data
            {
                return Ok(Some((head, data)));
            }
            Err(IndexFault::garbled("a resource is not where it should be"))
        })
    }

    /// At most `limit` resources in the order of their names, those behind `after`.
    pub fn resources(
        &self,
        conversation: ConversationId,
        after: Option<&ResourceName>,
        limit: usize,
    ) -> Result<Vec<(ResourceName, ResourceHead)>, ReadError> {
        self.read(|db| {
            let prefix = values::resources(conversation);
            let from = match after {
                Some(after) => Bound::Excluded(values::resource(conversation, after)),
                None => Bound::Included(prefix.clone()),
            };
            let mut found = vec![];
            for entry in db.range((from, Bound::Unbounded)) {
                let (key, value) = entry?;
                if found.len() >= limit || !key.starts_with(&prefix) {
                    break;
                }
                let name = values::resource_in(&key);
                let name = name.ok_or_else(|| IndexFault::garbled("the name of a resource"))?;
                found.push((name, serde_json::from_slice(&value)?));
            }
            Ok(found)
        })
    }
}

fn status_of(
    db: &Db,
    conversation: ConversationId,
    name: &ResourceName,
) -> Result<ResourceStatus, IndexFault> {
    if let Some(head) = db.get(values::resource(conversation, name))? {
        return Ok(ResourceStatus::There(serde_json::from_slice(&head)?));
    }
    let Some(last) = db.get(values::gone_resource(conversation, name))? else {
        return Ok(ResourceStatus::Gone(0));
    };
    let last = <[u8; 8]>::try_from(&*last).map_err(|_| IndexFault::garbled("a revision"))?;
    Ok(ResourceStatus::Gone(u64::from_be_bytes(last)))
}
