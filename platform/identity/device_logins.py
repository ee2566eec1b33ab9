"""Device logins (RFC 8628): a command without a browser gets a token that a person approves.

The command shows a short code. The person enters it on the page /device, sees which machine asks
for what, and approves. Only then, and only once, the command's next poll creates the token.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from identity.models import DeviceLogin
from primitives.addresses import network_of
from primitives.errors import (
    Forbidden,
    NotFound,
    PortalError,
    TooManyRequests,
)
from tenants.access import Actor, actor_of
from tenants.audit_trail import record_act
from tenants.models import AccessToken, Session, User
from tenants.names import clean_name
from tenants.passwords import refuse_foreign_password
from tenants.roles import Scope
from tenants.throttling import Attempt, Rule, require_attempt, uncount_attempt
from tenants.tokens import create_token

LIFETIME = timedelta(minutes=10)
#: Letters without vowels and look-alikes, as RFC 8628 proposes: 20^8 codes.
CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
CODE_LENGTH = 8
INTERVAL_S = 5
HOST_LENGTH_MAX = 80
#: Days of the token's life that a command may ask for.
TOKEN_DAYS_MAX = 90
#: Logins of all people. One more start drops the oldest that nobody has decided.
OPEN_MAX = 1_000
#: Starts of device logins, by source.
_STARTS = Rule(free=20, delay_max_s=300)
#: Codes of no login that a person enters.
_WRONG_CODES = Rule(free=5, delay_max_s=900)
#: Logins that the start of another one deletes.
_DELETED_PER_START = 100


class DeviceLoginPending(PortalError):
    """The person has not decided yet. Poll again after the interval."""

    code = "authorization_pending"
    http_status = 400
    title = "Not decided yet"


class PollsTooFast(PortalError):
    """The command polls more often than the interval says. The interval grows by 5 s."""

    code = "slow_down"
    http_status = 400
    title = "Poll less often"


class DeviceLoginDenied(PortalError):
    """The person has refused the login."""

    code = "access_denied"
    http_status = 400
    title = "The login was refused"


class DeviceLoginExpired(PortalError):
    """The login is over: it has expired, or its token was handed out."""

    code = "expired_token"
    http_status = 400
    title = "The login is over"


@dataclass(frozen=True, slots=True)
class StartedLogin:
    """A started login, and its two codes."""

    login: DeviceLogin
    device_code: str


def start_device_login(
    *,
    host: str,
    scopes: Iterable[Scope],
    token_days: int,
    address: str,
    now: datetime,
) -> StartedLogin:
    """Start a device login of a machine that calls itself `host`.

    Raises InvalidRequest, and TooManyRequests after many starts from one source or in total.
    """
    require_attempt(
        _start_from(address),
        now=now,
        refusal="Too many logins began here.",
    )
    over = DeviceLogin.objects.filter(expires_at__lte=now).order_by("expires_at")
    some = over.values_list("pk", flat=True)[:_DELETED_PER_START]
    DeviceLogin.objects.filter(pk__in=list(some)).delete()
    if DeviceLogin.objects.count() >= OPEN_MAX:
        _drop_oldest()
    device_code = secrets.token_urlsafe(32)
    login = DeviceLogin.objects.create(
        digest=_digest_of(device_code),
        user_code="".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH)),
        host=clean_name(host, length_max=HOST_LENGTH_MAX),
        scopes=sorted(scope.value for scope in set(scopes)),
        token_days=token_days,
        address=address[:64],
        interval_s=INTERVAL_S,
        created_at=now,
        expires_at=now + LIFETIME,
    )
    return StartedLogin(login, device_code)


def waiting_login(*, actor: Actor, user_code: str, now: datetime) -> DeviceLogin:
    """Return the login with this code that nobody has decided.

    Raises NotFound for a wrong code, and TooManyRequests after several of them. Raises Forbidden
    for an access token: a token must not approve another one.
    """
    if actor.scopes is not None:
        raise Forbidden("Sign in with a browser to decide about a login, not with a token.")
    attempt = Attempt.counted_by("device code", str(actor.user.pk), _WRONG_CODES)
    require_attempt(attempt, now=now, refusal="Too many wrong codes.")
    login = DeviceLogin.objects.filter(
        user_code=plain_code(user_code), decided_at=None, expires_at__gt=now
    ).first()
    if login is None:
        raise _no_such_login()
    # Earlier failures still count: a right code of one's own must not buy more guesses.
    uncount_attempt(attempt)
    return login


def decide_device_login(
    *, actor: Actor, session_id: UUID | None, user_code: str, is_approved: bool, now: datetime
) -> DeviceLogin:
    """Approve or refuse the login with this code for the actor, in a browser session.

    An approval ends with the session, and does not count as a start of its source. Raises as
    `waiting_login`.
    """
    # Outside of the transaction, so that a wrong code stays counted.
    found = waiting_login(actor=actor, user_code=user_code, now=now)
    with transaction.atomic():
        login = DeviceLogin.objects.select_for_update().filter(pk=found.pk, decided_at=None).first()
        if login is None:
            raise _no_such_login()
        login.user = actor.user
        login.decided_at = now
        login.is_approved = is_approved
        login.session_id = session_id
        login.save(update_fields=["user", "decided_at", "is_approved", "session_id"])
        if is_approved:
            uncount_attempt(_start_from(login.address))
        record_act(
            actor=actor,
            action="device_login_approved" if is_approved else "device_login_refused",
            subject_kind="device_login",
            subject_id=login.pk,
            node=actor.user.organization,
            now=now,
            detail=_shown(login),
        )
    return login


def poll_device_login(*, device_code: str, now: datetime) -> tuple[AccessToken, str]:
    """Create the token of an approved login, once, and return it with its secret.

    Raises DeviceLoginPending, PollsTooFast, DeviceLoginDenied and DeviceLoginExpired as RFC 8628
    names them. Raises Conflict for a person who cannot have another token.
    """
    with transaction.atomic():
        login = (
            DeviceLogin.objects.select_for_update(of=("self",))
            .select_related("user__organization")
            .filter(digest=_digest_of(device_code))
            .first()
        )
        if login is None or login.expires_at <= now:
            raise DeviceLoginExpired("This login has expired or was used. Start another one.")
        if login.is_approved and login.user is not None:
            _refuse_ended_session(login.user, login.session_id, now)
            refuse_foreign_password(login.user)
            made = create_token(
                actor=actor_of(login.user),
                name=f"login on {login.host}",
                scopes=[Scope(scope) for scope in login.scopes],
                expires_in_days=login.token_days,
                now=now,
            )
            login.delete()
            return made
        if login.decided_at is not None:
            login.delete()
            refusal: PortalError = DeviceLoginDenied("The login was refused in the browser.")
        else:
            refusal = _noted_poll(login, now)
    # Outside of the transaction, which keeps what it noted.
    raise refusal


def plain_code(text: str) -> str:
    """Return a code as it is stored: "wdjb-mjht" is "WDJBMJHT"."""
    return "".join(each for each in text.upper() if each not in " -")


def shown_code(user_code: str) -> str:
    """Return a code as it is shown: "WDJB-MJHT"."""
    return f"{user_code[:4]}-{user_code[4:]}"


def _start_from(address: str) -> Attempt:
    return Attempt.counted_by("device login", network_of(address), _STARTS)


def _drop_oldest() -> None:
    """Delete the oldest login that nobody has decided. Raises TooManyRequests without one."""
    waiting = DeviceLogin.objects.filter(decided_at=None)
    oldest = list(waiting.order_by("expires_at").values_list("pk", flat=True)[:1])
    dropped, _ = waiting.filter(pk__in=oldest).delete()
    if not dropped:
        raise TooManyRequests(
            "Too many approved logins are open. Try again in a minute, or use an access token.",
            retry_after_s=60,
        )


def _refuse_ended_session(user: User, session_id: UUID | None, now: datetime) -> None:
    """Raise DeviceLoginExpired where the session that approved a login has ended."""
    # A change of the password and a deactivation lock the user before they end the sessions.
    User.objects.select_for_update(of=("self",)).get(pk=user.pk)
    live = Session.objects.filter(user=user, expire_date__gt=now)
    if session_id is None or not live.filter(pk=session_id).exists():
        raise DeviceLoginExpired("The session that approved this login has ended. Start another.")


def _no_such_login() -> NotFound:
    return NotFound(
        "No login with this code waits. Compare the code with the one in the terminal, or run "
        "`tidegate login` again."
    )


def _noted_poll(login: DeviceLogin, now: datetime) -> PortalError:
    is_fast = login.polled_at is not None and now - login.polled_at < timedelta(
        seconds=login.interval_s
    )
    login.polled_at = now
    if is_fast:
        login.interval_s += INTERVAL_S
    login.save(update_fields=["polled_at", "interval_s"])
    if is_fast:
        return PollsTooFast(f"Wait {login.interval_s} s between two polls.")
    return DeviceLoginPending(f"Nobody has decided yet. Poll again in {login.interval_s} s.")


def _digest_of(device_code: str) -> bytes:
    # The code has 256 random bits, so no salt is needed.
    return hashlib.sha256(device_code.encode()).digest()


def _shown(login: DeviceLogin) -> Mapping[str, Any]:
    return {
        "host": login.host,
        "address": login.address,
        "scopes": list(login.scopes),
        "token_days": login.token_days,
    }
