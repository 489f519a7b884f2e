//! A request that cannot be carried out now: each kind is told why in its own reply.

use crate::request_error::RequestError;
use crate::requests::ActorRequest;

impl ActorRequest {
    /// Whoever asked is told why not.
    pub(crate) fn refuse(self, error: RequestError) {
        match self {
            Self::Send(_, reply) | Self::Again(_, reply) => drop(reply.send(Err(error))),
            Self::Cancel { reply, .. } => drop(reply.send(Err(error))),
            Self::Change(_, _, reply) | Self::Restore(_, _, reply) | Self::Forget(_, reply) => {
                drop(reply.send(Err(error)));
            }
            Self::Preview(_, reply) => drop(reply.send(Err(error))),
            Self::Resource(_, _, reply) => drop(reply.send(Err(error))),
            Self::Launch(_, reply) => drop(reply.send(Err(error))),
            Self::Lead(_, _, reply) => drop(reply.send(Err(error))),
            Self::WantLevel(_, reply) => drop(reply.send(Err(error))),
            Self::RunCommand(_, reply) => drop(reply.send(Err(error))),
            Self::CancelCommand(_, _, reply) => drop(reply.send(Err(error))),
            Self::StopJob(_, _, reply) => drop(reply.send(Err(error))),
            Self::DeleteUnused(_, reply) => drop(reply.send(Err(error))),
            Self::Answer(_, reply) => drop(reply.send(Err(error))),
            Self::Try(_, reply) => drop(reply.send(Err(error))),
            Self::Part(_, reply) => drop(reply.send(Err(error))),
            Self::Keep(_, reply) => drop(reply.send(Err(error))),
            Self::Edited(_, reply) => drop(reply.send(Err(error))),
            Self::Queue(_, _, reply) | Self::Delete(_, reply) | Self::Drain(reply) => {
                drop(reply.send(Err(error)));
            }
        }
    }
}
