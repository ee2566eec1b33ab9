"""Second factors of a person: added, shown, removed, and reset by an administrator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from allauth.mfa.totp.internal.auth import generate_totp_secret
from django.db import transaction

from audit.recording import record
from live.publishing import publish_rights
from primitives.errors import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidRequest,
    NotFound,
    PortalError,
    Unauthenticated,
)
from tenants.access import Actor, require_session_or_admin_scope
from tenants.audit_trail import record_act
from tenants.devices import device_of
from tenants.factor_codes import (
    Factor,
    delete_factors,
    key_address,
    key_picture,
    new_recovery_codes,
    step_of,
    use_app_code,
)
from tenants.factor_mail import tell_by_mail
from tenants.factor_policy import factor_count, has_second_factor, requires_second_factor
from tenants.managing import require_managed
from tenants.membership import visible_user, visible_users
from tenants.models import AuthenticatorApp, RecoveryCode, SecurityKey, Session, User, UserKind
from tenants.names import clean_name
from tenants.sealing import seal, unseal
from tenants.security_keys import KEYS_MAX, proved_registration, registration_challenge
from tenants.session_store import SessionStore, SignInWay
from tenants.sign_in_models import KEY_NAME_LENGTH_MAX
from tenants.signing_in import (
    allows_passwords,
    audit_failure,
    authenticated_user,
    require_sign_in_attempt,
)
from tenants.throttling import Attempt, forgive_attempt

#: A sign-in this recent needs no further proof to add a factor.
RECENT = timedelta(minutes=10)
_NEW_KEY = "new_authenticator_key"
_NEW_SECURITY_KEY = "new_security_key"
_APP_CODE_LENGTH = 6
_APP, _KEY = Factor.APP.value, Factor.KEY.value


class ProofRequired(PortalError):
    """The act needs the password or a code, although the caller is signed in."""

    code = "proof_required"
    http_status = 403
    title = "Prove that it is you"


@dataclass(frozen=True, slots=True)
class Proof:
    """A password or a code of the authenticator app, and from where it came. Empty: none."""

    text: str
    address: str
    cookies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SecondFactors:
    """The second factors of a person.

    `can_enrol` is false for people who sign in with an identity provider only. `is_required` says
    that the last factor cannot be removed.
    """

    user: User
    app: AuthenticatorApp | None
    keys: Sequence[SecurityKey]
    recovery_codes_left: int
    can_enrol: bool
    is_required: bool


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key for an authenticator app: as text, as an address, and as the picture of a QR code."""

    key: str
    address: str
    picture: str


def factors_of(actor: Actor, login: str | None) -> SecondFactors:
    """Return the second factors of the user with this login; None: the actor's own.

    Raises NotFound for a user that the actor may not see, and Forbidden for one that the actor
    does not manage.
    """
    owner = actor.user
    if login is not None and login != owner.login:
        owner = visible_user(actor, login)
        require_managed(actor, owner)
    can_enrol = has_local_password(owner)
    return SecondFactors(
        user=owner,
        app=AuthenticatorApp.objects.filter(user=owner).first(),
        keys=list(SecurityKey.objects.filter(user=owner).order_by("pk")),
        recovery_codes_left=RecoveryCode.objects.filter(user=owner).count(),
        can_enrol=can_enrol,
        is_required=can_enrol and requires_second_factor(owner),
    )


def has_local_password(user: User) -> bool:
    """Return whether the user can sign in with a password."""
    return (
        user.kind == UserKind.PERSON
        and user.has_usable_password()
        and allows_passwords(user.organization_id)
    )


