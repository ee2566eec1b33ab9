"""Jobs beyond the caps of their users (R-110).

A cap withholds jobs from the arbiter. A job is offered if it fits into its user's caps, together
with what the user's jobs in the team use and with the jobs offered before it. So the starts of one
cycle never exceed a cap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from jobs.queue.budget_stops import WantedJob
from jobs.queue.withholding import USER_CAP_REACHED, CapSubject, Withheld
from primitives.units import DeviceKind
from quotas.user_caps import Cap, caps_of

#: A user in a team.
Member = tuple[UUID, UUID]


class CapPool(NamedTuple):
    """A pool, as far as caps and their sentences need it."""

    name: str
    device: DeviceKind


class Asking(NamedTuple):
    """A queued job: its pools in the order of preference, and the most that it may start with.

    A job that can never start takes no room.
    """

    job: str
    pools: tuple[UUID, ...]
    mgpu: int
    takes_room: bool = True


@dataclass(slots=True)
class CapUse:
    """Amounts that the jobs of a member use, by pool, and are offered, by the pool of a cap."""

    caps: tuple[Cap, ...]
    team_path: str
    pools: Mapping[UUID, CapPool]
    in_use: dict[UUID, int] = field(default_factory=lambda: defaultdict(int))
    offered: dict[UUID | None, int] = field(default_factory=lambda: defaultdict(int))

    def take(self, asking: Asking) -> Withheld | None:
        """Take the room of a job, or return how a cap stops it.

        A job that accepts several pools may start in any of them, so it must fit in each.
        """
        binding = [cap for cap in self.caps if any(self._counts(cap, one) for one in asking.pools)]
        for cap in binding:
            if asking.mgpu + self._used(cap) + self.offered[cap.pool] > cap.mgpu:
                return self._refusal(cap, asking)
        if asking.takes_room:
            for cap in binding:
                self.offered[cap.pool] += asking.mgpu
        return None

    def _counts(self, cap: Cap, pool: UUID) -> bool:
        if cap.pool is not None:
            return cap.pool == pool
        return self.pools[pool].device is DeviceKind.GPU

    def _used(self, cap: Cap) -> int:
        return sum(mgpu for pool, mgpu in self.in_use.items() if self._counts(cap, pool))

    def _refusal(self, cap: Cap, asking: Asking) -> Withheld:
        numbers = {
            "need_mgpu": asking.mgpu,
            "user_cap_mgpu": cap.mgpu,
            "user_in_use_mgpu": self._used(cap),
        }
        where = None if cap.pool is None else self.pools[cap.pool].name
        kind = DeviceKind.GPU if cap.pool is None else self.pools[cap.pool].device
        subject = CapSubject(self.team_path, where, kind)
        return Withheld(asking.job, USER_CAP_REACHED, numbers, cap=subject)


def beyond_user_caps(
    left_out: Collection[str], wanted: WantedJob | None = None
) -> tuple[Withheld, ...]:
    """Return the queued jobs beyond the caps of their users, as of the caller's transaction.

    `left_out` are the jobs that are withheld for other reasons. `wanted` is taken for queued. One
    query without caps.
    """
    uses = _cap_uses(None if wanted is None else (wanted.team, wanted.shape.user))
    return tuple(_beyond(uses, left_out, wanted)) if uses else ()


def _beyond(
    uses: Mapping[Member, CapUse], left_out: Collection[str], wanted: WantedJob | None
) -> Iterator[Withheld]:
    """Yield the jobs that do not fit. Jobs with a claim come first, then by priority and age."""
    for member, asking in _queued(uses, wanted):
        if asking.job not in left_out and (found := uses[member].take(asking)) is not None:
            yield found


def _cap_uses(also: Member | None) -> dict[Member, CapUse]:
    """Return the use of caps by all members with caps who have queued jobs, and by `also`."""
    with connection.cursor() as cursor:
        cursor.execute(_CAPS)
        rows: dict[UUID, list[tuple[UUID | None, UUID | None, int | None]]] = defaultdict(list)
        for team, *row in cursor.fetchall():
            rows[team].append((row[0], row[1], row[2]))
        if not rows:
            return {}
        cursor.execute("SELECT id, name, device FROM clusters_pool")
        pools = {pk: CapPool(name, DeviceKind(device)) for pk, name, device in cursor.fetchall()}
        cursor.execute(_MEMBERS, [list(rows)])
        members: list[tuple[UUID, UUID, str]] = cursor.fetchall()
        if also is not None and also[0] in rows:
            cursor.execute("SELECT path FROM tenants_node WHERE id = %s", [also[0]])
            members.append((*also, cursor.fetchone()[0]))
        found = {
            (team, user): CapUse(caps, path.rstrip("/"), pools)
            for team, user, path in members
            if (caps := caps_of(rows[team], user))
        }
        cursor.execute(_IN_USE, [[team for team, _ in found], [user for _, user in found]])
        for team, user, pool, mgpu in cursor.fetchall():
            found[team, user].in_use[pool] = int(mgpu)
    return found


def _queued(uses: Mapping[Member, CapUse], wanted: WantedJob | None) -> list[tuple[Member, Asking]]:
    """Return the queued jobs of these users in their order, and `wanted` among them."""
    found: list[tuple[tuple[bool, int, datetime, str], Member, Asking]] = []
    with connection.cursor() as cursor:
        cursor.execute(_QUEUED, [[team for team, _ in uses], [user for _, user in uses]])
        for job, team, user, pools, *rest, order, submitted_at, is_unclaimed in cursor.fetchall():
            key = (is_unclaimed, -order, submitted_at, job)
            found.append((key, (team, user), Asking(job, tuple(pools), *rest)))
    if wanted is not None and (member := (wanted.team, wanted.shape.user)) in uses:
        key = (True, -wanted.order, wanted.submitted_at, wanted.id)
        found.append((key, member, Asking(wanted.id, wanted.shape.pools, wanted.shape.mgpu)))
    found.sort(key=lambda one: one[0])
    return [(member, asking) for _, member, asking in found]


_CAPS = "SELECT team_id, user_id, pool_id, cap_mgpu FROM quotas_usercap"
_MEMBERS = """
SELECT DISTINCT j.team_id, j.user_id, n.path
FROM jobs_job j JOIN tenants_node n ON n.id = j.team_id
WHERE j.state = 'queued' AND j.team_id = ANY(%s)
"""
_IN_USE = """
SELECT j.team_id, j.user_id, j.pool_id, sum(a.mgpu)
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
JOIN unnest(%s::uuid[], %s::uuid[]) AS m (team_id, user_id)
  ON (m.team_id, m.user_id) = (j.team_id, j.user_id)
WHERE a.released_at IS NULL AND a.state <> 'ended'
GROUP BY 1, 2, 3
"""
# Jobs that wait for others are not offered anyway. They may be many.
_QUEUED = """
SELECT j.id::text, j.team_id, j.user_id,
       CASE WHEN cardinality(j.pools) > 0 THEN j.pools ELSE ARRAY[j.pool_id] END,
       j.mgpu_per_node * j.node_count, coalesce(j.explanation ->> 'code', '') <> 'never_fits',
       c."order", j.submitted_at, r.id IS NULL
FROM jobs_job j
JOIN unnest(%s::uuid[], %s::uuid[]) AS m (team_id, user_id)
  ON (m.team_id, m.user_id) = (j.team_id, j.user_id)
JOIN quotas_priorityclass c ON c.id = j.priority_class_id
LEFT JOIN jobs_reclaim r ON r.job_id = j.id AND r.closed_at IS NULL
WHERE j.state = 'queued'
  AND NOT EXISTS (SELECT FROM jobs_dependency d WHERE d.job_id = j.id AND d.closed_at IS NULL)
"""
