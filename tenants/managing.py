"""Who manages a user: acts for a service account, ends tokens, lets a person in again."""

from __future__ import annotations

from primitives.errors import Forbidden
from tenants.access import PLATFORM, Actor
from tenants.models import RoleGrant, User, UserKind
from tenants.roles import PERMISSIONS, Permission, Role


def manages(actor: Actor, user: User) -> bool:
    """Return whether `actor` manages `user`; nobody manages somebody who may do more.

    The actor holds manage_members on the whole organization, or, for a service account with
    roles, on the node of each of them. Users of the platform are managed by platform
    administrators.
    """
    grants = list(RoleGrant.objects.filter(user=user).values_list("role", "node__path"))
    lacks = any(
        not actor.holds(permission, PLATFORM if path is None else path)
        for role, path in grants
        if role in set(Role)
        for permission in (*PERMISSIONS[Role(role)], Permission.MANAGE_MEMBERS)
    )
    if lacks:
        return False
    above = PLATFORM if user.organization is None else user.organization.path
    if actor.holds(Permission.MANAGE_MEMBERS, above):
        return True
    return user.kind == UserKind.SERVICE and bool(grants)


def require_managed(actor: Actor, user: User) -> None:
    """Raises Forbidden unless `actor` manages `user`."""
    if not manages(actor, user):
        where = "the platform" if user.organization is None else user.organization.display_path
        raise Forbidden(
            f"You do not manage {user.login}. It needs the right manage_members on {where} and "
            "every right that the account has.",
            permission=Permission.MANAGE_MEMBERS.value,
            user=user.login,
        )
