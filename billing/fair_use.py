"""What everybody used lately, decayed, for the arbiter's fair-share.

Reading months of segments in each cycle would not do. So a sum is kept for every team, user and
pool as of one moment, an hour or two ago, and carried on from hour to hour; what was held since
is read from the segments themselves, and remembered until they change. What the meter learns of
the time before is kept as a difference (`billing.late_use`) and counts like the rest until the sums
have it too. A half-life that is changed holds from then on.
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

#: The sums are carried on by so much at once at least, and at most: after a long pause, and where
#: they are begun on usage that is there already, it takes some cycles.
STEP_MIN = timedelta(hours=1)
STEP_MAX = timedelta(days=1)
#: Sums are begun with what was used in so many half-lives.
HALF_LIVES_MAX = 10

_Key = tuple[str, str, str]


class _Held(NamedTuple):
    """What an attempt held of whom over `[start, end)`, in seconds; None still does. Less than
    nothing is what it turned out not to have held."""

    team: str
    user: str
    pool: str
    organization: str
    start: int
    end: int | None
    mgpu: int


class RecentUse:
    """The stored sums, and what was held since then, remembered from one reading to the next.

    What a party (team, user, pool) held is kept as the moments at which that changed and by how
    much: of an attempt whose class changed or whose GPUs went on to the next nothing is left there.
    """

    def __init__(self) -> None:
        #: As of when the sums are; None before the first reading.
        self._since: datetime | None = None
        self._sums: dict[_Key, int] = {}
        self._organizations: dict[str, str] = {}
        self._held: dict[str, list[_Held]] = {}
        self._steps: defaultdict[_Key, dict[int, int]] = defaultdict(dict)

    def read(self, now: datetime, changed: Collection[str] | None = None) -> tuple[Usage, ...]:
        """The decayed use of every team, user and pool at `now`; until the sums have caught up,
        what they have. Only of the `changed` jobs it is read again what they held, unless the sums
        were carried on; without `changed` all is. One snapshot only inside a transaction."""
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
        """Read the sums, which are as of `since`, and what was held from then on; returns the ids
        of the late differences in it."""
        for known in (self._sums, self._organizations, self._held, self._steps):
            known.clear()
        for team, user, pool, organization, mgpu_s in _rows(_SUMS, {}):
            self._sums[team, user, pool] = mgpu_s
            self._organizations[team] = organization
        self._since = since
        return self._take_up(_HELD.format(of_jobs=""), {"since": since})

    def read_again(self, changed: Collection[str]) -> None:
        """Read what was held by the attempts of `changed` jobs; nothing before all was read."""
        if self._since is None or not changed:
            return
        for job in changed:
            for held in self._held.pop(job, ()):
                self._count(held, -1)
        of_jobs = {"since": self._since, "jobs": uuid_array(changed)}
        self._take_up(_HELD.format(of_jobs="AND a.job_id = ANY(%(jobs)s::uuid[])"), of_jobs)

    def sums_at(self, at: datetime) -> dict[_Key, int]:
        """The sums carried on to `at`."""
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
            held = decays[key[0]].held_since(steps.items(), at_s)
            sums[key] = sums.get(key, 0) + held
        return sums

    def _take_up(self, sql: str, parameters: dict[str, Any]) -> list[int]:
        late: list[int] = []
        for job, late_id, *values in _rows(sql, parameters):
            held = _Held(*values)
            self._held.setdefault(job, []).append(held)
            self._count(held, 1)
            if late_id is not None:
                late.append(late_id)
        return late

    def _count(self, held: _Held, sign: int) -> None:
        team, user, pool, organization, start, end, mgpu = held
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
# One statement, so that a difference and the segments that made it are seen both or neither. What
# a difference says of the time after the sums the segments say themselves.
_HELD = """
SELECT a.job_id::text, NULL::bigint, a.team_id::text, a.user_id::text, a.pool_id::text,
       a.organization_id::text, date_part('epoch', GREATEST(s.start, %(since)s))::bigint,
       date_part('epoch', s."end")::bigint, s.guaranteed_mgpu + s.borrowed_mgpu
FROM billing_usagesegment s JOIN billing_meteredattempt a ON a.id = s.attempt_id
WHERE (s."end" > %(since)s OR s."end" IS NULL) {of_jobs}
UNION ALL
SELECT a.job_id::text, l.id, a.team_id::text, a.user_id::text, a.pool_id::text,
       a.organization_id::text, date_part('epoch', LEAST(l.start, %(since)s))::bigint,
       date_part('epoch', LEAST(l."end", %(since)s))::bigint, l.mgpu
FROM billing_lateuse l JOIN billing_meteredattempt a ON a.id = l.attempt_id
WHERE true {of_jobs}
"""


def read_usage(now: datetime) -> tuple[Usage, ...]:
    """What `RecentUse` says who has read nothing yet. Four queries, whatever the size."""
    return RecentUse().read(now)


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


def _rows(sql: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
