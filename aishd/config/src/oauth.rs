//! `[mcp.servers.ALIAS.oauth]`: how to sign in to one server.

use std::path::PathBuf;

use aishd_mcp_messages::oauth_settings::{
    IdentityProvider, OAuthGrant, OAuthSettings, SecretSource,
};

use super::address;
use super::fault::Fault;
use super::keys::OAuth;
use super::table_reader::{KeyLeaf, join};
use super::value::{Grant, Pkce};
use crate::key_values::{home, value_of};

/// What is said there; faults are added to the others.
pub(super) fn settings(path: &str, table: &OAuth, faults: &mut Vec<Fault>) -> OAuthSettings {
    let grant = match value_of(&table.grant) {
        Some(Grant::ClientCredentials) => OAuthGrant::ClientCredentials,
        Some(Grant::JwtBearer) => OAuthGrant::JwtBearer,
        Some(Grant::Enterprise) => OAuthGrant::Enterprise,
        Some(Grant::Person) | None => OAuthGrant::Person,
    };
    let file = |leaf: &KeyLeaf<PathBuf>| leaf.as_ref().map(|it| home(&it.value));
    let mut secret = |env: &KeyLeaf<String>, named: &KeyLeaf<PathBuf>, what: &str| {
        if let (Some(_), Some(named)) = (env, named) {
            let key = join(path, what);
            let message = format!("`{key}_env` and `{key}_file` are one too many");
            faults.push(Fault::error(&named.place, message));
        }
        let env = value_of(env).map(SecretSource::Env);
        env.or_else(|| file(named).map(SecretSource::File))
    };
    let client_secret = secret(
        &table.client_secret_env,
        &table.client_secret_file,
        "client_secret",
    );
    let assertion = secret(&table.assertion_env, &table.assertion_file, "assertion");
    let provider = (
        value_of(&table.idp_token_endpoint),
        value_of(&table.idp_client_id),
    );
    let document = table.client_metadata_url.as_ref();
    if let Some(it) = document.filter(|it| !it.value.starts_with("https://")) {
        let message = format!(
            "`{}` is no https address",
            join(path, "client_metadata_url")
        );
        faults.push(Fault::error(&it.place, message));
    }
    for (key, leaf) in [
        ("issuer", &table.issuer),
        ("redirect_uri", &table.redirect_uri),
        ("idp_token_endpoint", &table.idp_token_endpoint),
    ] {
        if let Some(it) = leaf
            && let Err(why) = address::parse(&it.value)
        {
            let message = format!("`{}`: {why}", join(path, key));
            faults.push(Fault::error(&it.place, message));
        }
    }
    OAuthSettings {
        grant,
        account: value_of(&table.account).unwrap_or_default(),
        client_id: value_of(&table.client_id),
        client_secret,
        private_key: file(&table.private_key_file),
        assertion,
        identity_provider: match provider {
            (Some(token_endpoint), Some(client_id)) => Some(IdentityProvider {
                token_endpoint,
                client_id,
            }),
            (_, _) => None,
        },
        scopes: value_of(&table.scopes),
        issuer: value_of(&table.issuer),
        assumes_pkce: value_of(&table.pkce) == Some(Pkce::Assume),
        redirect: value_of(&table.redirect_uri),
        client_document: value_of(&table.client_metadata_url),
    }
}
