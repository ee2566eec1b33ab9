"""Use and guarantees of an organization's teams over an interval, exact to the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from billing.metering import UnpaidSpan
from billing.usage_sql import used_in_sql
from quotas.guarantees import Guarantee, guarantees_in


@dataclass(frozen=True, slots=True)
class TeamUse:
    """A team's part of an interval.

    `guaranteed_mgpu` is the guarantee at its end. The integrals are in milli-GPU-seconds:
    `guaranteed_mgpu_s` of the guarantee and `lendable_mgpu_s` of the part that others may use.
    `free_mgpu_s` is the borrowed part of `used_mgpu_s` that costs nothing because of a fault.
    """

    team: UUID
    guaranteed_mgpu: int
    guaranteed_mgpu_s: int
    lendable_mgpu_s: int
    used_mgpu_s: int
    free_mgpu_s: int

    @property
    def waived_mgpu_s(self) -> int:
        """The part of the use above the guarantee that costs nothing."""
        return min(max(0, self.used_mgpu_s - self.guaranteed_mgpu_s), self.free_mgpu_s)


def uses_of(organization: UUID, pool: UUID, start: datetime, end: datetime) -> tuple[TeamUse, ...]:
    """Return the use of each team with a quota or with use in `[start, end)`, ordered by id.

    Use is that of usage segments. Running attempts count until `end`, which must have passed.
    """
    guarantees = guarantees_in(organization, pool, start, end)
    used = _used(organization, pool, start, end)
    return tuple(
        TeamUse(team, *guarantees.get(team, Guarantee()), *used.get(team, (0, 0)))
        for team in sorted(guarantees.keys() | used.keys())
    )


def _used(
    organization: UUID, pool: UUID, start: datetime, end: datetime
) -> Mapping[UUID, tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(
            _USED, {"organization": organization, "pool": pool, "start": start, "end": end}
        )
        return {team: (int(used), int(free)) for team, used, free in cursor.fetchall()}


def unpaid_spans(
    organization: UUID,
    pool: UUID,
    start: datetime,
    end: datetime,
    unpaid_mgpu_s: Mapping[UUID, int],
) -> list[UnpaidSpan]:
    """Return which borrowed use in `[start, end)` stays unpaid, of each team the given amount.

    The attempts of higher priority are paid first, then those that started first, then by id. An
    attempt that is paid in part is paid for its first time. A team has at most as much as its
    attempts borrowed.
    """
    if not unpaid_mgpu_s:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            _BORROWED,
            {
                "organization": organization,
                "pool": pool,
                "start": start,
                "end": end,
                "teams": list(unpaid_mgpu_s),
            },
        )
        borrowed = [_Borrowed(*row) for row in cursor.fetchall()]
    paid_mgpu_s = {team: -amount for team, amount in unpaid_mgpu_s.items()}
    for one in borrowed:
        paid_mgpu_s[one.team] += one.mgpu * one.seconds
    spans = []
    for one in borrowed:
        amount = min(max(0, paid_mgpu_s[one.team]), one.mgpu * one.seconds)
        paid_mgpu_s[one.team] -= amount
        whole_s, rest_mgpu = divmod(amount, one.mgpu)
        since = one.start + timedelta(seconds=whole_s)
        if rest_mgpu:
            second = timedelta(seconds=1)
            spans.append(UnpaidSpan(one.attempt, since, since + second, one.mgpu - rest_mgpu))
            since += second
        if since < one.end:
            spans.append(UnpaidSpan(one.attempt, since, one.end, one.mgpu))
    return spans


class _Borrowed(NamedTuple):
    """Borrowed use of an attempt in an interval."""

    team: UUID
    attempt: UUID
    start: datetime
    end: datetime
    mgpu: int

    @property
    def seconds(self) -> int:
        return int(self.end.timestamp()) - int(self.start.timestamp())


_BORROWED = f"""
SELECT a.team_id, a.id, GREATEST(s.start, %(start)s), LEAST(s."end", %(end)s), s.borrowed_mgpu
FROM billing_usagesegment s
JOIN billing_meteredattempt a ON a.id = s.attempt_id
LEFT JOIN quotas_priorityclass p
    ON p.organization_id = a.organization_id AND p.name = a.priority_class
WHERE {used_in_sql("%(start)s", "%(end)s")}
    AND s.borrowed_mgpu > 0 AND s.fault = ''
    AND a.organization_id = %(organization)s AND a.pool_id = %(pool)s
    AND a.team_id = ANY(%(teams)s)
ORDER BY COALESCE(p."order", 0) DESC,
    (SELECT MIN(f.start) FROM billing_usagesegment f WHERE f.attempt_id = a.id), a.id, s.start
"""  # noqa: S608 - made of constants only
_SECONDS = """date_part('epoch', LEAST(s."end", %(end)s) - GREATEST(s.start, %(start)s))::bigint"""
_USED = f"""
SELECT a.team_id,
    SUM((s.guaranteed_mgpu + s.borrowed_mgpu) * {_SECONDS}),
    COALESCE(SUM(s.borrowed_mgpu * {_SECONDS}) FILTER (WHERE s.fault <> ''), 0)
FROM billing_usagesegment s
JOIN billing_meteredattempt a ON a.id = s.attempt_id
WHERE {used_in_sql("%(start)s", "%(end)s")}
    AND a.organization_id = %(organization)s AND a.pool_id = %(pool)s
GROUP BY a.team_id
"""  # noqa: S608 - made of constants only
