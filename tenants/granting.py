"""Grants and revokes roles. A user can only grant roles whose permissions the user has."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from live.publishing import publish_rights
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from tenants.access import PLATFORM, Actor, require_platform_admin, under, visible_node
from tenants.audit_trail import record_act
from tenants.membership import active_platform_admins, visible_user
from tenants.models import Node, RoleGrant, User, UserKind
from tenants.roles import PERMISSIONS, Permission, Role
from tenants.tokens import revoke_unmanaged

#: Limited, because every request loads all grants of its user.
GRANTS_MAX = 100


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
    *, actor: Actor, login: str, role: Role, node_path: str | None, now: datetime
) -> RoleGrant:
    """Grant the user with `login` a role on a node and everything below it.

    Raises NotFound for users and nodes that the actor may not see. Raises Forbidden without
    manage_members on the node. Also raises it when the role has a permission that the actor, or the
    token in use, lacks there. Raises InvalidRequest for a user of another organization, and for a
    role that does not fit the node. Raises Conflict for a deactivated user, an existing grant, and
    too many grants.
    """
    user = visible_user(actor, login)
    node = _target(actor, role, node_path)
    require_may_hand_out(actor, role, node)
    if node is None and user.organization_id is not None:
        raise InvalidRequest(
            "A platform administrator belongs to no organization. Create a user of the "
            "platform for that.",
            errors=[FieldError("/user", "belongs to an organization")],
        )
    if node is not None and user.organization_id not in (None, node.organization_id):
        raise InvalidRequest(
            f"{user.login} does not belong to {node.organization_slug}.",
            errors=[FieldError("/user", "belongs to another organization")],
        )
    user = User.objects.select_for_update().get(pk=user.pk)
    if not user.is_active:
        raise Conflict(f"{user.login} is deactivated.")
    if RoleGrant.objects.filter(user=user).count() >= GRANTS_MAX:
        raise Conflict(f"{user.login} has {GRANTS_MAX} roles already. Revoke one first.")
    grant = RoleGrant(user=user, role=role, node=node, granted_by=actor.user, created_at=now)
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
def revoke_role(*, actor: Actor, grant_id: UUID, now: datetime) -> None:
    """Revoke a role, by the same rules as for granting it.

    Raises NotFound for grants that the actor may not see, and Conflict for the last active platform
    admin.
    """
    grant = visible_grants(actor).filter(pk=grant_id).first()
    if grant is None:
        raise NotFound("It does not exist, or you may not see it.")
    role = Role(grant.role)
    if grant.node is not None and not actor.holds(Permission.MANAGE_MEMBERS, grant.node.path):
        raise Forbidden(
            f"You need the right manage_members on {grant.node.display_path}; ask an "
            "administrator of it.",
            permission=Permission.MANAGE_MEMBERS.value,
            node=grant.node.display_path,
        )
    require_may_hand_out(actor, role, grant.node)
    if role is Role.PLATFORM_ADMIN and not active_platform_admins(besides=grant.user_id):
        raise Conflict("This is the last platform administrator; make another one first.")
    deleted, _ = RoleGrant.objects.filter(pk=grant.pk).delete()
    if not deleted:
        raise NotFound("It does not exist, or you may not see it.")
    _record(actor, "role_revoked", grant, now)


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


def _record(actor: Actor, action: str, grant: RoleGrant, now: datetime) -> None:
    publish_rights(grant.user_id)
    record_act(
        actor=actor,
        action=action,
        subject_kind="role_grant",
        subject_id=grant.pk,
        node=grant.node,
        now=now,
        detail={
            "user": grant.user.login,
            "role": Role(grant.role).value,
            "node": grant.node.display_path if grant.node is not None else None,
        },
    )
