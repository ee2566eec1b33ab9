"""The tree after the plan: use, its guaranteed part, and lent guarantees (R-98)."""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from arbiter.api.plan import Classed, NodeUse, Start
from arbiter.api.snapshot import QueuedJob, Slot
from arbiter.cache.pool import Pool
from arbiter.cache.running import Holding
from arbiter.placement.free_devices import Place
from arbiter.placement.maintenance import names_on
from arbiter.quota.entitlement import Contender, Protection, TeamJobs, with_changed
from arbiter.quota.tree import ROOT, Tree
from primitives.units import MGPU_PER_GPU, largest_remainder

#: The place of jobs without one; it has no effect here.
_SOMEWHERE = Place("", ())


class NewStart(NamedTuple):
    """A start that the cycle decided, before its guaranteed part is known."""

    job: QueuedJob
    team: int
    order: int
    place: Place


class InUse(NamedTuple):
    """The use at and below each node after the plan, and its protected part, in milli-GPU.

    It includes starting and stopping attempts, but no claims.
    """

    mgpu: Sequence[int]
    protected_mgpu: Sequence[int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The guaranteed part of every start, and of every attempt where it changed."""

    guaranteed_mgpu: Mapping[str, int]
    classed: tuple[Classed, ...]


def outcome(pool: Pool, starts: Sequence[NewStart]) -> Outcome:
    """Return the guaranteed parts of all attempts and starts after the plan.

    In each team the protected jobs are guaranteed whole. The rest of G goes to the borrowed ones in
    the order of protection, and then to stopping attempts, in part if necessary. So the parts sum
    to min(use, G).
    """
    tree, guaranteed, holdings = pool.tree, pool.quota.guaranteed, pool.holdings
    in_use = holdings.direct.copy()
    for start in starts:
        in_use[start.team] += start.job.mgpu
    changed = {start.team for start in starts} | {one.team for one in pool.stopped}
    known = holdings.at_rest - changed
    # A team that uses no more than its guarantee is guaranteed entirely.
    over = {
        team
        for team, (mgpu, most) in enumerate(zip(in_use, guaranteed, strict=True))
        if mgpu > most and team not in known
    }
    parts = _parts(pool, starts, over)
    unsettled = {team: those for team, those in holdings.unsettled.items() if team not in known}
    suspects = {one for those in unsettled.values() for one in those.values()}
    suspects.update(pool.stopped)
    suspects.update([what for what in parts if isinstance(what, Holding)])
    found = [
        (one, part)
        for one in suspects
        if (part := 0 if one.team == ROOT else parts.get(one, one.mgpu)) != one.run.guaranteed_mgpu
    ]
    # For a team with nodes below it, the jobs of these count too.
    holdings.at_rest |= over.union(unsettled) - changed - tree.children.keys()
    holdings.at_rest -= {one.team for one, _ in found}
    classed = [Classed(one.run.attempt, part) for one, part in found]
    return Outcome(
        {start.job.id: parts.get(i, start.job.mgpu) for i, start in enumerate(starts)},
        tuple(sorted(classed, key=attrgetter("attempt"))),
    )


def part_of(pool: Pool, starts: Sequence[NewStart], job: QueuedJob) -> int:
    """Return how much of a waiting `job` would be guaranteed if it started now.

    `starts` and all jobs with claims count as running too.
    """
    team = pool.tree.index.get(job.team, ROOT)
    if team == ROOT:
        return 0
    claimed = [(one.job, one.team) for one in pool.earmarks.values() if one.job.id != job.id]
    everybody = [*starts]
    for one, its_team in (*claimed, (job, team)):
        order = pool.config.priority(one.priority_class).order
        everybody.append(NewStart(one, its_team, order, _SOMEWHERE))
    new_mgpu = sum([start.job.mgpu for start in everybody if start.team == team])
    if pool.holdings.direct[team] + new_mgpu <= pool.quota.guaranteed[team]:
        return job.mgpu
    return _parts(pool, everybody, {team}).get(len(everybody) - 1, job.mgpu)


def _parts(pool: Pool, starts: Sequence[NewStart], over: Collection[int]) -> dict[Hashable, int]:
    """Return the guaranteed parts of unprotected jobs after the plan.

    These are jobs of the teams in `over`, which exceed their guarantee. A start is identified by
    its index in `starts`.
    """
    tree, guaranteed, holdings = pool.tree, pool.quota.guaranteed, pool.holdings
    going: dict[int, list[Holding]] = {}
    for holding in (*holdings.going.values(), *pool.stopped):
        if holding.team != ROOT:
            going.setdefault(holding.team, []).append(holding)
    teams = _teams_after(pool, starts, over)
    after = None if tree.children.keys().isdisjoint(over) else _protection_after(pool, starts)
    parts: dict[Hashable, int] = {}
    for team in over:
        own, left = teams.get(team), guaranteed[team]
        behind: list[Contender] = []
        if own is not None and (after is None or team not in tree.children):
            _, mgpu, behind = own.fitted(left)
            left -= mgpu
        elif own is not None and after is not None:
            behind = sorted(job for job in after.unprotected.get(team, ()) if job.team == team)
            left += sum([job.mgpu for job in behind]) - own.mgpu
        if team in going:
            stopped = sorted(going[team], key=attrgetter("protection_key"))
            behind = [*behind, *[one.contender() for one in stopped]]
        for job in behind:
            mgpu = job.mgpu
            parts[job.what] = part = mgpu if mgpu < left else left
            left -= part
    return parts


def _protection_after(pool: Pool, starts: Sequence[NewStart]) -> Protection:
    """Return the classes of all attempts after the plan."""
    teams = _teams_after(pool, starts, range(len(pool.tree.ids)))
    changed = {start.team for start in starts} | {one.team for one in pool.stopped}
    protection = pool.protection.copy()
    protection.redo(teams, changed.union(pool.claimants))
    return protection


def _teams_after(
    pool: Pool, starts: Sequence[NewStart], changing: Container[int]
) -> Mapping[int, TeamJobs]:
    """Return the jobs by team: for the `changing` teams after the plan, for the others before it.

    A start is identified by its index in `starts`.
    """
    stopped = [one for one in pool.stopped if one.team in changing]
    new = [(i, start) for i, start in enumerate(starts) if start.team in changing]
    changed = {one.team for one in stopped} | {start.team for _, start in new}
    teams = with_changed(pool.holdings.teams, changed)
    for holding in stopped:
        teams[holding.team].remove(holding.protection_key)
    for i, start in new:
        job = start.job
        one = Contender(-start.order, pool.taken_at, job.id, "", start.team, job.mgpu, i)
        teams[start.team].add(one)
    return teams


def starts_of(new: Iterable[NewStart], guaranteed_mgpu: Mapping[str, int]) -> list[Start]:
    """Return the starts as the plan contains them; the guaranteed part is 0 where none is given."""
    return [
        Start(
            start.job.id,
            start.place.cluster,
            tuple([Slot(node, start.job.mgpu_per_node) for node in start.place.nodes]),
            guaranteed_mgpu.get(start.job.id, 0),
            start.job.pool if start.job.others else None,
            names_on(start.place.cluster, start.job.closed_nodes),
        )
        for start in new
    ]


def in_use_after(pool: Pool, starts: Sequence[NewStart]) -> InUse:
    """Return the use of every node after the plan."""
    in_use = pool.holdings.direct.copy()
    for start in starts:
        in_use[start.team] += start.job.mgpu
    _sum_up(pool.tree, in_use)
    return InUse(in_use, _protection_after(pool, starts).taken.used_mgpu)


def node_use(pool: Pool, used: InUse, waiting_mgpu: Mapping[int, int]) -> tuple[NodeUse, ...]:
    """Return the state of every node after the plan.

    `used` is the use after it; `waiting_mgpu` is still requested, by team.
    """
    tree, quota = pool.tree, pool.quota
    in_use, protected = used
    waiting = [0] * len(in_use)
    for team, mgpu in waiting_mgpu.items():
        waiting[team] += mgpu
    _sum_up(tree, waiting)
    lent = lent_out(tree, quota.guaranteed, _lendable(pool), in_use, pool.now.capacity)
    available = pool.available()
    return tuple(
        NodeUse(
            node=name,
            pool=pool.name,
            in_use_mgpu=in_use[i],
            protected_mgpu=protected[i],
            borrowed_mgpu=max(0, in_use[i] - quota.guaranteed[i]),
            lent_mgpu=lent[i],
            available_mgpu=available[i],
            waiting_mgpu=waiting[i],
        )
        for name, i in sorted(tree.index.items())
        if quota.has_row[i] or in_use[i] or waiting[i]
    )


def _sum_up(tree: Tree, amounts: list[int]) -> None:
    """Add every node's amount to its parent's, from the leaves up."""
    for node in range(len(amounts) - 1, -1, -1):
        parent = tree.parents[node]
        if parent != ROOT:
            amounts[parent] += amounts[node]


def _lendable(pool: Pool) -> list[int]:
    """Return the most of its guarantee that each node lends."""
    quota = pool.quota
    return [g - unlent for g, unlent in zip(quota.guaranteed, quota.unlent, strict=True)]


def lent_out(
    tree: Tree,
    guaranteed: Sequence[int],
    lendable: Sequence[int],
    in_use: Sequence[int],
    capacity: int,
) -> list[int]:
    """Return how much of each node's idle guarantee is used outside it.

    It is computed from the root down. The use of children above their guarantees, and what the node
    itself lends, comes first from its reserve. That is G less its children's G; at the root, the
    capacity without a guarantee. The rest comes from its idle children, in proportion to what each
    can lend, by largest remainder.
    """
    lent = [0] * len(guaranteed)
    # Parents come first, as a node's number is above its parent's.
    for parent, below in sorted(tree.children.items()):
        if parent == ROOT:
            drawn, reserve = 0, capacity
        else:
            drawn, reserve = lent[parent], guaranteed[parent]
        for node, share in lent_below(
            below, guaranteed, lendable, in_use, drawn=drawn, reserve=reserve
        ).items():
            lent[node] = share
    return lent


def lent_below(
    below: Iterable[int],
    guaranteed: Sequence[int],
    lendable: Sequence[int],
    in_use: Sequence[int],
    *,
    drawn: int,
    reserve: int,
) -> dict[int, int]:
    """Return how much each of the children `below` of a node lends.

    `drawn` is what the node itself lends. `reserve` is its guarantee, or at the root the capacity;
    that of the children is subtracted here.
    """
    spare: dict[int, int] = {}
    for node in below:
        reserve -= guaranteed[node]
        idle = guaranteed[node] - in_use[node]
        drawn += max(0, -idle)
        if idle > 0 and lendable[node] > 0:
            spare[node] = min(idle, lendable[node])
    drawn = min(drawn - max(0, min(reserve, drawn)), sum(spare.values()))
    if drawn <= 0:
        return {}
    # Use whole GPUs where all amounts are whole, so that pages do not show thirds of one.
    is_whole = all(mgpu % MGPU_PER_GPU == 0 for mgpu in (drawn, *spare.values()))
    unit = MGPU_PER_GPU if is_whole else 1
    shares = largest_remainder(drawn // unit, spare, out_of=sum(spare.values()))
    return {node: share * unit for node, share in shares.items()}
