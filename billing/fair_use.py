"""What everybody used lately, decayed, for the arbiter's fair-share.

Reading months of segments in each cycle would not do. So a sum is kept for every team, user and
pool as of one moment, an hour or two ago, and carried on from hour to hour; what was held since
is read from the segments themselves. What the meter learns of the time before is kept as a
difference (`billing.late_use`) and counts like the rest until the sums have it too. A half-life
that is changed holds from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db import connection

from arbiter.fair_share import Decay
from arbiter.policy import Policy
from arbiter.snapshot import Usage
from billing.late_use import LATE_MAX
from billing.models import DecayedUntil, DecayedUse, LateUse
from quotas.models import OrganizationPolicy

#: The sums are carried on by so much at once at least, and at most: after a long pause, and where
#: they are begun on usage that is there already, it takes some cycles.
STEP_MIN = timedelta(hours=1)
STEP_MAX = timedelta(days=1)
#: Sums are begun with what was used in so many half-lives.
HALF_LIVES_MAX = 10

_Key = tuple[str, str, str]


def read_usage(now: datetime) -> tuple[Usage, ...]:
    """The decayed use of every team, user and pool at `now`; until the sums have caught up, what
    they have. Four queries, whatever the size; one snapshot only inside a transaction."""
    until = DecayedUntil.objects.values_list("at", flat=True).first()
    if until is None:
        return ()
    at = now if now - until < STEP_MAX else until
    return tuple(
        Usage(team, user, pool, mgpu_s, int(at.timestamp()))
        for (team, user, pool), mgpu_s in sorted(_sums(until, at)[0].items())
        if mgpu_s > 0
    )


def carry_on(now: datetime) -> None:
    """Bring the sums nearer to now; most times there is nothing to do but look. The caller has
    made sure that it is the only one."""
    until = DecayedUntil.objects.values_list("at", flat=True).first()
    if until is None:
        # They begin on the segments as they are now.
        LateUse.objects.all().delete()
        until = _beginning(now)
    elif now - LATE_MAX - until < STEP_MIN:
        return
    at = max(until, min(now - LATE_MAX, until + STEP_MAX)).replace(microsecond=0)
    found, corrected = _sums(until, at)
    sums = {key: mgpu_s for key, mgpu_s in found.items() if mgpu_s > 0}
    LateUse.objects.filter(pk__in=corrected).delete()
    DecayedUse.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO billing_decayeduse (team_id, user_id, pool_id, mgpu_s)
            SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::bigint[])
            """,
            [*([key[i] for key in sums] for i in range(3)), list(sums.values())],
        )
    DecayedUntil.objects.update_or_create(pk=1, defaults={"at": at})


def _beginning(now: datetime) -> datetime:
    """From when on usage still matters, or `LATE_MAX` ago where there is none so old."""
    longest = max(_half_lives().values(), default=Policy().fair_share_half_life_s)
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(start) FROM billing_usagesegment")
        (first,) = cursor.fetchone()
    earliest = now - timedelta(seconds=HALF_LIVES_MAX * longest)
    return max(earliest, min(first or now, now - LATE_MAX)).replace(microsecond=0)


@lru_cache(maxsize=64)
def _remembering(half_life_s: int) -> Decay:
    """One for all cycles: what is held lately has ages of an hour or two, the same ones again and
    again."""
    return Decay(half_life_s)


def _half_lives() -> dict[str, int]:
    return {
        str(organization): half_life_s
        for organization, half_life_s in OrganizationPolicy.objects.values_list(
            "organization_id", "fair_share_half_life_s"
        )
    }


def _sums(since: datetime, at: datetime) -> tuple[Mapping[_Key, int], Sequence[int]]:
    """The stored sums, which are as of `since`, carried on to `at`, and the ids of the late
    differences in them."""
    lives = _half_lives()
    decays: dict[str, Decay] = {}

    def decay_of(organization: str) -> Decay:
        if organization not in decays:
            decays[organization] = _remembering(
                lives.get(organization, Policy().fair_share_half_life_s)
            )
        return decays[organization]

    age_s, at_s = int((at - since).total_seconds()), int(at.timestamp())
    sums: dict[_Key, int] = {}
    for team, user, pool, organization, mgpu_s in _rows(
        """
        SELECT u.team_id::text, u.user_id::text, u.pool_id::text, n.organization_id::text, u.mgpu_s
        FROM billing_decayeduse u JOIN tenants_node n ON n.id = u.team_id
        """,
        [],
    ):
        sums[team, user, pool] = mgpu_s * decay_of(organization).factor(age_s) >> 64
    corrected: list[int] = []
    # One statement, so that a difference and the segments that made it are seen both or neither.
    for team, user, pool, organization, starts, ends, mgpus, late in _rows(
        """
        SELECT team_id::text, user_id::text, pool_id::text, organization_id::text,
               array_agg(date_part('epoch', start)::bigint),
               array_agg(date_part('epoch', "end")::bigint), array_agg(mgpu),
               array_agg(late) FILTER (WHERE late IS NOT NULL)
        FROM (
            SELECT a.team_id, a.user_id, a.pool_id, a.organization_id,
                   GREATEST(s.start, %s) AS start, LEAST(s."end", %s) AS "end",
                   sum(s.guaranteed_mgpu + s.borrowed_mgpu)::bigint AS mgpu, NULL::bigint AS late
            FROM billing_usagesegment s JOIN billing_meteredattempt a ON a.id = s.attempt_id
            WHERE s.start < %s AND (s."end" > %s OR s."end" IS NULL)
            GROUP BY 1, 2, 3, 4, 5, 6
            UNION ALL
            SELECT a.team_id, a.user_id, a.pool_id, a.organization_id,
                   LEAST(l.start, %s), LEAST(l."end", %s), l.mgpu, l.id
            FROM billing_lateuse l JOIN billing_meteredattempt a ON a.id = l.attempt_id
        ) held
        GROUP BY team_id, user_id, pool_id, organization_id
        """,
        [since, at, at, since, since, since],
    ):
        corrected += late or ()
        intervals = zip(starts, ends, mgpus, strict=True)
        sums[team, user, pool] = sums.get((team, user, pool), 0) + decay_of(organization).used(
            intervals, at_s
        )
    return sums, corrected


def _rows(sql: str, parameters: list[datetime]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
