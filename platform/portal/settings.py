"""All settings. Each value is typed, and an invalid one stops the start with a message."""

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
    """A setting is invalid. The text tells the operator what to do."""


def _read_env_file(path: Path) -> None:
    """Add NAME=value lines to `os.environ`. Existing variables win."""
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
    """Return the comma-separated entries, each of which must match `pattern`."""
    entries = [entry for one in _text(name, "").split(",") if (entry := one.strip())]
    for entry in entries:
        if not re.fullmatch(pattern, entry, re.ASCII):
            raise BadSetting(f"{name} must hold entries like {example}, not {entry!r}.")
    return frozenset(entries)


def _named(name: str, pattern: str, example: str) -> dict[str, str]:
    """Return the comma-separated entries NAME=VALUE, each of which must match `pattern`.

    The message of a wrong entry names its place only, because a value may be a secret.
    """
    entries = [entry for one in _text(name, "").split(",") if (entry := one.strip())]
    for number, entry in enumerate(entries, 1):
        if not re.fullmatch(rf"[a-z][a-z0-9-]{{0,31}}={pattern}", entry, re.ASCII):
            raise BadSetting(f"{name} must hold entries like {example}; number {number} is not.")
    return {key: value for key, _, value in (entry.partition("=") for entry in entries)}


def _networks(name: str) -> list[str]:
    """Return the comma-separated IP addresses and networks. One of all addresses is refused."""
    networks = []
    for entry in filter(None, map(str.strip, _text(name, "").split(","))):
        try:
            network = ip_network(entry)
        except ValueError as error:
            raise BadSetting(
                f"{name} must hold addresses or networks like 10.0.0.0/24, not {entry!r}."
            ) from error
        if network.prefixlen == 0:
            raise BadSetting(
                f"{name} must not hold all addresses ({entry}); name those that are needed."
            )
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
#: Limits of a session, so that a process that hangs in a transaction cannot block an election or a
#: cycle for ever.
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
        # Under ASGI, a connection kept per thread would never be reused. The pool keeps them
        # instead.
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
#: Signs sessions, and the tokens with which jobs report checkpoints. The fallback keys still verify
#: their signatures, but sign nothing new.
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

#: `manage.py migrate` runs as the owner of the tables. All other processes use a weaker role.
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
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "webapi",
    "outbox",
    "audit",
    "ledger",
    "tenants",
    # Tables of django-allauth stay empty: people, providers and factors are rows of our own.
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "identity",
    "clusters",
    "notices",
    "maintenance",
    "quotas",
    "bank",
    "budgets",
    "billing",
    "exports",
    "adjustments",
    "approvals",
    "periods",
    "jobs",
    "history",
    "treefile",
    "portal",
]

MIDDLEWARE = [
    "webapi.middleware.RequestIdMiddleware",
    "webapi.middleware.RowAccessMiddleware",
    "webapi.deprecation.DeprecationMiddleware",
    "webapi.request_limits.RequestLimitMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "portal.middleware.ContentSecurityPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
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

SOCIALACCOUNT_ADAPTER = "identity.protocol.SocialAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = "login"
#: The name of the account in authenticator apps.
MFA_TOTP_ISSUER = "Tidegate"
#: Origins of identity providers that need no https, or that are inside the network. All others
#: need https and a public address.
IDENTITY_ORIGINS = _listed(
    "TIDEGATE_IDENTITY_ORIGINS",
    r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+):[0-9]{1,5}",
    "https://login.internal:443",
)

