"""The position of a team's next job in the order of service between teams."""

from __future__ import annotations

from arbiter.api.policy import SpareOrder
from arbiter.cache.pool import Pool
from arbiter.queue.order import Position


def position_of(pool: Pool, team: int, source: int) -> Position:
    """Return the position of the next job of `team` if it draws on the guarantee of `source`.

    Jobs inside their team's guarantee come first. The others come by rank and credits, in the order
    that the organization's policy sets.
    """
    ratio = pool.ratio(source)
    if source == team:
        return Position(0, ratio)
    tree = pool.tree
    level = tree.level(source, team)
    order = tree.given[tree.paths[team][-1]].spare_order or pool.policy.spare_order
    minus_credits = -pool.credits.tenths(team) if order is not SpareOrder.FAIR_SHARE else 0
    if order is SpareOrder.FAIR_SHARE_THEN_CREDITS:
        return Position(level, ratio, -tree.ranks[team], 0, minus_credits)
    return Position(level, ratio, -tree.ranks[team], minus_credits)
