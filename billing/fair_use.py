"""Recent use of all teams and users, decayed, for the arbiter's fair-share.

Reading months of segments in each cycle would be too slow. So one sum per team, user and pool is
stored as of a time, one or two hours ago, and updated every hour. Use since then is read from the
segments, and cached until they change. Corrections of earlier use are stored as differences
(`billing.late_use`), which count until the sums include them. A changed half-life applies from then
on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import connection

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Usage
from arbiter.fairshare.decay import Decay
from billing.late_use import LATE_MAX
from billing.models import DecayedUntil, DecayedUse, LateUse
from bulk.arrays import uuid_array
from quotas.models import OrganizationPolicy

#: Limits of one update of the sums. After a long pause, or when sums start on existing usage, the
#: update takes several cycles.
STEP_MIN = timedelta(hours=1)
STEP_MAX = timedelta(days=1)
#: New sums start with the usage of this many half-lives.
HALF_LIVES_MAX = 10

_Key = tuple[str, str, str]


class _TimedUse(NamedTuple):
    """Use of an attempt during `[start, end)`, in epoch seconds; an end of None means it continues.

    A negative `mgpu` corrects use that the attempt did not have.
    """

    team: str
    user: str
    pool: str
    organization: str
    start: int
    end: int | None
    mgpu: int


class RecentUse:
    """The stored sums and the use since then, cached between two readings.

    The use of a party (team, user, pool) is stored as times and changes. So a class change, or GPUs
    that went to the next attempt, cancel out.
    """

    def __init__(self) -> None:
        #: The time of the sums; None before the first reading.
        self._since: datetime | None = None
        self._sums: dict[_Key, int] = {}
        self._organizations: dict[str, str] = {}
        self._uses: dict[str, list[_TimedUse]] = {}
        self._steps: defaultdict[_Key, dict[int, int]] = defaultdict(dict)

    def read(self, now: datetime, changed: Collection[str] | None = None) -> tuple[Usage, ...]:
        """Return the decayed use of every team, user and pool at `now`.

        Until the sums are up to date, it is the use that they include. With `changed`, only the use
        of these jobs is read again, unless the sums were updated. Without it, everything is read.
        Only a transaction makes it one snapshot.
        """
        until = DecayedUntil.objects.values_list("at", flat=True).first()
        if until is None:
            self._since = None
            return ()
        if changed is None or until != self._since:
            self.read_all(until)
        else:
            self.read_again(changed)
        at = now if now - until < STEP_MAX else until
        return tuple(
            Usage(team, user, pool, mgpu_s, int(at.timestamp()))
            for (team, user, pool), mgpu_s in sorted(self.sums_at(at).items())
            if mgpu_s > 0
        )

    def read_all(self, since: datetime) -> list[int]:
        """Read the sums as of `since` and the use from then on.

        Return the ids of the late differences.
        """
        for known in (self._sums, self._organizations, self._uses, self._steps):
            known.clear()
        for team, user, pool, organization, mgpu_s in _rows(_SUMS, {}):
            self._sums[team, user, pool] = mgpu_s
            self._organizations[team] = organization
        self._since = since
        return self._take_up(_USES.format(of_jobs=""), {"since": since})

    def read_again(self, changed: Collection[str]) -> None:
        """Read the use of the `changed` jobs again. Does nothing before `read_all`."""
        if self._since is None or not changed:
            return
        for job in changed:
            for use in self._uses.pop(job, ()):
                self._count(use, -1)
        of_jobs = {"since": self._since, "jobs": uuid_array(changed)}
        self._take_up(_USES.format(of_jobs="AND a.job_id = ANY(%(jobs)s::uuid[])"), of_jobs)

    def sums_at(self, at: datetime) -> dict[_Key, int]:
        """Return the sums as of `at`."""
        lives, usual_s = _half_lives(), Policy().fair_share_half_life_s
        decays = {
            team: _remembering(lives.get(organization, usual_s))
            for team, organization in self._organizations.items()
        }
        age_s, at_s = 0, int(at.timestamp())
        if self._since is not None:
            age_s = int((at - self._since).total_seconds())
        sums = {
            key: mgpu_s * decays[key[0]].factor(age_s) >> 64 for key, mgpu_s in self._sums.items()
        }
        for key, steps in self._steps.items():
            use = decays[key[0]].use_since(steps.items(), at_s)
            sums[key] = sums.get(key, 0) + use
        return sums

    def _take_up(self, sql: str, parameters: dict[str, Any]) -> list[int]:
        late: list[int] = []
        for job, late_id, *values in _rows(sql, parameters):
            use = _TimedUse(*values)
            self._uses.setdefault(job, []).append(use)
            self._count(use, 1)
            if late_id is not None:
                late.append(late_id)
        return late

    def _count(self, use: _TimedUse, sign: int) -> None:
        team, user, pool, organization, start, end, mgpu = use
        self._organizations[team] = organization
        steps = self._steps[team, user, pool]
        for at_s, more in ((start, sign * mgpu), (end, -sign * mgpu)):
            if at_s is not None:
                height = steps.get(at_s, 0) + more
                if height:
                    steps[at_s] = height
                else:
                    steps.pop(at_s, None)


_SUMS = """
SELECT u.team_id::text, u.user_id::text, u.pool_id::text, n.organization_id::text, u.mgpu_s
FROM billing_decayeduse u JOIN tenants_node n ON n.id = u.team_id
"""
# One statement, so that a difference and its segments are seen both or neither. A difference counts
# only up to the time of the sums, as the segments cover the time after it.
_USES = """
SELECT a.job_id::text, NULL::bigint, a.team_id::text, a.user_id::text, a.pool_id::text,
       a.organization_id::text, date_part('epoch', GREATEST(s.start, %(since)s))::bigint,
       date_part('epoch', s."end")::bigint,
       (s.guaranteed_mgpu + s.borrowed_mgpu) * a.use_factor_percent / 100
