//! What a refusal says about signing in: `WWW-Authenticate` (RFC 9110, 11.6.1), all of its lines, schemes and parameters.

/// More than any server says; what comes after is not read.
const MAX_CHALLENGES: usize = 16;
const MAX_PARAMETERS: usize = 32;
const MAX_BYTES: usize = 16 << 10;

/// One challenge. Names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthChallenge {
    pub(crate) scheme: String,
    pub(crate) parameters: Vec<(String, String)>,
}

/// What is asked of us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BearerChallenge {
    /// Where the resource's metadata is (RFC 9728, 5.1), as the server wrote it.
    pub(crate) resource_metadata: Option<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) error: Option<String>,
    /// It takes tokens that are bound to a key.
    pub(crate) takes_bound: bool,
}

impl AuthChallenge {
    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The first challenge that wants a bearer token, or one that is bound to a key (RFC 9449).
pub(crate) fn bearer<'a>(lines: impl Iterator<Item = &'a str>) -> Option<BearerChallenge> {
    let all: Vec<AuthChallenge> = lines.flat_map(challenges).take(MAX_CHALLENGES).collect();
    let ours: Vec<&AuthChallenge> = all
        .iter()
        .filter(|it| matches!(it.scheme.as_str(), "bearer" | "dpop"))
        .collect();
    ours.first()?;
    // Servers that offer both schemes say some things only once.
    let said = |name| ours.iter().find_map(|it| it.parameter(name));
    Some(BearerChallenge {
        resource_metadata: said("resource_metadata").map(str::to_owned),
        scopes: scopes(said("scope").unwrap_or_default()),
        error: said("error").map(str::to_owned),
        takes_bound: ours.iter().any(|it| it.scheme == "dpop"),
    })
}

/// The words of a scope, each once, in their order.
pub(crate) fn scopes(text: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    for word in text.split_ascii_whitespace() {
        if !all.iter().any(|it| it == word) {
            all.push(word.to_owned());
        }
    }
    all
}

/// All of both, each once.
pub(crate) fn union(one: &[String], more: &[String]) -> Vec<String> {
    let mut all = one.to_vec();
    all.extend(more.iter().filter(|it| !one.contains(it)).cloned());
    all
}

/// All challenges of one line. What cannot be read is passed over.
pub(crate) fn challenges(line: &str) -> Vec<AuthChallenge> {
    let line = line.get(..MAX_BYTES).unwrap_or(line);
    let mut reader = ChallengeReader { rest: line };
    let mut found: Vec<AuthChallenge> = vec![];
    while found.len() <= MAX_CHALLENGES {
        reader.skip(&[' ', '\t', ',']);
        let Some(word) = reader.token() else {
            if reader.rest.is_empty() {
                break;
            }
            reader.pass_over();
            continue;
        };
        match (reader.value(), found.last_mut()) {
            (Some(value), Some(challenge)) => {
                if challenge.parameters.len() < MAX_PARAMETERS {
                    let named = (word.to_ascii_lowercase(), value);
                    challenge.parameters.push(named);
                }
            }
            // A parameter of nothing.
            (Some(_), None) => {}
            (None, _) => {
                found.push(AuthChallenge {
                    scheme: word.to_ascii_lowercase(),
                    parameters: vec![],
                });
                reader.token68();
            }
        }
    }
    found
}

struct ChallengeReader<'a> {
    rest: &'a str,
}

impl<'a> ChallengeReader<'a> {
    fn skip(&mut self, what: &[char]) {
        self.rest = self.rest.trim_start_matches(what);
    }

    /// What is no word, to where the next may begin.
    fn pass_over(&mut self) {
        let end = self.rest.find([',', ' ', '\t']);
        self.rest = end.and_then(|it| self.rest.get(it..)).unwrap_or_default();
    }

    fn any(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        Some(next)
    }

