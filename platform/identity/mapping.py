"""Groups of the identity provider that give roles on nodes."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from identity.group_roles import lock_groups, members_named, renew_roles_of_members
from identity.models import GROUP_LENGTH_MAX, GroupMapping
from identity.providers import managed_organization
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from tenants.access import Actor, visible_node
from tenants.audit_trail import Author, record_act
from tenants.granting import refuse_outlasting, require_may_hand_out
from tenants.group_grants import end_group_grant
from tenants.models import RoleGrant
from tenants.roles import Permission, Role

#: Mappings of one organization.
MAPPINGS_MAX = 1_000


def mappings_of(actor: Actor, organization_id: UUID) -> QuerySet[GroupMapping]:
    """Return the organization's mappings. Raises NotFound and Forbidden."""
    organization = managed_organization(actor, organization_id)
    return GroupMapping.objects.select_related("node").filter(organization=organization)


@transaction.atomic
def map_group(
    *,
    actor: Actor,
    organization_id: UUID,
    group: str,
    role: Role,
    node_path: str,
    now: datetime,
) -> GroupMapping:
    """Let a group give a role on a node: to members of a pushed group now, to others at sign-in.

    The actor needs manage_members on the organization, and every right of the role on the node.
    Raises NotFound, Forbidden, InvalidRequest, and Conflict for an existing mapping.
    """
    organization = managed_organization(actor, organization_id)
    node = visible_node(actor, node_path, Permission.MANAGE_MEMBERS)
    if node.organization_id != organization.pk:
        raise _refusal("node", f"must be in {organization.display_path}")
    if role in {Role.PLATFORM_ADMIN, Role.SERVICE_ACCOUNT}:
        raise _refusal("role", "must be a role of people below the platform")
    if not group.strip() or len(group) > GROUP_LENGTH_MAX or not group.isprintable():
        raise _refusal("group", f"must have 1 to {GROUP_LENGTH_MAX} visible characters")
    require_may_hand_out(actor, role, node)
    refuse_outlasting(actor, role, node, None)
    if GroupMapping.objects.filter(organization=organization).count() >= MAPPINGS_MAX:
        raise Conflict(f"There are {MAPPINGS_MAX} mappings already. Remove one first.")
    lock_groups(organization.pk)
    mapping = GroupMapping(
        organization=organization, group=group, role=role, node=node, created_at=now
    )
    try:
        with transaction.atomic():
            mapping.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(f"The group {group} gives this role there already.") from error
    _record(actor, "group_mapped", mapping, now)
    renew_roles_of_members(
        organization,
        members_named(organization, group),
        author=Author.of_user(actor.user),
        now=now,
    )
    return mapping


@transaction.atomic
def unmap_group(*, actor: Actor, mapping_id: UUID, now: datetime) -> None:
    """Remove a mapping, and end the grants that it gave, at once.

    Raises NotFound and Forbidden, as `map_group` does.
    """
    mapping = (
        GroupMapping.objects.select_related("node", "organization").filter(pk=mapping_id).first()
    )
    if mapping is None:
        raise NotFound("It does not exist, or you may not see it.")
    managed_organization(actor, mapping.organization_id)
    require_may_hand_out(actor, Role(mapping.role), mapping.node)
    # A sign-in otherwise gives the role again by the mapping that it read.
    lock_groups(mapping.organization_id)
    given = RoleGrant.objects.select_related("user", "node").filter(
        node=mapping.node, role=mapping.role, group=mapping.group
    )
    for grant in given.select_for_update(of=("self",)):
        end_group_grant(grant, actor=actor, now=now)
    GroupMapping.objects.filter(pk=mapping.pk).delete()
    _record(actor, "group_unmapped", mapping, now)


def _record(actor: Actor, action: str, mapping: GroupMapping, now: datetime) -> None:
    record_act(
        actor=actor,
        action=action,
        subject_kind="group_mapping",
        subject_id=mapping.pk,
        node=mapping.node,
        now=now,
        detail={
            "group": mapping.group,
            "role": mapping.role,
            "node": mapping.node.display_path,
        },
    )


def _refusal(field: str, detail: str) -> InvalidRequest:
    return InvalidRequest(f"{field} {detail}.", errors=[FieldError(f"/{field}", detail)])
