//! Changes of the shared context, by people and by calls.

use aishd_log::access::Access;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::event::Event;
use aishd_log::resource::{
    ChangeAuthor, ChangeCheck, MOST_CHANGES, ResourceChange, ResourceChangeError, ResourceChanged,
    ResourceName, ResourceStatus, may_write,
};
use aishd_log::tool_name::Alias;
use aishd_platform::clock;
use aishd_turn::turn::CallReturn;

use crate::actor::Conversation;
use crate::context::resource::change_text;
use crate::pending_commit::UncommittedFact;
use crate::request_error::RequestError;
use crate::requests::ResourceDone;
use crate::view::LiveChange;

impl Conversation {
    /// Returns once it is durable.
    pub(crate) async fn change_resource(
        &mut self,
        change: ResourceChange,
        by: AnsweringPerson,
    ) -> Result<ResourceDone, RequestError> {
        let author = ChangeAuthor::person(&by);
        let mut checking = ChangeCheck::new(&author, clock::now(), self.state.resources);
        let checked = checking.check(change, |name| self.status_of(name));
        let changed = checked.map_err(RequestError::Resource)?;
        let fact = UncommittedFact {
            turn: None,
            by: Some(by),
            event: Event::ResourceChanged(Box::new(changed.clone())),
        };
        let seq = self.commit(&[fact], LiveChange::Keep).await?;
        Ok(ResourceDone { seq, changed })
    }

    /// What a call wants changed is settled, or nothing of it is and its reply says why.
    pub(crate) fn check_changes(&self, call: &str, returned: &mut CallReturn) {
        let changes = std::mem::take(&mut returned.changes);
        // A call that failed changes nothing.
        if changes.is_empty() || !returned.ok {
            return;
        }
        match self.changed_by(call, returned.needs, changes) {
            Ok(changed) => {
                if returned.content.is_empty() {
                    returned.content = change_text(&changed);
                }
                returned.changed = changed;
            }
            Err(error) => {
                *returned = CallReturn {
                    content: format!("[aish] nothing was changed: {error}"),
                    ms: returned.ms,
                    ..CallReturn::default()
                };
            }
        }
    }

    fn changed_by(
        &self,
        call: &str,
        needs: Access,
        changes: Vec<ResourceChange>,
    ) -> Result<Vec<ResourceChanged>, ResourceChangeError> {
        if changes.len() > MOST_CHANGES {
            return Err(ResourceChangeError::TooMany(changes.len()));
        }
        let mut open = self.state.running.iter().flat_map(|it| &it.open_calls);
        let subject = open
            .find(|it| it.id == call)
            .and_then(|it| it.subject.as_ref());
        let unknown = || ResourceChangeError::Unread("the call is not one that runs".to_owned());
        let tool = &subject.ok_or_else(unknown)?.tool;
        self.check_level(tool.alias(), needs)?;
        let author = ChangeAuthor::Provider(tool.alias().clone());
        let mut checking = ChangeCheck::new(&author, clock::now(), self.state.resources);
        let each = changes.into_iter();
        each.map(|it| checking.check(it, |name| self.status_of(name)))
            .collect()
    }

    /// The call needed what it needed when it began, and its provider has what it has now.
    fn check_level(&self, provider: &Alias, needs: Access) -> Result<(), ResourceChangeError> {
        if self.state.constraints.read_only {
            return Err(ResourceChangeError::ReadOnly);
        }
        let policy = self.services.policy.borrow();
        let most = policy.providers.get(provider).map(|it| it.max_level);
        let is_bounded = most.is_some_and(|it| it < Access::Write);
        let has = policy.level(provider, &self.state.grants);
        if may_write(needs, has) && !is_bounded {
            Ok(())
        } else {
            Err(ResourceChangeError::Level(provider.clone()))
        }
    }

    fn status_of(&self, name: &ResourceName) -> Result<ResourceStatus, ResourceChangeError> {
        let standing = self.services.store.resource(self.id, name);
        standing.map_err(|error| ResourceChangeError::Unread(error.to_string()))
    }
}
