//! The variables that say how programs reach servers: through which proxy, and which certificates they trust. A client
//! gives its own to a daemon that it starts, and the daemon gives them to its children.

/// Their names; those of proxies in both cases.
pub const VARIABLES: [&str; 13] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// Whether this is one of them.
pub fn is_network(name: &str) -> bool {
    VARIABLES.contains(&name)
}

/// A value for people: without the name and the password that the URL of a proxy may hold.
pub fn displayed(value: &str) -> String {
    let (scheme, rest) = match value.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), value),
    };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}***{}", &rest[at..]),
        None => value.to_owned(),
    }
}

/// The password in the URL of a proxy, as it is written there.
pub fn password(value: &str) -> Option<&str> {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    let end = rest.find('/').unwrap_or(rest.len());
    let (user, _host) = rest[..end].rsplit_once('@')?;
    let (_name, password) = user.split_once(':')?;
    (!password.is_empty()).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: &str, secret: Option<&str>) {
        assert_eq!((expected, secret), (&*displayed(value), password(value)));
    }

    #[test]
    fn a_proxy_is_shown_without_its_password() {
        check("http://proxy:3128", "http://proxy:3128", None);
        check(
            "http://me:s3cret@proxy:3128/",
            "http://***@proxy:3128/",
            Some("s3cret"),
        );
        check("me:p@ss@proxy:3128", "***@proxy:3128", Some("p@ss"));
        check("http://me@proxy", "http://***@proxy", None);
        check("localhost,.corp", "localhost,.corp", None);
        check("/etc/ssl/me@corp.pem", "/etc/ssl/me@corp.pem", None);
    }
}
