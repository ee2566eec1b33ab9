"""People to talk to about the GPUs of a team."""

from __future__ import annotations

from dataclasses import dataclass

from live.publishing import prefixes_of
from tenants.access import Actor
from tenants.models import GRANT_IN_FORCE, Node, RoleGrant, UserKind
from tenants.roles import PERMISSIONS, Permission, Role

#: The most people that are listed.
CONTACTS_MAX = 10
_MANAGING = [
    role.value
    for role, may in PERMISSIONS.items()
    if Permission.MANAGE_JOBS in may and role is not Role.PLATFORM_ADMIN
]


@dataclass(frozen=True, slots=True)
class Contact:
    """A person who manages the jobs of a team, with the role and the node that give this right."""

    username: str
    name: str
    role: str
    node: str


def contacts_of(team: Node, *, actor: Actor) -> list[Contact]:
    """Return the people who manage the team's jobs, those with the nearest role first.

    Only people of the team, and people who may see its jobs, get names. One query.
    """
    is_ours = team.path.startswith(actor.granted(Permission.SUBMIT_JOBS))
    if not (is_ours or actor.holds(Permission.VIEW_JOBS, team.path)):
        return []
    grants = (
        RoleGrant.objects.filter(
            GRANT_IN_FORCE,
            role__in=_MANAGING,
            node__path__in=prefixes_of(team.path)[1:],
            user__is_active=True,
            user__kind=UserKind.PERSON,
        )
        .exclude(user=actor.user)
        .values_list("user__username", "user__name", "role", "node__path")
    )
    found = sorted(grants, key=lambda grant: (-len(grant[3]), grant[0]))
    people: dict[str, Contact] = {}
    for username, name, role, path in found:
        people.setdefault(username, Contact(username, name, role, path.rstrip("/")))
    return list(people.values())[:CONTACTS_MAX]