#: The only peers whose X-Forwarded-For and X-Forwarded-Proto count. Empty by default.
TRUSTED_PROXIES = _networks("TIDEGATE_TRUSTED_PROXIES")
#: True where a proxy in front of the web process ends TLS. On a laptop, loopback has no TLS.
IS_BEHIND_TLS = _bool("TIDEGATE_BEHIND_TLS", default=False)
SESSION_ENGINE = "tenants.session_store"
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
    "DEFAULT_THROTTLE_CLASSES": ["webapi.request_limits.RequestLimit"],
    "DEFAULT_RENDERER_CLASSES": ["webapi.renderers.FastJsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["webapi.parsers.StrictJsonParser"],
    "DEFAULT_SCHEMA_CLASS": "webapi.schema.PortalSchema",
    "EXCEPTION_HANDLER": "webapi.problems.render_problem",
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_PAGINATION_CLASS": None,
    # A view with formats configures them itself. Elsewhere, `?format=` is an ordinary parameter.
    "URL_FORMAT_OVERRIDE": None,
    "COERCE_DECIMAL_TO_STRING": True,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tidegate",
    "DESCRIPTION": "One quota for every GPU an organization owns, on Slurm and Kubernetes at once.",
    "VERSION": "1",
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "SERVERS": [{"url": "/", "description": "The portal that serves this document"}],
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    # The bodies of PATCH requests declare themselves which fields are optional.
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_NAME_OVERRIDES": {
        "TreeNodeKind": "tenants.models.NodeKind.values",
        "UserKind": "tenants.models.UserKind.values",
        "ClusterState": "clusters.queries.State",
        "NodeAction": "clusters.models.NodeAction.values",
        "NodeRequestState": "clusters.models.NodeRequestState.values",
        "QuotaPushKind": "quotas.models.QuotaPushKind.values",
        "QuotaPushStatus": "quotas.models.QuotaPushStatus.values",
        "UsageClass": "billing.models.UsageClass.values",
        "PriceMode": "billing.models.PriceMode.choices",
        "AdjustmentStatus": "adjustments.models.AdjustmentStatus.choices",
        "RequestKind": "approvals.models.RequestKind.choices",
        "RequestStatus": "approvals.models.RequestStatus.choices",
        "DisputeStatus": "adjustments.models.DisputeStatus.choices",
        "ChargeCodeKind": "periods.code_models.CodeKind.values",
        "StatementKind": "periods.statement_models.StatementKind.values",
        "PricedClass": "billing.models.PRICED_CLASSES",
        "JobState": "jobs.models.JobState.values",
        "TopologyLevel": "jobs.models.TOPOLOGIES",
        "DecisionEnum": "jobs.api.cycles.KINDS",
        "ListedDecision": "jobs.models.DECISIONS",
        "JobAction": "jobs.api.serializers.ACTIONS",
        "ScheduleAction": "jobs.api.schedule_serializers.SCHEDULE_ACTIONS",
        "LogStreamEnum": "jobs.reading.logs.STREAMS",
        "AttemptState": "jobs.models.AttemptState.values",
        "ExportState": "exports.models.ExportState.values",
        "ReconciliationStatus": "billing.reconciliation_models.ReconciliationStatus.values",
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

#: The address at which jobs report their checkpoints. Empty: jobs cannot report.
PUBLIC_URL = _text("TIDEGATE_PUBLIC_URL", "")
if PUBLIC_URL and not re.fullmatch(
    r"https?://(\[[0-9a-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", PUBLIC_URL
):
    raise BadSetting(f"TIDEGATE_PUBLIC_URL must look like https://host, not {PUBLIC_URL!r}.")
#: The mail server for password links and notices. Empty: links are shown to the person who created
#: them, and notices are not mailed.
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
#: Without TLS, links could be read on the network. Mail to this machine needs no TLS.
EMAIL_USE_TLS = _mail.scheme == "smtp" and EMAIL_HOST not in {"127.0.0.1", "::1", "localhost"}
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = _text("TIDEGATE_MAIL_FROM", "tidegate@localhost")
#: Networks inside which webhooks may have private addresses, plain HTTP and any port.
WEBHOOK_NETWORKS = _networks("TIDEGATE_WEBHOOK_NETWORKS")
#: Requests of one person in a minute. 0: no limit.
REQUESTS_PER_MINUTE = _int("TIDEGATE_REQUESTS_PER_MINUTE", 6000, low=0, high=1_000_000)
#: Age of a cluster's last answer from which pages call it stale.
STALE_AFTER_S = _int("TIDEGATE_STALE_AFTER_S", 15, low=2, high=3600)
#: The longest time for which a cycle waits for a notice before it runs anyway.
CYCLE_PERIOD_S = _int("TIDEGATE_CYCLE_PERIOD_S", 2, low=1, high=60)
OBSERVATION_PERIOD_S = _int("TIDEGATE_OBSERVATION_PERIOD_S", 1, low=1, high=60)
#: The only servers to which tokens of Slurm clusters are sent, and the only minters that are asked
#: for tokens. slurmrestd by scheme, host and port ("*" is any port), minters by the path of their
#: socket ("/" at its end: everything below).
SLURM_ORIGINS = _listed(
    "TIDEGATE_SLURM_ORIGINS",
    r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+):([0-9]{1,5}|\*)",
    "http://slurm-head:6820",
)
SLURM_MINTERS = _listed(
    "TIDEGATE_SLURM_MINTERS", r"/[A-Za-z0-9._/@+-]+", "/run/tidegate/minter.sock"
)
#: The only kubeconfigs that may be used ("/" at the end: everything below). "in-cluster" allows the
#: service account of the portal's own Pod.
KUBECONFIGS = _listed(
    "TIDEGATE_KUBECONFIGS", r"/[A-Za-z0-9._/@+-]+|in-cluster", "/etc/tidegate/gpu-1.kubeconfig"
)
#: The only folders that local clusters may use ("/" at the end: everything below). Empty: there can
#: be no local clusters.
LOCAL_ROOTS = _listed("TIDEGATE_LOCAL_ROOTS", r"/[^,]*", "/var/lib/tidegate/local/")
#: Folders of this machine that a local cluster may show to its jobs, and UNIX users that its jobs
#: may run as.
LOCAL_FOLDERS = _listed("TIDEGATE_LOCAL_FOLDERS", r"/[^,]*", "/srv/data/")
LOCAL_RUN_AS = _listed("TIDEGATE_LOCAL_RUN_AS", r"[a-z_][a-z0-9_-]{0,31}", "alice")
#: The first and last user number for jobs of local clusters. No other user may have one of them.
LOCAL_UIDS = _range("TIDEGATE_LOCAL_UIDS", "1880000000-1880065535", low=1_000, high=(1 << 31) - 1)
#: Whether jobs of all users may run on local clusters that cannot isolate them or do not want to.
LOCAL_UNISOLATED = _bool("TIDEGATE_LOCAL_UNISOLATED", default=False)
#: Interval after which the arbiter's leader reads everything again and compares it with its memory.
CYCLES_COMPARED_EVERY_S = _int("TIDEGATE_CYCLES_COMPARED_EVERY_S", 300, low=0, high=86_400)
#: How often credits are settled. It divides a day, so that each midnight (UTC) ends an interval.
CREDITS_SETTLED_EVERY_S = _int("TIDEGATE_CREDITS_SETTLED_EVERY_S", 900, low=60, high=86_400)
if 86_400 % CREDITS_SETTLED_EVERY_S:
    raise BadSetting(
        "TIDEGATE_CREDITS_SETTLED_EVERY_S must divide a day of 86400 s, such as 900, not "
        f"{CREDITS_SETTLED_EVERY_S}."
    )
