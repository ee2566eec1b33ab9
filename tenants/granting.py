"""Grants and revokes roles. A user can only grant roles whose permissions the user has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from audit.recording import record
from live.publishing import publish_rights
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from tenants.access import (
    PLATFORM,
    Actor,
    require,
    require_platform_admin,
    under,
    visible_node,
)
from tenants.audit_trail import record_act
from tenants.membership import (
    active_platform_admins,
    other_organization_admins,
    visible_user,
)
from tenants.models import GRANT_IN_FORCE, Node, RoleGrant, User, UserKind
from tenants.roles import PERMISSIONS, Permission, Role
from tenants.tokens import revoke_unmanaged
from webapi.preconditions import refuse_stale

#: Limited, because every request loads all grants of its user.
GRANTS_MAX = 100


@dataclass(frozen=True, slots=True)
class GrantChange:
    """A change of a grant. `expires_at` counts only with `sets_expiry`; None lifts the expiry."""

    role: Role | None = None
    sets_expiry: bool = False
    expires_at: datetime | None = None


def visible_grants(actor: Actor) -> QuerySet[RoleGrant]:
    """Return the actor's own grants, and those where it manages members or sees the audit log."""
    prefixes = {
        *actor.prefixes(Permission.MANAGE_MEMBERS),
        *actor.prefixes(Permission.VIEW_AUDIT),
    }
    return RoleGrant.objects.select_related("user", "node", "granted_by").filter(
        under(sorted(prefixes), "node__path") | Q(user=actor.user)
    )


@transaction.atomic
def grant_role(
    *,
    actor: Actor,
    login: str,
    role: Role,
    node_path: str | None,
    now: datetime,
    expires_at: datetime | None = None,
) -> RoleGrant:
    """Grant the user with `login` a role on a node and everything below it, until `expires_at`.

    Raises NotFound for users and nodes that the actor may not see. Raises Forbidden without
    manage_members on the node. Also raises it when the role has a permission that the actor, or the
    token in use, lacks there. Raises InvalidRequest for a user of another organization, and for a
    role that does not fit the node, and for an expiry in the past. Raises Forbidden for a role that
    would outlast the actor's own rights. Raises Conflict for a deactivated user, an existing grant,
    and too many grants.
    """
    check_expiry(expires_at, now)
    user = visible_user(actor, login)
    node = _target(actor, role, node_path)
    require_may_hand_out(actor, role, node)
    refuse_outlasting(actor, role, node, expires_at)
    if node is None and user.organization_id is not None:
        raise InvalidRequest(
            "A platform administrator belongs to no organization. Create a user of the "
            "platform for that.",
            errors=[FieldError("/user", "belongs to an organization")],
        )
    user = User.objects.select_for_update().get(pk=user.pk)
    refuse_user(user, node, has=RoleGrant.objects.filter(user=user).count())
    RoleGrant.objects.filter(user=user, role=role, node=node, expires_at__lte=now).delete()
    grant = RoleGrant(
        user=user,
        role=role,
        node=node,
        granted_by=actor.user,
        created_at=now,
        expires_at=expires_at,
    )
    try:
        with transaction.atomic():
            grant.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(f"{user.login} has this role there already.") from error
    _record(actor, "role_granted", grant, now)
    if user.kind == UserKind.SERVICE:
        revoke_unmanaged(actor=actor, user=user, now=now)
    return grant


@transaction.atomic
def change_grant(
    *,
    actor: Actor,
    grant_id: UUID,
    change: GrantChange,
    if_version: int,
    now: datetime,
) -> RoleGrant:
    """Change the role or the expiry of a grant, by the same rules as for granting it.

    Nobody lengthens an own role. Raises NotFound, Forbidden, and InvalidRequest for a role that
    does not fit the node or an expiry in the past. Raises Conflict for the last
    administrator and for a role that the user has there already. Raises PreconditionFailed unless
    `if_version` is current.
    """
    grant = _grant_to_change(actor, grant_id)
    refuse_stale(if_version, grant.version, body=None)
    before = {"role": grant.role, "expires_at": grant.expires_at}
    role = Role(grant.role) if change.role is None else change.role
    expires_at = change.expires_at if change.sets_expiry else grant.expires_at
    if change.sets_expiry:
        check_expiry(expires_at, now)
    if (role is Role.PLATFORM_ADMIN) != (grant.node is None):
        raise InvalidRequest(
            "platform_admin covers the whole platform, and every other role is granted on a node. "
            "Revoke this role and grant the other one.",
            errors=[FieldError("/role", "does not fit the node")],
        )
    require_may_hand_out(actor, role, grant.node)
    is_longer = _is_later(expires_at, grant.expires_at)
    if is_longer and grant.user_id == actor.user.pk:
        raise Forbidden(
            "You cannot lengthen a role of your own. Ask an administrator whose role lasts longer."
        )
    if is_longer or role != grant.role:
        refuse_outlasting(actor, role, grant.node, expires_at)
    if role != grant.role or (grant.expires_at is None and expires_at is not None):
        _refuse_last_administrator(grant)
    grant.role, grant.expires_at = role, expires_at
    grant.version += 1
    try:
        with transaction.atomic():
            grant.save(update_fields=["role", "expires_at", "version"])
    except IntegrityError as error:
        raise Conflict(f"{grant.user.login} has this role there already.") from error
    after = {"role": grant.role, "expires_at": grant.expires_at}
    _record(actor, "role_changed", grant, now, before=before, after=after)
    if grant.user.kind == UserKind.SERVICE:
        revoke_unmanaged(actor=actor, user=grant.user, now=now)
    return grant


