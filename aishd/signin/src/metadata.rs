//! What servers publish about signing in: the resource's metadata (RFC 9728) and the authorization server's (RFC 8414,
//! OpenID discovery). Where they may lie, and what of them is believed. No IO.

use aishd_egress::{AddressClass, class_of};
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::server_reach::{ServerReach, is_this_machine};
use serde_json::Value;
use url::{Host, Url};

/// How we sign proofs that we have the key of a token (RFC 9449).
pub(crate) const PROOF_ALGORITHM: &str = "ES256";
const MAX_TEXT: usize = 2048;
const MAX_LIST: usize = 256;

/// A resource, as it says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceMetadata {
    /// As it was written: it is sent byte for byte, since servers compare it so.
    pub(crate) resource: String,
    pub(crate) issuers: Vec<String>,
    pub(crate) scopes: Vec<String>,
    /// It takes tokens that are bound to a key (RFC 9449).
    pub(crate) takes_bound: bool,
}

/// An authorization server, as it says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuerMetadata {
    pub(crate) issuer: String,
    pub(crate) authorization: Option<Url>,
    pub(crate) token: Url,
    pub(crate) registration: Option<Url>,
    pub(crate) revocation: Option<Url>,
    pub(crate) scopes: Vec<String>,
    pub(crate) pkce: Vec<String>,
    /// `None`: it does not say.
    pub(crate) client_authentication: Option<Vec<String>>,
    pub(crate) takes_client_documents: bool,
    /// It names itself in its answers (RFC 9207).
    pub(crate) names_itself: bool,
    /// Algorithms for tokens that it binds to a key.
    pub(crate) bound_tokens: Vec<String>,
}

/// A document says what cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataFault {
    #[error("it is no object of JSON")]
    NoObject,
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("it is about {named}, and not about {asked}")]
    OfAnother { asked: String, named: String },
    #[error("it does not list PKCE with S256")]
    NoPkce,
    #[error(transparent)]
    Address(#[from] AddressFault),
}

/// An address that a server named, and that is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    #[error("{0} is no address")]
    None(String),
    #[error("{0} is not https, nor http on this machine")]
    Plain(String),
    #[error("{0} leads into this machine or its network, and the server itself is elsewhere")]
    Inside(String),
}

/// Where the metadata of a resource may lie when it does not say: below its path, then at the root.
pub(crate) fn resource_places(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut places = vec![];
    for path in [path, ""] {
        let place = well_known(server, "oauth-protected-resource", path);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Where the metadata of an issuer may lie. One with a path is never looked for at the root.
pub(crate) fn issuer_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        well_known(issuer, "oauth-authorization-server", path),
        well_known(issuer, "openid-configuration", path),
    ];
    if !path.is_empty() {
        let mut place = bare(issuer);
        place.set_path(&format!("{path}/.well-known/openid-configuration"));
        places.push(place);
    }
    places
}

/// The authorization server of before there was metadata of resources (2025-03-26): the server's own origin.
pub(crate) fn own_origin(server: &Url) -> Url {
    let mut origin = bare(server);
    origin.set_path("");
    origin
}

/// What that revision says where there is no metadata at all.
pub(crate) fn usual_endpoints(server: &Url) -> IssuerMetadata {
    let at = |path: &str| {
        let mut place = own_origin(server);
        place.set_path(path);
        place
    };
    IssuerMetadata {
        issuer: own_origin(server).as_str().trim_end_matches('/').to_owned(),
        authorization: Some(at("/authorize")),
        token: at("/token"),
        registration: Some(at("/register")),
        revocation: None,
        scopes: vec![],
        pkce: vec!["S256".to_owned()],
        client_authentication: None,
        takes_client_documents: false,
        names_itself: false,
        bound_tokens: vec![],
    }
}

fn bare(url: &Url) -> Url {
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    bare
}

fn well_known(url: &Url, name: &str, path: &str) -> Url {
    let mut place = bare(url);
    place.set_path(&format!("/.well-known/{name}{path}"));
    place
}

/// An address that a server named: https, or http on this machine; and not into a network where the server is not.
pub(crate) fn usable(text: &str, server: &Url) -> Result<Url, AddressFault> {
    let shown = || one_line(text, 200);
    let url = Url::parse(text).map_err(|_invalid| AddressFault::None(shown()))?;
    let host = url.host_str().unwrap_or_default();
    if host.is_empty() || !url.username().is_empty() || url.password().is_some() {
        return Err(AddressFault::None(shown()));
    }
    match url.scheme() {
        "https" => {}
        "http" if is_this_machine(url.as_str()) => {}
        _other => return Err(AddressFault::Plain(shown())),
    }
    let is_inside = match url.host() {
        Some(Host::Ipv4(address)) => class_of(address.into()) != AddressClass::Public,
        Some(Host::Ipv6(address)) => class_of(address.into()) != AddressClass::Public,
        Some(Host::Domain(_)) | None => false,
    };
    if (is_inside || is_near(&url)) && !is_near(server) {
        return Err(AddressFault::Inside(shown()));
    }
    Ok(url)
}

