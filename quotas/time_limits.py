"""Default and longest time limits of jobs, of pools, tree nodes and priority classes (R-114).

Rights: a platform administrator sets the limits of pools. The limits of a node bind its managers,
so setting them needs `manage_quota` on the parent. The limits of a class need that right on the
organization.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypedDict
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from audit.recording import record
from live.publishing import publish
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from quotas.administration import named_pool, require_parents_right
from quotas.models import PriorityClass, TimeLimit
from quotas.policies import set_given
from tenants.access import Actor, require, require_platform_admin, under, visible_node
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


@dataclass(frozen=True, slots=True)
class Bound:
    """The limits of one owner for a job. `owner` names it in sentences: "pool h100"."""

    owner: str
    default_s: int | None
    longest_s: int | None


class Longest(NamedTuple):
    """The longest time limit of a job in seconds, and the owner that sets it."""

    limit_s: int
    owner: str


class Default(NamedTuple):
    """The time limit in seconds of a job that asks for none, and where it comes from."""

    limit_s: int
    source: str


def longest_of(bounds: Iterable[Bound]) -> Longest | None:
    """Return the strictest longest limit; None where there is none."""
    found = [Longest(bound.longest_s, bound.owner) for bound in bounds if bound.longest_s]
    return min(found, key=lambda longest: longest.limit_s, default=None)


def default_of(bounds: Sequence[Bound]) -> Default | None:
    """Return the time limit of a job that asks for none; None for no limit.

    `bounds` are ordered from the nearest owner to the farthest. The nearest default counts, but at
    most the strictest longest limit.
    """
    longest = longest_of(bounds)
    for bound in bounds:
        if bound.default_s is not None:
            if longest is None or bound.default_s <= longest.limit_s:
                return Default(bound.default_s, f"the default of {bound.owner}")
            break
    return None if longest is None else Default(longest.limit_s, f"the longest of {longest.owner}")


class LimitEdit(TypedDict, total=False):
    """The limits to change, in seconds; None removes one."""

    default_s: int | None
    longest_s: int | None


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of limits, by name: exactly one of a pool, a tree node and a priority class."""

    pool: str | None = None
    node: str | None = None
    priority_class: str | None = None
    organization: str | None = None


def visible_limits(actor: Actor) -> QuerySet[TimeLimit]:
    """Return the limits that the actor may see: of all pools, and of visible nodes and classes."""
    prefixes = actor.prefixes(Permission.VIEW_TREE)
    condition = (
        Q(pool__isnull=False)
        | under(prefixes, "node__path")
        | under(prefixes, "priority_class__organization__path")
    )
    return TimeLimit.objects.select_related("pool", "node", "priority_class__organization").filter(
        condition
    )


def visible_limit(actor: Actor, limit_id: UUID) -> TimeLimit:
    """Return the limits with this id. Raises NotFound if the actor may not see them."""
    found = visible_limits(actor).filter(pk=limit_id).first()
    if found is None:
        raise NotFound("It does not exist, or you may not see it.")
    return found


@transaction.atomic
def create_limit(owner: Owner, edit: LimitEdit, *, actor: Actor, now: datetime) -> TimeLimit:
    """Give an owner its first limits.

    Raises NotFound for an invisible node, organization or class, InvalidRequest for an unknown
    pool, not exactly one owner, no limit, or a default above the longest. Raises Forbidden, and
    Conflict if the owner has limits already.
    """
    made = TimeLimit(**_owner(owner, actor))
    _require_right(actor, made)
    set_given(made, {"default_s": None, "longest_s": None, **edit})
    _check(made)
    try:
        with transaction.atomic():
            made.save(force_insert=True)
    except IntegrityError:
        words = owner_words(made)
        raise Conflict(
            f"{words[:1].upper()}{words[1:]} has time limits already. Change those."
        ) from None
    _record("time_limit.created", made, actor=actor, now=now)
    return made