def begin_authenticator(
    *, actor: Actor, session: SessionStore, proof: Proof, now: datetime
) -> NewKey:
    """Return a new key for an authenticator app. `confirm_authenticator` stores it.

    Raises Forbidden for an access token, and ProofRequired where the sign-in is not recent. Raises
    Conflict for people without a local password, and for those who have an authenticator app.
    """
    _require_session(actor)
    _refuse_second_app(actor.user)
    if not _is_recent(session, now):
        require_proof(actor, proof, now=now)
    key: str = generate_totp_secret()
    session[_NEW_KEY] = seal(key).decode()
    address = key_address(actor.user, key)
    return NewKey(key, address, key_picture(address))


@transaction.atomic
def confirm_authenticator(
    *, actor: Actor, session: SessionStore, code: str, now: datetime
) -> list[str]:
    """Store the key of `begin_authenticator`, if the app shows `code`.

    Returns new recovery codes with the first factor, and none otherwise. All other sessions of the
    actor end then, because their sign-ins did not prove it. Raises Conflict without a new key, and
    InvalidRequest for a wrong code.
    """
    _require_session(actor)
    user = _locked(actor.user.pk)
    _refuse_second_app(user)
    sealed = session.get(_NEW_KEY)
    if sealed is None:
        raise Conflict("No new key waits for a code. Ask for a new key first.")
    key = unseal(sealed.encode(), called="The new key", remedy="Ask for a new key.")
    step = step_of(key, code, after=0, now=now)
    if step is None:
        raise InvalidRequest(
            "The code is wrong. Enter the code that the app shows now, and check the clock of the "
            "device.",
            errors=[FieldError("/code", "is wrong")],
        )
    is_first = not has_second_factor(user)
    AuthenticatorApp.objects.create(
        user=user, sealed_key=sealed.encode(), last_step=step, created_at=now, last_used_at=now
    )
    del session[_NEW_KEY]
    return _added(actor, user, session, _APP, is_first=is_first, now=now)


def begin_security_key(
    *, actor: Actor, session: SessionStore, host: str, proof: Proof, now: datetime
) -> Mapping[str, Any]:
    """Return a challenge for a new security key. `confirm_security_key` stores the key.

    Raises Forbidden for an access token, and ProofRequired where the sign-in is not recent. Raises
    Conflict for people without a local password, and for those who have KEYS_MAX keys.
    """
    _require_session(actor)
    _refuse_another_key(actor.user)
    if not _is_recent(session, now):
        require_proof(actor, proof, now=now)
    challenge = registration_challenge(actor.user, host)
    session[_NEW_SECURITY_KEY] = challenge.state
    return challenge.options


@transaction.atomic
def confirm_security_key(
    *,
    actor: Actor,
    session: SessionStore,
    host: str,
    name: str,
    credential: Mapping[str, Any],
    now: datetime,
) -> list[str]:
    """Store the security key that answered the challenge of `begin_security_key`.

    Returns recovery codes as `confirm_authenticator` does. Raises Conflict without a challenge and
    for a known key, and InvalidRequest for a wrong answer.
    """
    _require_session(actor)
    user = _locked(actor.user.pk)
    _refuse_another_key(user)
    state = session.pop(_NEW_SECURITY_KEY, None)
    if state is None:
        raise Conflict("No new security key waits for an answer. Begin again.")
    made = proved_registration(state, credential, host)
    if made is None:
        raise InvalidRequest(
            "The security key gave no valid answer. Begin again.",
            errors=[FieldError("/credential", "is not valid")],
        )
    if SecurityKey.objects.filter(credential_id=made.credential_id).exists():
        raise Conflict("This security key is in use already. Use another one.")
    is_first = not has_second_factor(user)
    SecurityKey.objects.create(
        user=user,
        name=clean_name(name, length_max=KEY_NAME_LENGTH_MAX),
        credential_id=made.credential_id,
        credential=made.credential,
        sign_count=made.sign_count,
        created_at=now,
    )
    return _added(actor, user, session, _KEY, is_first=is_first, now=now)