    fn token(&mut self) -> Option<&'a str> {
        let is_token = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
        let end = self.rest.find(|it| !is_token(it));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// What stands behind `=`, if that is next.
    fn value(&mut self) -> Option<String> {
        let after = self.rest.trim_start_matches([' ', '\t']);
        let after = after.strip_prefix('=')?.trim_start_matches([' ', '\t']);
        if let Some(quoted) = after.strip_prefix('"') {
            self.rest = quoted;
            return Some(self.quoted());
        }
        // Addresses are written without quotes by some.
        let end = after.find([',', ' ', '\t']).unwrap_or(after.len());
        let value = after.get(..end)?;
        if value.is_empty() {
            return None;
        }
        self.rest = after.get(end..)?;
        Some(value.to_owned())
    }

    fn quoted(&mut self) -> String {
        let mut text = String::new();
        while let Some(next) = self.any() {
            match next {
                '"' => break,
                '\\' => text.extend(self.any()),
                other => text.push(other),
            }
        }
        text
    }

    /// The other form that a challenge may have: one word of base64, as Negotiate has.
    fn token68(&mut self) {
        let after = self.rest.trim_start_matches([' ', '\t']);
        let is_part = |it: char| it.is_ascii_alphanumeric() || "-._~+/=".contains(it);
        let end = after.find(|it| !is_part(it)).unwrap_or(after.len());
        let (word, rest) = after.split_at(end);
        let alone = rest.trim_start_matches([' ', '\t']);
        let padded = word.trim_end_matches('=').contains('=');
        if !word.is_empty() && !padded && (alone.is_empty() || alone.starts_with(',')) {
            self.rest = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schemes with their parameters, as `scheme name=value;name=value`.
    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let found = challenges(line);
        let shown: Vec<String> = found
            .iter()
            .map(|it| {
                let parameters = it.parameters.iter();
                let parameters = parameters.map(|(name, value)| format!("{name}={value}"));
                let parameters: Vec<String> = parameters.collect();
                format!("{} {}", it.scheme, parameters.join(";"))
                    .trim()
                    .to_owned()
            })
            .collect();
        assert_eq!(expected, shown, "{line}");
    }

    #[test]
    fn every_form_of_a_challenge_is_read() {
        check("Bearer", &["bearer"]);
        check(
            r#"Bearer resource_metadata="https://a.example/x?y=1,2", scope="a b""#,
            &["bearer resource_metadata=https://a.example/x?y=1,2;scope=a b"],
        );
        check(
            r#"Basic realm="a \"b\", c", Bearer error="insufficient_scope",scope=files"#,
            &[
                r#"basic realm=a "b", c"#,
                "bearer error=insufficient_scope;scope=files",
            ],
        );
        check(
            "Negotiate YWJj==, Bearer realm=x",
            &["negotiate", "bearer realm=x"],
        );
        check(
            "Negotiate , BEARER REALM = \"x\"",
            &["negotiate", "bearer realm=x"],
        );
        check(
            "Bearer resource_metadata=https://a.example/m, error=invalid_token",
            &["bearer resource_metadata=https://a.example/m;error=invalid_token"],
        );
    }

    #[test]
    fn what_is_no_challenge_is_passed_over() {
        check("", &[]);
        check(", , ", &[]);
        check("=x, \"", &[]);
        check(
            "Bearer realm=\"never ends, scope=\"x",
            &["bearer realm=never ends, scope=", "x"],
        );
        check("Bearer ü=1 scope=\"a\"", &["bearer scope=a"]);
        let long = format!("Bearer {}", "a=b,".repeat(10_000));
        assert_eq!(MAX_PARAMETERS, challenges(&long)[0].parameters.len());
        let many = "Basic, ".repeat(1000);
        assert!(challenges(&many).len() <= MAX_CHALLENGES + 1);
    }

    #[test]
    fn the_bearer_challenge_is_found_among_all_lines() {
        let lines = [
            "Basic realm=x",
            r#"DPoP algs="ES256", Bearer scope="b a b", resource_metadata="m""#,
        ];
        let found = bearer(lines.into_iter()).unwrap();
        assert_eq!(vec!["b", "a"], found.scopes);
        assert_eq!(Some("m"), found.resource_metadata.as_deref());
        assert!(found.takes_bound);
        let plain = bearer([lines[0], "Bearer"].into_iter()).unwrap();
        assert!(!plain.takes_bound);
        assert_eq!(None, bearer(["Basic realm=x"].into_iter()));
    }
}
