//! Which addresses are asked for, and where a redirect leads.

use url::Url;

use crate::failure::FetchFailure;

/// The address without its fragment, if a page may be there.
pub(crate) fn checked(mut url: Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "`{}:` is not read: the address begins with http:// or https://",
            url.scheme()
        ));
    }
    // They would stand in logs and in the conversation, and go wherever the page says.
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address with a name or a password in it is not read".to_owned());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("the address names no host".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// Where `location` leads from a page.
pub(crate) fn redirected(from: &Url, location: &str) -> Result<Url, FetchFailure> {
    let refused = |why: String| FetchFailure::Redirect {
        from: from.to_string(),
        why,
    };
    let to = from
        .join(location)
        .map_err(|error| refused(format!("to no address ({error})")))?;
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(refused(format!(
            "from https to http, which everybody on the way can read and change: {to}"
        )));
    }
    checked(to).map_err(refused)
}

/// As a connection names it.
pub(crate) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    format!("{host}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &str, location: &str, expected: Result<&str, &str>) {
        let from = Url::parse(from).unwrap();
        match (redirected(&from, location), expected) {
            (Ok(url), Ok(expected)) => assert_eq!(expected, url.as_str()),
            (Err(failure), Err(part)) => {
                assert!(failure.to_string().contains(part), "{failure}");
            }
            (came, _) => panic!("{came:?}"),
        }
    }

    #[test]
    fn a_redirect_leads_to_pages_and_never_to_less_safety() {
        let from = "https://a.example/x/y";
        check(from, "z", Ok("https://a.example/x/z"));
        check(from, "//b.example/#p", Ok("https://b.example/"));
        check(from, "http://a.example/x/y", Err("from https to http"));
        check(
            "http://a.example/",
            "https://a.example/",
            Ok("https://a.example/"),
        );
        check(from, "file:///etc/passwd", Err("http:// or https://"));
        check(from, "https://u:p@b.example/", Err("a name or a password"));
        check(from, "https://[", Err("to no address"));
        assert_eq!("a.example:443", authority(&Url::parse(from).unwrap()));
        assert_eq!("[::1]:80", authority(&Url::parse("http://[::1]/").unwrap()));
    }
}
