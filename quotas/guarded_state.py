"""The state of quotas and rules of an organization, and the difference that a write made.

Amounts are in milli-GPUs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from primitives.units import MGPU_MAX
from quotas.models import (
    QUOTA_SETTINGS,
    OrganizationPolicy,
    PlannedEdit,
    PlannedStatus,
    PriorityClass,
    Quota,
    QuotaChange,
)
from quotas.second_person_models import SecondPersonPolicy
from tenants.models import Node

#: The time over which the writes of one person count together.
ALONE_FOR = timedelta(days=1)
#: The most changes of one person that are read, newest first.
_CHANGES_MAX = 10_000
_IN_MGPU = ("guaranteed_mgpu", "borrow_limit_mgpu", "lend_limit_mgpu")
#: Settings that decide nothing about running jobs.
_HARMLESS = frozenset({"time_zone", "description", "price_multiplier_ppm"})
_NO_SETTINGS = frozenset({"id", "organization_id", "version", "changed_by_id", "changed_at"})


class Place(NamedTuple):
    """A quota by its node's path and its pool."""

    path: str
    pool: UUID


@dataclass(frozen=True, slots=True)
class State:
    """Quotas by id, and the rules by what they are called."""

    quotas: Mapping[UUID, tuple[Place, Mapping[str, Any]]]
    rules: Mapping[str, Mapping[str, Any]]


@dataclass(slots=True)
class Difference:
    """The changes of a write. `quotas` and `rules` have the values before and after it."""

    moved_mgpu: int = 0
    quotas: list[tuple[Place, Mapping[str, Any] | None, Mapping[str, Any] | None]] = field(
        default_factory=list
    )
    rules: list[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]] = field(
        default_factory=list
    )

    @property
    def pools(self) -> frozenset[UUID]:
        """Return the pools with changed quotas."""
        return frozenset(place.pool for place, _, _ in self.quotas)


def read_state(organization: Node) -> State:
    """Return the present state of an organization. Four queries."""
    rows = Quota.objects.filter(node__organization=organization)
    quotas = {
        row.pop("id"): (Place(row.pop("node__path"), row.pop("pool")), row)
        for row in rows.values("id", "node__path", "pool", *QUOTA_SETTINGS)
    }
    rules: dict[str, Mapping[str, Any]] = {
        f"class {row['name']}": _values(row)
        for row in PriorityClass.objects.filter(organization=organization).values()
    }
    for policy in OrganizationPolicy.objects.filter(organization=organization).values():
        rules["policy"] = _values(policy)
    for second in SecondPersonPolicy.objects.filter(organization=organization).values():
        rules["second person"] = _values(second)
    return State(quotas, rules)


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    left_out = _HARMLESS | _NO_SETTINGS
    return {name: value for name, value in row.items() if name not in left_out}


def versions_of(organization: Node) -> list[tuple[UUID, int]]:
    """Return ids and versions of all quotas and rules of an organization, in a fixed order."""
    found: list[tuple[UUID, int]] = []
    for rows in (
        Quota.objects.filter(node__organization=organization),
        OrganizationPolicy.objects.filter(organization=organization),
        SecondPersonPolicy.objects.filter(organization=organization),
        PriorityClass.objects.filter(organization=organization),
    ):
        found += rows.order_by("pk").values_list("pk", "version")
    return found


def compare(before: State, after: State) -> Difference:
    """Return the difference of two states. A moved node counts with all its guarantees."""
    found = Difference()
    for pk in before.quotas.keys() | after.quotas.keys():
        old, new = before.quotas.get(pk), after.quotas.get(pk)
        if old == new:
            continue
        if old is not None and new is not None and old[0] == new[0]:
            found.quotas.append((new[0], old[1], new[1]))
            continue
        if old is not None:
            found.quotas.append((old[0], old[1], None))
        if new is not None:
            found.quotas.append((new[0], None, new[1]))
    found.quotas.sort(key=lambda each: (each[0], each[1] is None))
    for called in sorted(before.rules.keys() | after.rules.keys()):
        was, now = before.rules.get(called), after.rules.get(called)
        if was != now:
            found.rules.append((called, was, now))
    found.moved_mgpu = moved_mgpu(found.quotas)
    return found


