//! The way through the browser: the address that a person opens, and what comes back from it. No IO.

use url::Url;
use url::form_urlencoded;

use crate::secret::{Secret, challenge_of};

const MAX_QUERY: usize = 8 << 10;

/// What a person is sent to the authorization server with.
#[derive(Debug)]
pub(crate) struct AuthorizationRequest<'a> {
    pub(crate) endpoint: &'a Url,
    pub(crate) client: &'a str,
    pub(crate) redirect: &'a str,
    pub(crate) state: &'a Secret,
    pub(crate) verifier: &'a Secret,
    pub(crate) resource: &'a str,
    pub(crate) scopes: &'a [String],
}

impl AuthorizationRequest<'_> {
    pub(crate) fn url(&self) -> Url {
        let mut url = self.endpoint.clone();
        url.set_fragment(None);
        let challenge = challenge_of(self.verifier);
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", self.client)
                .append_pair("redirect_uri", self.redirect)
                .append_pair("code_challenge", &challenge)
                .append_pair("code_challenge_method", "S256")
                .append_pair("state", self.state.reveal())
                .append_pair("resource", self.resource);
            if !self.scopes.is_empty() {
                query.append_pair("scope", &self.scopes.join(" "));
            }
            // Without it some give no token that lasts.
            if self.scopes.iter().any(|it| it == "offline_access") {
                query.append_pair("prompt", "consent");
            }
        }
        url
    }
}

/// What must be in the answer of the browser.
#[derive(Debug)]
pub(crate) struct ExpectedAnswer<'a> {
    pub(crate) state: &'a Secret,
    pub(crate) issuer: &'a str,
    /// The authorization server says that it names itself.
    pub(crate) names_itself: bool,
}

/// Why what came back is no answer, or a refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    #[error("that is no answer of a sign-in: it has no {0}")]
    Missing(&'static str),
    #[error("that is no answer of a sign-in: it has {0} twice")]
    Twice(String),
    #[error("that answer belongs to another sign-in")]
    OtherState,
    #[error("the answer does not say who it is from, and {issuer} says that it always does")]
    NoIssuer { issuer: String },
    #[error("the answer is not from {issuer}")]
    OtherIssuer { issuer: String },
    /// The authorization server's own words.
    #[error("{issuer} refused: {error}{}", described(.description))]
    Refused {
        issuer: String,
        error: String,
        description: String,
    },
}

pub(crate) fn described(description: &str) -> String {
    if description.is_empty() {
        String::new()
    } else {
        format!(" ({description})")
    }
}

/// The code of an answer: its query, or the whole address that a browser was sent to. Nothing that it says is repeated
/// before it is known whose it is.
pub(crate) fn code(said: &str, expected: &ExpectedAnswer<'_>) -> Result<Secret, AnswerFault> {
    let answer = AnswerFields::read(said)?;
    let state = answer.one("state").ok_or(AnswerFault::Missing("state"))?;
    if !expected.state.is(state) {
        return Err(AnswerFault::OtherState);
    }
    let issuer = expected.issuer.to_owned();
    match answer.one("iss") {
        Some(it) if it != expected.issuer => return Err(AnswerFault::OtherIssuer { issuer }),
        None if expected.names_itself => return Err(AnswerFault::NoIssuer { issuer }),
        Some(_) | None => {}
    }
    if let Some(error) = answer.one("error") {
        return Err(AnswerFault::Refused {
            issuer,
            error: error.to_owned(),
            description: answer
                .one("error_description")
                .unwrap_or_default()
                .to_owned(),
        });
    }
    let code = answer.one("code").filter(|it| !it.is_empty());
    code.map(Secret::new).ok_or(AnswerFault::Missing("code"))
}

struct AnswerFields(Vec<(String, String)>);

