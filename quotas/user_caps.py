"""Caps for the users of a team: GPUs at once, in one pool or in all (R-110).

Rights: those who may manage the quotas of the team, such as its lead, set its caps. Everybody who
sees the team sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from audit.recording import record
from live.publishing import publish
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from quotas.administration import named_pool
from quotas.models import UserCap
from tenants.access import Actor, get_visible, require, visible, visible_node
from tenants.models import Node, NodeKind, User
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


@dataclass(frozen=True, slots=True)
class CapOwner:
    """Scope of a new cap: a team, one user of it or each (None), one pool or all (None)."""

    team: str
    user: str | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that a user may use at once; `pool` None: in all pools of GPUs together."""

    pool: UUID | None
    mgpu: int


def caps_of(
    rows: Iterable[tuple[UUID | None, UUID | None, int | None]], user: UUID
) -> tuple[Cap, ...]:
    """Return the caps that bind a user, from the (user, pool, cap) rows of the team.

    The user's own row of a pool comes before the team's default; no cap there removes it.
    """
    found: dict[UUID | None, int | None] = {}
    for of, pool, mgpu in rows:
        if of == user or (of is None and pool not in found):
            found[pool] = mgpu
    return tuple(Cap(pool, mgpu) for pool, mgpu in found.items() if mgpu is not None)


def visible_caps(actor: Actor, *, team: str | None = None) -> QuerySet[UserCap]:
    """Return the caps of teams that the actor may see, or of one. Raises NotFound for it."""
    rows = UserCap.objects.select_related("team", "user", "pool")
    if team is not None:
        rows = rows.filter(team=visible_node(actor, team))
    return visible(actor, rows, Permission.VIEW_TREE, path_field="team__path")


def visible_cap(actor: Actor, cap_id: UUID) -> UserCap:
    """Return one cap. Raises NotFound for an absent or invisible one."""
    rows = visible_caps(actor)
    return get_visible(actor, rows, Permission.VIEW_TREE, path_field="team__path", pk=cap_id)


@transaction.atomic
def create_cap(owner: CapOwner, cap_mgpu: int | None, *, actor: Actor, now: datetime) -> UserCap:
    """Set a first cap of a team's users. It binds queued jobs at once, and stops no running ones.

    Raises NotFound for an invisible team, and Forbidden. Raises InvalidRequest for a node that is
    no team, an unknown user or pool, or no cap for each user. Raises Conflict for a second cap of
    the same users and pool.
    """
    team = visible_node(actor, owner.team, Permission.MANAGE_QUOTA)
    if team.kind != NodeKind.TEAM:
        raise InvalidRequest(
            f"{team.display_path} is no team. Set the caps of its teams.",
            errors=[FieldError("/team", "is no team")],
        )
    made = UserCap(
        team=team,
        user=None if owner.user is None else _user(owner.user, team),
        pool=None if owner.pool is None else named_pool(owner.pool),
        cap_mgpu=cap_mgpu,
    )
    _check(made)
    try:
        with transaction.atomic():
            made.save(force_insert=True)
    except IntegrityError:
        raise Conflict(f"There is a cap for {_words(made)} already. Change that one.") from None
    _record("user_cap.created", made, actor=actor, now=now)
    return made


@transaction.atomic
def change_cap(
    cap_id: UUID, cap_mgpu: int | None, *, actor: Actor, if_version: int, now: datetime
) -> UserCap:
    """Change a cap, based on the version that the actor has seen.

    Raises as `create_cap`, and PreconditionFailed unless `if_version` is current.
    """
    found = _locked(cap_id, actor=actor, if_version=if_version)
    found.cap_mgpu = cap_mgpu
    _check(found)
    found.version += 1
    found.save()
    _record("user_cap.changed", found, actor=actor, now=now)
    return found


@transaction.atomic
def remove_cap(cap_id: UUID, *, actor: Actor, if_version: int, now: datetime) -> None:
    """Remove a cap. Raises as `change_cap`."""
    found = _locked(cap_id, actor=actor, if_version=if_version)
    _record("user_cap.removed", found, actor=actor, now=now)
    found.delete()


def may_manage_caps(actor: Actor, team: Node) -> bool:
    """Return whether the actor may set the caps of a team."""
    return actor.holds(Permission.MANAGE_QUOTA, team.path)


def _locked(cap_id: UUID, *, actor: Actor, if_version: int) -> UserCap:
    require(actor, Permission.MANAGE_QUOTA, visible_cap(actor, cap_id).team)
    rows = UserCap.objects.select_for_update(of=("self",)).select_related("team", "user", "pool")
    found = rows.filter(pk=cap_id).first()
    if found is None:
        raise NotFound("It was removed meanwhile.")
    refuse_stale(if_version, found.version, body=None)
    return found


def _user(username: str, team: Node) -> User:
    found = User.objects.filter(organization=team.organization_id, username=username).first()
    if found is None:
        raise InvalidRequest(
            f"There is no user {username!r} in {team.organization.slug}.",
            errors=[FieldError("/user", "is no user of the organization")],
        )
    return found


def _check(cap: UserCap) -> None:
    if cap.cap_mgpu is None and cap.user_id is None:
        raise InvalidRequest(
            "The default for each user needs cap_mgpu; to have none, remove it.",
            errors=[FieldError("/cap_mgpu", "is required without user", "required")],
        )


def _words(cap: UserCap) -> str:
    whom = "each user" if cap.user is None else cap.user.username
    where = "all pools" if cap.pool is None else cap.pool.name
    return f"{whom} in {where}"


def _record(action: str, cap: UserCap, *, actor: Actor, now: datetime) -> None:
    record(
        action=action,
        subject_kind="user_cap",
        subject_id=cap.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=cap.team.organization_id,
        node_path=cap.team.path,
        detail={
            "user": None if cap.user is None else cap.user.username,
            "pool": None if cap.pool is None else cap.pool.name,
            "cap_mgpu": cap.cap_mgpu,
        },
        request_id=current_request_id(),
    )
    publish("quotas", organization_id=cap.team.organization_id, wake="arbiter")
