//! A call of the tool, read from what a model said.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::address;

pub(crate) const MOST_URL_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchCall {
    /// With its scheme, in the one spelling that it has, without a fragment.
    #[serde(with = "as_text")]
    pub url: Url,
    /// The first line that is wanted, from 1.
    #[serde(default)]
    pub offset: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchArguments {
    url: String,
    offset: Option<u64>,
}

impl FetchCall {
    /// What a call means.
    ///
    /// # Errors
    /// What is wrong with it, as it is told to the model.
    pub fn of(arguments: &Map<String, Value>) -> Result<Self, String> {
        let FetchArguments { url, offset } =
            serde_json::from_value(Value::Object(arguments.clone()))
                .map_err(|error| format!("the arguments of `fetch` are not right: {error}"))?;
        if offset == Some(0) {
            return Err("`offset` is 1 or more".to_owned());
        }
        if url.len() > MOST_URL_BYTES {
            return Err(format!(
                "the address has {} bytes: it can have {MOST_URL_BYTES} at most",
                url.len()
            ));
        }
        let url = Url::parse(url.trim()).map_err(|error| {
            format!("{url:?} is no whole address ({error}): write it like https://example.org/page")
        })?;
        let url = address::checked(url)?;
        Ok(Self { url, offset })
    }
}

/// In the one spelling that it has.
mod as_text {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use url::Url;

    pub(super) fn serialize<S: Serializer>(url: &Url, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(url.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Url, D::Error> {
        let text = String::deserialize(from)?;
        Url::parse(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &str, expected: Result<&str, &str>) {
        let came = FetchCall::of(&serde_json::from_str(arguments).unwrap());
        match (came, expected) {
            (Ok(call), Ok(url)) => assert_eq!(url, call.url.as_str()),
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (came, _) => panic!("{arguments}: {came:?}"),
        }
    }

    #[test]
    fn an_address_is_whole_and_has_no_secrets() {
        let url = |url: &str| serde_json::json!({ "url": url }).to_string();
        check(
            &url(" https://Example.org/a b#part "),
            Ok("https://example.org/a%20b"),
        );
        check(&url("http://127.1:8080"), Ok("http://127.0.0.1:8080/"));
        check(&url("example.org"), Err("no whole address"));
        check(&url("ftp://example.org/"), Err("http:// or https://"));
        check(&url("file:///etc/passwd"), Err("http:// or https://"));
        check(&url("data:text/html,x"), Err("http:// or https://"));
        check(
            &url("https://u:secret@example.org/"),
            Err("a name or a password"),
        );
        check(
            &url("https://token@example.org/"),
            Err("a name or a password"),
        );
        check(
            &url(&format!("https://example.org/{}", "a".repeat(5000))),
            Err("has 5020 bytes"),
        );
        check("{}", Err("missing field `url`"));
        check(
            r#"{"url": "https://a.example", "offset": 0}"#,
            Err("1 or more"),
        );
        check(
            r#"{"url": "https://a.example", "method": "POST"}"#,
            Err("unknown field `method`"),
        );
    }
}
