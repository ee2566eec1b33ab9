"""Managers of a user: they act for a service account, revoke tokens, and create password links."""

from __future__ import annotations

from primitives.errors import Forbidden
from tenants.access import PLATFORM, Actor
from tenants.models import GRANT_IN_FORCE, RoleGrant, User, UserKind
from tenants.roles import PERMISSIONS, Permission, Role


def manages(actor: Actor, user: User) -> bool:
    """Return whether `actor` manages `user`. No actor manages a user with more rights.

    The actor needs manage_members on the whole organization. For a service account with roles,
    manage_members on the node of each role is enough. Platform administrators manage the users of
    the platform.
    """
    in_force = RoleGrant.objects.filter(GRANT_IN_FORCE, user=user)
    grants = list(in_force.values_list("role", "node__path"))
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
    """Raise Forbidden unless `actor` manages `user`."""
    if not manages(actor, user):
        where = "the platform" if user.organization is None else user.organization.display_path
        raise Forbidden(
            f"You do not manage {user.login}. You need the right manage_members on {where}, and "
            "every right that the account has.",
            permission=Permission.MANAGE_MEMBERS.value,
            user=user.login,
        )
