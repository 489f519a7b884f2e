//! Names of headers and variables whose values are secrets.

/// What such a name holds somewhere.
const TELLING: [&str; 7] = [
    "key",
    "token",
    "auth",
    "secret",
    "cookie",
    "password",
    "credential",
];

/// Whether what has this name is a secret, as far as its name tells.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    TELLING.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_of_secrets() {
        for name in [
            "Authorization",
            "x-api-key",
            "GITHUB_TOKEN",
            "Set-Cookie",
            "PGPASSWORD",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["LOG_LEVEL", "X-Project", "PATH", "accept"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
