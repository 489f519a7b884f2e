//! Asking authorization servers over HTTP: no redirects, small answers, a short time, and no address inside a network where
//! the MCP server is not.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aishd_egress::{AddressClass, class_of};
use aishd_http::tls;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::server_reach::ServerReach;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, RequestBuilder, Response, redirect};
use serde_json::Value;
use url::{Url, form_urlencoded};

use crate::challenge::{self, BearerChallenge};
use crate::client::ClientProof;
use crate::fault::SignInFault;
use crate::metadata::is_near;
use crate::secret::Secret;

const CONNECT: Duration = Duration::from_secs(5);
/// One question with its answer.
const WHOLE: Duration = Duration::from_secs(15);
const MAX_BODY: usize = 64 << 10;

/// How an authorization server is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WireReach {
    reach: ServerReach,
    /// Addresses inside are refused where this MCP server is elsewhere. `None`: it is inside by its name.
    guarded_for: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct SignInWire {
    clients: Mutex<BTreeMap<WireReach, Client>>,
    asked: Arc<AskedHosts>,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct WireReply {
    pub(crate) status: u16,
    pub(crate) document: Option<Value>,
    /// For the next proof (RFC 9449, 8).
    pub(crate) nonce: Option<String>,
}

impl WireReply {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Busy or broken, which says nothing about what was asked.
    pub(crate) fn is_broken(&self) -> bool {
        self.status >= 500 || matches!(self.status, 408 | 429)
    }
}

/// A question to a token endpoint.
#[derive(Debug)]
pub(crate) struct TokenQuestion<'a> {
    pub(crate) fields: Vec<(&'static str, Secret)>,
    pub(crate) client: ClientProof,
    /// Proof of the key that the token is to be bound to.
    pub(crate) bound: Option<&'a Secret>,
}

impl SignInWire {
    /// A document; `server` is whose sign-in it is for.
    pub(crate) async fn get(&self, url: &Url, server: &Url) -> Result<WireReply, SignInFault> {
        let request = self.client(url, server)?.get(url.clone());
        self.reply(url, request.header(ACCEPT, "application/json"))
            .await
    }

    pub(crate) async fn post(
        &self,
        url: &Url,
        server: &Url,
        body: &Value,
    ) -> Result<WireReply, SignInFault> {
        let request = self.client(url, server)?.post(url.clone());
        let request = request.header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, "application/json");
        self.reply(url, request.body(body.to_string())).await
    }

    pub(crate) async fn ask(
        &self,
        url: &Url,
        server: &Url,
        question: TokenQuestion<'_>,
    ) -> Result<WireReply, SignInFault> {
        let mut request = self
            .client(url, server)?
            .post(url.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form(&question));
        for (name, value) in [
            (
                AUTHORIZATION.as_str(),
                question.client.authorization.as_ref(),
            ),
            ("dpop", question.bound),
        ] {
            if let Some(value) = value.and_then(|it| HeaderValue::try_from(it.reveal()).ok()) {
                let mut value = value;
                value.set_sensitive(true);
                request = request.header(name, value);
            }
        }
        self.reply(url, request).await
    }

    /// What the MCP server itself says to who has no token. It is asked for its stream, which changes nothing there.
    pub(crate) async fn challenge(
        &self,
        server: &Url,
    ) -> Result<Option<BearerChallenge>, SignInFault> {
        let request = self.client(server, server)?.get(server.clone());
        let request = request.header(ACCEPT, "text/event-stream");
        let response = self.send(server, request).await?;
        let lines = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let lines = lines.filter_map(|it| it.to_str().ok());
        Ok(challenge::bearer(lines).filter(|_| matches!(response.status().as_u16(), 401 | 403)))
    }

    async fn send(&self, url: &Url, request: RequestBuilder) -> Result<Response, SignInFault> {
        self.asked.remember(url);
        let sent = tokio::time::timeout(WHOLE, request.send()).await;
        let unreachable = |why: String| SignInFault::Unreachable {
            place: place(url),
            why,
        };
        match sent {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unreachable(cause(&error))),
            Err(_elapsed) => Err(unreachable("it does not answer".to_owned())),
        }
    }

    async fn reply(&self, url: &Url, request: RequestBuilder) -> Result<WireReply, SignInFault> {
        let response = self.send(url, request).await?;
        let status = response.status();
        if status.is_redirection() {
            return Err(SignInFault::Redirected { place: place(url) });
        }
        let nonce = response.headers().get("dpop-nonce");
        let nonce = nonce.and_then(|it| it.to_str().ok()).map(str::to_owned);
        let body = tokio::time::timeout(WHOLE, bounded(response)).await;
        let unreachable = |why: &str| SignInFault::Unreachable {
            place: place(url),
            why: why.to_owned(),
        };
        let body = body.map_err(|_elapsed| unreachable("its answer does not end"))?;
        let body =
            body.ok_or_else(|| unreachable("its answer broke off, or is longer than 64 KiB"))?;
        Ok(WireReply {
            status: status.as_u16(),
            document: serde_json::from_slice(&body).ok(),
            nonce,
        })
    }

    fn client(&self, url: &Url, server: &Url) -> Result<Client, SignInFault> {
        let reach = WireReach {
            reach: ServerReach::of(url.scheme(), url.host_str().unwrap_or_default()),
            guarded_for: (!is_near(server)).then(|| {
                let host = server.host_str().unwrap_or_default();
                host.to_ascii_lowercase()
            }),
        };
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&reach) {
            return Ok(client.clone());
        }
        tls::provide();
        let builder = Client::builder()
            .user_agent(concat!("aish/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(0);
        let builder = match reach.reach {
            ServerReach::NearPlain => builder.no_proxy().tls_certs_only([]),
            ServerReach::NearTls => builder.no_proxy(),
            ServerReach::Far => builder,
        };
        let builder = match &reach.guarded_for {
            Some(home) => builder.dns_resolver(Arc::new(GuardedNames {
                asked: self.asked.clone(),
                home: home.clone(),
            })),
            None => builder,
        };
        let client = builder.build().map_err(|error| SignInFault::Unreachable {
            place: place(url),
            why: cause(&error),
        })?;
        clients.insert(reach, client.clone());
        Ok(client)
    }
}

