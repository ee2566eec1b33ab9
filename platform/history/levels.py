"""Changes of use, waiting GPUs, guarantees and capacity of a pool, for `history.integrals`.

Use comes from usage segments, guarantees from the history of quotas, capacity from the observation
of clusters, and waiting GPUs from the times of jobs. A node that was moved has one place for each
of its paths, and counts for the one of that time. Other organizations count as a whole: their use
and their guarantees decide how much this one lends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from uuid import UUID

from billing.usage_sql import MGPU_BY_CLASS, rows_of, used_in_sql
from clusters.models import Pool
from history.integrals import NO_PARENT, Change, Level
from quotas.guarantees import guarantee_spans_sql
from tenants.models import Node, NodeKind
from tenants.places import Place, places_of
from webapi.row_access import all_rows


@dataclass(frozen=True, slots=True)
class TreeOverTime:
    """The places of an organization's nodes and the other organizations, parents first.

    `paths` are with their slash. `places` are by node the numbers and times of its places, in epoch
    seconds.
    """

    organization_id: UUID
    paths: Sequence[str]
    parents: Sequence[int]
    places: Mapping[UUID, Sequence[tuple[int, int, int]]]

    @property
    def root(self) -> str:
        """Return the path of the organization."""
        return self.paths[self.places[self.organization_id][0][0]]

    def name_of(self, place: int) -> str:
        """Return the path of a place, without the last slash."""
        return self.paths[place].rstrip("/")

    def places_at(self, at_s: int) -> dict[UUID, int]:
        """Return the number of each node's place at a moment, in epoch seconds."""
        return {
            node: number
            for node, places in self.places.items()
            for number, since_s, until_s in places
            if since_s <= at_s < until_s
        }

    def spans(self, node: UUID, start_s: int, end_s: int) -> Iterator[tuple[int, int, int]]:
        """Yield the places of a node in a time: number, start and end."""
        for number, since_s, until_s in self.places.get(node, ()):
            if since_s < end_s and until_s > start_s:
                yield number, max(since_s, start_s), min(until_s, end_s)


@all_rows()
def tree_between(organization: Node, start: datetime, end: datetime) -> TreeOverTime:
    """Return the tree of an organization during `[start, end)`. Four queries at most.

    The other organizations are in it, without their nodes: they borrow and lend, too.
    """
    own = Node.objects.filter(organization=organization).values_list("pk", flat=True)
    others = Node.objects.filter(kind=NodeKind.ORGANIZATION).exclude(pk=organization.pk)
    found = [
        place
        for place in chain(places_of(list(own)), (Place(each, None, None) for each in others))
        if (place.start is None or place.start < end) and (place.end is None or place.end > start)
    ]
    paths = sorted({place.node.path for place in found})
    numbers = {path: number for number, path in enumerate(paths)}
    places: dict[UUID, list[tuple[int, int, int]]] = defaultdict(list)
    for place in found:
        since_s = _seconds(start if place.start is None else max(place.start, start))
        until_s = _seconds(end if place.end is None else min(place.end, end))
        places[place.node.pk].append((numbers[place.node.path], since_s, until_s))
    parents = [numbers.get(_parent(path), NO_PARENT) for path in paths]
    return TreeOverTime(organization.pk, paths, parents, places)


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0] + "/"


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def changes_between(
    tree: TreeOverTime, pool: Pool, start: datetime, end: datetime
) -> Iterator[Change]:
    """Yield all changes of levels in `[start, end)`. Five queries.

    Attempts that run and jobs that wait count until `end`, which must not be in the future.
    """
    parameters = {
        "organization": tree.organization_id,
        "pool": pool.pk,
        "start": start,
        "end": end,
        "start_s": _seconds(start),
        "end_s": _seconds(end),
    }
    for node, first_s, last_s, *mgpu in rows_of(_USE, parameters):
        for number, since_s, until_s in tree.spans(node, first_s, last_s):
            for level, amount in zip(_CLASSES, mgpu, strict=True):
                if amount:
                    yield Change(since_s, number, level, amount)
                    yield Change(until_s, number, level, -amount)
    for node, first_s, last_s, amount in rows_of(_WAITING, parameters):
        for number, since_s, until_s in tree.spans(node, first_s, last_s):
            yield Change(since_s, number, Level.WAITING, amount)
            yield Change(until_s, number, Level.WAITING, -amount)
    for node, first_s, last_s, guaranteed, lendable in rows_of(_GUARANTEES, parameters):
        for number, since_s, until_s in tree.spans(node, first_s, last_s):
            yield Change(since_s, number, Level.GUARANTEE, guaranteed, lendable)
            yield Change(until_s, number, Level.GUARANTEE, -guaranteed, -lendable)
    for first_s, last_s, amount in rows_of(_CAPACITY, parameters):
        yield Change(first_s, None, Level.GUARANTEE, amount)
        yield Change(last_s, None, Level.GUARANTEE, -amount)


