//! MCP servers in the configuration.

use super::read;

#[test]
fn mcp_servers_are_read_and_wrong_ones_say_what_is_wrong() {
    fn check(user: &str, expected: &str) {
        let errors = read(user).unwrap_err();
        assert!(errors.join("; ").contains(expected), "{errors:?}");
    }
    check(
        "[mcp.servers.a__b]\nurl = \"http://x\"\n",
        "the alias \"a__b\" is not made of",
    );
    check(
        "[mcp.servers.a]\nenabled = true\n",
        "[mcp.servers.a] has no `url` and no `command`",
    );
    check(
        "[mcp.servers.a]\nurl = \"http://x\"\ncommand = \"y\"\n",
        "has a url and a command",
    );
    check(
        "[mcp.servers.a]\ncommand = \"y\"\nauth_env = \"T\"\n",
        "`mcp.servers.a.auth_env` goes with a url only",
    );
    check(
        "[mcp.servers.a]\nurl = \"http://x\"\nargs = [\"y\"]\n",
        "`mcp.servers.a.args` goes with a command only",
    );
    check(
        "[mcp.servers.a]\nurl = \"http://x\"\nauth_token = \"y\"\n",
        "can be read by others",
    );
    check(
        "[mcp.servers.a]\nurl = \"http://x\"\nauth = \"y\"\n",
        "unknown",
    );
    check(
        "[mcp.servers.a]\nurl = \"http://x\"\nwithout_tools = [\"\"]\n",
        "`mcp.servers.a.without_tools` names a tool without a name",
    );
    check(
        "[mcp.servers.a]\nurl = \"http://x\"\noauth.redirect_uri = \"localhost/back\"\n",
        "`mcp.servers.a.oauth.redirect_uri`: it is no address",
    );
    check(
        "[mcp.servers.a]\nurl = \"http://x\"\noauth.issuer = \"ftp://i\"\n",
        "`mcp.servers.a.oauth.issuer`: it begins with http",
    );
    let settings = read(
        "[mcp]\ncall_timeout = \"3s\"\nroots = true\n[mcp.servers.a]\ncommand = \"npx\"\nargs = [\"${X}\"]\n\
         env = { K = \"v\" }\n[mcp.servers.b]\nurl = \"https://h\"\nauth_env = \"T\"\nenabled = false\n",
    );
    let mcp = settings.unwrap().mcp;
    assert_eq!((3, true), (mcp.limits.call.as_secs(), mcp.roots));
    let shown: Vec<_> = mcp.servers.iter().collect();
    assert_eq!(
        ("a", "npx ${X}"),
        (shown[0].0.as_str(), &*shown[0].1.endpoint.display())
    );
    assert_eq!(Some("enabled = false"), shown[1].1.off.as_deref());
}
