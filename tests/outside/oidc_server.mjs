// oidc-provider (npm) as an authorization server for one resource: `oidc_server.mjs PORT RESOURCE SECONDS`.
//
// Its own pages ask for a name and for consent. Clients register by themselves; access tokens are opaque, last so many seconds and
// are looked up by the resource (RFC 7662); refresh tokens are good once. `POST /test/revoke` takes back all that anybody granted,
// as an administrator does; `GET /test/seen` counts what it did and tells the secrets that it gave.
import Provider from 'oidc-provider';

const [port, resource, seconds] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const seen = { registered: 0, granted: {}, revoked: 0, secrets: [] };
const grants = new Set();

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'resource', client_secret: 'secret-of-the-resource', redirect_uris: [], response_types: [], grant_types: [],
  }],
  scopes: ['openid', 'offline_access', 'files:read'],
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
  features: {
    registration: { enabled: true },
    revocation: { enabled: true, allowedPolicy: async () => true },
    introspection: { enabled: true, allowedPolicy: async () => true },
    resourceIndicators: {
      enabled: true,
      defaultResource: async () => resource,
      useGrantedResource: async () => true,
      getResourceServerInfo: async (_ctx, indicator) => {
        if (indicator !== resource) throw new Error(`nobody asked for ${indicator}`);
        return { scope: 'files:read', accessTokenFormat: 'opaque', accessTokenTTL: Number(seconds) };
      },
    },
  },
  rotateRefreshToken: true,
  cookies: { keys: ['key-of-a-test'] },
});

provider.use(async (ctx, next) => {
  if (ctx.path === '/test/seen') {
    ctx.body = seen;
  } else if (ctx.path === '/test/revoke') {
    // What an administrator's page would do.
    for (const id of grants) {
      for (const kind of ['AccessToken', 'RefreshToken', 'AuthorizationCode']) await provider[kind].revokeByGrantId(id);
      await (await provider.Grant.find(id))?.destroy();
    }
    ctx.body = {};
  } else {
    await next();
    if (ctx.path === '/token' && ctx.body?.access_token) {
      seen.secrets.push(ctx.body.access_token, ctx.body.refresh_token ?? ctx.body.access_token);
    }
    if (ctx.path === '/reg' && ctx.status === 201) {
      seen.registered += 1;
      seen.secrets.push(ctx.body.registration_access_token, ctx.body.client_secret);
    }
  }
});
provider.on('grant.success', (ctx) => {
  const kind = ctx.oidc.params.grant_type;
  seen.granted[kind] = (seen.granted[kind] ?? 0) + 1;
  grants.add(ctx.oidc.entities.Grant.jti);
});
for (const kind of ['access_token', 'refresh_token']) provider.on(`${kind}.destroyed`, () => { seen.revoked += 1; });
provider.on('server_error', (_ctx, error) => console.error(error));
provider.listen(Number(port), '127.0.0.1');
