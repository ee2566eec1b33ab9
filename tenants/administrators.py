"""Platform administrators that the operator of the machine creates, such as the first one."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from audit.recording import record
from primitives.errors import Conflict, FieldError
from tenants.membership import set_password
from tenants.models import GRANT_IN_FORCE, RoleGrant, User, UserKind
from tenants.names import check_username, clean_name
from tenants.roles import Role


def has_administrator() -> bool:
    """Return whether a person can sign in as a platform administrator."""
    return RoleGrant.objects.filter(
        GRANT_IN_FORCE, role=Role.PLATFORM_ADMIN, user__is_active=True, user__kind=UserKind.PERSON
    ).exists()


@transaction.atomic
def create_administrator(*, username: str, name: str, password: str, now: datetime) -> User:
    """Create a platform administrator. It needs no actor, only access to the database.

    Raises InvalidRequest for an invalid username, name or password, and Conflict for a taken login.
    """
    user = User(
        username=check_username(username),
        login=username,
        name=clean_name(name),
        kind=UserKind.PERSON,
        created_at=now,
    )
    set_password(user, password)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(
            f"There is already a user {user.login}. Choose another username.",
            errors=[FieldError("/username", "is taken", "taken")],
        ) from error
    RoleGrant.objects.create(user=user, role=Role.PLATFORM_ADMIN, created_at=now)
    record(
        action="administrator_created",
        subject_kind="user",
        subject_id=user.pk,
        now=now,
        actor="operator",
        detail={"login": user.login, "name": user.name},
    )
    return user
