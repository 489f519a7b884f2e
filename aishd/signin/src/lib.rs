//! Signing in to MCP servers with OAuth 2.1: where to sign in is found out and judged, a person signs in through a browser
//! or nobody has to, tokens are kept in files and renewed once for all who wait.
//!
//! Not here: sessions with servers, who is told that a person is needed, the browser and the address that it comes back to
//! (the client that a person has started).

mod account;
mod authorization;
mod bearer;
mod challenge;
mod client;
mod discovery;
mod exchange;
mod failed_renewal;
mod fault;
mod login;
mod metadata;
mod record;
mod renewal;
mod secret;
mod sign_in;
mod signature;
mod store;
mod token;
mod wire;

pub use self::account::SignInParts;
pub use self::authorization::AnswerFault;
pub use self::bearer::{
    RefusedRequest, RequestProof, ServerBearer, SignInNeed, SignInReason, SignInStanding,
};
pub use self::failed_renewal::FailedRenewal;
pub use self::fault::SignInFault;
pub use self::login::{LoginBegun, LoginWish};
pub use self::metadata::{AddressFault, MetadataFault};
pub use self::secret::NoChance;
pub use self::sign_in::SignIn;
pub use self::signature::KeyFault;
pub use self::store::StoreFault;
pub use self::token::{TokenFault, TokenRefusal};
