//! The environment by which programs find the proxy.

use std::net::SocketAddr;

/// Names in both cases: curl reads `http_proxy` only, others the capitals only.
const PROXY_NAMES: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];
/// The child's loopback is its own: nothing of it goes through the proxy.
const OWN_HOSTS: &str = "localhost,127.0.0.1,::1";

/// What a child has in its environment so that programs use the proxy at this address.
///
/// `ALL_PROXY` is of http too: more programs understand that than know SOCKS, which the same port speaks.
pub fn proxy_variables(address: SocketAddr) -> Vec<(String, String)> {
    let proxies = PROXY_NAMES.map(|it| (it.to_owned(), format!("http://{address}")));
    let own = ["NO_PROXY", "no_proxy"].map(|it| (it.to_owned(), OWN_HOSTS.to_owned()));
    proxies.into_iter().chain(own).collect()
}