/// Whether it is this machine or its network.
pub(crate) fn is_near(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    ServerReach::of("https", host) != ServerReach::Far
}

impl ResourceMetadata {
    /// Reads a document about `server`, which it must be about: its address, or a parent of it.
    pub(crate) fn read(document: &Value, server: &Url) -> Result<Self, MetadataFault> {
        let document = document.as_object().ok_or(MetadataFault::NoObject)?;
        let resource = text(document.get("resource")).ok_or(MetadataFault::Missing("resource"))?;
        let covers = Url::parse(&resource).is_ok_and(|it| covers(&it, server));
        if !covers {
            return Err(MetadataFault::OfAnother {
                asked: bare(server).to_string(),
                named: one_line(&resource, 200),
            });
        }
        let requires = document.get("dpop_bound_access_tokens_required");
        let algorithms = list(document.get("dpop_signing_alg_values_supported"));
        Ok(Self {
            resource,
            issuers: list(document.get("authorization_servers")),
            scopes: list(document.get("scopes_supported")),
            takes_bound: requires == Some(&Value::Bool(true))
                || algorithms.iter().any(|it| it == PROOF_ALGORITHM),
        })
    }
}

/// Whether a resource is this server, or has it below itself. Queries do not count.
fn covers(resource: &Url, server: &Url) -> bool {
    let parent = resource.path().trim_end_matches('/');
    let path = server.path().trim_end_matches('/');
    let below = path
        .strip_prefix(parent)
        .is_some_and(|it| it.is_empty() || it.starts_with('/'));
    resource.origin() == server.origin() && below
}

impl IssuerMetadata {
    /// Reads the document of `issuer`, which must name itself with the very same string; `server` is whose sign-in it is.
    pub(crate) fn read(
        document: &Value,
        issuer: &str,
        server: &Url,
    ) -> Result<Self, MetadataFault> {
        let fields = document.as_object().ok_or(MetadataFault::NoObject)?;
        let named = text(fields.get("issuer")).ok_or(MetadataFault::Missing("issuer"))?;
        if named != issuer {
            return Err(MetadataFault::OfAnother {
                asked: issuer.to_owned(),
                named: one_line(&named, 200),
            });
        }
        let address = |name: &str| {
            let said = text(fields.get(name));
            said.map(|it| usable(&it, server)).transpose()
        };
        let says = |name: &str| fields.get(name) == Some(&Value::Bool(true));
        Ok(Self {
            issuer: named,
            authorization: address("authorization_endpoint")?,
            token: address("token_endpoint")?.ok_or(MetadataFault::Missing("token_endpoint"))?,
            registration: address("registration_endpoint")?,
            revocation: address("revocation_endpoint")?,
            scopes: list(fields.get("scopes_supported")),
            pkce: list(fields.get("code_challenge_methods_supported")),
            client_authentication: fields
                .get("token_endpoint_auth_methods_supported")
                .filter(|it| it.is_array())
                .map(|it| list(Some(it))),
            takes_client_documents: says("client_id_metadata_document_supported"),
            names_itself: says("authorization_response_iss_parameter_supported"),
            bound_tokens: list(fields.get("dpop_signing_alg_values_supported")),
        })
    }

    pub(crate) fn binds_tokens(&self) -> bool {
        self.bound_tokens.iter().any(|it| it == PROOF_ALGORITHM)
    }