impl AnswerFields {
    fn read(said: &str) -> Result<Self, AnswerFault> {
        let said = said.trim().get(..MAX_QUERY).unwrap_or(said.trim());
        let query = said.split_once('?').map_or(said, |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        let fields: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        for name in ["state", "iss", "code", "error"] {
            if fields.iter().filter(|(it, _)| it == name).count() > 1 {
                return Err(AnswerFault::Twice(name.to_owned()));
            }
        }
        Ok(Self(fields))
    }

    fn one(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://as.example/t";

    /// The code, or why there is none.
    #[track_caller]
    fn check(said: &str, names_itself: bool, expected: Result<&str, &str>) {
        let state = Secret::new("our-state");
        let wanted = ExpectedAnswer {
            state: &state,
            issuer: ISSUER,
            names_itself,
        };
        let found = code(said, &wanted);
        let found = found
            .as_ref()
            .map(Secret::reveal)
            .map_err(ToString::to_string);
        assert_eq!(expected.map_err(str::to_owned), found, "{said}");
    }

    #[test]
    fn an_answer_is_a_query_or_the_whole_address() {
        check("code=c&state=our-state", false, Ok("c"));
        check("?code=c&state=our-state", false, Ok("c"));
        let whole = "  http://127.0.0.1:9/callback?code=c%2F1&state=our-state#x\n";
        check(whole, false, Ok("c/1"));
        let named = "code=c&state=our-state&iss=https%3A%2F%2Fas.example%2Ft";
        check(named, true, Ok("c"));
        check(named, false, Ok("c"));
    }

    /// On a wrong answer nothing is shown that it says, and a refusal counts only where it is known whose it is.
    #[test]
    fn whose_answer_it_is_comes_first() {
        let other = Err("that answer belongs to another sign-in");
        check("code=c&state=theirs", false, other);
        check("error=evil&state=", false, other);
        check(
            "code=c",
            false,
            Err("that is no answer of a sign-in: it has no state"),
        );
        check(
            "",
            false,
            Err("that is no answer of a sign-in: it has no state"),
        );
        let twice = Err("that is no answer of a sign-in: it has state twice");
        check("state=our-state&state=x&code=c", false, twice);
        let elsewhere = Err("the answer is not from https://as.example/t");
        for iss in [
            "https://as.example",
            "https://AS.example/t",
            "https://as.example/t/",
            "",
        ] {
            let said = format!("error=e&state=our-state&iss={iss}");
            check(&said, false, elsewhere);
            check(&said, true, elsewhere);
        }
        check(
            "code=c&state=our-state",
            true,
            Err(
                "the answer does not say who it is from, and https://as.example/t says that it always does",
            ),
        );
        check(
            "error=access_denied&error_description=no+thanks&state=our-state",
            false,
            Err("https://as.example/t refused: access_denied (no thanks)"),
        );
        check(
            "state=our-state",
            false,
            Err("that is no answer of a sign-in: it has no code"),
        );
    }

    #[test]
    fn the_address_says_all_that_the_standards_want() {
        let (state, verifier) = (Secret::new("s"), Secret::new("v"));
        let endpoint = Url::parse("https://as.example/authorize?tenant=1#x").unwrap();
        let scopes = ["a".to_owned(), "b".to_owned()];
        let url = AuthorizationRequest {
            endpoint: &endpoint,
            client: "c",
            redirect: "http://127.0.0.1:1/callback",
            state: &state,
            verifier: &verifier,
            resource: "https://mcp.example",
            scopes: &scopes,
        }
        .url();
        let said: Vec<String> = url.query_pairs().map(|(a, b)| format!("{a}={b}")).collect();
        let expected = [
            "tenant=1",
            "response_type=code",
            "client_id=c",
            "redirect_uri=http://127.0.0.1:1/callback",
            &format!("code_challenge={}", challenge_of(&verifier)),
            "code_challenge_method=S256",
            "state=s",
            "resource=https://mcp.example",
            "scope=a b",
        ];
        assert_eq!(expected.to_vec(), said);
        assert_eq!(None, url.fragment());
    }
}
