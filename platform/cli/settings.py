"""Server and token: from the environment, or else from the user's own file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cli.errors import CliError

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Settings:
    """The server and the user of requests. `login` and `team` may be empty."""

    server: str
    token: str
    login: str = ""
    team: str = ""


def config_path(environment: Mapping[str, str]) -> Path:
    """Return `$XDG_CONFIG_HOME/tidegate/config.json`, by default below ~/.config."""
    base = environment.get("XDG_CONFIG_HOME") or ""
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"
    return folder / "tidegate" / "config.json"


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings. TIDEGATE_SERVER, TIDEGATE_TOKEN and TIDEGATE_TEAM win over the file.

    Raises CliError when there is no server or token, or the file is damaged.
    """
    stored = _read(config_path(environment))
    server = environment.get("TIDEGATE_SERVER") or stored.get("server", "")
    token = environment.get("TIDEGATE_TOKEN") or stored.get("token", "")
    if not server or not token:
        raise CliError(
            "Not logged in. Run `tidegate login --server URL`, or set TIDEGATE_SERVER and "
            "TIDEGATE_TOKEN."
        )
    if environment.get("TIDEGATE_SERVER") and server != stored.get("server"):
        # The stored token belongs to the stored server, and must not be sent to another one.
        token = environment.get("TIDEGATE_TOKEN") or ""
        if not token:
            raise CliError("TIDEGATE_SERVER is set without TIDEGATE_TOKEN. Set both.")
    is_stored = token == stored.get("token")
    return Settings(
        server=checked_server(server),
        token=checked_token(token),
        login=stored.get("login", "") if is_stored else "",
        team=environment.get("TIDEGATE_TEAM") or (stored.get("team", "") if is_stored else ""),
    )


def store_settings(settings: Settings, environment: Mapping[str, str]) -> Path:
    """Write the file, readable by its owner only. It appears completely or not at all."""
    path = config_path(environment)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(
                    {
                        "server": settings.server,
                        "token": settings.token,
                        "login": settings.login,
                        "team": settings.team,
                    },
                    file,
                    indent=2,
                )
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise CliError(f"Cannot write {path}: {error.strerror}.") from error
    return path


def checked_server(url: str, *, may_be_plain: bool = True) -> str:
    """Return the server's address without a slash at its end.

    Raises CliError if it is not an http(s) address. Also raises it for plain http to another
    machine unless `may_be_plain`, because the token would be sent unencrypted.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise CliError(f"{url[:100]!r} is not a server address. Write it like https://host.")
    if parts.username or parts.password:
        raise CliError("Put no user or password into the address. The token is enough.")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not may_be_plain:
        raise CliError(
            f"{url[:100]} would send the token unencrypted. Use https, or add --allow-http."
        )
    return url.rstrip("/")


def checked_token(token: str) -> str:
    """Return the token itself. Raises CliError for text that is not valid in a header."""
    if not token.isascii() or not token.isprintable() or " " in token or len(token) > 200:
        raise CliError("This is not an access token, which is tdg_ and 36 letters and digits.")
    return token


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CliError(f"Cannot read {path}: {error}. Run `tidegate login` again.") from error
    if not isinstance(found, dict):
        raise CliError(f"{path} is damaged. Run `tidegate login` again.")
    return {name: value for name, value in found.items() if isinstance(value, str)}
