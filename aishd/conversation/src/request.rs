//! What clients want of an actor, one after another, each answered when it is done.

use std::ops::ControlFlow;

use super::Conversation;
use super::handle::{Request, RequestError};
use super::view::Loading;
use aishd_log::state::State;

impl Conversation {
    /// Breaks when the conversation is no more.
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each request, and nothing else"
    )]
    pub(super) async fn apply_request(&mut self, request: Request) -> ControlFlow<()> {
        if let Request::Cancel { turn, by, .. } = &request
            && self.unstored.is_some()
        {
            self.call_off(*turn, by);
            self.retry_commit().await;
        }
        // What waits for the store goes with the conversation.
        let may_pass = matches!(request, Request::Preview(..) | Request::Delete(..));
        if self.unstored.is_some() && !may_pass {
            let why = "an earlier change still waits for the store";
            request.refuse(RequestError::Storage(why.to_owned()));
            return ControlFlow::Continue(());
        }
        match request {
            Request::Send(ask, reply) => {
                let result = self.accept(*ask).await;
                if self.unborn.is_some() {
                    // Nothing was kept of it, so there is no such conversation.
                    self.publisher.loaded(Loading::Missing, &State::default());
                    self.registration.remove();
                    let _client_left = reply.send(result);
                    return ControlFlow::Break(());
                }
                let _client_left = reply.send(result);
            }
            Request::Again(again, reply) => {
                let result = self.accept_again(*again).await;
                let _client_left = reply.send(result);
            }
            Request::Cancel { turn, by, reply } => {
                let result = self.cancel(turn, by).await;
                let _client_left = reply.send(result);
            }
            Request::Change(change, by, reply) => {
                let result = self.change(change, by).await;
                let _client_left = reply.send(result);
            }
            Request::Resource(change, by, reply) => {
                let result = self.change_resource(*change, by).await;
                let _client_left = reply.send(result);
            }
            Request::Queue(change, by, reply) => {
                let result = self.change_queue(change, by).await;
                let _client_left = reply.send(result);
            }
            Request::WantLevel(wanted, reply) => {
                let result = self.want_level(*wanted).await;
                let _client_left = reply.send(result);
            }
            Request::Launch(launching, reply) => {
                let result = Box::pin(self.launch(*launching)).await;
                let _client_left = reply.send(result);
            }
            Request::Lead(lead, by, reply) => {
                let result = self.lead(lead, by).await;
                let _client_left = reply.send(result);
            }
            Request::Answer(answering, reply) => {
                let result = self.answer(*answering).await;
                let _client_left = reply.send(result);
            }
            Request::Keep(said, reply) => {
                let result = self.keep_said(*said).await;
                let _client_left = reply.send(Ok(result));
            }
            Request::Edited(editing, reply) => {
                let _client_left = reply.send(self.edited(&editing));
            }
            Request::RunCommand(wanted, reply) => {
                let result = self.run_own(*wanted).await;
                let _client_left = reply.send(result);
            }
            Request::CancelCommand(call, by, reply) => {
                let _client_left = reply.send(self.cancel_own(&call, by).await);
            }
            Request::Restore(gone, by, reply) => {
                let result = self.restore(gone, by).await;
                let _client_left = reply.send(result);
            }
            Request::Forget(by, reply) => {
                let result = self.forget(by).await;
                let _client_left = reply.send(result);
            }
            Request::Preview(previewing, reply) => {
                let result = Box::pin(self.preview(*previewing)).await;
                let _client_left = reply.send(result);
            }
            Request::Delete(by, reply) => {
                let result = self.delete(by).await;
                let deleted = result.is_ok();
                let _client_left = reply.send(result);
                if deleted {
                    return ControlFlow::Break(());
                }
            }
            Request::Drain(reply) => drop(reply.send(Ok(()))),
        }
        ControlFlow::Continue(())
    }
}