def as_if_reverted(before: State, after: State) -> State:
    """Return `before` with the settings that the reverts would have given which a write prevents.

    A planned revert gives nothing back once somebody changed a setting that its change set. So such
    a write keeps as much as the revert of the whole change would move. Two queries.
    """
    quotas = dict(before.quotas)
    changed = [pk for pk, each in quotas.items() if after.quotas.get(pk, each) != each]
    waiting = PlannedEdit.objects.filter(
        planned__status=PlannedStatus.APPLIED,
        planned__revert_at__isnull=False,
        planned__in=PlannedEdit.objects.filter(quota__in=changed).values("planned"),
    ).order_by("-planned__applied_at", "planned")
    rows = waiting.values_list("planned", "quota", "values", "before")
    for _, group in groupby(rows, key=lambda row: row[0]):
        edits = [each[1:] for each in group]
        # A change of which a setting changed before is not reverted anyway.
        if all(_has(before, pk, values) for pk, values, _ in edits) and not all(
            _has(after, pk, values) for pk, values, _ in edits
        ):
            for pk, values, replaced in edits:
                place, present = quotas[pk]
                back = {name: replaced[name] for name in _IN_MGPU if _is_set(name, values)}
                quotas[pk] = (place, {**present, **back})
    return State(quotas, before.rules)


def _has(state: State, pk: UUID, values: Mapping[str, Any]) -> bool:
    """Return whether a quota has these settings."""
    found = state.quotas.get(pk)
    return found is not None and all(found[1][name] == value for name, value in values.items())


def _is_set(name: str, names: Iterable[str]) -> bool:
    """Return whether an edit of settings `names` sets this amount; a percentage sets milli-GPUs."""
    return name in names or (name == "guaranteed_mgpu" and "guaranteed_bp" in names)


def moved_mgpu(
    changes: Iterable[tuple[Place, Mapping[str, Any] | None, Mapping[str, Any] | None]],
) -> int:
    """Return how much changes of quotas move, over all pools.

    In a pool it is the most that the guarantees of one level of the tree gain or lose together, or
    that its limits change by. So GPUs that move between siblings count once, and children that
    follow their parent do not count again. A borrow limit that is set or cleared counts as all.
    """
    gains: Counter[tuple[UUID, int, int]] = Counter()
    losses: Counter[tuple[UUID, int, int]] = Counter()
    for place, old, new in changes:
        more = [_guaranteed(new) - _guaranteed(old)]
        if old is not None and new is not None:
            more += [_lends(new) - _lends(old), _borrows(new) - _borrows(old)]
        for setting, mgpu in enumerate(more):
            level = (place.pool, place.path.count("/"), setting)
            gains[level] += max(0, mgpu)
            losses[level] += max(0, -mgpu)
    most: dict[UUID, int] = {}
    for (pool, _, _), mgpu in (*gains.items(), *losses.items()):
        most[pool] = max(most.get(pool, 0), mgpu)
    return min(MGPU_MAX, sum(most.values()))


def _guaranteed(values: Mapping[str, Any] | None) -> int:
    return 0 if values is None else int(values["guaranteed_mgpu"])


def _lends(values: Mapping[str, Any]) -> int:
    limit = values["lend_limit_mgpu"]
    return int(values["guaranteed_mgpu"] if limit is None else limit)


def _borrows(values: Mapping[str, Any]) -> int:
    limit = values["borrow_limit_mgpu"]
    return MGPU_MAX if limit is None else int(limit)


def moved_alone_mgpu(organization: Node, user_id: UUID, now: datetime) -> int:
    """Return how much a person moved in the organization alone since a day before `now`.

    Changes that were decided do not count.
    """
    rows = QuotaChange.objects.filter(
        quota__node__organization=organization,
        actor=user_id,
        at__gt=now - ALONE_FOR,
        is_decided=False,
    )
    writes: defaultdict[datetime, list[Any]] = defaultdict(list)
    names = ("at", "quota__node__path", "quota__pool", "before", "after")
    for at, path, pool, before, after in rows.order_by("-at").values_list(*names)[:_CHANGES_MAX]:
        writes[at].append((Place(path, pool), before, after))
    return sum(moved_mgpu(changes) for changes in writes.values())
