//! From an MCP server to its authorization server: the documents are fetched one after another, and each is judged before
//! anything that it names is used.

use aishd_mcp_messages::oauth_settings::OAuthSettings;
use url::Url;

use crate::challenge::BearerChallenge;
use crate::fault::SignInFault;
use crate::metadata::{
    IssuerMetadata, MetadataFault, ResourceMetadata, issuer_places, own_origin, resource_places,
    usable, usual_endpoints,
};
use crate::wire::{SignInWire, place};

/// Where tokens for a server come from, and what they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct DiscoveredIssuer {
    pub(crate) resource: String,
    pub(crate) resource_scopes: Vec<String>,
    pub(crate) metadata: IssuerMetadata,
    /// Tokens are to be bound to a key. Both must know it: a server that takes plain ones refuses those that are bound.
    pub(crate) binds_tokens: bool,
}

/// Reads what the server and its authorization server publish now.
pub(crate) async fn discover(
    wire: &SignInWire,
    server: &Url,
    challenge: &BearerChallenge,
    settings: &OAuthSettings,
) -> Result<DiscoveredIssuer, SignInFault> {
    let mut resource = resource(wire, server, challenge).await?;
    let own = || own_origin(server).as_str().trim_end_matches('/').to_owned();
    let Some(found) = resource.take() else {
        let metadata = before_there_was_any(wire, server, &own(), settings).await?;
        return Ok(DiscoveredIssuer {
            // As it is configured, but for what is not sent.
            resource: place(server),
            resource_scopes: vec![],
            binds_tokens: challenge.takes_bound && metadata.binds_tokens(),
            metadata,
        });
    };
    // A person who names one of several has chosen it.
    let mut issuers = found.issuers.iter();
    let chosen = issuers.find(|it| Some(*it) == settings.issuer.as_ref());
    let issuer = chosen
        .or(found.issuers.first())
        .cloned()
        .unwrap_or_else(own);
    let named = usable(&issuer, server).map_err(|fault| SignInFault::Address {
        what: "the authorization server that it names",
        fault,
    })?;
    let is_chosen = chosen.is_some();
    let metadata = of_issuer(wire, server, &issuer, &named, settings).await?;
    // Who names an issuer means the one who has its place, and not whoever calls itself that.
    if let Some(meant) = settings.issuer.as_ref().filter(|_| !is_chosen) {
        let has_place = Url::parse(meant).is_ok_and(|it| it.origin() == metadata.token.origin());
        if !has_place {
            return Err(SignInFault::OtherIssuer {
                before: meant.clone(),
                named: metadata.token.to_string(),
            });
        }
    }
    Ok(DiscoveredIssuer {
        binds_tokens: (challenge.takes_bound || found.takes_bound) && metadata.binds_tokens(),
        metadata,
        resource: found.resource,
        resource_scopes: found.scopes,
    })
}

/// The metadata of the resource; `None` where it has none.
async fn resource(
    wire: &SignInWire,
    server: &Url,
    challenge: &BearerChallenge,
) -> Result<Option<ResourceMetadata>, SignInFault> {
    let mut places = vec![];
    if let Some(said) = &challenge.resource_metadata {
        let named = usable(said, server).map_err(|fault| SignInFault::Address {
            what: "the metadata that it names",
            fault,
        })?;
        places.push(named);
    }
    for usual in resource_places(server) {
        if !places.contains(&usual) {
            places.push(usual);
        }
    }
    for at in places {
        let reply = wire.get(&at, server).await?;
        if reply.is_broken() {
            // That is not the same as having none.
            return Err(SignInFault::Broken {
                place: place(&at),
                status: reply.status,
            });
        }
        if !reply.is_success() {
            continue;
        }
        let document = reply.document.unwrap_or_default();
        let read = ResourceMetadata::read(&document, server);
        return match read {
            Ok(read) => Ok(Some(read)),
            // A page for people at an address where it does not say that it has one.
            Err(MetadataFault::NoObject) if challenge.resource_metadata.is_none() => continue,
            Err(fault) => Err(SignInFault::Metadata {
                place: place(&at),
                fault,
            }),
        };
    }
    Ok(None)
}

async fn of_issuer(
    wire: &SignInWire,
    server: &Url,
    issuer: &str,
    named: &Url,
    settings: &OAuthSettings,
) -> Result<IssuerMetadata, SignInFault> {
    // Only a person's own word makes it another name.
    let expected = settings.issuer.as_deref().unwrap_or(issuer);
    let mut refused = None;
    for at in issuer_places(named) {
        let reply = match wire.get(&at, server).await {
            Ok(reply) => reply,
            Err(fault) => {
                refused = refused.or(Some(fault));
                continue;
            }
        };
        if reply.is_broken() {
            let broken = SignInFault::Broken {
                place: place(&at),
                status: reply.status,
            };
            refused = refused.or(Some(broken));
        }
        if !reply.is_success() {
            continue;
        }
        let document = reply.document.unwrap_or_default();
        let read = IssuerMetadata::read(&document, expected, server);
        let read = read.and_then(|it| with_pkce(it, settings));
        match read {
            Ok(metadata) => return Ok(metadata),
            Err(fault) => {
                let place = place(&at);
                refused = Some(SignInFault::Metadata { place, fault });
            }
        }
    }
    Err(refused.unwrap_or_else(|| SignInFault::NoMetadata {
        issuer: issuer.to_owned(),
    }))
}

/// As it was in 2025-03-26: the server's own origin is the authorization server, with metadata or without.
async fn before_there_was_any(
    wire: &SignInWire,
    server: &Url,
    own: &str,
    settings: &OAuthSettings,
) -> Result<IssuerMetadata, SignInFault> {
    let origin = own_origin(server);
    for at in issuer_places(&origin) {
        let reply = wire.get(&at, server).await?;
        if reply.is_broken() {
            return Err(SignInFault::Broken {
                place: place(&at),
                status: reply.status,
            });
        }
        let Some(document) = reply
            .document
            .as_ref()
            .filter(|it| reply.is_success() && it.is_object())
        else {
            continue;
        };
        // Nobody named it, so both ways to write an origin are right.
        let slashed = format!("{own}/");
        let read = [own, &slashed].map(|it| IssuerMetadata::read(document, it, server));
        let [plain, slashed] = read;
        let read = match (plain, slashed) {
            (Ok(read), _) | (_, Ok(read)) => Ok(read),
            (Err(fault), _) => Err(fault),
        };
        let read = read.and_then(|it| with_pkce(it, settings));
        return read.map_err(|fault| SignInFault::Metadata {
            place: place(&at),
            fault,
        });
    }
    Ok(usual_endpoints(server))
}

/// A code is not asked for without PKCE: the authorization server says that it does it, or a person does. Without a person
/// there is no code.
fn with_pkce(
    metadata: IssuerMetadata,
    settings: &OAuthSettings,
) -> Result<IssuerMetadata, MetadataFault> {
    match metadata.has_pkce() || settings.assumes_pkce || settings.grant.is_unattended() {
        true => Ok(metadata),
        false => Err(MetadataFault::NoPkce),
    }
}
