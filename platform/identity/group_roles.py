"""Roles of people by their groups: those that SCIM pushes, and those that a sign-in names.

Of a group that SCIM pushes, only its members have the roles, whatever a sign-in says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from identity.models import (
    GroupMapping,
    GroupMembership,
    IdentityProvider,
    ProvisionedGroup,
    ScimSettings,
)
from tenants.audit_trail import Author
from tenants.group_grants import renew_group_grants
from tenants.models import Node, RoleGrant, User
from tenants.roles import Role


def lock_groups(organization_id: UUID) -> None:
    """Lock the groups of an organization: sign-ins, mappings and SCIM wait for each other.

    Must run in a transaction, before groups or mappings are read.
    """
    ScimSettings.objects.select_for_update().filter(pk=organization_id).first()
    IdentityProvider.objects.select_for_update().filter(organization=organization_id).first()


def renew_roles_at_sign_in(user: User, named: frozenset[str], *, now: datetime) -> None:
    """Give the user the roles of the groups that the sign-in names, and of the pushed ones."""
    pushed = ProvisionedGroup.objects.filter(organization=user.organization_id)
    counted = named - set(
        pushed.filter(display_name__in=named).values_list("display_name", flat=True)
    )
    counted |= set(
        pushed.filter(memberships__person=user.pk).values_list("display_name", flat=True)
    )
    mappings = GroupMapping.objects.select_related("node").filter(
        organization=user.organization_id, group__in=counted
    )
    wanted = [(Role(each.role), each.node, each.group) for each in mappings]
    renew_group_grants({user.pk: wanted}, author=None, now=now)


def renew_roles_of_members(
    organization: Node,
    user_ids: Collection[UUID],
    *,
    author: Author,
    now: datetime,
    ended: Collection[str] = (),
) -> None:
    """Give people the roles of the pushed groups of which they are members, and take all others.

    `ended` are names that pushed groups had until now. Roles of groups that only a sign-in names
    stay until the next sign-in.
    """
    groups = ProvisionedGroup.objects.filter(organization=organization)
    pushed = {*groups.values_list("display_name", flat=True), *ended}
    mappings: dict[str, list[GroupMapping]] = defaultdict(list)
    for mapping in GroupMapping.objects.select_related("node").filter(
        organization=organization, group__in=pushed
    ):
        mappings[mapping.group].append(mapping)
    wanted: dict[UUID, list[tuple[Role, Node, str]]] = {pk: [] for pk in user_ids}
    grants = RoleGrant.objects.select_related("node").filter(user__in=list(user_ids))
    for grant in grants.exclude(group="").exclude(group__in=pushed):
        if grant.node is not None:
            wanted[grant.user_id].append((Role(grant.role), grant.node, grant.group))
    memberships = GroupMembership.objects.filter(
        person__in=list(user_ids), group__display_name__in=list(mappings)
    )
    for pk, name in memberships.values_list("person_id", "group__display_name"):
        wanted[pk] += [(Role(each.role), each.node, each.group) for each in mappings[name]]
    renew_group_grants(wanted, author=author, now=now)


def members_named(organization: Node, group: str) -> list[UUID]:
    """Return the ids of the members of the pushed group with this name."""
    return list(
        GroupMembership.objects.filter(
            group__organization=organization, group__display_name=group
        ).values_list("person_id", flat=True)
    )
