"""Organizations that require a second factor of people who sign in with a password."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from primitives.errors import PortalError
from tenants.access import Actor
from tenants.audit_trail import record_act
from tenants.models import AuthenticatorApp, Node, SecurityKey, SignInPolicy, User
from tenants.session_store import SessionStore, SignInWay
from webapi.preconditions import refuse_stale


class EnrolmentRequired(PortalError):
    """The organization requires a second factor, and the caller has none."""

    code = "second_factor_enrolment_required"
    http_status = 403
    title = "Add a second factor first"


def has_second_factor(user: User) -> bool:
    """Return whether the password of the user is not enough to sign in."""
    return factor_count(user) > 0


def factor_count(user: User) -> int:
    """Return the number of second factors of the user. Recovery codes are none."""
    apps = AuthenticatorApp.objects.filter(user=user).count()
    return apps + SecurityKey.objects.filter(user=user).count()


def requires_second_factor(user: User) -> bool:
    """Return whether the user's organization requires a second factor beside a password."""
    if user.organization is None:
        return False
    try:
        return user.organization.sign_in_policy.requires_second_factor
    except SignInPolicy.DoesNotExist:
        return False


def must_enrol(user: User, session: SessionStore) -> bool:
    """Return whether the person of this session must add a second factor before anything else.

    A sign-in with an identity provider needs none here. A factor that the sign-in proved may have
    been removed since.
    """
    if session.way is SignInWay.PROVIDER or not requires_second_factor(user):
        return False
    return session.way is SignInWay.PASSWORD or not has_second_factor(user)


def refuse_missing_factor(user: User, session: SessionStore) -> None:
    """Raise EnrolmentRequired in a session for which `must_enrol` is true."""
    if must_enrol(user, session):
        raise EnrolmentRequired(
            "Your organization requires a second factor. Add one first: on the page that opens "
            "after signing in, or with POST /api/v1/second-factors/authenticator."
        )


def policy_of(organization: Node) -> SignInPolicy:
    """Return the sign-in policy of an organization, unsaved at version 0 where none is stored."""
    found = SignInPolicy.objects.filter(organization=organization).first()
    return found or SignInPolicy(organization=organization, version=0)


@transaction.atomic
def set_factor_policy(
    *, actor: Actor, organization: Node, required: bool, version: int, now: datetime
) -> SignInPolicy:
    """Require a second factor, or stop requiring it. `version` is the one that was read.

    The caller checks the rights. Sessions of people without a second factor can only add one from
    then on. Raises PreconditionFailed for another version.
    """
    Node.objects.select_for_update().get(pk=organization.pk)
    policy = policy_of(organization)
    refuse_stale(version, policy.version, body=None)
    before = policy.requires_second_factor
    policy.requires_second_factor = required
    policy.version += 1
    policy.save()
    detail: dict[str, Any] = {"before": before, "after": required}
    record_act(
        actor=actor,
        action="second_factor_requirement_set",
        subject_kind="organization",
        subject_id=organization.pk,
        node=organization,
        now=now,
        detail=detail,
    )
    return policy
