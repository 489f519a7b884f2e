//! Who we are to an authorization server: what we ask to be registered as (RFC 7591), what came of it, and how we prove it
//! at the token endpoint. No IO.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::metadata::IssuerMetadata;
use crate::secret::Secret;

/// As forms have it; `*-._` stand for themselves.
const FORM: AsciiSet = NON_ALPHANUMERIC
    .remove(b'*')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_');

/// A client that the authorization server knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OAuthClient {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Secret>,
    pub(crate) method: ClientMethod,
    pub(crate) source: ClientSource,
    /// The redirect that it was registered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redirect: Option<String>,
    /// In seconds since 1970; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<i64>,
}

/// How a client proves itself at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientMethod {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// How it became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ClientSource {
    Configured,
    /// Its id is the address of a document about it.
    Document,
    Registered,
}

impl ClientMethod {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    fn of(name: &str) -> Option<Self> {
        let all = [
            Self::None,
            Self::ClientSecretBasic,
            Self::ClientSecretPost,
            Self::PrivateKeyJwt,
        ];
        all.into_iter().find(|it| it.name() == name)
    }
}

/// The way for a client with this secret, or without one, that the server lists.
pub(crate) fn method(metadata: &IssuerMetadata, has_secret: bool) -> ClientMethod {
    let listed = metadata.client_authentication.as_deref();
    let takes =
        |it: ClientMethod| listed.is_none_or(|all| all.iter().any(|name| name == it.name()));
    match has_secret {
        false => ClientMethod::None,
        // What RFC 8414 takes for granted where nothing is said.
        true if takes(ClientMethod::ClientSecretBasic) => ClientMethod::ClientSecretBasic,
        true if takes(ClientMethod::ClientSecretPost) => ClientMethod::ClientSecretPost,
        true => ClientMethod::ClientSecretBasic,
    }
}

/// What we ask to be registered as.
pub(crate) fn registration(metadata: &IssuerMetadata, redirect: &str, scopes: &[String]) -> Value {
    let wanted = [
        ClientMethod::None,
        ClientMethod::ClientSecretBasic,
        ClientMethod::ClientSecretPost,
    ];
    let method = match &metadata.client_authentication {
        Some(listed) => wanted
            .into_iter()
            .find(|it| listed.iter().any(|name| name == it.name())),
        None => Some(ClientMethod::None),
    };
    let mut body = json!({
        "client_name": "aish",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native",
        "token_endpoint_auth_method": method.unwrap_or(ClientMethod::None).name(),
    });
    if !scopes.is_empty() {
        body["scope"] = scopes.join(" ").into();
    }
    body
}

/// What came of it: the answer counts and not the wish.
pub(crate) fn registered(answer: &Value, wish: &Value, redirect: &str) -> Option<OAuthClient> {
    let id = answer.get("client_id").and_then(Value::as_str)?;
    let secret = answer.get("client_secret").and_then(Value::as_str);
    let secret = secret.filter(|it| !it.is_empty());
    let named = |it: &Value| {
        let name = it.get("token_endpoint_auth_method").and_then(Value::as_str);
        name.and_then(ClientMethod::of)
    };
    let method = match (named(answer).or(named(wish)), secret) {
        (Some(method), Some(_)) => method,
        // Without a secret there is nothing to prove with.
        (_, None) => ClientMethod::None,
        (None, Some(_)) => ClientMethod::ClientSecretBasic,
    };
    let expires = answer
        .get("client_secret_expires_at")
        .and_then(Value::as_i64);
    (!id.is_empty()).then(|| OAuthClient {
        id: id.to_owned(),
        secret: secret.map(Secret::new),
        method,
        source: ClientSource::Registered,
        redirect: Some(redirect.to_owned()),
        expires_at: expires.filter(|it| *it > 0),
    })
}

