//! How the daemon itself goes out: directly, or through a proxy of its own.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::host::{HostPort, NamedHost};
use crate::no_proxy::NoProxy;

/// How connections go out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Upstream {
    #[default]
    Direct,
    Proxy(UpstreamProxy),
}

/// An HTTP proxy that makes the connections. It looks the names up: only addresses that are written down are judged here.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    at: HostPort,
    authorization: Option<String>,
    directly: NoProxy,
}

/// A text is no proxy. The text is in none of the messages: it may have a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    #[error("read the address of the proxy: it is written http://host:port")]
    Address,
    #[error("go through a proxy of {0}: only those of http are known")]
    Scheme(String),
}

impl UpstreamProxy {
    /// Reads `http://name:password@host:port` or `host:port`, as `HTTPS_PROXY` has it, and a list as in `NO_PROXY`.
    pub fn parse(address: &str, no_proxy: &str) -> Result<Self, UpstreamError> {
        let text = match address.contains("://") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        let url = Url::parse(&text).map_err(|_| UpstreamError::Address)?;
        if url.scheme() != "http" {
            return Err(UpstreamError::Scheme(url.scheme().to_owned()));
        }
        let host = NamedHost::parse(url.host_str().unwrap_or_default());
        let host = host.map_err(|_| UpstreamError::Address)?;
        let port = url.port_or_known_default().unwrap_or(80);
        let (user, password) = (url.username(), url.password());
        let has_credentials = !user.is_empty() || password.is_some();
        let authorization = has_credentials.then(|| {
            let mut plain: Vec<u8> = percent_decode_str(user).collect();
            plain.push(b':');
            plain.extend(percent_decode_str(password.unwrap_or_default()));
            format!("Basic {}", BASE64_STANDARD.encode(plain))
        });
        Ok(Self {
            at: HostPort { host, port },
            authorization,
            directly: NoProxy::parse(no_proxy),
        })
    }

    pub(crate) fn at(&self) -> &HostPort {
        &self.at
    }

    pub(crate) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

impl Upstream {
    /// As the environment of the daemon has it: `https_proxy`, or else `all_proxy` or `http_proxy`, and `no_proxy`. A proxy that
    /// is none of http is not gone through, and is the error.
    pub fn of_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UpstreamError> {
        let named = |name: &str| {
            let said = variable(name).or_else(|| variable(&name.to_ascii_uppercase()));
            said.filter(|it| !it.is_empty())
        };
        let proxy = ["https_proxy", "all_proxy", "http_proxy"]
            .into_iter()
            .find_map(named);
        let Some(proxy) = proxy else {
            return Ok(Self::Direct);
        };
        let directly = named("no_proxy").unwrap_or_default();
        UpstreamProxy::parse(&proxy, &directly).map(Self::Proxy)
    }

    /// The proxy that this host is reached through, if it is.
    pub(crate) fn proxy_for(&self, target: &HostPort) -> Option<&UpstreamProxy> {
        match self {
            Self::Direct => None,
            Self::Proxy(proxy) => Some(proxy).filter(|it| !it.directly.covers(target)),
        }
    }
}

impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamProxy")
            .field("at", &self.at.to_string())
            .field("has_credentials", &self.authorization.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_proxy() {
        for (text, at, authorization) in [
            ("http://proxy.example:3128", "proxy.example:3128", None),
            ("proxy.example:3128", "proxy.example:3128", None),
            ("http://proxy.example/", "proxy.example:80", None),
            ("http://[::1]:8080", "[::1]:8080", None),
            (
                "http://u:p%40ss@10.0.0.1:1",
                "10.0.0.1:1",
                Some("Basic dTpwQHNz"),
            ),
            ("u:p@10.0.0.1:1", "10.0.0.1:1", Some("Basic dTpw")),
        ] {
            let proxy = UpstreamProxy::parse(text, "").unwrap();
            assert_eq!(
                (at, authorization),
                (&*proxy.at.to_string(), proxy.authorization()),
                "{text}"
            );
            assert!(!format!("{proxy:?}").contains("dTpw"), "{proxy:?}");
        }
        let of_scheme = |it: &str| Err(UpstreamError::Scheme(it.to_owned()));
        assert_eq!(
            of_scheme("socks5"),
            UpstreamProxy::parse("socks5://10.0.0.1:1", "")
        );
        assert_eq!(
            of_scheme("https"),
            UpstreamProxy::parse("https://u:p@10.0.0.1:1", "")
        );
        assert_eq!(
            Err(UpstreamError::Address),
            UpstreamProxy::parse("http://", "")
        );
        assert_eq!(Err(UpstreamError::Address), UpstreamProxy::parse("", ""));
    }

    #[test]
    fn the_environment_says_how_the_daemon_goes_out() {
        let of = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = set.iter().find(|(it, _)| *it == name);
                found.map(|(_, text)| (*text).to_owned())
            };
            Upstream::of_environment(variable).map(|it| match it {
                Upstream::Direct => None,
                Upstream::Proxy(proxy) => Some(proxy.at().to_string()),
            })
        };
        let at = |it: &str| Ok(Some(it.to_owned()));
        assert_eq!(Ok(None), of(&[("https_proxy", ""), ("NO_PROXY", "x")]));
        assert_eq!(
            at("10.0.0.1:1"),
            of(&[
                ("HTTPS_PROXY", "http://10.0.0.1:1"),
                ("http_proxy", "http://10.0.0.2:2")
            ])
        );
        assert_eq!(at("10.0.0.2:2"), of(&[("HTTP_PROXY", "10.0.0.2:2")]));
        assert!(of(&[("ALL_PROXY", "socks5://10.0.0.1:1")]).is_err());
    }
}
