//! What a token endpoint is asked and what it answers. No IO.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use aishd_mcp_messages::bounded_text::one_line;

use crate::authorization::described;
use crate::challenge::scopes;
use crate::secret::Secret;

const MAX_TOKEN: usize = 32 << 10;
/// Renewed so long before they end, or a tenth of their life.
const LEAST_LEFT: i64 = 60;
/// A wall clock that went back further than this says nothing about an end.
const CLOCK_JUMP: i64 = 300;

/// What the authorization server gave. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenSet {
    pub(crate) access: Secret,
    pub(crate) kind: TokenKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<Secret>,
    pub(crate) scopes: Vec<String>,
    pub(crate) obtained_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<i64>,
}

/// How a token is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TokenKind {
    Bearer,
    /// With a proof of the key that it is bound to (RFC 9449).
    Bound,
}

impl TokenKind {
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Bound => "DPoP",
        }
    }
}

/// The token endpoint said no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}{}", described(.description))]
pub struct TokenRefusal {
    pub error: String,
    pub description: String,
}

/// The answer is none that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    #[error("it gave no token")]
    NoToken,
    #[error("it gave a token that cannot be sent")]
    Unsendable,
    #[error("it gave a token of another kind than Bearer or DPoP")]
    OtherKind,
}

impl TokenSet {
    /// `asked` is what was asked for: an answer that does not name its scopes gave just these.
    pub(crate) fn read(answer: &Value, asked: &[String], now: i64) -> Result<Self, TokenFault> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let access = text("access_token").filter(|it| !it.is_empty());
        let access = access.ok_or(TokenFault::NoToken)?;
        let sendable =
            |it: &str| it.len() <= MAX_TOKEN && it.bytes().all(|it| (0x21..0x7f).contains(&it));
        if !sendable(access) {
            return Err(TokenFault::Unsendable);
        }
        let kind = match text("token_type").map(str::to_ascii_lowercase).as_deref() {
            // Some leave it out.
            Some("bearer") | None => TokenKind::Bearer,
            Some("dpop") => TokenKind::Bound,
            Some(_) => return Err(TokenFault::OtherKind),
        };
        let life = answer.get("expires_in");
        // Some write it as a text.
        let life = life.and_then(|it| it.as_i64().or_else(|| it.as_str()?.parse().ok()));
        Ok(Self {
            access: Secret::new(access),
            kind,
            refresh: text("refresh_token")
                .filter(|it| !it.is_empty() && it.len() <= MAX_TOKEN)
                .map(Secret::new),
            scopes: text("scope").map_or_else(|| asked.to_vec(), scopes),
            obtained_at: now,
            expires_at: life.filter(|it| *it > 0).map(|it| now.saturating_add(it)),
        })
    }

    /// The same renewed: a server that gives no other token for renewing lets the old one be used again.
    pub(crate) fn renewed(self, before: &Self) -> Self {
        Self {
            refresh: self.refresh.or_else(|| before.refresh.clone()),
            ..self
        }
    }

    /// Whether it is better renewed before it is used.
    pub(crate) fn is_stale(&self, now: i64) -> bool {
        let Some(end) = self.expires_at else {
            return false;
        };
        let life = end.saturating_sub(self.obtained_at);
        let left = LEAST_LEFT.min(life / 10);
        // A clock that went back knows nothing.
        now >= self.obtained_at.saturating_sub(CLOCK_JUMP) && end.saturating_sub(now) <= left
    }

    pub(crate) fn is_over(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|it| it <= now)
    }
}

impl TokenRefusal {
    /// What an answer says. It is redacted whole: half a secret would not be known for one.
    pub(crate) fn read(
        answer: Option<&Value>,
        status: u16,
        redact: impl Fn(&str) -> String,
    ) -> Self {
        let text = |name: &str, most: usize| {
            let said = answer.and_then(|it| it.get(name)).and_then(Value::as_str);
            one_line(&redact(said.unwrap_or_default()), most)
        };
        let error = text("error", 80);
        Self {
            description: text("error_description", 300),
            ..if error.is_empty() {
                Self::of_status(status)
            } else {
                Self {
                    error,
                    description: String::new(),
                }
            }
        }
    }

    /// One that says nothing.
    pub(crate) fn of_status(status: u16) -> Self {
        Self {
            error: format!("HTTP {status}"),
            description: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: &Value) -> Result<TokenSet, TokenFault> {
        TokenSet::read(answer, &["asked".to_owned()], 1000)
    }

    #[test]
    fn answers_are_read_as_servers_write_them() {
        let least = read(&json!({"access_token": "a"})).unwrap();
        assert_eq!(
            (None, vec!["asked".to_owned()]),
            (least.expires_at, least.scopes.clone())
        );
        let all = json!({"access_token": "a", "token_type": "BEARER", "expires_in": "60",
            "refresh_token": "r", "scope": "x  y x"});
        let all = read(&all).unwrap();
        assert_eq!(Some(1060), all.expires_at);
        assert_eq!(vec!["x", "y"], all.scopes);
        assert_eq!(all.refresh, least.renewed(&all).refresh);
        let bound = read(&json!({"access_token": "a", "token_type": "DPoP"})).unwrap();
        assert_eq!(TokenKind::Bound, bound.kind);
        let check = |answer: Value, fault: TokenFault| assert_eq!(Err(fault), read(&answer));
        check(json!({}), TokenFault::NoToken);
        check(json!([1]), TokenFault::NoToken);
        check(json!({"access_token": ""}), TokenFault::NoToken);
        check(json!({"access_token": "a\r\nX: y"}), TokenFault::Unsendable);
        check(
            json!({"access_token": "a", "token_type": "mac"}),
            TokenFault::OtherKind,
        );
    }

    #[test]
    fn it_is_renewed_a_minute_or_a_tenth_before_its_end() {
        let check = |life: i64, after: i64, stale: bool| {
            let set = read(&json!({"access_token": "a", "expires_in": life})).unwrap();
            assert_eq!(stale, set.is_stale(1000 + after), "{life} {after}");
        };
        check(3600, 3539, false);
        check(3600, 3540, true);
        check(10, 8, false);
        check(10, 9, true);
        // The clock went back by a day, which is no end.
        check(3600, -86_400, false);
        let endless = read(&json!({"access_token": "a", "expires_in": -5})).unwrap();
        assert!(!endless.is_stale(i64::MAX));
    }

    #[test]
    fn a_refusal_says_what_the_server_says_on_one_line() {
        let check = |answer: Option<Value>, expected: &str| {
            let refusal =
                TokenRefusal::read(answer.as_ref(), 400, |it| it.replace("hush-hush", "…"));
            assert_eq!(expected, refusal.to_string());
        };
        check(Some(json!({"error": "invalid_grant"})), "invalid_grant");
        check(
            Some(json!({"error": "e", "error_description": "a\nb"})),
            "e (a b)",
        );
        check(None, "HTTP 400");
        check(Some(json!({"error": {"code": 1}})), "HTTP 400");
        // Also where it would be cut in the middle.
        let long = format!("{}hush-hush", "a".repeat(295));
        let shown = format!("e ({}…)", "a".repeat(295));
        check(
            Some(json!({"error": "e", "error_description": long})),
            &shown,
        );
        check(Some(json!({"error": "no hush-hush"})), "no …");
    }
}