def remove_factor(*, actor: Actor, factor_id: UUID, proof: Proof, now: datetime) -> None:
    """Remove a second factor of the actor. The last one takes the recovery codes with it.

    Raises Forbidden for an access token, NotFound, ProofRequired, and InvalidRequest for a wrong
    proof. Raises Conflict for the last factor where the organization requires one.
    """
    _require_session(actor)
    app = AuthenticatorApp.objects.filter(pk=factor_id, user=actor.user)
    key = SecurityKey.objects.filter(pk=factor_id, user=actor.user)
    kind = _APP if app.exists() else _KEY
    if kind == _KEY and not key.exists():
        raise NotFound("It does not exist, or you may not see it.")
    # Outside of the transaction, which would forget a wrong proof.
    require_proof(actor, proof, now=now)
    with transaction.atomic():
        user = _locked(actor.user.pk)
        if factor_count(user) == 1 and requires_second_factor(user):
            raise Conflict(
                "Your organization requires a second factor, so the last one stays. Add another "
                "one first, or ask an administrator for a reset."
            )
        removed, _ = app.delete() if kind == _APP else key.delete()
        if not removed:
            raise NotFound("It does not exist, or you may not see it.")
        if not has_second_factor(user):
            RecoveryCode.objects.filter(user=user).delete()
        _record(actor, "second_factor_removed", user, now, {"kind": kind})
        tell_by_mail(user, f"{_called(kind)} was removed.", now=now)


def renew_recovery_codes(*, actor: Actor, proof: Proof, now: datetime) -> list[str]:
    """Replace the recovery codes of the actor, and return the new ones.

    Raises Forbidden for an access token, ProofRequired, InvalidRequest for a wrong proof, and
    Conflict without a second factor.
    """
    _require_session(actor)
    _require_factor(actor.user)
    # Outside of the transaction, which would forget a wrong proof.
    require_proof(actor, proof, now=now)
    with transaction.atomic():
        user = _locked(actor.user.pk)
        _require_factor(user)
        codes = new_recovery_codes(user)
        _record(actor, "recovery_codes_made", user, now, {"codes": len(codes)})
        tell_by_mail(user, "New recovery codes were made.", now=now)
    return codes


@transaction.atomic
def reset_factors(*, actor: Actor, user_id: UUID, now: datetime) -> int:
    """Remove all second factors of a user whom the actor manages, and return their number.

    All sessions of the user end. Raises NotFound for invisible users, Forbidden for a user that
    the actor does not manage, and Conflict for the actor's own account.
    """
    require_session_or_admin_scope(actor, "Resetting second factors")
    if not visible_users(actor).filter(pk=user_id).exists():
        raise NotFound("It does not exist, or you may not see it.")
    user = _locked(user_id)
    if user.pk == actor.user.pk:
        raise Conflict(
            "You cannot reset your own second factors. Remove them on the page My access, or ask "
            "another administrator."
        )
    require_managed(actor, user)
    removed = _reset(user, by=f"The administrator {actor.user.login}", now=now)
    _record(actor, "second_factors_reset", user, now, {"removed": removed})
    return removed


@transaction.atomic
def reset_factors_by_operator(*, login: str, now: datetime) -> int:
    """Remove all second factors of a person, and return their number. It needs no actor.

    Raises NotFound for an unknown login.
    """
    found = User.objects.filter(login=login, kind=UserKind.PERSON).first()
    if found is None:
        raise NotFound(f"There is no person with the login {login}.")
    user = _locked(found.pk)
    removed = _reset(user, by="The operator of the installation", now=now)
    record(
        action="second_factors_reset",
        subject_kind="user",
        subject_id=user.pk,
        now=now,
        actor="operator",
        organization_id=user.organization_id,
        node_path=user.organization.path if user.organization is not None else "",
        detail={"login": user.login, "removed": removed},
    )
    return removed


