"""Records of cycles that decided something, so that they can be inspected and replayed.

A record is written after the plan and the reasons are committed, so no start waits for it. A crash
in between loses the record of that cycle. Cycles that stopped jobs are rarer than cycles that only
started jobs, and are asked about for longer. So each of the two kinds has its own full set of
bounds.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection
from uuid_utils.compat import uuid7

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from arbiter.replay.record import Record, UnreadableRecord, from_document, to_document
from arbiter.replay.replay import Replayed
from jobs.models import Cycle
from primitives.errors import Conflict

#: The number of records written between two checks of the bounds.
FORGET_EVERY = 50
#: The fastest level; a record is at most a tenth larger than with the highest level.
_LEVEL = 1
#: The most bytes to which a record is unpacked.
_UNPACKED_MAX = 1 << 30


def decides(plan: Plan) -> bool:
    """Return whether the plan starts, stops or claims anything, or drops a claim."""
    return bool(plan.starts or plan.reclaims or plan.dropped_claims)


class Recorder:
    """Write the records of one leader's cycles, and delete old ones from time to time."""

    def __init__(self) -> None:
        self._left = 0

    def record(
        self, snapshot: Snapshot, policy: Policy, plan: Plan, *, epoch: int, now: datetime
    ) -> None:
        """Store a cycle that decided something. In the caller's transaction."""
        record = Record(settings.PRODUCT_VERSION, policy, snapshot, plan)
        body = pack(record)
        cycle = Cycle.objects.create(
            id=uuid7(),
            decided_at=now,
            epoch=epoch,
            version=settings.PRODUCT_VERSION,
            started=_ids(start.job for start in plan.starts),
            claimed=_ids(reclaim.job for reclaim in plan.reclaims),
            stopped=_ids(victim.job for reclaim in plan.reclaims for victim in reclaim.victims),
            dropped=_ids(plan.dropped_claims),
            size=len(body),
            body=body,
        )
        write_decisions(cycle, record)
        if self._left == 0:
            forget_old_cycles(now=now)
            self._left = FORGET_EVERY
        self._left -= 1


def _ids(jobs: Iterable[str]) -> list[UUID]:
    return [UUID(job) for job in jobs]


def pack(record: Record) -> bytes:
    """Return `record` in its stored form."""
    return zlib.compress(orjson.dumps(to_document(record)), _LEVEL)


def unpack(body: bytes) -> Record:
    """Return the record in `body`, packed by this version or an earlier one.

    Raises Conflict, with a sentence, for a record that is damaged or was written by a later
    version.
    """
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(body, _UNPACKED_MAX)
        if not unpacker.eof:
            raise UnreadableRecord("it is cut off or too large")
        return from_document(orjson.loads(text))
    except (zlib.error, ValueError) as error:
        raise Conflict(
            f"The record of this cycle cannot be read: it is damaged ({error})."
        ) from None
    except UnreadableRecord as error:
        raise Conflict(f"The record of this cycle cannot be read: {error}.") from None


def forget_old_cycles(*, now: datetime) -> int:
    """Delete the oldest records beyond the bounds in count, bytes or age; return their number."""
    with connection.cursor() as cursor:
        cursor.execute(
            _FORGET,
            [
                settings.CYCLES_KEPT,
                settings.CYCLES_KEPT_MIB << 20,
                now - timedelta(days=settings.CYCLES_KEPT_DAYS),
            ],
        )
        return int(cursor.rowcount)


_FORGET = """
WITH old AS (
    SELECT id FROM (
        SELECT id, decided_at, row_number() OVER newest AS place, sum(size) OVER newest AS bytes
        FROM jobs_cycle
        WINDOW newest AS (
            PARTITION BY cardinality(stopped) > 0 ORDER BY decided_at DESC, id DESC
            ROWS UNBOUNDED PRECEDING
        )
    ) ranked
    WHERE place > %s OR bytes > %s OR decided_at < %s
), lines AS (
    DELETE FROM jobs_decision WHERE cycle_id IN (SELECT id FROM old)
)
DELETE FROM jobs_cycle WHERE id IN (SELECT id FROM old)
"""


