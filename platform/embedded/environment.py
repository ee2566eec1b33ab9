"""Passwords, ports and addresses. They are created once, stored in `var/env`, given to services.

`var/env` has lines NAME=value. The settings read them too, so `manage.py` works in any shell. Lines
that a person added are preserved.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from embedded import postgres, valkey
from embedded.errors import LauncherError
from embedded.layout import Layout
from embedded.ports import a_free_port

_DATABASE = "TIDEGATE_DATABASE_URL"
_OWNER_DATABASE = "TIDEGATE_OWNER_DATABASE_URL"
_VALKEY = "TIDEGATE_VALKEY_URL"
_DEMO = "TIDEGATE_DEMO"
_LOCAL_ROOTS = "TIDEGATE_LOCAL_ROOTS"
_SECRET_KEY = "TIDEGATE_SECRET_KEY"  # noqa: S105 - the name of a variable
#: The variables that name servers and secrets of this installation.
_OWN = frozenset({_DATABASE, _OWNER_DATABASE, _SECRET_KEY, _VALKEY})


@dataclass(frozen=True)
class Secrets:
    """Random values of the first start, which later starts reuse."""

    secret_key: str
    owner_password: str
    app_password: str
    superuser_password: str
    valkey_password: str
    postgres_port: int
    valkey_port: int

    def addresses(self) -> dict[str, str]:
        """Return the lines of `var/env` that the launcher manages."""
        return {
            _SECRET_KEY: self.secret_key,
            _DATABASE: postgres.url_of(postgres.APP, self.app_password, self.postgres_port),
            _OWNER_DATABASE: postgres.url_of(
                postgres.OWNER, self.owner_password, self.postgres_port
            ),
            _VALKEY: valkey.url_of(self.valkey_port, self.valkey_password),
        }

    @property
    def superuser_url(self) -> str:
        """Return the address with which the launcher itself connects to PostgreSQL."""
        return postgres.url_of(
            postgres.SUPERUSER, self.superuser_password, self.postgres_port, "postgres"
        )


def read_env_file(path: Path) -> dict[str, str]:
    """Return the NAME=value lines of a file, without comments and other lines."""
    if not path.is_file():
        return {}
    pairs = (line.partition("=") for line in path.read_text(encoding="utf-8").splitlines())
    return {
        name.strip(): value.strip()
        for name, equals, value in pairs
        if equals and not name.startswith("#")
    }


def wants_demo(layout: Layout) -> bool:
    """Return whether to load the demo company.

    It is loaded unless TIDEGATE_DEMO is false, now or in an earlier start. Raises LauncherError for
    any other word.
    """
    word = os.environ.get(_DEMO) or read_env_file(layout.env_file).get(_DEMO, "true")
    if word not in {"true", "false"}:
        raise LauncherError(f"{_DEMO} must be true or false, not {word!r}.")
    return word == "true"


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read. It appears completely or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def load_secrets(layout: Layout) -> Secrets:
    """Return the values of the first start, and new ones for missing values and taken ports.

    Writes `var/env` and the superuser's password file. Call it only while no server runs.
    """
    found = read_env_file(layout.env_file)
    app = urlsplit(found.get(_DATABASE, ""))
    owner = urlsplit(found.get(_OWNER_DATABASE, ""))
    store = urlsplit(found.get(_VALKEY, ""))
    superuser = layout.superuser_file
    chosen = Secrets(
        secret_key=found.get(_SECRET_KEY) or secrets.token_urlsafe(48),
        owner_password=owner.password or secrets.token_urlsafe(24),
        app_password=app.password or secrets.token_urlsafe(24),
        superuser_password=(superuser.read_text().strip() if superuser.is_file() else "")
        or secrets.token_urlsafe(24),
        valkey_password=store.password or secrets.token_urlsafe(24),
        postgres_port=a_free_port(app.port),
        valkey_port=a_free_port(store.port),
    )
    write_private(superuser, chosen.superuser_password + "\n")
    # A choice of an earlier start holds for later starts that do not set it.
    demo = {_DEMO: os.environ[_DEMO]} if _DEMO in os.environ else {}
    lines = {**_trusted(layout), **found, **demo, **chosen.addresses()}
    lines[_LOCAL_ROOTS] = _with_our_own(lines[_LOCAL_ROOTS], layout)
    write_private(layout.env_file, "".join(f"{name}={value}\n" for name, value in lines.items()))
    return chosen


def _trusted(layout: Layout) -> dict[str, str]:
    """Return the settings that name what clusters on this machine may use.

    These are the folder of the demo's own cluster, and the addresses of the clusters that `make
    slurm-bed-join` and `make kube-bed-join` add.
    """
    return {
        _LOCAL_ROOTS: str(layout.local),
        "TIDEGATE_SLURM_ORIGINS": "http://127.0.0.1:*",
        "TIDEGATE_SLURM_MINTERS": str(layout.state / "slurm-minter.sock"),
        "TIDEGATE_KUBECONFIGS": f"{layout.state / 'kubeconfigs'}/",
    }


def _with_our_own(roots: str, layout: Layout) -> str:
    """Return the listed roots plus the demo's, unless the list is empty.

    The demo's root is added at every start, because the state folder may have moved.
    """
    listed = [root for one in roots.split(",") if (root := one.strip())]
    own = str(layout.local)
    return ",".join(listed if not listed or own in listed else [*listed, own])


def service_environment(
    layout: Layout, inherited: Mapping[str, str], *, as_owner: bool = False
) -> dict[str, str]:
    """Return a service's environment: ours without foreign database settings, plus `var/env`.

    A variable of ours wins over `var/env`, but for addresses and secrets, which this installation
    has of its own. Only migrations get the owner's address. No service reads `var/env` itself.
    """
    ours = read_env_file(layout.env_file)
    ours.update((name, inherited[name]) for name in ours.keys() - _OWN if name in inherited)
    if _LOCAL_ROOTS in ours:
        ours[_LOCAL_ROOTS] = _with_our_own(ours[_LOCAL_ROOTS], layout)
    if not as_owner:
        ours.pop(_OWNER_DATABASE, None)
    kept = {
        name: value
        for name, value in inherited.items()
        # psycopg takes missing parts of an address from PG* variables. Without byte code, each
        # service would compile all its imports at every start, which takes three times as long.
        if not name.startswith(("PG", "MAKE", "MFLAGS"))
        and name not in {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", _OWNER_DATABASE}
    }
    return {
        **kept,
        **ours,
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "PYTHONUNBUFFERED": "1",
        "TIDEGATE_ENV_FILE": os.devnull,
        "TIDEGATE_RUN_AS": "owner" if as_owner else "app",
        "TIDEGATE_STATE_DIR": str(layout.state),
    }
