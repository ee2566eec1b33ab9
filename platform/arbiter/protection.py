"""Protected and borrowed jobs (semantics section 3), recomputed every cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arbiter.quota_tree import ROOT, Tree


@dataclass(frozen=True, slots=True)
class Protection:
    """`used_mgpu[x]`: what is protected at node x. `levels[i]`: the nodes on the path of job i
    at which it is protected, as a bit per depth (bit 0: its organization)."""

    used_mgpu: list[int]
    levels: list[int]


def protect(tree: Tree, guaranteed: Sequence[int], jobs: Sequence[tuple[int, int]]) -> Protection:
    """Class `jobs`, given as (team, milli-GPU) in the order priority, start time, id.

    At each node the jobs below it are taken in the order (protected one level lower first,
    then the given order) and marked protected whenever they fit whole in what is left of
    the guarantee; one that does not fit does not stop the ones behind it.
    """
    size = len(tree.ids)
    used = [0] * size
    levels = [0] * len(jobs)
    first: list[list[int]] = [[] for _ in range(size)]
    then: list[list[int]] = [[] for _ in range(size)]
    for i, (team, _) in enumerate(jobs):
        then[team].append(i)
    for node in range(size - 1, -1, -1):
        candidates = sorted(first[node]) + sorted(then[node])
        if not candidates:
            continue
        parent = tree.parents[node]
        bit = 1 << tree.depths[node]
        left = guaranteed[node]
        for i in candidates:
            mgpu = jobs[i][1]
            fits = mgpu <= left
            if fits:
                left -= mgpu
                levels[i] |= bit
            if parent != ROOT:
                (first if fits else then)[parent].append(i)
        used[node] = guaranteed[node] - left
    return Protection(used, levels)
