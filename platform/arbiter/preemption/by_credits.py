"""The victims that credits decided: unpaid ones, and those of teams with fewer credits (R-55)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arbiter.api.plan import ByCredits
from arbiter.cache.pool import Pool
from arbiter.cache.running import Holding
from arbiter.cache.victim_order import COSTLY, PAID, UNPAID
from arbiter.quota.tree import ROOT


def by_credits(
    pool: Pool, team: int, mgpu: int, victims: Sequence[Holding]
) -> Mapping[str, tuple[ByCredits]]:
    """Return the credits behind the choice of each victim, by attempt, before it is stopped.

    A job of `team` needs `mgpu`. Victims that credits did not decide are left out: those of the
    same team, the costly ones, and those without a richer team of equal rank in their organization
    whose jobs could be preempted.
    """
    credits = pool.credits.at_first
    if not credits.are_any:
        return {}
    paths, ids, guaranteed = pool.tree.paths, pool.tree.ids, pool.quota.guaranteed
    richer: dict[int, tuple[int, int]] = {}
    found: dict[str, tuple[ByCredits]] = {}
    for holding in victims:
        its_team = holding.team
        if its_team in (team, ROOT):
            continue
        is_abroad = paths[its_team][-1] != paths[team][-1]
        (word, *_), *_ = pool.victim_order.key(holding, mgpu, is_abroad=is_abroad)
        if word == COSTLY:
            continue
        if its_team not in richer:
            richer[its_team] = _next_richer(pool, its_team)
        spared, tenths = richer[its_team]
        if word == UNPAID or (word == PAID and spared != ROOT):
            is_known = spared != ROOT and guaranteed[spared] > 0
            why = ByCredits(
                is_unpaid=word == UNPAID,
                tenths=credits.exact_tenths(its_team) if guaranteed[its_team] else None,
                spared_team=ids[spared] if is_known else None,
                spared_tenths=tenths if is_known else None,
            )
            found[holding.run.attempt] = (why,)
    return found


def _next_richer(pool: Pool, team: int) -> tuple[int, int]:
    """Return the team that credits spare next after `team`, and its credits; ROOT: none.

    It is of equal rank in the same organization, and has attempts that could be preempted.
    """
    tree, credits = pool.tree, pool.credits.at_first
    own = credits.tenths(team)
    others = {other for (other, _), those in pool.holdings.borrowed.alike.items() if those}
    richer = [
        (credits.tenths(other), other)
        for other in others - {ROOT}
        if tree.paths[other][-1] == tree.paths[team][-1]
        and tree.ranks[other] == tree.ranks[team]
        and credits.tenths(other) > own
    ]
    tenths, other = min(richer, default=(0, ROOT))
    return other, tenths
