"""Django OAuth Toolkit (PyPI) as an authorization server: `django_server.py PORT RESOURCE SECONDS FOLDER`.

Its own pages ask for a name, a password and for consent. Clients register by themselves; access tokens last so many seconds and are
looked up by the resource (RFC 7662); refresh tokens are good once, and a second use ends the family. `POST /test/revoke` takes back
all that anybody granted, as an administrator does; `GET /test/seen` counts what it did and tells the secrets that it gave.
"""

import io
import json
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from socketserver import ThreadingMixIn

import django
from django.conf import settings

port, resource, seconds, folder = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
issuer = f"http://127.0.0.1:{port}"

settings.configure(
    SECRET_KEY="key-of-a-test",
    DEBUG=False,
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/django.db", "OPTIONS": {"timeout": 20}}},
    INSTALLED_APPS=[
        "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "django.contrib.messages", "oauth2_provider",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware", "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[{
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "loaders": [
                ("django.template.loaders.locmem.Loader", {
                    "registration/login.html": "<form method=post>{% csrf_token %}{{ form }}<input type=submit></form>",
                }),
                "django.template.loaders.app_directories.Loader",
            ],
            "context_processors": ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth"],
        },
    }],
    LOGIN_URL="/accounts/login/",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    OAUTH2_PROVIDER={
        "SCOPES": {"files:read": "Read files", "introspection": "Look tokens up"},
        "DEFAULT_SCOPES": ["files:read"],
        "ACCESS_TOKEN_EXPIRE_SECONDS": seconds,
        "ROTATE_REFRESH_TOKEN": True,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "PKCE_REQUIRED": True,
        "DCR_ENABLED": True,
        "DCR_REGISTRATION_PERMISSION_CLASSES": ("oauth2_provider.dcr.AllowAllDCRPermission",),
        "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
        "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
    },
)
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import JsonResponse  # noqa: E402
from django.urls import include, path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from oauth2_provider.models import AccessToken, Application, RefreshToken  # noqa: E402

SEEN = {"registered": 0, "granted": {}, "revoked": 0, "secrets": []}


class Watched:
    """Counts what passes, and keeps the secrets that were given."""

    def __init__(self, application):
        self.application = application

    def __call__(self, environ, start_response):
        status = []

        def started(line, headers, *more):
            status.append(line)
            return start_response(line, headers, *more)

        length = int(environ.get("CONTENT_LENGTH") or 0)
        asked = environ["wsgi.input"].read(length)
        environ["wsgi.input"] = io.BytesIO(asked)
        body = b"".join(self.application(environ, started))
        where = environ["PATH_INFO"]
        if status[0].startswith("20") and where in ("/token/", "/register/", "/revoke_token/"):
            self.saw(where, asked.decode(), json.loads(body or b"{}"))
        return [body]

    @staticmethod
    def saw(where, asked, said):
        if where == "/revoke_token/":
            SEEN["revoked"] += 1
        if where == "/register/":
            SEEN["registered"] += 1
        if where == "/token/":
            kind = "refresh_token" if "grant_type=refresh_token" in asked else "authorization_code"
            SEEN["granted"][kind] = SEEN["granted"].get(kind, 0) + 1
        names = ("access_token", "refresh_token", "client_secret", "registration_access_token")
        SEEN["secrets"] += [said[it] for it in names if said.get(it)]


def seen(_request):
    return JsonResponse(SEEN)


@csrf_exempt
def revoke(_request):
    for token in RefreshToken.objects.filter(revoked__isnull=True):
        token.revoke()
    AccessToken.objects.exclude(scope="introspection").delete()
    return JsonResponse({})


urlpatterns = [
    path("test/seen", seen),
    path("test/revoke", revoke),
    path("accounts/", include("django.contrib.auth.urls")),
    path("", include("oauth2_provider.urls", namespace="oauth2_provider")),
]


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


call_command("migrate", verbosity=0)
User.objects.create_user("anna", password="a-good-password")
Application.objects.create(
    name="resource", client_id="resource", client_secret="secret-of-the-resource",
    client_type=Application.CLIENT_CONFIDENTIAL, authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS,
)
make_server("127.0.0.1", port, Watched(get_wsgi_application()), server_class=Server, handler_class=Quiet).serve_forever()