#: The folder of exported files. The web processes and the workers share it.
EXPORTS_DIR = Path(_text("TIDEGATE_EXPORTS_DIR", "") or STATE_DIR / "exports")
#: The name of the provider in FOCUS files.
PROVIDER_NAME = _text("TIDEGATE_PROVIDER_NAME", "Tidegate")
#: How long exported files are kept, and their total size, of one organization and of all.
EXPORTS_KEPT_DAYS = _int("TIDEGATE_EXPORTS_KEPT_DAYS", 30, low=1, high=3_650)
EXPORTS_KEPT_MIB_EACH = _int("TIDEGATE_EXPORTS_KEPT_MIB_EACH", 2_048, low=1, high=1_048_576)
EXPORTS_KEPT_MIB = _int("TIDEGATE_EXPORTS_KEPT_MIB", 10_240, low=1, high=1_048_576)
#: Folders and S3-compatible stores that exported files may be delivered to, by name. A store has
#: the address of its bucket, perhaps a prefix, and its region after "#".
DELIVERY_TARGETS = _named(
    "TIDEGATE_DELIVERY_TARGETS",
    r"(/[^,]+|https?://[^/,@#?]+/[^,@#?]+(#[a-z0-9-]+)?)",
    "finance=/srv/finance or archive=https://s3.example.org/bucket/prefix#eu-central-1",
)
#: The access key of each store, by the name of its target.
DELIVERY_KEYS = _named("TIDEGATE_DELIVERY_KEYS", r"[^:,]+:[^,]+", "archive=KEY_ID:SECRET")
if unknown := sorted(set(DELIVERY_KEYS) - set(DELIVERY_TARGETS)):
    raise BadSetting(
        f"TIDEGATE_DELIVERY_KEYS has keys of {', '.join(unknown)}, which is none of "
        "TIDEGATE_DELIVERY_TARGETS."
    )
#: The token with which a monitoring system reads /metrics. Empty: there is no such address.
METRICS_TOKEN = _text("TIDEGATE_METRICS_TOKEN", "")
if METRICS_TOKEN and len(METRICS_TOKEN) < _SECRET_KEY_LENGTH_MIN:
    raise BadSetting(
        f"TIDEGATE_METRICS_TOKEN must have at least {_SECRET_KEY_LENGTH_MIN} characters, or none."
    )
#: How many records of cycles are kept, for how long, and their total size. The limits apply to
#: cycles that preempted jobs, and again to cycles that only started jobs.
CYCLES_KEPT = _int("TIDEGATE_CYCLES_KEPT", 10_000, low=0, high=1_000_000)
CYCLES_KEPT_DAYS = _int("TIDEGATE_CYCLES_KEPT_DAYS", 30, low=1, high=3_650)
CYCLES_KEPT_MIB = _int("TIDEGATE_CYCLES_KEPT_MIB", 1_024, low=1, high=1_048_576)
#: Age of a leader's heartbeat from which another process may take over.
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
