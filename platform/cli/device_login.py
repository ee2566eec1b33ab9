"""The device login of `tidegate login`: a person approves in a browser, on any machine."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from cli import api as rest
from cli.api import Api
from cli.errors import CliError, Refused
from cli.output import tell

#: Polls of one login. At the server's interval of 5 s they outlast its 10 minutes.
_POLLS_MAX = 200
_SLOWER_S = 5
_HOST_LENGTH_MAX = 80


def token_by_device_login(api: Api, *, scopes: Sequence[str], days: int) -> str:
    """Show a code, wait until a person approves it in a browser, and return the new token.

    Raises CliError when the login is refused or expires.
    """
    started = api.post(
        "device-logins",
        {"host": _host(), "scopes": list(scopes), "token_days": days},
    )
    tell(
        f"Open {started['verification_uri']} in a browser and enter the code "
        f"{started['user_code']}.\n"
        f"Or open {started['verification_uri_complete']}\n"
        "Compare the code. Approve only a login that you started yourself."
    )
    interval_s = int(started["interval"])
    for _ in range(_POLLS_MAX):
        rest.sleep(interval_s)
        try:
            made = api.post("device-logins/token", {"device_code": started["device_code"]})
        except Refused as refused:
            interval_s += _wait_longer_s(refused)
        else:
            return str(made["secret"])
    raise CliError("Nobody approved the login in time. Run `tidegate login` again.")


def _wait_longer_s(refused: Refused) -> int:
    """Return the seconds by which the next poll comes later. Raises CliError at the end."""
    code = refused.problem.get("code")
    if code == "authorization_pending":
        return 0
    if code in {"slow_down", "too_many_requests"}:
        return _SLOWER_S
    raise refused


def _host() -> str:
    name = "".join(each for each in socket.gethostname() if each.isprintable())
    return name[:_HOST_LENGTH_MAX].strip() or "unknown machine"
