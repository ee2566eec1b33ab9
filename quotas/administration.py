"""Creates and changes quotas: rights, rules, and history.

Rights (the API's `can_edit` says the same):

- `guaranteed_mgpu`, `guaranteed_percent` and `weight` need `manage_quota` on the parent, whose GPUs
  they divide. For an organization, the parent is the whole platform.
- `borrow_limit_mgpu` and `lend_limit_mgpu` need it on the node itself only. But a borrow limit
  binds the managers of the node. So raising or clearing it needs the right on the parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from django.db import IntegrityError, transaction

from clusters.models import Pool
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest
from quotas.envelope import EnvelopeBroken, Family
from quotas.guarding import Write, guarded
from quotas.locks import lock_quotas
from quotas.models import QUOTA_SETTINGS, Quota
from quotas.policies import ensure_rules
from quotas.quota_store import REASON_LENGTH_MAX, store_quotas, values_of
from tenants.access import PLATFORM, Actor, get_visible, visible_node
from tenants.models import Node
from tenants.names import clean_name
from tenants.roles import Permission
from webapi.preconditions import refuse_stale


class QuotaEdit(TypedDict, total=False):
    """The settings to change. Missing settings stay.

    `guaranteed_mgpu` and `guaranteed_bp` (basis points of the parent) exclude each other. A limit
    of None means no limit of its own.
    """

    guaranteed_mgpu: int
    guaranteed_bp: int
    borrow_limit_mgpu: int | None
    lend_limit_mgpu: int | None
    weight: int


def editable_fields(actor: Actor, node: Node) -> tuple[str, ...]:
    """Return which settings of a quota at `node` the actor may change, by their API names."""
    if actor.holds(Permission.MANAGE_QUOTA, parent_path(node)):
        return (
            "guaranteed_mgpu",
            "guaranteed_percent",
            "borrow_limit_mgpu",
            "lend_limit_mgpu",
            "weight",
        )
    if actor.holds(Permission.MANAGE_QUOTA, node.path):
        return ("borrow_limit_mgpu", "lend_limit_mgpu")
    return ()


def create_quota(
    node_path: str,
    pool_name: str,
    edit: QuotaEdit,
    *,
    actor: Actor,
    reason: str,
    now: datetime,
) -> Quota:
    """Give a node its quota in a pool.

    An organization's first quota also creates the standard policy and priority classes.

    Raises NotFound for a node that the actor cannot see, and Forbidden. Raises InvalidRequest for
    an unknown pool or an invalid guarantee. Raises Conflict for an archived pool, when there is a
    quota already, or the parent has none. Raises EnvelopeBroken, LendsTooMuch or
    SecondPersonNeeded.
    """
    node = visible_node(actor, node_path)
    pool = named_pool(pool_name)
    reason = clean_name(reason, field="reason", length_max=REASON_LENGTH_MAX)
    _refuse_new(actor, node, pool, edit)
    with named_refusals(), transaction.atomic():
        locked = lock_quotas(node.parent or node, pool.pk)
        if any(quota.node_id == node.pk for quota in locked):
            raise _exists_already(node, pool)
        arguments = {"node": node.display_path, "pool": pool.name, "edit": dict(edit)}
        write = Write("quota.create", {**arguments, "reason": reason}, reason)
        with guarded(node.organization, write, actor=actor, now=now):
            (quota,) = _set_together(
                {node: edit}, pool, locked, actor=actor, reason=reason, now=now
            )
    return quota


def set_quotas(
    edits: Mapping[UUID, QuotaEdit],
    pool_name: str,
    *,
    top: Node,
    actor: Actor,
    reason: str,
    now: datetime,
) -> None:
    """Create and change the quotas of nodes at or below `top`, by id, in one pool together.

    Rules are checked on the result only. Raises as `create_quota` and `change_quota` do, and
    SecondPersonNeeded.
    """
    pool = named_pool(pool_name)
    nodes = list(Node.objects.filter(pk__in=edits).select_related("parent").order_by("path"))
    with named_refusals(), transaction.atomic():
        locked = lock_quotas(top.parent or top, pool.pk)
        known = {quota.node_id for quota in locked}
        for node in nodes:
            if node.pk in known:
                require_edit(actor, node, edits[node.pk])
            else:
                _refuse_new(actor, node, pool, edits[node.pk])
        wanted = {node: edits[node.pk] for node in nodes}
        # An import shows a refusal with its line, and makes no request of it.
        write = Write("quota.set", {}, reason)
        with guarded(top.organization, write, actor=actor, now=now):
            _set_together(wanted, pool, locked, actor=actor, reason=reason, now=now)


def _refuse_new(actor: Actor, node: Node, pool: Pool, edit: QuotaEdit) -> None:
    """Raise where a new quota would be refused whatever its family is."""
    require_parents_right(actor, node, "give it a quota")
    _refuse_meaningless(node, edit)
    if "guaranteed_mgpu" not in edit and "guaranteed_bp" not in edit:
        raise InvalidRequest(
            "The guarantee is missing: give guaranteed_mgpu or guaranteed_percent.",
            errors=[FieldError("/guaranteed_mgpu", "is missing", "required")],
        )
    if pool.archived_at is not None:
        raise Conflict(
            f"{pool.name} is archived, so no new quotas can be created in it. Restore it first, or "
            "choose another pool.",
            pool=pool.name,
        )


def _set_together(
    edits: Mapping[Node, QuotaEdit],
    pool: Pool,
    locked: Sequence[Quota],
    *,
    actor: Actor,
    reason: str,
    now: datetime,
) -> list[Quota]:
    """Create or change quotas of a locked family. Return those that changed, parents first.

    `edits` are by node, parents first.
    """
    before = {quota.pk: values_of(quota) for quota in locked}
    known = {quota.node_id: quota for quota in locked}
    new: list[Quota] = []
    for node in edits:
        if node.pk in known:
            continue
        if node.parent is not None and node.parent_id not in known:
            raise Conflict(
                f"{node.parent.display_path} has no quota in {pool.name}. Give it one first.",
                node=node.parent.display_path,
                pool=pool.name,
            )
        known[node.pk] = Quota(node=node, pool=pool, guaranteed_mgpu=0)
        new.append(known[node.pk])
        _apply(known[node.pk], edits[node])
    family = Family(known.values())
    by_id = {known[node.pk].pk: edit for node, edit in edits.items() if known[node.pk].pk in before}
    edited = edit_together(by_id, family)
    require_rights(actor, edited)
    changed = [*(each.quota for each in edited), *new]
    changed.sort(key=lambda quota: quota.node.depth)
    if changed:
        followers = _settle(family, changed)
        had = [each for each in (*changed, *(each for each, _ in followers)) if each.pk in before]
        _refuse_more_of_archived_pool(had, before)
        Quota.objects.bulk_create(new)
        store_quotas(changed, followers, before, actor=actor, reason=reason, now=now)
        for quota in new:
            if quota.node.parent_id is None:
                ensure_rules(quota.node)
    return changed


def change_quota(
    quota_id: UUID,
    edit: QuotaEdit,
    *,
    actor: Actor,
    if_version: int,
    reason: str,
    now: datetime,
) -> Quota:
    """Change a quota, and the percentages around it that depend on it.

    The values that it has already change nothing. Raises NotFound, Forbidden, PreconditionFailed
    unless `if_version` is current, and InvalidRequest for an invalid guarantee. Raises
    EnvelopeBroken or LendsTooMuch for this quota or one that depends on it, and SecondPersonNeeded.
    """
    seen = get_visible(
        actor,
        Quota.objects.select_related("node__parent", "pool"),
        Permission.VIEW_TREE,
        path_field="node__path",
        pk=quota_id,
    )
    require_edit(actor, seen.node, edit)
    reason = clean_name(reason, field="reason", length_max=REASON_LENGTH_MAX)
    with named_refusals(), transaction.atomic():
        family = Family(lock_quotas(seen.node.parent or seen.node, seen.pool_id))
        quota = family.by_node[seen.node_id]
        refuse_stale(if_version, quota.version, body=None)
        arguments = {"quota": str(quota.pk), "edit": dict(edit), "reason": reason}
        write = Write("quota.change", arguments, reason)
        with guarded(seen.node.organization, write, actor=actor, now=now):
            change_together({quota.pk: edit}, family, actor=actor, reason=reason, now=now)
    return quota


def require_edit(actor: Actor, node: Node, edit: QuotaEdit) -> None:
    """Raise Forbidden if the actor may change no setting of the node's quotas.

    Raises InvalidRequest for an invalid guarantee.
    """
    if not editable_fields(actor, node):
        raise _lacking(node.display_path, "change its quota")
    _refuse_meaningless(node, edit)


@dataclass(frozen=True, slots=True)
class Edited:
    """A quota that an edit changed, the changed settings, and all settings before."""

    quota: Quota
    differing: frozenset[str]
    had: Mapping[str, int | None]


def edit_together(edits: Mapping[UUID, QuotaEdit], family: Family) -> list[Edited]:
    """Apply edits to quotas of a loaded family, by id, and return the changed ones, parents first.

    Rules are not checked, and nothing is written.
    """
    found = []
    for quota in family.by_node.values():
        if quota.pk in edits:
            had = {name: getattr(quota, name) for name in QUOTA_SETTINGS}
            _apply(quota, edits[quota.pk])
            differing = frozenset(name for name in had if getattr(quota, name) != had[name])
            if differing:
                found.append(Edited(quota, differing, had))
    return found


def settle_together(edits: Mapping[UUID, QuotaEdit], family: Family) -> list[Quota]:
    """Return the quotas of a loaded family that `change_together` would change, dependent ones too.

    Nothing is written. Raises EnvelopeBroken or LendsTooMuch.
    """
    edited = [each.quota for each in edit_together(edits, family)]
    return [*edited, *(follower for follower, _ in _settle(family, edited))]


def require_rights(actor: Actor, edited: Sequence[Edited]) -> None:
    """Raise Forbidden unless the actor may make each of these changes."""
    for each in edited:
        _require_rights(actor, each.quota, set(each.differing), each.had)


def may_make(actor: Actor, quota: Quota, edit: QuotaEdit) -> bool:
    """Return whether the actor has the rights for this edit of the quota in its present state."""
    if not editable_fields(actor, quota.node):
        return False
    changed = copy(quota)
    _apply(changed, edit)
    had = {name: getattr(quota, name) for name in QUOTA_SETTINGS}
    differing = {name for name in had if getattr(changed, name) != had[name]}
    try:
        _require_rights(actor, changed, differing, had)
    except Forbidden:
        return False
    return True


def change_together(
    edits: Mapping[UUID, QuotaEdit],
    family: Family,
    *,
    actor: Actor | None,
    reason: str,
    now: datetime,
) -> None:
    """Change quotas of a locked family, by id, together. Rules are checked on the result only.

    An actor of None is the system, which reverts a permitted change. Must run in a transaction.
    Raises Forbidden, EnvelopeBroken or LendsTooMuch, and Conflict for an increase in an archived
    pool.
    """
    before = {quota.pk: values_of(quota) for quota in family.by_node.values()}
    edited = edit_together(edits, family)
    if actor is not None:
        require_rights(actor, edited)
    if edited:
        quotas = [each.quota for each in edited]
        followers = _settle(family, quotas)
        _refuse_more_of_archived_pool([*quotas, *(each for each, _ in followers)], before)
        store_quotas(quotas, followers, before, actor=actor, reason=reason, now=now)


def _refuse_more_of_archived_pool(
    quotas: Sequence[Quota], before: Mapping[UUID, Mapping[str, Any]]
) -> None:
    for quota in quotas:
        had = before[quota.pk]
        is_more = quota.guaranteed_mgpu > had["guaranteed_mgpu"] or (
            had["borrow_limit_mgpu"] is not None
            and (
                quota.borrow_limit_mgpu is None
                or quota.borrow_limit_mgpu > had["borrow_limit_mgpu"]
            )
        )
        if is_more and quota.pool.archived_at is not None:
            raise Conflict(
                f"{quota.pool.name} is archived, so its quotas may only be lowered. Restore it "
                "first.",
                pool=quota.pool.name,
            )


def named_pool(name: str) -> Pool:
    """Return the pool with this name. Raises InvalidRequest, which lists the pools."""
    pools = {pool.name: pool for pool in Pool.objects.order_by("name")}
    if name not in pools:
        known = ", ".join(list(pools)[:20]) or "none yet"
        raise InvalidRequest(
            f"There is no pool {name[:63]!r}. Pools: {known}.",
            errors=[FieldError("/pool", "is not a pool")],
        )
    return pools[name]


def parent_path(node: Node) -> str:
    """Return the parent's path, or PLATFORM above an organization."""
    above, slash, _ = node.path.rstrip("/").rpartition("/")
    return above + slash or PLATFORM


