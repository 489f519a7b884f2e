//! What clients want of an actor, one after another, each answered when it is done.

use std::ops::ControlFlow;

use aishd_log::state::ConversationState;

use crate::actor::Conversation;
use crate::request_error::RequestError;
use crate::requests::ActorRequest;
use crate::view::LoadingStage;

impl Conversation {
    /// Breaks when the conversation is no more.
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each request, and nothing else"
    )]
    pub(crate) async fn apply_request(&mut self, request: ActorRequest) -> ControlFlow<()> {
        if let ActorRequest::Cancel { turn, by, .. } = &request
            && self.stalled.is_some()
        {
            self.call_off(*turn, by);
            self.retry_commit().await;
        }
        // What waits for the store goes with the conversation.
        let may_pass = matches!(
            request,
            ActorRequest::Preview(..) | ActorRequest::Delete(..)
        );
        if self.stalled.is_some() && !may_pass {
            let why = "an earlier change still waits for the store";
            request.refuse(RequestError::Storage(why.to_owned()));
            return ControlFlow::Continue(());
        }
        match request {
            ActorRequest::Send(ask, reply) => {
                let result = self.accept(*ask).await;
                if self.unborn.is_some() {
                    // Nothing was kept of it, so there is no such conversation.
                    self.publisher
                        .loaded(LoadingStage::Missing, &ConversationState::default());
                    self.registration.remove();
                    let _client_left = reply.send(result);
                    return ControlFlow::Break(());
                }
                let _client_left = reply.send(result);
            }
            ActorRequest::Again(again, reply) => {
                let result = self.accept_again(*again).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Cancel { turn, by, reply } => {
                let result = self.cancel(turn, by).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Change(change, by, reply) => {
                let result = self.change(change, by).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Resource(change, by, reply) => {
                let result = self.change_resource(*change, by).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Queue(change, by, reply) => {
                let result = self.change_queue(change, by).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::WantLevel(wanted, reply) => {
                let result = self.want_level(*wanted).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Launch(launching, reply) => {
                let result = Box::pin(self.launch(*launching)).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Lead(lead, by, reply) => {
                let result = self.lead(lead, by).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Answer(answering, reply) => {
                let result = self.answer(*answering).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Try(wanted, reply) => self.try_command(&wanted, reply),
            ActorRequest::Part(wanted, reply) => self.take_part(*wanted, reply),
            ActorRequest::Keep(said, reply) => {
                let result = self.keep_said(*said).await;
                let _client_left = reply.send(Ok(result));
            }
            ActorRequest::Edited(editing, reply) => {
                let _client_left = reply.send(self.edited(&editing));
            }
            ActorRequest::RunCommand(wanted, reply) => {
                let result = self.run_own(*wanted).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::CancelCommand(call, by, reply) => {
                let _client_left = reply.send(self.cancel_own(&call, by).await);
            }
            ActorRequest::StopJob(job, by, reply) => {
                let _client_left = reply.send(self.stop_job(job, by));
            }
            ActorRequest::Restore(gone, by, reply) => {
                let result = self.restore(gone, by).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Forget(by, reply) => {
                let result = self.forget(by).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Preview(previewing, reply) => {
                let result = Box::pin(self.preview(*previewing)).await;
                let _client_left = reply.send(result);
            }
            ActorRequest::Delete(by, reply) => {
                let result = self.delete(Some(by)).await;
                let deleted = result.is_ok();
                let _client_left = reply.send(result);
                if deleted {
                    return ControlFlow::Break(());
                }
            }
            ActorRequest::DeleteUnused(since, reply) => {
                let result = self.delete_unused(since).await;
                let deleted = matches!(result, Ok(true));
                let _caller_left = reply.send(result);
                if deleted {
                    return ControlFlow::Break(());
                }
            }
            ActorRequest::Drain(reply) => drop(reply.send(Ok(()))),
        }
        ControlFlow::Continue(())
    }
}
