//! Whether a connection may be made: by the rules, or by the answer to a question while it waits.

use std::future::Future;

use tokio::sync::watch;

use crate::address_class::{AddressClass, class_of};
use crate::host::{HostPort, NamedHost};
use crate::questions::{HostScheme, Questions};
use crate::refusal::Refusal;
use crate::rules::{AddressReach, HostRules, HostStanding};

#[derive(Debug)]
pub(crate) struct Admission {
    rules: watch::Receiver<HostRules>,
    questions: Option<Questions>,
}

/// A connection was not let through.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    Refused(Refusal),
    /// The child hung up while it waited.
    GivenUp,
}

impl Admission {
    pub(crate) fn new(rules: watch::Receiver<HostRules>, questions: Option<Questions>) -> Self {
        Self { rules, questions }
    }

    /// The rules as they are now.
    pub(crate) fn rules(&self) -> HostRules {
        self.rules.borrow().clone()
    }

    /// Waits for an answer, for rules that are about the host by then, or for the child to hang up.
    pub(crate) async fn admit(
        &self,
        target: &HostPort,
        scheme: HostScheme,
        hung_up: impl Future<Output = ()>,
    ) -> Result<AddressReach, NotAdmitted> {
        let mut rules = self.rules.clone();
        let mut wait = None;
        tokio::pin!(hung_up);
        loop {
            let standing = rules.borrow_and_update().standing(target);
            match standing {
                HostStanding::Allowed(reach) => return Ok(reach),
                HostStanding::Denied => return Err(NotAdmitted::Refused(Refusal::DeniedByRule)),
                HostStanding::Unlisted => {}
            }
            // An answer would not allow it: nobody is asked in vain.
            if is_private(target) {
                return Err(NotAdmitted::Refused(Refusal::PrivateAddress));
            }
            let questions = self.questions.as_ref();
            let questions = questions.ok_or(NotAdmitted::Refused(Refusal::NotListed))?;
            let wait = match &wait {
                Some(wait) => wait,
                None => wait.insert(
                    questions
                        .wait(target, scheme)
                        .map_err(NotAdmitted::Refused)?,
                ),
            };
            tokio::select! {
                // The answer says why; a rule that came with it does not.
                biased;
                answered = wait.answered() => {
                    return answered.map(|()| AddressReach::Public).map_err(NotAdmitted::Refused);
                }
                Ok(()) = rules.changed() => {}
                () = &mut hung_up => return Err(NotAdmitted::GivenUp),
            }
        }
    }
}

fn is_private(target: &HostPort) -> bool {
    match &target.host {
        NamedHost::Name(_) => false,
        NamedHost::Address(address) => class_of(*address) != AddressClass::Public,
    }
}