FROM billing_usagesegment s JOIN billing_meteredattempt a ON a.id = s.attempt_id
WHERE (s."end" > %(since)s OR s."end" IS NULL) {of_jobs}
UNION ALL
SELECT a.job_id::text, l.id, a.team_id::text, a.user_id::text, a.pool_id::text,
       a.organization_id::text, date_part('epoch', LEAST(l.start, %(since)s))::bigint,
       date_part('epoch', LEAST(l."end", %(since)s))::bigint,
       l.mgpu * a.use_factor_percent / 100
FROM billing_lateuse l JOIN billing_meteredattempt a ON a.id = l.attempt_id
WHERE true {of_jobs}
"""


def read_usage(now: datetime) -> tuple[Usage, ...]:
    """Return the decayed use without a cache. Four queries."""
    return RecentUse().read(now)


def carry_on(now: datetime) -> None:
    """Update the sums, if it is time. The caller ensures that no other process does so."""
    until = DecayedUntil.objects.values_list("at", flat=True).first()
    if until is None:
        # The new sums start with the present segments.
        LateUse.objects.all().delete()
        until = _beginning(now)
    elif now - LATE_MAX - until < STEP_MIN:
        return
    at = max(until, min(now - LATE_MAX, until + STEP_MAX)).replace(microsecond=0)
    use = RecentUse()
    corrected = use.read_all(until)
    sums = {key: mgpu_s for key, mgpu_s in use.sums_at(at).items() if mgpu_s > 0}
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
    """Return the time from which usage still matters, or `LATE_MAX` ago without older usage."""
    longest = max(_half_lives().values(), default=Policy().fair_share_half_life_s)
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(start) FROM billing_usagesegment")
        (first,) = cursor.fetchone()
    earliest = now - timedelta(seconds=HALF_LIVES_MAX * longest)
    return max(earliest, min(first or now, now - LATE_MAX)).replace(microsecond=0)


@lru_cache(maxsize=64)
def _remembering(half_life_s: int) -> Decay:
    """Return a shared `Decay`. Recent use has the same ages of one or two hours again and again."""
    return Decay(half_life_s)


def _half_lives() -> dict[str, int]:
    return {
        str(organization): half_life_s
        for organization, half_life_s in OrganizationPolicy.objects.values_list(
            "organization_id", "fair_share_half_life_s"
        )
    }


def _rows(sql: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