@transaction.atomic
def revoke_role(*, actor: Actor, grant_id: UUID, now: datetime) -> None:
    """Revoke a role, by the same rules as for granting it.

    Raises NotFound for grants that the actor may not see, and Conflict for the last active
    administrator of the platform or of an organization.
    """
    grant = _grant_to_change(actor, grant_id)
    _refuse_last_administrator(grant)
    RoleGrant.objects.filter(pk=grant.pk).delete()
    _record(actor, "role_revoked", grant, now)


@transaction.atomic
def remove_expired_roles(now: datetime) -> int:
    """Delete grants that expired by `now`, with an audit event each. Return the number.

    Expired grants give no rights before that either. At most 1,000 in one call.
    """
    expired = RoleGrant.objects.filter(expires_at__lte=now).select_related("user", "node")
    found = list(expired.select_for_update(of=("self",), skip_locked=True).order_by("pk")[:1_000])
    for grant in found:
        node = grant.node
        publish_rights(grant.user_id)
        record(
            action="role_expired",
            subject_kind="role_grant",
            subject_id=grant.pk,
            now=now,
            actor="system",
            organization_id=None if node is None else node.organization_id,
            node_path="" if node is None else node.path,
            detail=detail_of(grant),
        )
    RoleGrant.objects.filter(pk__in=[grant.pk for grant in found]).delete()
    return len(found)


def may_hand_out(actor: Actor, role: Role, path: str) -> bool:
    """Return whether the actor may grant and revoke `role` on the node at `path`."""
    needed = {*PERMISSIONS[role], Permission.MANAGE_MEMBERS}
    return all(actor.holds(permission, path) for permission in needed)


def refuse_user(user: User, node: Node | None, *, has: int) -> None:
    """Raise InvalidRequest or Conflict where `user`, who has `has` grants, gets none on `node`."""
    if node is not None and user.organization_id not in (None, node.organization_id):
        raise InvalidRequest(
            f"{user.login} does not belong to {node.organization_slug}.",
            errors=[FieldError("/user", "belongs to another organization")],
        )
    if not user.is_active:
        raise Conflict(f"{user.login} is deactivated.")
    if has >= GRANTS_MAX:
        raise Conflict(f"{user.login} has {GRANTS_MAX} roles already. Revoke one first.")


def _grant_to_change(actor: Actor, grant_id: UUID) -> RoleGrant:
    """Return the grant, locked, if the actor may change it. Raises NotFound and Forbidden."""
    seen = visible_grants(actor).filter(pk=grant_id).first()
    if seen is None:
        raise NotFound("It does not exist, or you may not see it.")
    if seen.node is not None:
        require(actor, Permission.MANAGE_MEMBERS, seen.node)
    require_may_hand_out(actor, Role(seen.role), seen.node)
    if seen.role == Role.PLATFORM_ADMIN:
        # All code locks the administrators' grants first.
        active_platform_admins(besides=seen.user_id)
    locked = RoleGrant.objects.select_for_update(of=("self",)).select_related("user", "node")
    grant = locked.filter(pk=grant_id).first()
    if grant is None:
        raise NotFound("It does not exist, or you may not see it.")
    refuse_group_grant(grant)
    return grant


def _refuse_last_administrator(grant: RoleGrant) -> None:
    """Raise Conflict for the grant of the last lasting administrator. Locks administrators."""
    if grant.role == Role.PLATFORM_ADMIN and not active_platform_admins(besides=grant.user_id):
        raise Conflict("This is the last platform administrator; make another one first.")
    if (
        grant.role == Role.ORGANIZATION_ADMIN
        and grant.node is not None
        and grant.node.parent_id is None
        and grant.expires_at is None
        and not other_organization_admins(grant.node, besides=grant.user_id)
    ):
        raise Conflict(
            f"This is the last administrator of {grant.node.display_path}; make another one first."
        )


