"""All settings. Every value is typed; a bad one stops the start with a sentence."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

REPO = Path(__file__).resolve().parents[2]


class BadSetting(SystemExit):
    """A setting that cannot be used; its text tells the operator what to do."""


def _read_env_file(path: Path) -> None:
    """Fill `os.environ` from NAME=value lines; the real environment wins."""
    for line in path.read_text(encoding="utf-8").splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value.strip())


def _text(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, default)
    if value is None:
        raise BadSetting(
            f"{name} is not set. Run `make up`, which writes it, or set it in the environment."
        )
    return value


def _bool(name: str, default: bool) -> bool:
    value = os.environ.get(name, "true" if default else "false").lower()
    if value not in {"true", "false"}:
        raise BadSetting(f"{name} must be true or false, not {value!r}.")
    return value == "true"


def _int(name: str, default: int, *, low: int, high: int) -> int:
    value = os.environ.get(name, str(default))
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        raise BadSetting(f"{name} must be a whole number from {low} to {high}, not {value!r}.")
    return int(value)


def _listed(name: str, pattern: str, example: str) -> frozenset[str]:
    """Entries with commas between them, each of which matches `pattern`."""
    entries = [entry for one in _text(name, "").split(",") if (entry := one.strip())]
    for entry in entries:
        if not re.fullmatch(pattern, entry, re.ASCII):
            raise BadSetting(f"{name} must hold entries like {example}, not {entry!r}.")
    return frozenset(entries)


def _networks(name: str) -> list[str]:
    """IP addresses and networks with commas between them, none that holds everybody."""
    networks = []
    for entry in filter(None, map(str.strip, _text(name, "").split(","))):
        try:
            network = ip_network(entry)
        except ValueError as error:
            raise BadSetting(
                f"{name} must hold addresses or networks like 10.0.0.0/24, not {entry!r}."
            ) from error
        if network.prefixlen == 0:
            raise BadSetting(f"{name} must not hold everybody ({entry}); name your proxies.")
        networks.append(str(network))
    return networks


def _range(name: str, default: str, *, low: int, high: int) -> tuple[int, int]:
    first, _, last = _text(name, default).partition("-")
    if not all(each.isascii() and each.isdigit() for each in (first, last)) or not (
        low <= int(first) <= int(last) <= high
    ):
        raise BadSetting(f"{name} must be like {default}, from {low} to {high}.")
    return int(first), int(last)


_SECRET_KEY_LENGTH_MIN = 32
#: A process that hangs inside a transaction must not hold up an election or a cycle for ever.
_SESSION_LIMITS = (
    "-c lock_timeout=10s -c statement_timeout=60s -c idle_in_transaction_session_timeout=15s"
)


def _database(name: str) -> dict[str, Any]:
    url = urlsplit(_text(name))
    if url.scheme not in {"postgres", "postgresql"} or not url.hostname or not url.path[1:]:
        raise BadSetting(f"{name} must look like postgresql://user:password@host:5432/database.")
    return {
        "ENGINE": "portal.database",
        "HOST": url.hostname,
        "PORT": url.port or 5432,
        "NAME": unquote(url.path[1:]),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        # Under ASGI every request runs in a thread of its own, so a connection kept per thread is
        # never used again: the pool keeps them.
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            "options": _SESSION_LIMITS,
            # Lets `webapi.statements` prepare its statements; Django's cursors never do.
            "prepare_threshold": 5,
            "pool": {"max_size": 16, "timeout": 10},
        },
    }


try:
    PRODUCT_VERSION = version("tidegate")
except PackageNotFoundError:
    PRODUCT_VERSION = "unknown"
STATE_DIR = Path(os.environ.get("TIDEGATE_STATE_DIR", REPO / "var"))
ENV_FILE = Path(os.environ.get("TIDEGATE_ENV_FILE", STATE_DIR / "env"))
if ENV_FILE.is_file():
    _read_env_file(ENV_FILE)

DEBUG = _bool("TIDEGATE_DEBUG", default=False)
#: Signs sessions and the tokens with which jobs tell of their checkpoints. The keys before it still
#: hold what they signed, and sign nothing any more.
SECRET_KEY = _text("TIDEGATE_SECRET_KEY")
SECRET_KEY_FALLBACKS = [
    key for one in _text("TIDEGATE_SECRET_KEY_FALLBACKS", "").split(",") if (key := one.strip())
]
if min(map(len, (SECRET_KEY, *SECRET_KEY_FALLBACKS))) < _SECRET_KEY_LENGTH_MIN:
    raise BadSetting(
        "TIDEGATE_SECRET_KEY, and each of TIDEGATE_SECRET_KEY_FALLBACKS, must have at least "
        f"{_SECRET_KEY_LENGTH_MIN} characters."
    )
ALLOWED_HOSTS = _text("TIDEGATE_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [o for o in _text("TIDEGATE_TRUSTED_ORIGINS", "").split(",") if o]

#: `manage.py migrate` runs as the owner of the tables, everything else as a role that is not.
RUN_AS = _text("TIDEGATE_RUN_AS", "app")
if RUN_AS not in {"app", "owner"}:
    raise BadSetting(f"TIDEGATE_RUN_AS must be app or owner, not {RUN_AS!r}.")
DATABASES = {
    "default": _database(
        "TIDEGATE_OWNER_DATABASE_URL" if RUN_AS == "owner" else "TIDEGATE_DATABASE_URL"
    )
}
VALKEY_URL = _text("TIDEGATE_VALKEY_URL")

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "webapi",
    "outbox",
    "audit",
    "tenants",
    "clusters",
    "quotas",
    "billing",
    "jobs",
    "portal",
]

MIDDLEWARE = [
    "webapi.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "portal.middleware.ContentSecurityPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
TEMPLATES: list[dict[str, Any]] = []
AUTH_USER_MODEL = "tenants.User"
AUTHENTICATION_BACKENDS = ["tenants.signing_in.SessionBackend"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

#: The only peers whose X-Forwarded-For and X-Forwarded-Proto count. Nobody unless it is said.
TRUSTED_PROXIES = _networks("TIDEGATE_TRUSTED_PROXIES")
#: Set where TLS ends in front of the web process; loopback on a laptop has none.
IS_BEHIND_TLS = _bool("TIDEGATE_BEHIND_TLS", default=False)
SESSION_COOKIE_NAME = "__Host-session" if IS_BEHIND_TLS else "session"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_BEHIND_TLS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SECURE_HSTS_SECONDS = 31_536_000 if IS_BEHIND_TLS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if IS_BEHIND_TLS else None
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

STATIC_URL = "/static/"
STATIC_ROOT = STATE_DIR / "static"
FRONTEND_DIST = REPO / "frontend" / "dist"
STATICFILES_DIRS = [FRONTEND_DIST] if FRONTEND_DIST.is_dir() else []

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.api.authentication.TokenAuthentication",
        "tenants.api.authentication.BrowserSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["webapi.permissions.IsSignedIn"],
    "DEFAULT_RENDERER_CLASSES": ["webapi.renderers.FastJsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["webapi.parsers.StrictJsonParser"],
    "DEFAULT_SCHEMA_CLASS": "webapi.schema.PortalSchema",
    "EXCEPTION_HANDLER": "webapi.problems.render_problem",
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_PAGINATION_CLASS": None,
    # A view that has formats says so itself; elsewhere `?format=` is a parameter like any other.
    "URL_FORMAT_OVERRIDE": None,
    "COERCE_DECIMAL_TO_STRING": True,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tidegate",
    "DESCRIPTION": "One quota for every GPU an organization owns, on Slurm and Kubernetes at once.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    # Bodies of PATCH say themselves what may be left out.
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_NAME_OVERRIDES": {
        "TreeNodeKind": "tenants.models.NodeKind.values",
        "UserKind": "tenants.models.UserKind.values",
        "ClusterState": "clusters.queries.State",
        "NodeAction": "clusters.models.NodeAction.values",
        "NodeRequestState": "clusters.models.NodeRequestState.values",
        "QuotaPushKind": "quotas.models.QuotaPushKind.values",
        "QuotaPushStatus": "quotas.models.QuotaPushStatus.values",
        "JobState": "jobs.models.JobState.values",
        "TopologyLevel": "jobs.models.TOPOLOGIES",
        "DecisionEnum": "jobs.api.cycles.KINDS",
        "ListedDecision": "jobs.models.DECISIONS",
        "JobAction": "jobs.api.serializers.ACTIONS",
        "LogStreamEnum": "jobs.reading.logs.STREAMS",
        "AttemptState": "jobs.models.AttemptState.values",
        "ReconciliationStatus": "billing.models.ReconciliationStatus.values",
    },
}

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [VALKEY_URL], "prefix": "tidegate"},
    }
}

CELERY_BROKER_URL = VALKEY_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 300}
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_TIME_LIMIT = 60
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

#: Where jobs reach this portal to tell of their checkpoints; empty: nowhere.
PUBLIC_URL = _text("TIDEGATE_PUBLIC_URL", "")
if PUBLIC_URL and not re.fullmatch(
    r"https?://(\[[0-9a-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", PUBLIC_URL
):
    raise BadSetting(f"TIDEGATE_PUBLIC_URL must look like https://host, not {PUBLIC_URL!r}.")
#: Where password links are mailed from; empty: nowhere, and they are shown to who made them.
_mail = urlsplit(_text("TIDEGATE_MAIL_URL", ""))
IS_MAIL_CONFIGURED = bool(_mail.geturl())
if IS_MAIL_CONFIGURED and (_mail.scheme not in {"smtp", "smtps"} or not _mail.hostname):
    raise BadSetting("TIDEGATE_MAIL_URL must look like smtps://user:password@mail.example.org:465.")
if IS_MAIL_CONFIGURED and not PUBLIC_URL:
    raise BadSetting("TIDEGATE_MAIL_URL needs TIDEGATE_PUBLIC_URL, which mailed links begin with.")
EMAIL_HOST = _mail.hostname or ""
EMAIL_PORT = _mail.port or (465 if _mail.scheme == "smtps" else 587)
EMAIL_HOST_USER = unquote(_mail.username or "")
EMAIL_HOST_PASSWORD = unquote(_mail.password or "")
EMAIL_USE_SSL = _mail.scheme == "smtps"
#: Without TLS a link would be read on its way; on this machine there is no way.
EMAIL_USE_TLS = _mail.scheme == "smtp" and EMAIL_HOST not in {"127.0.0.1", "::1", "localhost"}
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = _text("TIDEGATE_MAIL_FROM", "tidegate@localhost")
#: How old a cluster's last answer may be before pages call it stale.
STALE_AFTER_S = _int("TIDEGATE_STALE_AFTER_S", 15, low=2, high=3600)
#: How long a cycle waits for news before it runs anyway.
CYCLE_PERIOD_S = _int("TIDEGATE_CYCLE_PERIOD_S", 2, low=1, high=60)
OBSERVATION_PERIOD_S = _int("TIDEGATE_OBSERVATION_PERIOD_S", 1, low=1, high=60)
#: The only places that get tokens of Slurm clusters, and that are asked for them: slurmrestd by
#: scheme, host and port ("*" is any), minters by their socket's path ("/" at its end: all below).
SLURM_ORIGINS = _listed(
    "TIDEGATE_SLURM_ORIGINS",
    r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+):([0-9]{1,5}|\*)",
    "http://slurm-head:6820",
)
SLURM_MINTERS = _listed(
    "TIDEGATE_SLURM_MINTERS", r"/[A-Za-z0-9._/@+-]+", "/run/tidegate/minter.sock"
)
#: The only kubeconfigs that are used ("/" at its end: all below), and "in-cluster" where the
#: service account of the portal's own Pod may be.
KUBECONFIGS = _listed(
    "TIDEGATE_KUBECONFIGS", r"/[A-Za-z0-9._/@+-]+|in-cluster", "/etc/tidegate/gpu-1.kubeconfig"
)
#: The only folders that clusters of kind local may keep ("/" at its end: all below); none, and
#: there are no such clusters.
LOCAL_ROOTS = _listed("TIDEGATE_LOCAL_ROOTS", r"/[^,]*", "/var/lib/tidegate/local/")
#: Folders of this machine that options of a local cluster may let its jobs see, and UNIX users that
#: they may let jobs run as.
LOCAL_FOLDERS = _listed("TIDEGATE_LOCAL_FOLDERS", r"/[^,]*", "/srv/data/")
LOCAL_RUN_AS = _listed("TIDEGATE_LOCAL_RUN_AS", r"[a-z_][a-z0-9_-]{0,31}", "alice")
#: The first and the last user number that jobs of local clusters run as: nobody else's here.
LOCAL_UIDS = _range("TIDEGATE_LOCAL_UIDS", "1880000000-1880065535", low=1_000, high=(1 << 31) - 1)
#: Whether everybody's jobs may run where a local cluster cannot isolate them, or is not to.
LOCAL_UNISOLATED = _bool("TIDEGATE_LOCAL_UNISOLATED", default=False)
#: After how long the arbiter's leader reads everything again, to compare what it remembers.
CYCLES_COMPARED_EVERY_S = _int("TIDEGATE_CYCLES_COMPARED_EVERY_S", 300, low=0, high=86_400)
#: How many records of cycles are kept, how long, and how large they are together: of those that
#: stopped somebody, and as many again of those that only started jobs.
CYCLES_KEPT = _int("TIDEGATE_CYCLES_KEPT", 10_000, low=0, high=1_000_000)
CYCLES_KEPT_DAYS = _int("TIDEGATE_CYCLES_KEPT_DAYS", 30, low=1, high=3_650)
CYCLES_KEPT_MIB = _int("TIDEGATE_CYCLES_KEPT_MIB", 1_024, low=1, high=1_048_576)
#: A leader whose heartbeat is older than this may be deposed.
LEADER_TTL_S = _int("TIDEGATE_LEADER_TTL_S", 5, low=2, high=60)

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {"httpx": {"level": "WARNING"}},
}
