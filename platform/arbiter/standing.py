"""How the tree stands after the plan: use, what is guaranteed of it, what is lent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from arbiter.decisions import Classed, NodeUse, Start
from arbiter.placement import Place
from arbiter.pool import Pool
from arbiter.protection import protect
from arbiter.quota_tree import ROOT, Tree
from arbiter.snapshot import QueuedJob, Slot
from primitives.units import MGPU_PER_GPU, largest_remainder


@dataclass(frozen=True, slots=True)
class NewStart:
    """A start that the cycle decided, before its guaranteed part is known."""

    job: QueuedJob
    team: int
    order: int
    place: Place


@dataclass(frozen=True, slots=True)
class Outcome:
    """The guaranteed part of every start, of every attempt where it changed, and the use."""

    guaranteed_mgpu: Mapping[str, int]
    classed: tuple[Classed, ...]
    use: tuple[NodeUse, ...]


def outcome(pool: Pool, starts: Sequence[NewStart], waiting_mgpu: Mapping[int, int]) -> Outcome:
    """Class all that runs after the plan and sum it up; `waiting_mgpu`: still queued, by team.

    In each team the protected jobs are guaranteed whole. What is left of G goes, in part where
    it must, to the borrowed ones in the order of protection and then to those that are being
    stopped, so that the parts sum to min(use, G).
    """
    tree, guaranteed = pool.tree, pool.quota.guaranteed
    entries: list[tuple[tuple[int, int, str, str], int, int, int]] = []
    going: list[int] = []
    for i, holding in enumerate(pool.holdings):
        if holding.team == ROOT:
            continue
        if holding.is_going:
            going.append(i)
        else:
            run = holding.run
            key = (-holding.order, run.started_at, run.job, run.attempt)
            entries.append((key, holding.team, holding.mgpu, i))
    for i, start in enumerate(starts):
        key = (-start.order, pool.taken_at, start.job.id, "")
        entries.append((key, start.team, start.job.mgpu, -1 - i))
    entries.sort()
    protection = protect(tree, guaranteed, [(team, mgpu) for _, team, mgpu, _ in entries])

    left = list(guaranteed)
    parts: dict[int, int] = {}
    borrowed: list[tuple[int, int, int]] = []
    for (_, team, mgpu, i), levels in zip(entries, protection.levels, strict=True):
        if levels >> tree.depths[team] & 1:
            parts[i] = mgpu
            left[team] -= mgpu
        else:
            borrowed.append((team, mgpu, i))
    borrowed.extend((pool.holdings[i].team, pool.holdings[i].mgpu, i) for i in going)
    for team, mgpu, i in borrowed:
        parts[i] = min(mgpu, left[team])
        left[team] -= parts[i]

    classed = tuple(
        Classed(holding.run.attempt, parts.get(i, 0))
        for i, holding in enumerate(pool.holdings)
        if holding.run.guaranteed_mgpu != parts.get(i, 0)
    )
    return Outcome(
        {start.job.id: parts[-1 - i] for i, start in enumerate(starts)},
        tuple(sorted(classed, key=lambda one: one.attempt)),
        _node_use(pool, starts, protection.used_mgpu, waiting_mgpu),
    )


def starts_of(new: Iterable[NewStart], guaranteed_mgpu: Mapping[str, int]) -> list[Start]:
    """The starts as the plan tells them."""
    return [
        Start(
            start.job.id,
            start.place.cluster,
            tuple(Slot(node, start.job.mgpu_per_node) for node in start.place.nodes),
            guaranteed_mgpu[start.job.id],
        )
        for start in new
    ]


def _node_use(
    pool: Pool,
    starts: Sequence[NewStart],
    protected: Sequence[int],
    waiting_mgpu: Mapping[int, int],
) -> tuple[NodeUse, ...]:
    tree, quota = pool.tree, pool.quota
    in_use = pool.in_use.copy()
    for start in starts:
        in_use[start.team] += start.job.mgpu
    waiting = [0] * len(in_use)
    for team, mgpu in waiting_mgpu.items():
        waiting[team] += mgpu
    _sum_up(tree, in_use)
    _sum_up(tree, waiting)
    lent = lent_out(tree, quota.guaranteed, _lendable(pool), in_use, pool.now.capacity)
    return tuple(
        NodeUse(
            node=name,
            pool=pool.name,
            in_use_mgpu=in_use[i],
            protected_mgpu=protected[i],
            borrowed_mgpu=max(0, in_use[i] - quota.guaranteed[i]),
            lent_mgpu=lent[i],
            available_mgpu=pool.available(i),
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
    """How much of its guarantee each node lends at most."""
    quota = pool.quota
    return [g - kept for g, kept in zip(quota.guaranteed, quota.kept, strict=True)]


def lent_out(
    tree: Tree,
    guaranteed: Sequence[int],
    lendable: Sequence[int],
    in_use: Sequence[int],
    capacity: int,
) -> list[int]:
    """How much of each node's idle guarantee somebody outside it uses.

    From the root down: what the children of a node use above their guarantees, and what the
    node itself lends, comes first from its reserve (G less its children's G; at the root,
    the capacity nobody is guaranteed) and then from its idle children in proportion to
    what each can lend, by largest remainder.
    """
    size = len(guaranteed)
    children: dict[int, list[int]] = {}
    for node in range(size):
        children.setdefault(tree.parents[node], []).append(node)
    lent = [0] * size
    for parent in range(ROOT, size):
        below = children.get(parent)
        if not below:
            continue
        if parent == ROOT:
            drawn, reserve = 0, capacity
        else:
            drawn, reserve = lent[parent], guaranteed[parent]
        spare: dict[int, int] = {}
        for node in below:
            reserve -= guaranteed[node]
            idle = guaranteed[node] - in_use[node]
            drawn += max(0, -idle)
            if idle > 0 and lendable[node] > 0:
                spare[node] = min(idle, lendable[node])
        drawn = min(drawn - max(0, min(reserve, drawn)), sum(spare.values()))
        if drawn > 0:
            # In whole GPUs where all amounts are whole, so that nobody reads of a third of one.
            is_whole = all(mgpu % MGPU_PER_GPU == 0 for mgpu in (drawn, *spare.values()))
            unit = MGPU_PER_GPU if is_whole else 1
            shares = largest_remainder(drawn // unit, spare, out_of=sum(spare.values()))
            for node, share in shares.items():
                lent[node] = share * unit
    return lent