def _lacking(where: str, to_do: str) -> Forbidden:
    return Forbidden(
        f"You need the right manage_quota on {where} to {to_do}; ask an administrator of it.",
        permission=Permission.MANAGE_QUOTA.value,
        node=where,
    )


def require_parents_right(actor: Actor, node: Node, to_do: str) -> None:
    """Raise Forbidden unless the actor has `manage_quota` on the parent of `node`."""
    above = parent_path(node)
    if not actor.holds(Permission.MANAGE_QUOTA, above):
        where = above.rstrip("/") or "the platform"
        raise _lacking(where, f"{to_do} ({node.display_path})")


def _require_rights(
    actor: Actor, quota: Quota, differing: set[str], had: Mapping[str, int | None]
) -> None:
    if differing - {"borrow_limit_mgpu", "lend_limit_mgpu"}:
        require_parents_right(actor, quota.node, "change a guarantee or weight")
    if "borrow_limit_mgpu" in differing and had["borrow_limit_mgpu"] is not None:
        limit_mgpu = quota.borrow_limit_mgpu
        if limit_mgpu is None or limit_mgpu > had["borrow_limit_mgpu"]:
            require_parents_right(
                actor,
                quota.node,
                "raise or clear a borrow limit, now "
                f"{quota.pool.kind.text(had['borrow_limit_mgpu'])}, which you may only lower",
            )


