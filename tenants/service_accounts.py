"""Creates service accounts in a node, for those who manage its members."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from primitives.errors import Conflict, FieldError
from tenants.access import Actor, get_visible, require
from tenants.audit_trail import record_act
from tenants.granting import grant_role, require_may_hand_out
from tenants.membership import login_of
from tenants.models import Node, RoleGrant, User, UserKind
from tenants.names import check_username, clean_name
from tenants.roles import Permission, Role

#: The most service accounts of one organization.
ACCOUNTS_MAX = 1_000


@transaction.atomic
def create_service_account(
    *,
    actor: Actor,
    node_id: UUID,
    username: str,
    name: str,
    expires_at: datetime | None,
    now: datetime,
) -> RoleGrant:
    """Create a service account with the role service_account on a node, and return the grant.

    Raises NotFound for an invisible node, and Forbidden without manage_members on it or for a role
    that would outlast the actor's. Raises InvalidRequest for bad values, and Conflict for a taken
    username, an archived node and too many accounts.
    """
    rows = Node.objects.select_related("organization")
    node = get_visible(actor, rows, Permission.VIEW_TREE, path_field="path", pk=node_id)
    require(actor, Permission.MANAGE_MEMBERS, node)
    require_may_hand_out(actor, Role.SERVICE_ACCOUNT, node)
    if node.archived_at is not None:
        raise Conflict(f"{node.display_path} is archived. Restore it first.")
    # Two requests at once cannot exceed the limit.
    Node.objects.select_for_update(no_key=True).get(pk=node.organization_id)
    services = User.objects.filter(organization=node.organization, kind=UserKind.SERVICE)
    if services.count() >= ACCOUNTS_MAX:
        raise Conflict(
            f"{node.organization_slug} has {ACCOUNTS_MAX:,} service accounts already. Delete one "
            "that was never used, or take one of them."
        )
    user = User(
        organization=node.organization,
        username=check_username(username),
        login=login_of(username, node.organization),
        name=clean_name(name),
        kind=UserKind.SERVICE,
        created_at=now,
    )
    user.set_unusable_password()
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(
            f"There is already a user {user.login}. Choose another username.",
            errors=[FieldError("/username", "is taken", "taken")],
        ) from error
    record_act(
        actor=actor,
        action="user_created",
        subject_kind="user",
        subject_id=user.pk,
        node=node,
        now=now,
        detail={"login": user.login, "name": user.name, "kind": user.kind},
    )
    return grant_role(
        actor=actor,
        login=user.login,
        role=Role.SERVICE_ACCOUNT,
        node_path=node.display_path,
        expires_at=expires_at,
        now=now,
    )
