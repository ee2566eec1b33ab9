"""When a job can start at the latest, from the time limits of what runs."""

from __future__ import annotations

from arbiter.placement import Shape
from arbiter.pool import Pool


def free_by_time_limits(pool: Pool, shape: Shape) -> int | None:
    """The epoch second by which time limits alone have freed a place for `shape`.

    None when what runs without a limit may keep it waiting for ever. It holds for a job that
    nobody comes before; quota is not looked at, nor what is being stopped, which may be
    claimed.
    """
    ends = []
    for holding in pool.holdings:
        run = holding.run
        if run.time_limit_s is None or holding.is_going or run.cluster not in pool.free.free:
            continue
        end = max(run.started_at + run.time_limit_s, pool.taken_at)
        ends.append((end, run.attempt, holding))
    ends.sort(key=lambda entry: entry[:2])
    clusters = set(pool.free.clusters(shape.clusters))
    fitting = {cluster: pool.free.count(cluster, shape.mgpu, shape.kinds) for cluster in clusters}
    extra: dict[tuple[str, str], int] = {}
    for end, _, holding in ends:
        cluster = holding.run.cluster
        if cluster not in clusters:
            continue
        free = pool.free.free[cluster]
        for slot in holding.run.slots:
            if slot.node not in free or not pool.free.is_of(shape.kinds, cluster, slot.node):
                continue
            before = free[slot.node] + extra.get((cluster, slot.node), 0)
            extra[cluster, slot.node] = extra.get((cluster, slot.node), 0) + slot.mgpu
            fitting[cluster] += before < shape.mgpu <= before + slot.mgpu
        if fitting[cluster] >= shape.node_count:
            return end
    return None
