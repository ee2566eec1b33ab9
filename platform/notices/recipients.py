"""Finds the people who are told of an event of a node."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from django.db.models import Q

from live.publishing import prefixes_of
from tenants.models import GRANT_IN_FORCE, RoleGrant, User, UserKind
from tenants.roles import PERMISSIONS, Permission, Role
from webapi.row_access import all_rows

#: The most people who are told of one event.
RECIPIENTS_MAX = 100

_ACTIVE_PERSON = Q(user__is_active=True, user__kind=UserKind.PERSON)


def nearest_people(permission: Permission, path: str, *, without: UUID | None = None) -> list[UUID]:
    """Return the people of `nearest_people_of` for one path."""
    return nearest_people_of(permission, [path], without=without)[path]


def nearest_people_of(
    permission: Permission, paths: Collection[str], *, without: UUID | None = None
) -> Mapping[str, list[UUID]]:
    """Return for each path the active people whose role on the nearest node permits it.

    The nearest node is the first one at or above the path where a role gives `permission`. So a
    team's lead is told, and an administrator of the organization only where nobody is nearer. The
    person `without` does not count. At most 100 people for each path, in the order of their ids.
    """
    roles = [role.value for role, permissions in PERMISSIONS.items() if permission in permissions]
    prefixes = {prefix for path in paths for prefix in prefixes_of(path)[1:]}
    grants = RoleGrant.objects.filter(
        _ACTIVE_PERSON, GRANT_IN_FORCE, role__in=roles, node__path__in=prefixes
    )
    if without is not None:
        grants = grants.exclude(user=without)
    people: dict[str, list[UUID]] = {}
    for prefix, user_id in grants.order_by("user").values_list("node__path", "user").distinct():
        people.setdefault(prefix, []).append(user_id)
    return {path: _nearest(people, path)[:RECIPIENTS_MAX] for path in paths}


def active_people(users: Collection[UUID]) -> set[UUID]:
    """Return those of the users who are active people: no service account, nobody deactivated."""
    people = User.objects.filter(pk__in=users, is_active=True, kind=UserKind.PERSON)
    return set(people.values_list("pk", flat=True))


def _nearest(people: Mapping[str, list[UUID]], path: str) -> list[UUID]:
    found = (people[prefix] for prefix in reversed(prefixes_of(path)) if prefix in people)
    return next(found, [])


@all_rows()
def platform_administrators() -> list[UUID]:
    """Return the active administrators of the installation, at most 100."""
    grants = RoleGrant.objects.filter(
        _ACTIVE_PERSON, GRANT_IN_FORCE, role=Role.PLATFORM_ADMIN, node=None
    )
    return list(grants.order_by("user").values_list("user", flat=True)[:RECIPIENTS_MAX])