def require_proof(actor: Actor, proof: Proof, *, now: datetime) -> None:
    """Raise unless the proof is the actor's password, or a code of the authenticator app.

    Raises ProofRequired without one, and InvalidRequest for a wrong one. A wrong proof counts as a
    failure to sign in, so it also raises TooManyRequests.
    """
    if not proof.text:
        raise ProofRequired("Enter your password, or the code of your authenticator app.")
    wrong = InvalidRequest(
        "That is neither your password nor the present code of your authenticator app.",
        errors=[FieldError("/proof", "is wrong")],
    )
    if len(proof.text) == _APP_CODE_LENGTH and proof.text.isdecimal():
        device = device_of(actor.user, proof.cookies, now=now)
        attempt = Attempt.at_second_step(actor.user.login, device, proof.address)
        known = {
            "address": proof.address[:64],
            "is_known_device": device is not None,
            "step": "proof",
        }
        require_sign_in_attempt(attempt, actor.user, known, now=now)
        if not use_app_code(actor.user, proof.text, now=now):
            audit_failure("sign_in_failed", actor.user, now, known)
            raise wrong
        forgive_attempt(attempt)
        return
    try:
        authenticated_user(
            login=actor.user.login,
            password=proof.text,
            address=proof.address,
            cookies=proof.cookies,
            now=now,
        )
    except Unauthenticated as error:
        raise wrong from error


def _added(
    actor: Actor, user: User, session: SessionStore, kind: str, *, is_first: bool, now: datetime
) -> list[str]:
    """Record a new factor. With the first one, end other sessions and return recovery codes."""
    session.note_way(SignInWay.SECOND_FACTOR)
    _record(actor, "second_factor_added", user, now, {"kind": kind})
    tell_by_mail(user, f"{_called(kind)} was added.", now=now)
    if not is_first:
        return []
    Session.objects.filter(user=user).exclude(pk=session.row_id).delete()
    publish_rights(user.pk)
    return new_recovery_codes(user)


def _called(kind: str) -> str:
    return "An authenticator app" if kind == _APP else "A security key"


def _require_session(actor: Actor) -> None:
    if actor.scopes is not None:
        raise Forbidden("Second factors are changed in a browser session, not with a token.")


def _require_factor(user: User) -> None:
    if not has_second_factor(user):
        raise Conflict("Add a second factor first. Recovery codes replace one that is lost.")


def _is_recent(session: SessionStore, now: datetime) -> bool:
    return session.started_at is not None and now - session.started_at < RECENT


def _require_local_password(user: User) -> None:
    if not has_local_password(user):
        raise Conflict(
            "You do not sign in with a password, so there is nothing to add here. Your "
            "organization's identity provider asks for a second factor."
        )


def _refuse_another_key(user: User) -> None:
    _require_local_password(user)
    if SecurityKey.objects.filter(user=user).count() >= KEYS_MAX:
        raise Conflict(f"You have {KEYS_MAX} security keys already. Remove one to add another.")


def _refuse_second_app(user: User) -> None:
    _require_local_password(user)
    if AuthenticatorApp.objects.filter(user=user).exists():
        raise Conflict("You have an authenticator app already. Remove it to add another.")


def _locked(user_id: UUID) -> User:
    users = User.objects.select_for_update(of=("self",)).select_related("organization")
    return users.get(pk=user_id)


def _reset(user: User, *, by: str, now: datetime) -> int:
    removed = delete_factors(user)
    if not removed:
        raise Conflict(f"{user.login} has no second factor.")
    user.session_generation += 1
    user.save(update_fields=["session_generation"])
    Session.objects.filter(user=user).delete()
    publish_rights(user.pk)
    tell_by_mail(user, f"{by} removed your second factors and ended your sessions.", now=now)
    return removed


def _record(
    actor: Actor, action: str, user: User, now: datetime, detail: Mapping[str, object]
) -> None:
    record_act(
        actor=actor,
        action=action,
        subject_kind="user",
        subject_id=user.pk,
        node=user.organization,
        now=now,
        detail={"login": user.login, **detail},
    )
