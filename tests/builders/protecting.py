"""Classing jobs that are given as team and milli-GPU, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arbiter.quota.entitlement import Contender, Guarantees, Protection, TeamJobs
from arbiter.quota.tree import PoolQuota, Tree


class Found(NamedTuple):
    """`levels[i]`: the nodes on the path of job i at which it is protected, as a bit per depth."""

    taken: Guarantees
    levels: list[int]


def protect(tree: Tree, quota: PoolQuota, jobs: Sequence[tuple[int, int]]) -> Found:
    teams: dict[int, TeamJobs] = {}
    for at, (team, mgpu) in enumerate(jobs):
        teams.setdefault(team, TeamJobs()).add(Contender(0, at, "", "", team, mgpu, at))
    found = Protection.of_nobody(tree, quota)
    found.redo(teams, teams)
    levels = [(1 << len(tree.paths[team])) - 1 for team, _ in jobs]
    for node, others in found.unprotected.items():
        for job in others:
            assert isinstance(job.what, int)
            levels[job.what] &= ~(1 << tree.depths[node])
    return Found(found.taken, levels)