@transaction.atomic
def change_limit(
    limit_id: UUID, edit: LimitEdit, *, actor: Actor, if_version: int, now: datetime
) -> TimeLimit:
    """Change limits, based on the version that the actor has seen.

    New limits apply to jobs that are submitted or extended from now on. Raises NotFound, Forbidden,
    PreconditionFailed unless `if_version` is current, and InvalidRequest as `create_limit`.
    """
    found = _locked(limit_id, actor=actor, if_version=if_version)
    if set_given(found, dict(edit)):
        _check(found)
        found.version += 1
        found.save()
        _record("time_limit.changed", found, actor=actor, now=now)
    return found


@transaction.atomic
def remove_limit(limit_id: UUID, *, actor: Actor, if_version: int, now: datetime) -> None:
    """Remove limits, based on the version that the actor has seen. Raises as `change_limit`."""
    found = _locked(limit_id, actor=actor, if_version=if_version)
    _record("time_limit.removed", found, actor=actor, now=now)
    found.delete()


def owner_words(limit: TimeLimit) -> str:
    """Return the owner in words: "pool h100", "team ai-company/nlp", "class low"."""
    if limit.pool is not None:
        return f"pool {limit.pool.name}"
    if limit.node is not None:
        return f"{limit.node.kind} {limit.node.display_path}"
    assert limit.priority_class is not None
    return f"class {limit.priority_class.name}"


def _owner(owner: Owner, actor: Actor) -> dict[str, object]:
    given = [name for name in ("pool", "node", "priority_class") if getattr(owner, name)]
    if len(given) != 1:
        raise InvalidRequest(
            "Give exactly one of pool, node and priority_class.",
            errors=[FieldError("/pool", "or node or priority_class: exactly one", "required")],
        )
    if owner.pool:
        return {"pool": named_pool(owner.pool)}
    if owner.node:
        return {"node": visible_node(actor, owner.node)}
    if not owner.organization:
        raise InvalidRequest(
            "Name the organization of the class.",
            errors=[FieldError("/organization", "is required with priority_class", "required")],
        )
    organization = visible_node(actor, owner.organization)
    found = PriorityClass.objects.filter(
        organization=organization, name=owner.priority_class
    ).first()
    if found is None:
        raise NotFound(f"{organization} has no priority class {str(owner.priority_class)[:63]!r}.")
    return {"priority_class": found}


def _require_right(actor: Actor, limit: TimeLimit) -> None:
    if limit.node is not None:
        require_parents_right(actor, limit.node, "set its time limits")
    elif limit.priority_class is not None:
        require(actor, Permission.MANAGE_QUOTA, limit.priority_class.organization)
    else:
        require_platform_admin(actor)


def may_change(actor: Actor, limit: TimeLimit) -> bool:
    """Return whether the actor may change these limits."""
    try:
        _require_right(actor, limit)
    except Forbidden:
        return False
    return True


def _locked(limit_id: UUID, *, actor: Actor, if_version: int) -> TimeLimit:
    seen = visible_limit(actor, limit_id)
    _require_right(actor, seen)
    found = TimeLimit.objects.select_for_update().filter(pk=limit_id).first()
    if found is None:
        raise NotFound("It was removed meanwhile.")
    refuse_stale(if_version, found.version, body=None)
    return found


def _check(limit: TimeLimit) -> None:
    if limit.default_s is None and limit.longest_s is None:
        raise InvalidRequest(
            "Give default_s or longest_s; to have neither, remove the time limits.",
            errors=[FieldError("/default_s", "or longest_s is required", "required")],
        )
    if limit.default_s and limit.longest_s and limit.default_s > limit.longest_s:
        raise InvalidRequest(
            "The default must be at most the longest time limit.",
            errors=[FieldError("/default_s", "must be at most longest_s", "out_of_range")],
        )


def _record(action: str, limit: TimeLimit, *, actor: Actor, now: datetime) -> None:
    organization = None
    if limit.node is not None:
        organization = limit.node.organization
    elif limit.priority_class is not None:
        organization = limit.priority_class.organization
    record(
        action=action,
        subject_kind="time_limit",
        subject_id=limit.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=None if organization is None else organization.pk,
        node_path="" if organization is None else (limit.node or organization).path,
        detail={
            "owner": owner_words(limit),
            "default_s": limit.default_s,
            "longest_s": limit.longest_s,
        },
        request_id=current_request_id(),
    )
    publish("quotas", organization_id=None if organization is None else organization.pk)
