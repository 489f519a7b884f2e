//! Addresses of servers: whether they are one, and how far away they are.

use std::net::{IpAddr, Ipv6Addr};

use url::{Host, Url};

/// How far a server is from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkDistance {
    /// On this machine.
    Loopback,
    /// In the house: nobody else sees what is sent without encryption.
    Local,
    Far,
}

/// An `http` or `https` address, or what is wrong with it.
pub fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|error| format!("it is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it begins with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a name or a password has no place in an address".to_owned());
    }
    if url.query_pairs().any(|(name, _)| names_a_secret(&name)) {
        return Err(
            "a key has no place in an address; key_env, key_file or key_cmd name one".to_owned(),
        );
    }
    Ok(url)
}

/// Whether somebody's name or password stands before the host. What is to be filled in later may be one.
pub fn has_userinfo(text: &str) -> bool {
    // As the URL standard reads it: line ends and tabs count for nothing, and `https:` needs no slash, or takes any.
    let text = text.replace(['\t', '\n', '\r'], "");
    let Some((scheme, below)) = text.trim_start().split_once(':') else {
        return false;
    };
    let web = ["http", "https", "ws", "wss"];
    let below = if web.iter().any(|it| scheme.eq_ignore_ascii_case(it)) {
        below.trim_start_matches(['/', '\\'])
    } else if let Some((_, below)) = text.split_once("://") {
        below
    } else {
        return false;
    };
    let authority = below.split(['/', '?', '#', '\\']).next();
    authority.is_some_and(|it| it.contains('@'))
}

/// Whether a part of a query is likely to be a key.
pub fn names_a_secret(name: &str) -> bool {
    const SECRET: [&str; 6] = ["key", "token", "secret", "password", "auth", "sig"];
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|it| name.contains(it))
}

/// An address as it may be shown: without what is likely to be a key in it. A reference to a variable stays.
pub fn without_keys(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['?', '&']) {
        let (before, after) = rest.split_at(at + 1);
        shown.push_str(before);
        rest = after;
        let end = rest.find(['&', '#', '"', '\'']).unwrap_or(rest.len());
        let (pair, after) = rest.split_at(end);
        match pair.split_once('=') {
            Some((name, value)) if names_a_secret(name) && !value.starts_with("${") => {
                shown.push_str(&format!("{name}=***"));
            }
            Some(_) | None => shown.push_str(pair),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

pub fn distance(url: &Url) -> NetworkDistance {
    match url.host() {
        Some(Host::Ipv4(address)) => of_address(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => of_address(IpAddr::V6(address)),
        Some(Host::Domain(name)) => of_name(name.trim_end_matches('.')),
        None => NetworkDistance::Far,
    }
}

fn of_address(address: IpAddr) -> NetworkDistance {
    let local = match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => is_unique_local(v6) || v6.is_unicast_link_local(),
    };
    if address.to_canonical().is_loopback() {
        NetworkDistance::Loopback
    } else if local {
        NetworkDistance::Local
    } else {
        NetworkDistance::Far
    }
}

fn is_unique_local(address: Ipv6Addr) -> bool {
    address.octets()[0] & 0xfe == 0xfc
}

fn of_name(name: &str) -> NetworkDistance {
    const HOUSE: [&str; 5] = [".lan", ".local", ".home.arpa", ".internal", ".localdomain"];
    if name == "localhost" || name.ends_with(".localhost") {
        NetworkDistance::Loopback
    } else if !name.contains('.') || HOUSE.iter().any(|it| name.ends_with(it)) {
        NetworkDistance::Local
    } else {
        NetworkDistance::Far
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(distance_is: NetworkDistance, urls: &[&str]) {
        for url in urls {
            assert_eq!(distance_is, distance(&parse(url).unwrap()), "{url}");
        }
    }

    #[test]
    fn loopback_is_told_from_what_only_looks_like_it() {
        let near = [
            "http://127.0.0.1:1/v1",
            "http://localhost",
            "http://[::1]:8/v1",
            "http://127.9.9.9",
        ];
        check(NetworkDistance::Loopback, &near);
        check(NetworkDistance::Loopback, &["http://[::ffff:127.0.0.1]/"]);
        let house = [
            "http://boltzmann.lan:8082",
            "http://nas",
            "http://192.168.1.5",
            "http://[fd00::1]",
            "https://10.0.0.1",
        ];
        check(NetworkDistance::Local, &house);
        let far = [
            "http://127.0.0.1.evil.test/",
            "http://8.8.8.8",
            "http://[2001:db8::1]",
            "http://lan.evil.test",
        ];
        check(NetworkDistance::Far, &far);
    }

    #[test]
    fn a_name_before_the_host_is_seen_however_the_address_is_written() {
        for text in [
            "https://u:p@h/",
            "https:u:p@h/",
            "https:/u:p@h/",
            "HTTPS:\\\\u@h",
            " ht\ttps:/\n/u:p@h",
            "https://${NAME}@h",
            "postgres://u:p@h/db",
        ] {
            assert!(has_userinfo(text), "{text}");
        }
        for text in [
            "https://h/@x",
            "https:h?a@b",
            "mailto:u@h",
            "u@h",
            "https://h#a@b",
        ] {
            assert!(!has_userinfo(text), "{text}");
        }
        // The parser agrees where there is nothing to fill in.
        for text in ["https:u:p@h/", "https:/u:p@h/", "HTTPS:\\\\u@h"] {
            assert!(!Url::parse(text).unwrap().username().is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, why) in [
            ("nonsense", "it is no address: relative URL without a base"),
            ("ftp://x", "it begins with http:// or https://"),
            (
                "http://a:b@x",
                "a name or a password has no place in an address",
            ),
            (
                "http://localhost@evil.test/",
                "a name or a password has no place in an address",
            ),
            ("http://", "it is no address: empty host"),
            (
                "https://h/v1?api-version=1&API_Key=abc",
                "a key has no place in an address; key_env, key_file or key_cmd name one",
            ),
        ] {
            assert_eq!(Err(why.to_owned()), parse(text), "{text}");
        }
    }

    #[test]
    fn a_key_in_an_address_is_not_shown() {
        for (text, shown) in [
            ("http://h/mcp", "http://h/mcp"),
            (
                "\"http://h/mcp?api_key=sk-1&page=2&tavilyApiKey=t#x\"",
                "\"http://h/mcp?api_key=***&page=2&tavilyApiKey=***#x\"",
            ),
            ("http://h?token=${TOKEN}&q", "http://h?token=${TOKEN}&q"),
        ] {
            assert_eq!(shown, without_keys(text));
        }
    }
}