def check_expiry(expires_at: datetime | None, now: datetime) -> None:
    """Raise InvalidRequest for an expiry in the past."""
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest(
            "expires_at must be in the future. Omit it for a role that does not expire.",
            errors=[FieldError("/expires_at", "must be in the future")],
        )


def refuse_group_grant(grant: RoleGrant) -> None:
    """Raise Conflict for a grant that a group gives: it would come back at the next sign-in."""
    if grant.group:
        raise Conflict(
            f"This role comes from the group {grant.group} of the identity provider. Remove the "
            "person from the group there, or remove the mapping of the group."
        )


def require_may_hand_out(actor: Actor, role: Role, node: Node | None) -> None:
    """Raise Forbidden unless the actor has every permission of `role` on `node`.

    The scopes of the token in use count as well.
    """
    path = PLATFORM if node is None else node.path
    lacking = sorted(p.value for p in PERMISSIONS[role] if not actor.holds(p, path))
    if lacking:
        where = "the platform" if node is None else node.display_path
        raise Forbidden(
            f"You cannot grant or revoke {role.value} on {where}, because you lack some of its "
            f"permissions there: {', '.join(lacking)}.",
            lacking=lacking,
        )


def refuse_outlasting(
    actor: Actor, role: Role, node: Node | None, expires_at: datetime | None
) -> None:
    """Raise Forbidden as `OwnRoles.refuse_outlasting`."""
    OwnRoles(actor).refuse_outlasting(role, node, expires_at)


class OwnRoles:
    """The roles of an actor with their ends, read once."""

    def __init__(self, actor: Actor) -> None:
        own = RoleGrant.objects.filter(GRANT_IN_FORCE, user=actor.user)
        self._grants = [
            (PERMISSIONS[Role(held)], above or PLATFORM, ends_at)
            for held, above, ends_at in own.values_list("role", "node__path", "expires_at")
            if held in set(Role)
        ]

    def refuse_outlasting(self, role: Role, node: Node | None, expires_at: datetime | None) -> None:
        """Raise Forbidden for a role that would outlast the actor's right to give it.

        That right ends with the last own grant that gives a needed permission there.
        """
        path = PLATFORM if node is None else node.path
        grants = [
            (given, ends_at) for given, above, ends_at in self._grants if path.startswith(above)
        ]
        for permission in (*PERMISSIONS[role], Permission.MANAGE_MEMBERS):
            ends = [ends_at for given, ends_at in grants if permission in given]
            last = None if not ends or None in ends else max(end for end in ends if end is not None)
            if _is_later(expires_at, last):
                raise Forbidden(
                    f"Your own role there ends at {last:%Y-%m-%d %H:%M} UTC, so you cannot give a "
                    "role that lasts longer. Ask an administrator whose role lasts longer."
                )


def _is_later(end: datetime | None, other: datetime | None) -> bool:
    """Return whether `end` is later than `other`. None is no end."""
    return other is not None and (end is None or end > other)


def _target(actor: Actor, role: Role, node_path: str | None) -> Node | None:
    if role is Role.PLATFORM_ADMIN:
        if node_path is not None:
            raise InvalidRequest(
                "platform_admin covers the whole platform. Omit node.",
                errors=[FieldError("/node", "must be null for platform_admin")],
            )
        require_platform_admin(actor)
        return None
    if node_path is None:
        raise InvalidRequest(
            f"{role.value} is granted on a node. Give its path.",
            errors=[FieldError("/node", "is required for this role")],
        )
    return visible_node(actor, node_path, Permission.MANAGE_MEMBERS)


def _record(
    actor: Actor, action: str, grant: RoleGrant, now: datetime, **changes: Mapping[str, object]
) -> None:
    publish_rights(grant.user_id)
    record_act(
        actor=actor,
        action=action,
        subject_kind="role_grant",
        subject_id=grant.pk,
        node=grant.node,
        now=now,
        detail=detail_of(grant) | {name: _in_json(values) for name, values in changes.items()},
    )


def detail_of(grant: RoleGrant) -> dict[str, object]:
    """Return the detail of the audit events of a grant."""
    detail: dict[str, object] = {
        "user": grant.user.login,
        "role": Role(grant.role).value,
        "node": grant.node.display_path if grant.node is not None else None,
    }
    if grant.expires_at is not None:
        detail["expires_at"] = grant.expires_at.isoformat()
    return detail


def _in_json(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
    }
