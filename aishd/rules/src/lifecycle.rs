//! Actions that the daemon answers itself, whatever tools there are.

use aish_proto::id::ConversationId;
use aishd_log::access::Access;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    Status,
    List,
    /// The status of another conversation; to go there is the client's.
    Switch(ConversationId),
    /// A level for a provider, named as it was written.
    Upgrade {
        provider: String,
        to: Access,
    },
}

/// An action that looks like one of them and is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MisspelledAction {
    #[error("the actions are conversation:status, conversation:list and conversation:switch ID")]
    Conversation,
    #[error("an upgrade is written upgrade:PROVIDER:level-N")]
    Upgrade,
    #[error("there is no level {0:?}; levels are 1 read, 2 write, 3 execute")]
    Level(String),
}

impl Lifecycle {
    /// `None`: it is an action for the router.
    pub fn read(action: &str) -> Result<Option<Self>, MisspelledAction> {
        let action = action.trim();
        if let Some(about) = action.strip_prefix("conversation:") {
            return conversation(about)
                .ok_or(MisspelledAction::Conversation)
                .map(Some);
        }
        match action.strip_prefix("upgrade:") {
            Some(wanted) => upgrade(wanted).map(Some),
            None => Ok(None),
        }
    }
}

fn conversation(about: &str) -> Option<Lifecycle> {
    let mut words = about.split_whitespace();
    let found = match (words.next()?, words.next()) {
        ("status", None) => Lifecycle::Status,
        ("list", None) => Lifecycle::List,
        ("switch", Some(id)) => Lifecycle::Switch(id.parse().ok()?),
        (_, Some(_) | None) => return None,
    };
    words.next().is_none().then_some(found)
}

fn upgrade(wanted: &str) -> Result<Lifecycle, MisspelledAction> {
    let (provider, level) = wanted.rsplit_once(':').ok_or(MisspelledAction::Upgrade)?;
    let level = level
        .strip_prefix("level-")
        .ok_or(MisspelledAction::Upgrade)?;
    let number: Option<u8> = level.parse().ok();
    let to = number.and_then(Access::from_number);
    Ok(Lifecycle::Upgrade {
        provider: provider.to_owned(),
        to: to.ok_or_else(|| MisspelledAction::Level(level.to_owned()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(action: &str, expected: &Result<Option<Lifecycle>, MisspelledAction>) {
        assert_eq!(expected, &Lifecycle::read(action), "{action}");
    }

    #[test]
    fn actions_of_the_daemon_are_told_from_those_of_tools() {
        let id = ConversationId::from_bytes([7; 16]);
        let upgrade = |level| Lifecycle::Upgrade {
            provider: "data-tool".to_owned(),
            to: level,
        };
        check("conversation:status", &Ok(Some(Lifecycle::Status)));
        check(" conversation:list ", &Ok(Some(Lifecycle::List)));
        let switch = format!("conversation:switch {id}");
        check(&switch, &Ok(Some(Lifecycle::Switch(id))));
        check(
            "upgrade:data-tool:level-2",
            &Ok(Some(upgrade(Access::Write))),
        );
        check("conversation", &Ok(None));
        check("read upgrade:x", &Ok(None));
        check("", &Ok(None));
    }

    #[test]
    fn what_is_spelled_wrongly_goes_to_no_tool() {
        check("conversation:", &Err(MisspelledAction::Conversation));
        check("conversation:delete", &Err(MisspelledAction::Conversation));
        check("conversation:switch", &Err(MisspelledAction::Conversation));
        check(
            "conversation:switch x",
            &Err(MisspelledAction::Conversation),
        );
        check(
            "conversation:list all",
            &Err(MisspelledAction::Conversation),
        );
        check("upgrade:data-tool", &Err(MisspelledAction::Upgrade));
        check("upgrade:data-tool:2", &Err(MisspelledAction::Upgrade));
        for level in ["0", "4", "-1", "two", ""] {
            let wrong = MisspelledAction::Level(level.to_owned());
            check(&format!("upgrade:data-tool:level-{level}"), &Err(wrong));
        }
    }
}
