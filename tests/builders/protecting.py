"""Classing jobs that are given as team and milli-GPU, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arbiter import protection
from arbiter.protection import Contender, Guarantees, TeamJobs
from arbiter.quota_tree import PoolQuota, Tree


class Found(NamedTuple):
    """`levels[i]`: the nodes on the path of job i at which it is protected, as a bit per depth."""

    taken: Guarantees
    levels: list[int]


def protect(tree: Tree, quota: PoolQuota, jobs: Sequence[tuple[int, int]]) -> Found:
    teams: dict[int, TeamJobs] = {}
    for at, (team, mgpu) in enumerate(jobs):
        teams.setdefault(team, TeamJobs()).add(Contender((0, at, "", ""), team, mgpu, at))
    found = protection.protect(tree, quota, teams)
    return Found(
        found.taken,
        [
            (1 << len(tree.paths[team])) - 1 & ~found.bits(team, at)
            for at, (team, _) in enumerate(jobs)
        ],
    )