fn form(question: &TokenQuestion<'_>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    for (name, value) in question.fields.iter().chain(&question.client.fields) {
        form.append_pair(name, value.reveal());
    }
    form.finish()
}

/// Without its query, which may hold something secret.
pub(crate) fn place(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    shown.to_string()
}

/// The innermost reason; the outer ones repeat the address.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    one_line(&innermost.to_string(), 200)
}

async fn bounded(response: Response) -> Option<Vec<u8>> {
    let mut text = vec![];
    let mut body = response.bytes_stream();
    while let Some(bytes) = body.next().await {
        text.extend_from_slice(&bytes.ok()?);
        if text.len() > MAX_BODY {
            return None;
        }
    }
    Some(text)
}

/// Names that servers gave us: where one leads inside, it is not followed. A proxy's name is not among them.
#[derive(Debug, Default)]
struct AskedHosts(Mutex<BTreeSet<String>>);

impl AskedHosts {
    fn remember(&self, url: &Url) {
        if let Some(host) = url.host_str() {
            self.0.lock().insert(host.to_ascii_lowercase());
        }
    }

    fn has(&self, host: &str) -> bool {
        self.0.lock().contains(&host.to_ascii_lowercase())
    }
}

/// The names that may be followed in the sign-in to one MCP server.
#[derive(Debug)]
struct GuardedNames {
    asked: Arc<AskedHosts>,
    /// The MCP server, whose address a person has written down.
    home: String,
}

/// Where reqwest may connect to.
impl Resolve for GuardedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let is_guarded = self.asked.has(&host) && !host.eq_ignore_ascii_case(&self.home);
        let home = self.home.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = addresses(&host).await?;
            if !is_guarded {
                let all: Addrs = Box::new(found.into_iter());
                return Ok(all);
            }
            let is_public = |it: &SocketAddr| class_of(it.ip()) == AddressClass::Public;
            let near = if found.iter().any(is_public) {
                vec![]
            } else {
                addresses(&home).await.unwrap_or_default()
            };
            let admitted = admitted(&found, &near);
            if admitted.is_empty() {
                let why = format!("{host} leads into this machine or its network");
                return Err(io::Error::other(why).into());
            }
            let admitted: Addrs = Box::new(admitted.into_iter());
            Ok(admitted)
        })
    }
}

async fn addresses(host: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((host, 0)).await?.collect())
}

/// Those that are outside; where there are none, those in the network in which the MCP server is with all its addresses. This
/// machine, and what only neighbours on the wire reach, are never among them.
fn admitted(found: &[SocketAddr], home: &[SocketAddr]) -> Vec<SocketAddr> {
    let class = |it: &SocketAddr| class_of(it.ip());
    let of = |wanted: AddressClass| -> Vec<SocketAddr> {
        let those = found.iter().filter(|it| class(it) == wanted);
        those.copied().collect()
    };
    let outside = of(AddressClass::Public);
    if !outside.is_empty() {
        return outside;
    }
    match home.first().map(class) {
        Some(inside @ (AddressClass::Private | AddressClass::Shared))
            if home.iter().all(|it| class(it) == inside) =>
        {
            of(inside)
        }
        Some(_) | None => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: &str, home: &str, expected: &str) {
        let read = |text: &str| -> Vec<SocketAddr> {
            let each = text.split_whitespace();
            each.map(|it| SocketAddr::new(it.parse().unwrap(), 0))
                .collect()
        };
        assert_eq!(
            read(expected),
            admitted(&read(found), &read(home)),
            "{found} of {home}"
        );
    }

    #[test]
    fn a_name_leads_inside_only_where_the_server_is_inside_itself() {
        check("93.184.216.34 10.0.0.1", "10.0.0.2", "93.184.216.34");
        check("10.0.0.1", "10.9.9.9 192.168.1.1", "10.0.0.1");
        check("10.0.0.1", "93.184.216.34", "");
        check("10.0.0.1", "10.0.0.2 93.184.216.34", "");
        check("10.0.0.1", "", "");
        check("127.0.0.1", "10.0.0.2", "");
        check("127.0.0.1", "127.0.0.1", "");
        check("169.254.169.254", "169.254.1.1", "");
        check("100.64.0.1", "100.100.0.1", "100.64.0.1");
        check("100.64.0.1 10.0.0.1", "10.0.0.2", "10.0.0.1");
        check("fd00::1", "fd00::2", "fd00::1");
    }
}
