//! A call that its server refused waits until a person has signed in: the question is one of the turn, and over by itself as
//! soon as somebody has, wherever.

use aish_proto::id::ConfirmId;
use aishd_log::confirm::{Confirm, ConfirmFate, ConfirmSubject, Resolution};
use aishd_platform::clock;
use aishd_rules::asking::may_ask;
use aishd_rules::sign_in::RefusedSignIn;
use aishd_turn::turn::{CallReturn, ConfirmEnd};

use crate::actor::{Conversation, TaskOutcome};

impl Conversation {
    /// What a person is asked in the place of such a reply. A run asks nobody: its call has the reply at once, as where nobody is
    /// there who could sign in.
    pub(crate) fn sign_in_question(&mut self, returned: &mut CallReturn) -> Option<Box<Confirm>> {
        let refused = returned.refused_sign_in.take()?;
        let active = self.turn.as_ref()?;
        if self.autonomy().is_some() || active.token.is_cancelled() {
            return None;
        }
        may_ask(&active.on_confirm, self.expiry.presence()).ok()?;
        let sign_ins = refused.sign_ins;
        let confirm = RefusedSignIn::question(
            *refused,
            &active.on_confirm,
            clock::now(),
            self.next_confirm(),
        );
        self.wait_for_sign_in(&confirm, sign_ins);
        Some(Box::new(confirm))
    }

    /// Hears of a sign-in other than those that there were before.
    pub(crate) fn wait_for_sign_in(&mut self, confirm: &Confirm, sign_ins: Option<u64>) {
        let (ConfirmSubject::SignIn(subject), Some(active)) = (&confirm.subject, &self.turn) else {
            return;
        };
        let (id, server) = (confirm.id, subject.call.tool.alias().clone());
        let (tools, token) = (self.services.tools.clone(), active.token.clone());
        self.io.spawn(async move {
            let waiting = tools.signed_in(&server, sign_ins);
            let _stopped = token.run_until_cancelled(waiting).await;
            TaskOutcome::SignedIn(id)
        });
    }

    /// The call that waited for it runs.
    pub(crate) async fn signed_in(&mut self, confirm: ConfirmId) {
        let asking = self.turn.as_ref().and_then(|it| it.machine.asking());
        let Some(asking) = asking.filter(|it| it.id == confirm) else {
            return;
        };
        if self.is_cancelled() || self.services.draining.is_cancelled() {
            return;
        }
        let digest = asking.digest;
        let waited_ms = self.waited_ms(confirm, clock::now());
        self.resolve(ConfirmEnd {
            resolution: Resolution::unanswered(confirm, ConfirmFate::Allowed, waited_ms),
            raised: None,
            digest,
        })
        .await;
    }
}