_CLASSES = (Level.GUARANTEED, Level.BORROWED, Level.UNPAID, Level.FAULT)


def _clipped(start: str, end: str) -> str:
    return f"""
    GREATEST(floor(date_part('epoch', {start}))::bigint, %(start_s)s),
    LEAST(floor(date_part('epoch', {end}))::bigint, %(end_s)s)
"""


_USE = f"""
SELECT CASE WHEN a.organization_id = %(organization)s THEN a.team_id ELSE a.organization_id END,
       {_clipped("s.start", 's."end"')}, {", ".join(MGPU_BY_CLASS.values())}
FROM billing_usagesegment s
JOIN billing_meteredattempt a ON a.id = s.attempt_id
WHERE {used_in_sql("%(start)s", "%(end)s")} AND a.pool_id = %(pool)s
"""  # noqa: S608 - made of constants only

#: The times in which a job asked for GPUs and had none: until its first attempt, between attempts,
#: and since the last one. A job does not wait before its `begin_at`, nor while it is held now.
_WAITING = f"""
WITH asking AS MATERIALIZED (
    SELECT j.id, j.team_id, j.mgpu_per_node * j.node_count AS mgpu, j.state, j.ended_at,
           GREATEST(j.submitted_at, j.begin_at) AS since
    FROM jobs_job j
    WHERE j.organization_id = %(organization)s AND j.pool_id = %(pool)s
      AND j.submitted_at < %(end)s AND (j.ended_at IS NULL OR j.ended_at > %(start)s)
),
waits AS (
    SELECT w.team_id, w.mgpu, w.since,
           (SELECT a.granted_at FROM jobs_attempt a WHERE a.job_id = w.id
            ORDER BY a.number LIMIT 1) AS until, w.id, w.state, w.ended_at, true AS is_first
    FROM asking w
    UNION ALL
    SELECT w.team_id, w.mgpu, a.released_at, a.next_at, w.id, w.state, w.ended_at, false
    FROM asking w CROSS JOIN LATERAL (
        SELECT a.released_at, LEAD(a.granted_at) OVER (ORDER BY a.number) AS next_at
        FROM jobs_attempt a WHERE a.job_id = w.id
    ) AS a
    WHERE a.released_at IS NOT NULL
),
spans AS (
    SELECT team_id, mgpu, since,
           COALESCE(until, ended_at, CASE WHEN state = 'queued' THEN %(end)s::timestamptz
                                          ELSE since END) AS until
    FROM waits
)
SELECT team_id, {_clipped("since", "until")}, mgpu
FROM spans
WHERE since < %(end)s AND until > %(start)s AND until > since
"""  # noqa: S608 - made of constants only

_OF_POOL = (
    "q.pool_id = %(pool)s AND (n.organization_id = %(organization)s OR n.kind = 'organization')"
)
_GUARANTEES = f"""
WITH {guarantee_spans_sql(_OF_POOL, "%(start)s")}
SELECT team_id, GREATEST(start_s, %(start_s)s), LEAST(end_s, %(end_s)s), guaranteed_mgpu,
       lendable_mgpu
FROM guarantee_spans
WHERE start_s < %(end_s)s AND end_s > %(start_s)s AND guaranteed_mgpu > 0
"""  # noqa: S608 - made of constants only

_CAPACITY = f"""
SELECT {_clipped("c.start", 'c."end"')}, c.capacity_mgpu
FROM clusters_capacitysegment c
WHERE c.pool_id = %(pool)s AND c.start < %(end)s AND (c."end" > %(start)s OR c."end" IS NULL)
"""  # noqa: S608 - made of constants only