def _refuse_meaningless(node: Node, edit: QuotaEdit) -> None:
    if "guaranteed_mgpu" in edit and "guaranteed_bp" in edit:
        raise InvalidRequest(
            "Give guaranteed_mgpu or guaranteed_percent, not both.",
            errors=[FieldError("/guaranteed_percent", "excludes guaranteed_mgpu")],
        )
    if "guaranteed_bp" in edit and node.parent_id is None:
        raise InvalidRequest(
            "An organization has no parent for a percentage. Give guaranteed_mgpu.",
            errors=[FieldError("/guaranteed_percent", "needs a parent")],
        )


def _apply(quota: Quota, edit: QuotaEdit) -> None:
    for name, value in edit.items():
        setattr(quota, name, value)
    if "guaranteed_mgpu" in edit:
        quota.guaranteed_bp = None


def _settle(family: Family, edited: Sequence[Quota]) -> list[tuple[Quota, Quota]]:
    """Resolve percentages around `edited` (parents first), and check every rule.

    Returns the dependent quotas that changed, each with the quota that it depends on.
    """
    changed: dict[UUID, tuple[Quota, Quota]] = {}
    for quota in edited:
        for top in (family.parent(quota), quota):
            if top is not None:
                for other in family.resolve_below(top):
                    changed.setdefault(other.pk, (other, quota))
    for quota in edited:
        changed.pop(quota.pk, None)
    for quota in edited:
        family.check_room_for(quota)
    for quota in (*edited, *(follower for follower, _ in changed.values())):
        family.check(quota)
    return list(changed.values())


@contextmanager
def named_refusals() -> Iterator[None]:
    """Turn errors that only the database noticed (a writer without locks) into our own errors."""
    try:
        yield
    except IntegrityError as error:
        name = getattr(getattr(error.__cause__, "diag", None), "constraint_name", None)
        if name == "quota_children_fit_in_their_parent":
            raise EnvelopeBroken(
                "Somebody changed a quota beside or below this one at the same moment, and "
                "together the children would be guaranteed more than their parent. Look at the "
                "current values and send your change again."
            ) from error
        if name == "quota_once_per_node_and_pool":
            raise Conflict(
                "Somebody created this quota at the same moment. Change that one."
            ) from error
        raise


def _exists_already(node: Node, pool: Pool) -> Conflict:
    return Conflict(
        f"{node.display_path} has a quota in {pool.name} already. Change that one.",
        node=node.display_path,
        pool=pool.name,
    )
