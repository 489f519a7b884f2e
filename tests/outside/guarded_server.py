"""An MCP server over HTTP that demands tokens: `guarded_server.py PORT ISSUER INTROSPECTION`.

FastMCP's own: it publishes where its tokens come from (RFC 9728) and asks there about each one (RFC 7662), so that what is taken
back counts at once.
"""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.providers.introspection import IntrospectionTokenVerifier
from fastmcp.server.dependencies import get_access_token

port, issuer, introspection = int(sys.argv[1]), sys.argv[2], sys.argv[3]
verifier = IntrospectionTokenVerifier(
    introspection_url=introspection, client_id="resource", client_secret="secret-of-the-resource", required_scopes=["files:read"]
)
auth = RemoteAuthProvider(verifier, [issuer], base_url=f"http://127.0.0.1:{port}")
server = FastMCP("guarded", auth=auth)


@server.tool(annotations={"readOnlyHint": True})
def look(at: str) -> str:
    """Looks at something."""
    return f"{get_access_token().client_id} looked at {at}"


server.run(transport="http", host="127.0.0.1", port=port, show_banner=False)
