//! Whose word the daemon takes: the configuration's owner, and clients that lend keys.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aish_proto::daemon::Reload;
use aish_proto::method::Empty;
use aish_testkit::World;
use aish_testkit::wait::PATIENCE;
use serde_json::{Value, json};

#[test]
fn a_configuration_that_others_could_have_written_is_not_read() {
    let key = "[models.a]\nendpoint=\"http://127.0.0.1:9\"\nmodel=\"m\"\nkey=\"k-123456\"\n";
    for (text, mode, taken) in [
        ("", 0o600, true),
        ("", 0o644, true),
        ("", 0o664, false),
        ("", 0o602, false),
        (key, 0o600, true),
        (key, 0o640, false),
    ] {
        let world = World::new();
        world.write_config(text);
        let path = world.config_file();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        match world.daemon().spawn_or_exit() {
            Ok(_daemon) => assert!(taken, "{mode:o} of {text:?}"),
            Err(code) => {
                assert!(!taken, "{mode:o} of {text:?}");
                assert_eq!(78, code);
                let log = world.log_text();
                let fix = format!("(mode {mode:04o}): chmod 600 {}", path.display());
                assert!(log.contains(&fix), "{log}");
                assert!(!log.contains("k-123456"), "{log}");
            }
        }
    }
}

fn hello(role: &str, secrets: &Value) -> Value {
    json!({
        "protocol": {"min": 2, "max": 2},
        "client": {"name": "test", "version": "0", "kind": "script"},
        "role": role,
        "secrets": secrets,
    })
}

#[test]
fn only_a_driver_lends_and_only_what_a_preset_names() {
    let world = World::new();
    let preset = |name: &str, key: &str| {
        format!("[models.{name}]\nendpoint=\"http://127.0.0.1:9\"\nmodel=\"m\"\n{key}\n")
    };
    let config = [
        preset("a", "key_env=\"A_KEY\""),
        preset("b", "key_env=\"B_KEY\""),
        preset("c", "key_env=\"A_KEY\""),
    ];
    world.write_config(&config.concat());
    let _daemon = world.daemon().spawn();
    let client = world.stranger();
    let secrets = json!({"A_KEY": "sk-a", "PATH": "/tmp/evil"});
    let lent = |role| client.call_raw("daemon/hello", &hello(role, &secrets));
    assert_eq!("forbiddenRole", lent("observer").unwrap_err().kind());
    let wanted = |role| {
        let reply = client.call_raw("daemon/hello", &hello(role, &json!({})));
        reply.unwrap()["wantedSecrets"].clone()
    };
    assert_eq!(json!([]), wanted("observer"), "it is not asked for any");
    assert_eq!(json!(["A_KEY", "B_KEY"]), wanted("driver"));
    assert_eq!(json!(["B_KEY"]), lent("driver").unwrap()["wantedSecrets"]);
}

/// Calls may follow a tentative hello at once: none of them begins without a key that could have been lent.
#[test]
fn a_tentative_hello_counts_where_no_secret_is_wanted() {
    let world = World::new();
    world.write_config(
        "[models.a]\nendpoint=\"http://127.0.0.1:9\"\nmodel=\"m\"\nkey_env=\"A_KEY\"\n",
    );
    let _daemon = world.daemon().spawn();
    let tentative = |secrets: Value| {
        let mut params = hello("driver", &secrets);
        params["tentative"] = true.into();
        params
    };
    let client = world.stranger();
    let wanted =
        |params| client.call_raw("daemon/hello", &params).unwrap()["wantedSecrets"].clone();
    assert_eq!(json!(["A_KEY"]), wanted(tentative(json!({}))));
    let refused = client.call_raw("daemon/status", &json!({})).unwrap_err();
    assert_eq!("notInitialized", refused.kind());
    assert_eq!(json!([]), wanted(tentative(json!({"A_KEY": "sk-a"}))));
    assert!(client.call_raw("daemon/status", &json!({})).is_ok());
    // Another client's hello and its first call in one write.
    let other = world.stranger();
    let call = |id: u8, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n"
    };
    let both = call(1, "daemon/hello", tentative(json!({}))) + &call(2, "daemon/status", json!({}));
    other.raw(both.as_bytes()).unwrap();
    for _ in 0..2 {
        let reply = other.next_line(PATIENCE).unwrap();
        assert!(reply.contains("\"result\""), "{reply}");
    }
}

#[test]
fn the_log_filter_of_the_environment_outlives_a_reload() {
    let world = World::new();
    let _daemon = world.daemon().env("AISH_LOG", "error").spawn();
    let client = world.client();
    for _ in 0..2 {
        client.done::<Reload>(Empty {});
    }
    assert!(!world.log_text().contains("INFO"), "{}", world.log_text());
}
