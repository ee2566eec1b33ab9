"""The second step of a sign-in with a password, for people with a second factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from primitives.errors import PortalError, Unauthenticated
from tenants.access import Actor
from tenants.devices import device_of
from tenants.factor_codes import Factor
from tenants.factor_mail import tell_by_mail
from tenants.models import RecoveryCode, User
from tenants.security_keys import sign_in_challenge, use_key
from tenants.signing_in import (
    allows_passwords,
    audit_failure,
    record_session,
    require_sign_in_attempt,
)
from tenants.throttling import Attempt, count_failure, forget_failures, forgive_attempt

#: Time for the second step.
STEP_LIFETIME = timedelta(minutes=10)
#: Wrong codes after which the password is asked again.
FAILURES_MAX = 5
#: The sentence of `SecondFactorRequired`.
SECOND_STEP = (
    "The password is right. Now send the code of your authenticator app, or a recovery code, to "
    "POST /api/v1/session/second-factor, or use your security key. Scripts use an access token "
    "instead."
)
_PENDING = "second_step"
_WRONG_CODES = "wrong codes"
_CHALLENGE = "second_step_challenge"


class SecondFactorRequired(PortalError):
    """The password is right, and the account has a second factor."""

    code = "second_factor_required"
    http_status = 401
    title = "A second factor is required"


@dataclass(frozen=True, slots=True)
class PassedStep:
    """A person who proved both factors, the browser as in `tenants.devices`, and the factor."""

    user: User
    device: str
    factor: Factor


def begin_second_step(request: HttpRequest, user: User, device: str, *, now: datetime) -> None:
    """Note in a fresh session without a user that this browser knows the password of `user`."""
    request.session.flush()
    request.session[_PENDING] = {
        "user": str(user.pk),
        "device": device,
        "until": (now + STEP_LIFETIME).isoformat(),
        # It changes with the password, and with the end of all sessions.
        "hash": user.get_session_auth_hash(),
    }


def begin_key_step(request: HttpRequest, *, host: str, now: datetime) -> Mapping[str, Any]:
    """Return a challenge for the security keys of the person whose password this browser proved.

    Raises Unauthenticated without a first step.
    """
    user, _ = _waiting_person(request, now)
    challenge = sign_in_challenge(user, host)
    request.session[_CHALLENGE] = challenge.state
    return challenge.options


def key_proof(
    request: HttpRequest, credential: Mapping[str, Any], *, host: str, now: datetime
) -> Callable[[User], Factor | None]:
    """Return the check of an answer to the challenge of `begin_key_step`, which is used up."""
    state = request.session.pop(_CHALLENGE, None)

    def prove(user: User) -> Factor | None:
        is_right = state is not None and use_key(user, state, credential, host, now=now)
        return Factor.KEY if is_right else None

    return prove


def pass_second_step(
    request: HttpRequest,
    prove: Callable[[User], Factor | None],
    *,
    address: str,
    cookies: Mapping[str, str],
    now: datetime,
) -> PassedStep:
    """Return the person whose password this browser proved and whose factor `prove` finds.

    The code or answer is used up. Raises Unauthenticated without a first step and for a wrong
    factor, and TooManyRequests while `tenants.throttling` makes the caller wait. Failures are
    audited.
    """
    user, device = _waiting_person(request, now)
    known_device = device_of(user, cookies, now=now)
    attempt = Attempt.at_second_step(user.login, known_device, address)
    known = {
        "address": address[:64],
        "is_known_device": known_device is not None,
        "step": "second factor",
    }
    require_sign_in_attempt(attempt, user, known, now=now)
    factor = prove(user)
    if factor is None:
        audit_failure("sign_in_failed", user, now, known)
        _count_failure(request, user, now)
        raise Unauthenticated(
            "The second factor is wrong, has expired or was used before. Enter the code that the "
            "app shows now, use your security key, or enter a recovery code."
        )
    forgive_attempt(attempt)
    forget_failures(_WRONG_CODES, user.login)
    return PassedStep(user, device, factor)


@transaction.atomic
def record_second_step(actor: Actor, passed: PassedStep, *, now: datetime) -> None:
    """Record the sign-in with its factor. Mail the person after the use of a recovery code."""
    record_session(
        actor=actor, action="signed_in", now=now, detail={"second_factor": passed.factor.value}
    )
    if passed.factor is Factor.RECOVERY_CODE:
        left = RecoveryCode.objects.filter(user=actor.user).count()
        record_session(
            actor=actor, action="recovery_code_used", now=now, detail={"codes_left": left}
        )
        tell_by_mail(
            actor.user,
            f"Somebody signed in with one of your recovery codes; {left} are left.",
            now=now,
        )


def _count_failure(request: HttpRequest, user: User, now: datetime) -> None:
    """Count a wrong code. The last one that is allowed ends the sign-in.

    The person is told of as many in a row, also over several sign-ins: a right password between
    them does not begin the count anew, and a right factor does.
    """
    pending = request.session[_PENDING]
    failures = pending.get("failures", 0) + 1
    if failures >= FAILURES_MAX:
        del request.session[_PENDING]
    else:
        request.session[_PENDING] = {**pending, "failures": failures}
    in_a_row = count_failure(_WRONG_CODES, user.login, now=now)
    if in_a_row >= FAILURES_MAX:
        forget_failures(_WRONG_CODES, user.login)
        tell_by_mail(
            user,
            f"Somebody who knows your password entered a wrong second factor {in_a_row} times.",
            now=now,
        )


def _waiting_person(request: HttpRequest, now: datetime) -> tuple[User, str]:
    pending = request.session.get(_PENDING)
    expired = Unauthenticated("This sign-in has expired. Enter login and password again.")
    if pending is None or datetime.fromisoformat(pending["until"]) <= now:
        raise expired
    user = (
        User.objects.select_related("organization")
        .filter(pk=pending["user"], is_active=True)
        .first()
    )
    if (
        user is None
        or not constant_time_compare(pending["hash"], user.get_session_auth_hash())
        or not allows_passwords(user.organization_id)
    ):
        raise expired
    return user, pending["device"]