    pub(crate) fn has_pkce(&self) -> bool {
        self.pkce.iter().any(|it| it == "S256")
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    (!text.is_empty() && text.len() <= MAX_TEXT).then(|| text.to_owned())
}

fn list(value: Option<&Value>) -> Vec<String> {
    let entries = value.and_then(Value::as_array).into_iter().flatten();
    entries
        .filter_map(|it| text(Some(it)))
        .take(MAX_LIST)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_resource_is_looked_for_below_its_path_and_at_the_root() {
        let check = |server: &str, expected: &[&str]| {
            let places = resource_places(&url(server));
            let places: Vec<&str> = places.iter().map(Url::as_str).collect();
            assert_eq!(expected, places);
        };
        check(
            "https://a.example/x/mcp?key=1",
            &[
                "https://a.example/.well-known/oauth-protected-resource/x/mcp",
                "https://a.example/.well-known/oauth-protected-resource",
            ],
        );
        check(
            "https://a.example/",
            &["https://a.example/.well-known/oauth-protected-resource"],
        );
    }

    #[test]
    fn an_issuer_with_a_path_is_never_looked_for_at_the_root() {
        let check = |issuer: &str, expected: &[&str]| {
            let places = issuer_places(&url(issuer));
            let places: Vec<&str> = places.iter().map(Url::as_str).collect();
            assert_eq!(expected, places);
        };
        check(
            "https://a.example/tenant",
            &[
                "https://a.example/.well-known/oauth-authorization-server/tenant",
                "https://a.example/.well-known/openid-configuration/tenant",
                "https://a.example/tenant/.well-known/openid-configuration",
            ],
        );
        check(
            "https://a.example",
            &[
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration",
            ],
        );
    }

    #[test]
    fn a_resource_speaks_for_itself_and_what_is_below_it() {
        let server = url("https://a.example/x/mcp");
        let check = |resource: &str, good: bool| {
            let read = ResourceMetadata::read(&json!({"resource": resource}), &server);
            assert_eq!(good, read.is_ok(), "{resource}");
            if let Ok(read) = read {
                assert_eq!(resource, read.resource);
            }
        };
        check("https://a.example/x/mcp", true);
        check("https://a.example/x/mcp/", true);
        check("https://a.example/x", true);
        check("https://a.example", true);
        check("https://A.example:443/x/mcp?a=b", true);
        check("https://a.example/x/m", false);
        check("https://a.example/x/mcp/y", false);
        check("https://b.example/x/mcp", false);
        check("http://a.example/x/mcp", false);
        check("not an address", false);
        for none in [json!([]), json!({}), json!({"resource": 1}), json!(null)] {
            assert!(ResourceMetadata::read(&none, &server).is_err(), "{none}");
        }
    }

    #[test]
    fn a_resource_says_whether_it_takes_tokens_that_are_bound() {
        let server = url("https://a.example/mcp");
        let check = |name: &str, value: Value, expected: bool| {
            let mut document = json!({"resource": server.as_str()});
            document[name] = value.clone();
            let read = ResourceMetadata::read(&document, &server).unwrap();
            assert_eq!(expected, read.takes_bound, "{name}: {value}");
        };
        let algorithms = "dpop_signing_alg_values_supported";
        check(algorithms, json!(["RS256", "ES256"]), true);
        check(algorithms, json!(["RS256"]), false);
        check("dpop_bound_access_tokens_required", json!(true), true);
        check("dpop_bound_access_tokens_required", json!(false), false);
        check("scopes_supported", json!([]), false);
    }

    fn issuer(name: &str, value: Value) -> Result<IssuerMetadata, MetadataFault> {
        let mut document = json!({
            "issuer": "https://as.example",
            "authorization_endpoint": "https://as.example/authorize",
            "token_endpoint": "https://as.example/token",
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        document[name] = value;
        IssuerMetadata::read(
            &document,
            "https://as.example",
            &url("https://mcp.example/mcp"),
        )
    }

    #[test]
    fn an_issuer_is_the_one_that_was_asked_for_to_the_letter() {
        assert!(issuer("x", json!(1)).unwrap().has_pkce());
        for named in [
            "https://as.example/",
            "https://AS.example",
            "https://as.example:443",
            "",
        ] {
            assert!(issuer("issuer", json!(named)).is_err(), "{named}");
        }
        assert!(
            !issuer("code_challenge_methods_supported", json!("S256"))
                .unwrap()
                .has_pkce()
        );
        assert!(issuer("token_endpoint", json!(7)).is_err());
    }

    #[test]
    fn no_named_address_leads_inside() {
        let check = |address: &str, good: bool| {
            let read = issuer("token_endpoint", json!(address));
            assert_eq!(good, read.is_ok(), "{address}");
        };
        check("https://other.example/token", true);
        check("http://as.example/token", false);
        check("file:///etc/passwd", false);
        check("https://169.254.169.254/latest", false);
        check("https://10.0.0.1/token", false);
        check("https://[::1]/token", false);
        check("http://127.0.0.1/token", false);
        check("https://router/token", false);
        check("https://user:pass@as.example/token", false);
        check("javascript:alert(1)", false);
        let near = url("http://127.0.0.1:7/mcp");
        assert!(usable("http://localhost:8/token", &near).is_ok());
        assert!(usable("http://10.0.0.1/token", &near).is_err());
        assert!(issuer("authorization_endpoint", json!("https://192.168.0.1/")).is_err());
    }

    #[test]
    fn without_any_metadata_the_origin_is_the_issuer() {
        let usual = usual_endpoints(&url("https://a.example/x/mcp?y"));
        assert_eq!("https://a.example", usual.issuer);
        assert_eq!("https://a.example/token", usual.token.as_str());
    }
}
