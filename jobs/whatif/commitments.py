"""Guarantees of teams in the preview of a planned change, as commitments bill them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from quotas.models import Quota
from simulator.what_if import Change, Difference


class Guaranteed(NamedTuple):
    """A team's guarantee over the look-ahead in milli-GPU-seconds, without and with the change."""

    before_mgpu_s: int
    after_mgpu_s: int


def guarantees_over(
    found: Difference, change: Change, teams: Collection[str], pools: Collection[UUID]
) -> dict[tuple[str, str], Guaranteed]:
    """Return the guarantees of these teams in these pools, by team and pool. At most one query."""
    if not pools:
        return {}
    begin = found.taken_at if change.begins_at is None else max(change.begins_at, found.taken_at)
    end = found.until if change.ends_at is None else min(change.ends_at, found.until)
    whole_s, changed_s = found.until - found.taken_at, max(0, end - begin)
    changed = {(one.node, one.pool): one.guaranteed_mgpu for one in change.quotas}
    wanted = [UUID(team) for team in teams]
    present = Quota.objects.filter(node__in=wanted, pool__in=pools)
    known = {
        (str(team), str(pool)): mgpu
        for team, pool, mgpu in present.values_list("node_id", "pool_id", "guaranteed_mgpu")
    }
    return {
        key: Guaranteed(
            mgpu * whole_s, mgpu * (whole_s - changed_s) + changed.get(key, mgpu) * changed_s
        )
        for key, mgpu in known.items()
    }
