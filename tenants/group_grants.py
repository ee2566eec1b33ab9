"""Roles that groups of an identity provider give: renewed with the groups, ended with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from audit.models import AuditEvent
from audit.recording import record_all
from live.publishing import publish_rights
from tenants.access import Actor
from tenants.audit_trail import Author, act_of
from tenants.granting import GRANTS_MAX
from tenants.models import Node, RoleGrant, User
from tenants.roles import Role


def renew_group_grants(
    wanted: Mapping[UUID, Sequence[tuple[Role, Node, str]]], *, author: Author | None, now: datetime
) -> None:
    """Make the grants by groups of each user equal to the wanted ones: (role, node, group).

    Grants by hand stay. Of more than 100 grants of a user, the last ones by group and path are left
    out. Records each change as an act of `author`; None: of the user, who signs in. Must run in a
    transaction.
    """
    users = User.objects.select_for_update(of=("self",)).select_related("organization")
    found = {user.pk: user for user in users.filter(pk__in=list(wanted)).order_by("pk")}
    grants: dict[UUID, list[RoleGrant]] = {pk: [] for pk in found}
    for grant in RoleGrant.objects.select_related("node").filter(user__in=list(found)):
        grant.user = found[grant.user_id]
        grants[grant.user_id].append(grant)
    ended: list[RoleGrant] = []
    given: list[RoleGrant] = []
    for pk, user in found.items():
        has = {(each.role, each.node_id, each.group): each for each in grants[pk] if each.group}
        room = max(0, GRANTS_MAX - (len(grants[pk]) - len(has)))
        ordered = sorted(wanted[pk], key=lambda each: (each[2], each[1].path, each[0].value))
        kept = {(role.value, node.pk, group): node for role, node, group in ordered[:room]}
        ended += [grant for key, grant in has.items() if key not in kept]
        given += [
            RoleGrant(user=user, role=role, node=node, group=group, created_at=now)
            for (role, _, group), node in kept.items()
            if (role, node.pk, group) not in has
        ]
    RoleGrant.objects.filter(pk__in=[grant.pk for grant in ended]).delete()
    RoleGrant.objects.bulk_create(given, batch_size=1_000)
    acts = [("role_revoked", each) for each in ended] + [("role_granted", each) for each in given]
    record_all(
        [_event(author or Author.of_user(grant.user), action, grant, now) for action, grant in acts]
    )
    publish_rights(*{grant.user_id for _, grant in acts})


def end_group_grant(grant: RoleGrant, *, actor: Actor, now: datetime) -> None:
    """Delete a grant that a group gave. The caller checks the rights. Must run in a transaction."""
    RoleGrant.objects.filter(pk=grant.pk).delete()
    record_all([_event(actor, "role_revoked", grant, now)])
    publish_rights(grant.user_id)


def _event(actor: Actor | Author, action: str, grant: RoleGrant, now: datetime) -> AuditEvent:
    node = grant.node
    return act_of(
        actor=actor,
        action=action,
        subject_kind="role_grant",
        subject_id=grant.pk,
        node=node,
        now=now,
        detail={
            "user": grant.user.login,
            "role": grant.role,
            "node": node.display_path if node is not None else None,
            "group": grant.group,
        },
    )
