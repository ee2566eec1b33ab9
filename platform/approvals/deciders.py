"""Deciders of a request: people who may make the change themselves, but never the one who asked.

The nearest of them in the tree are told. All of them may decide.
"""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import and_
from uuid import UUID

from django.db.models import Q

from approvals.models import OF_QUOTAS, OPEN, ChangeRequest, RequestKind
from live.publishing import prefixes_of
from notices.recipients import RECIPIENTS_MAX, platform_administrators
from primitives.errors import Conflict, Forbidden
from quotas.administration import parent_path
from tenants.access import Actor, actor_of, under
from tenants.models import GRANT_IN_FORCE, RoleGrant, User, UserKind
from tenants.roles import PERMISSIONS, Permission, Role

_PARENT, _NODE, _ORGANIZATION = "node__parent__path", "node__path", "organization__path"
#: Rights on a node, by the field that leads to its path. All of them are needed. The first one is
#: that of people who manage what changes.
_Rights = tuple[tuple[Permission, str], ...]


def _alternatives(kind: str, role: str) -> tuple[_Rights, ...]:
    """Return the rights to make a change; each of the alternatives is enough."""
    match RequestKind(kind):
        case RequestKind.GUARANTEE | RequestKind.BORROW_LIMIT | RequestKind.LOAN:
            return (((Permission.MANAGE_QUOTA, _PARENT),),)
        case RequestKind.BUDGET:
            return (
                ((Permission.MANAGE_PRICES, _NODE), (Permission.VIEW_COSTS, _NODE)),
                ((Permission.MANAGE_QUOTA, _PARENT), (Permission.VIEW_COSTS, _NODE)),
            )
        case RequestKind.CLASS_CAP:
            return (((Permission.MANAGE_QUOTA, _ORGANIZATION),),)
        case RequestKind.WRITE:
            place = _PARENT if role == Role.PLATFORM_ADMIN else _NODE
            return (((Permission.MANAGE_QUOTA, place),),)
        case RequestKind.ROLE:
            given = sorted(PERMISSIONS[Role(role)] - {Permission.MANAGE_MEMBERS})
            return (tuple((right, _NODE) for right in (Permission.MANAGE_MEMBERS, *given)),)


def permitted(actor: Actor, kind: str, role: str = "") -> bool:
    """Return whether the token in use may ask for such a change at all."""
    return any(
        all(actor.permits(permission) for permission, _ in rights)
        for rights in _alternatives(kind, role)
    )


def require_permitted(actor: Actor, request: ChangeRequest) -> None:
    """Raise Forbidden unless `permitted` for the change of this request."""
    if not permitted(actor, request.kind, request.role):
        raise Forbidden(
            "This token may not do this. Use one with the scopes of the change: quotas, and "
            "reports for a budget, or admin for a role."
        )


def may_decide(actor: Actor, request: ChangeRequest) -> bool:
    """Return whether the actor may decide the request, were it open.

    Accounts of programs never decide: the person who asked may have made one.
    """
    places = {
        _PARENT: parent_path(request.node),
        _NODE: request.node.path,
        _ORGANIZATION: request.organization.path,
    }
    if actor.user.pk == request.asked_by_id or actor.user.kind != UserKind.PERSON:
        return False
    return any(
        all(actor.holds(permission, places[place]) for permission, place in rights)
        for rights in _alternatives(request.kind, request.role)
    )


def require_decider(actor: Actor, request: ChangeRequest) -> None:
    """Raise Forbidden unless `may_decide`."""
    if request.asked_by_id == actor.user.pk:
        raise Forbidden("You asked for this, so another person decides.")
    if not may_decide(actor, request):
        raise Forbidden(
            "You may not make this change yourself, so you cannot decide it. Comment on the "
            "request instead."
        )


def refuse_closed(request: ChangeRequest, now: datetime) -> None:
    """Raise Conflict for a request that was decided or has expired."""
    if request.status not in OPEN:
        raise Conflict(f"This request is {request.status} already, and is decided once.")
    if request.expires_at <= now:
        again = "Make the change again" if request.kind == RequestKind.WRITE else "Ask again"
        raise Conflict(f"This request has expired. {again}.")


def decidable(actor: Actor, *, by_roles: bool = False) -> Q:
    """Return the condition that the actor may decide a request, were it open: as `may_decide`.

    With `by_roles` the scopes of the token do not count, for reads.
    """
    prefixes = actor.granted if by_roles else actor.prefixes
    found = Q(pk__in=[])
    if actor.user.kind != UserKind.PERSON:
        return found
    wanted = [(kind.value, "") for kind in RequestKind if kind is not RequestKind.ROLE]
    wanted += [(RequestKind.ROLE.value, role.value) for role in Role]
    wanted.append((RequestKind.WRITE.value, Role.PLATFORM_ADMIN.value))
    for kind, role in wanted:
        for rights in _alternatives(kind, role):
            conditions = [under(prefixes(permission), place) for permission, place in rights]
            found |= Q(kind=kind, role=role) & reduce(and_, conditions)
    return found & ~Q(asked_by=actor.user)


def waits_for(actor: Actor) -> Q:
    """Return the condition that a request waits for a decision of the actor."""
    return Q(status__in=OPEN) & decidable(actor)


def nearest_deciders(request: ChangeRequest) -> list[UUID]:
    """Return the nearest people who may decide the request, at most 100.

    Where the organization has nobody, administrators of the platform decide.
    """
    is_of_parent = request.kind in OF_QUOTAS or request.role == Role.PLATFORM_ADMIN
    start = parent_path(request.node) if is_of_parent else request.node.path
    managing = {rights[0][0] for rights in _alternatives(request.kind, request.role)}
    roles = [role.value for role in Role if managing & PERMISSIONS[role]]
    people = User.objects.select_related("organization").filter(
        is_active=True, kind=UserKind.PERSON
    )
    people = people.exclude(pk=request.asked_by_id)
    for prefix in reversed(prefixes_of(start)[1:]):
        grants = RoleGrant.objects.filter(GRANT_IN_FORCE, role__in=roles, node__path=prefix)
        users = people.filter(pk__in=grants.values("user")).order_by("pk")[:RECIPIENTS_MAX]
        found = [user.pk for user in users if may_decide(actor_of(user), request)]
        if found:
            return found
    return [pk for pk in platform_administrators() if pk != request.asked_by_id]