/// What a request to the token endpoint carries to prove who asks.
#[derive(Debug, Default)]
pub(crate) struct ClientProof {
    pub(crate) fields: Vec<(&'static str, Secret)>,
    pub(crate) authorization: Option<Secret>,
}

impl OAuthClient {
    /// `assertion` is what its key has signed, where it has one.
    pub(crate) fn proof(&self, assertion: Option<Secret>) -> ClientProof {
        let id = ("client_id", Secret::new(self.id.clone()));
        let secret = self.secret.clone().unwrap_or_else(|| Secret::new(""));
        match (self.method, assertion) {
            (ClientMethod::PrivateKeyJwt, Some(assertion)) => ClientProof {
                fields: vec![
                    id,
                    (
                        "client_assertion_type",
                        Secret::new("urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
                    ),
                    ("client_assertion", assertion),
                ],
                authorization: None,
            },
            (ClientMethod::None | ClientMethod::PrivateKeyJwt, _) => ClientProof {
                fields: vec![id],
                authorization: None,
            },
            (ClientMethod::ClientSecretPost, _) => ClientProof {
                fields: vec![id, ("client_secret", secret)],
                authorization: None,
            },
            (ClientMethod::ClientSecretBasic, _) => {
                // Both parts as forms have them, first (RFC 6749, 2.3.1).
                let part = |text: &str| utf8_percent_encode(text, &FORM).to_string();
                let pair = format!("{}:{}", part(&self.id), part(secret.reveal()));
                ClientProof {
                    // Some look the client up by it before they read the header.
                    fields: vec![id],
                    authorization: Some(Secret::new(format!("Basic {}", STANDARD.encode(pair)))),
                }
            }
        }
    }

    pub(crate) fn is_over(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|it| it <= now)
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::metadata::usual_endpoints;

    const REDIRECT: &str = "http://127.0.0.1:7777/callback";

    fn lists(methods: Option<&[&str]>) -> IssuerMetadata {
        let methods = methods.map(|all| all.iter().map(|it| (*it).to_owned()).collect());
        IssuerMetadata {
            client_authentication: methods,
            ..usual_endpoints(&Url::parse("https://as.example").unwrap())
        }
    }

    /// What is asked for where these are listed, and how the answer is used.
    #[track_caller]
    fn check(listed: Option<&[&str]>, answer: &Value, wished: &str, used: ClientMethod) {
        let wish = registration(&lists(listed), REDIRECT, &[]);
        assert_eq!(wished, wish["token_endpoint_auth_method"]);
        let client = registered(answer, &wish, REDIRECT).unwrap();
        assert_eq!(used, client.method, "{answer}");
    }

    #[test]
    fn the_answer_to_a_registration_counts() {
        use ClientMethod::{ClientSecretPost, None as Bare};
        let bare = json!({"client_id": "c"});
        let secret = json!({"client_id": "c", "client_secret": "s"});
        let post = json!({"client_id": "c", "client_secret": "s",
            "token_endpoint_auth_method": "client_secret_post"});
        check(None, &bare, "none", Bare);
        check(Some(&["none", "client_secret_post"]), &bare, "none", Bare);
        check(
            Some(&["client_secret_post"]),
            &secret,
            "client_secret_post",
            ClientSecretPost,
        );
        check(
            Some(&["client_secret_basic"]),
            &post,
            "client_secret_basic",
            ClientSecretPost,
        );
        check(Some(&["private_key_jwt"]), &bare, "none", Bare);
        let wish = registration(&lists(None), REDIRECT, &["a".to_owned(), "b".to_owned()]);
        assert_eq!("a b", wish["scope"]);
        assert_eq!("native", wish["application_type"]);
        for none in [
            json!({}),
            json!([]),
            json!({"client_id": ""}),
            json!({"client_id": 7}),
        ] {
            assert_eq!(None, registered(&none, &wish, REDIRECT), "{none}");
        }
    }

    #[test]
    fn basic_encodes_both_parts_first() {
        let client = OAuthClient {
            id: "a:b c".to_owned(),
            secret: Some(Secret::new("p%+ü")),
            method: ClientMethod::ClientSecretBasic,
            source: ClientSource::Configured,
            redirect: None,
            expires_at: None,
        };
        let proof = client.proof(None);
        let said = proof.authorization.unwrap();
        let said = STANDARD
            .decode(said.reveal().strip_prefix("Basic ").unwrap())
            .unwrap();
        assert_eq!("a%3Ab%20c:p%25%2B%C3%BC", String::from_utf8(said).unwrap());
        assert_eq!("client_id", proof.fields[0].0);
        let post = OAuthClient {
            method: ClientMethod::ClientSecretPost,
            ..client
        };
        let names: Vec<&str> = post.proof(None).fields.iter().map(|it| it.0).collect();
        assert_eq!(vec!["client_id", "client_secret"], names);
    }
}