def write_decisions(cycle: Cycle, record: Record) -> None:
    """Store one line for each decision of the cycle. One statement."""
    plan = record.plan
    stopped = (
        [stopped for one in Replayed(record).decided() for stopped in one.stopped]
        if plan.reclaims
        else []
    )
    with connection.cursor() as cursor:
        cursor.execute(
            _WRITE_LINES,
            {
                "cycle": cycle.pk,
                "at": cycle.decided_at,
                "started": cycle.started,
                "claimed": cycle.claimed,
                "dropped": cycle.dropped,
                "attempts": [UUID(one.victim.attempt) for one in stopped],
                "guaranteed": [one.guaranteed_mgpu for one in stopped],
                "rights": [one.right.value for one in stopped],
                "unsaved_s": [one.unsaved_s for one in stopped],
            },
        )


# A planned decision that was not carried out has no attempt, claim or notice with this time, and
# gets no line.
_WRITE_LINES = """
INSERT INTO jobs_decision (
    cycle_id, at, kind, job_id, team_id, pool_id, mgpu, guaranteed_mgpu,
    beneficiary_id, "right", unsaved_s, grace_until, victims, victims_mgpu)
SELECT %(cycle)s, %(at)s, done.* FROM (
    SELECT 'started', j.id, j.team_id, j.pool_id, a.mgpu, a.guaranteed_mgpu,
           NULL::uuid, NULL, NULL::bigint, NULL::timestamptz, 0, 0::bigint
    FROM jobs_job j
    JOIN jobs_attempt a ON a.job_id = j.id AND a.granted_at = %(at)s
    WHERE j.id = ANY(%(started)s::uuid[])
    UNION ALL
    SELECT 'claimed', j.id, j.team_id, coalesce(r.pool_id, j.pool_id),
           (SELECT sum((slot ->> 'mgpu')::bigint) FROM jsonb_array_elements(r.slots) slot), NULL,
           NULL, NULL, NULL, r.grace_until, v.jobs, v.mgpu
    FROM jobs_reclaim r
    JOIN jobs_job j ON j.id = r.job_id
    CROSS JOIN LATERAL (
        SELECT count(*)::int AS jobs, coalesce(sum(a.mgpu), 0)::bigint AS mgpu
        FROM jobs_attempt a WHERE a.reclaim_id = r.id
    ) v
    WHERE r.job_id = ANY(%(claimed)s::uuid[]) AND r.created_at = %(at)s
    UNION ALL
    SELECT 'stopped', j.id, j.team_id, j.pool_id, a.mgpu, told.guaranteed,
           r.job_id, told."right", told.unsaved_s, a.grace_until, 0, 0
    FROM unnest(%(attempts)s::uuid[], %(guaranteed)s::bigint[], %(rights)s::text[],
                %(unsaved_s)s::bigint[]) AS told (attempt, guaranteed, "right", unsaved_s)
    JOIN jobs_attempt a ON a.id = told.attempt AND a.notice_at = %(at)s
    JOIN jobs_job j ON j.id = a.job_id
    JOIN jobs_reclaim r ON r.id = a.reclaim_id
    UNION ALL
    SELECT 'claim_dropped', j.id, j.team_id, coalesce(r.pool_id, j.pool_id),
           (SELECT sum((slot ->> 'mgpu')::bigint) FROM jsonb_array_elements(r.slots) slot), NULL,
           NULL, NULL, NULL, NULL, 0, 0
    FROM jobs_reclaim r
    JOIN jobs_job j ON j.id = r.job_id
    WHERE r.job_id = ANY(%(dropped)s::uuid[]) AND r.closed_at = %(at)s
) done
"""
