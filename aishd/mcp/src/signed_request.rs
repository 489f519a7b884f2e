//! Requests to servers that people sign in to: each carries what it is allowed with, and one that is refused is sent again
//! where something new is at hand.

use aishd_signin::RefusedRequest;
use reqwest::{RequestBuilder, Response};

use super::client::ServerAddress;
use super::error::WireFailure;
use super::http::unsent;

/// A token that is new and refused is not renewed again.
const MOST_RENEWALS: u32 = 1;
/// Numbers for proofs that one request is given.
const MOST_NONCES: u32 = 2;

impl ServerAddress {
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, WireFailure> {
        let Some(bearer) = &self.bearer else {
            return request.send().await.map_err(|error| unsent(&error));
        };
        let (client, request) = request.build_split();
        let request = request.map_err(|error| unsent(&error))?;
        let (mut renewals, mut nonces) = (0, 0);
        loop {
            let Some(mut sent) = request.try_clone() else {
                let why = "a request that cannot be sent twice";
                return Err(WireFailure::NotConnected(why.to_owned()));
            };
            let proof = bearer.proof(sent.method().as_str(), sent.url()).await;
            let proof = proof.or_else(|refused| match refused {
                RefusedRequest::Needed(need) => Err(WireFailure::SignIn(need)),
                RefusedRequest::Later(why) => Err(later(&why)),
                RefusedRequest::Again | RefusedRequest::WithNonce | RefusedRequest::NotOurs => {
                    Ok(aishd_signin::RequestProof::default())
                }
            })?;
            sent.headers_mut().extend(proof.headers.iter().cloned());
            let response = client.execute(sent).await.map_err(|error| unsent(&error))?;
            bearer.heard(response.headers());
            let status = response.status().as_u16();
            if !matches!(status, 401 | 403) {
                return Ok(response);
            }
            match bearer.refused(&proof, status, response.headers()).await {
                RefusedRequest::WithNonce if nonces < MOST_NONCES => nonces += 1,
                RefusedRequest::Again if renewals < MOST_RENEWALS => renewals += 1,
                RefusedRequest::Again | RefusedRequest::WithNonce => {
                    return Err(WireFailure::SignIn(bearer.hopeless()));
                }
                RefusedRequest::Needed(need) => return Err(WireFailure::SignIn(need)),
                RefusedRequest::Later(why) => return Err(later(&why)),
                RefusedRequest::NotOurs => return Ok(response),
            }
        }
    }
}

/// It was not done, and may be a little later.
fn later(why: &str) -> WireFailure {
    WireFailure::NotConnected(format!("its sign-in cannot be renewed now: {why}"))
}
