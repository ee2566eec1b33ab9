"""Jobs behind the borrowed use of a team: on each day of a month, and at this moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection

from billing.usage_sql import used_in_sql
from clusters.models import Pool
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Permission

#: The most attempts of one day, and of the present.
ATTEMPTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Borrowing:
    """The borrowed use of an attempt that credits pay: on one day, or at this moment.

    `amount` is in weighted millionths of a GPU-second; at this moment it is that of an hour.
    `attempts` counts all attempts of the day, of which the largest are listed.
    """

    day: date
    job_id: UUID
    job_name: str
    attempt: int
    amount: int
    attempts: int


def borrowed_by_day(
    team: Node, pool: Pool, start: datetime, end: datetime, zone: ZoneInfo, *, actor: Actor
) -> tuple[Borrowing, ...]:
    """Return the attempts with paid borrowed use on each day, at most `ATTEMPTS_SHOWN` a day.

    The actor reads the jobs that the actor may see. `end` is settled already. Amounts are those of
    the meter: a team that lent in another part of the same interval paid less.
    """
    if end <= start:
        return ()
    return _read(_BY_DAY, team, pool, actor, start=start, end=end, zone=str(zone))


def borrowing_now(
    team: Node, pool: Pool, zone: ZoneInfo, now: datetime, *, actor: Actor
) -> tuple[Borrowing, ...]:
    """Return the running attempts with borrowed GPUs, at most `ATTEMPTS_SHOWN`, largest first."""
    return _read(_NOW, team, pool, actor, now=now, zone=str(zone))


def mgpu_in_use(team: Node, pool: Pool) -> int:
    """Return the milli-GPUs of all running attempts of the team."""
    with connection.cursor() as cursor:
        cursor.execute(_IN_USE, {"team": team.pk, "pool": pool.pk})
        (mgpu,) = cursor.fetchone()
    return int(mgpu)


def _read(query: str, team: Node, pool: Pool, actor: Actor, **more: Any) -> tuple[Borrowing, ...]:
    if not actor.permits(Permission.VIEW_JOBS):
        return ()
    sees_all = actor.holds(Permission.VIEW_JOBS, team.path)
    parameters = {
        "team": team.pk,
        "pool": pool.pk,
        "weight": pool.weight,
        "reader": None if sees_all else actor.user.pk,
        "most": ATTEMPTS_SHOWN,
        **more,
    }
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return tuple(
            Borrowing(day, job, name, number, int(amount), attempts)
            for day, job, name, number, amount, attempts in cursor.fetchall()
        )


_OF_TEAM = """
a.team_id = %(team)s AND a.pool_id = %(pool)s
    AND (%(reader)s::uuid IS NULL OR a.user_id = %(reader)s::uuid)
"""
#: A day begins at its own midnight, so that days of 23 and of 25 hours are exact.
_BY_DAY = f"""
WITH days AS (
    SELECT d::date AS day, GREATEST(d AT TIME ZONE %(zone)s, %(start)s) AS since,
        LEAST((d + interval '1 day') AT TIME ZONE %(zone)s, %(end)s) AS until
    FROM generate_series(
        (%(start)s AT TIME ZONE %(zone)s)::date::timestamp,
        (%(end)s AT TIME ZONE %(zone)s) - interval '1 second', interval '1 day'
    ) AS d
),
summed AS (
    SELECT d.day, a.id, a.job_id, a.job_name, a.number,
        SUM((s.borrowed_mgpu - s.unpaid_mgpu) * %(weight)s * date_part('epoch',
            LEAST(s."end", d.until) - GREATEST(s.start, d.since))::bigint
        ) AS amount
    FROM days d
    JOIN billing_usagesegment s ON s.start < d.until AND (s."end" > d.since OR s."end" IS NULL)
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    WHERE {_OF_TEAM} AND s.fault = '' AND s.borrowed_mgpu > s.unpaid_mgpu
        AND {used_in_sql("%(start)s", "%(end)s")}
    GROUP BY d.day, a.id
)
SELECT day, job_id, job_name, number, amount, attempts
FROM (
    SELECT *, count(*) OVER (PARTITION BY day) AS attempts,
        row_number() OVER (PARTITION BY day ORDER BY amount DESC, id) AS place
    FROM summed
) AS one
WHERE place <= %(most)s
ORDER BY day, place
"""  # noqa: S608 - made of constants only
_NOW = f"""
SELECT (%(now)s AT TIME ZONE %(zone)s)::date, a.job_id, a.job_name, a.number,
    s.borrowed_mgpu * %(weight)s * 3600, count(*) OVER ()
FROM billing_usagesegment s
JOIN billing_meteredattempt a ON a.id = s.attempt_id
WHERE {_OF_TEAM} AND s."end" IS NULL AND s.borrowed_mgpu > 0
ORDER BY s.borrowed_mgpu DESC, a.id
LIMIT %(most)s
"""  # noqa: S608 - made of constants only
_IN_USE = """
SELECT COALESCE(SUM(s.guaranteed_mgpu + s.borrowed_mgpu), 0)
FROM billing_usagesegment s JOIN billing_meteredattempt a ON a.id = s.attempt_id
WHERE a.team_id = %(team)s AND a.pool_id = %(pool)s AND s."end" IS NULL
"""
