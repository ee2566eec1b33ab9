"""Notices of earnings that expire soon: 30, 7 and 1 days before, once each (R-93).

A notice is stored, listed in the team's statement and recorded in the audit log. The people who
manage the team's quotas get it, too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from audit.recording import record as record_event
from bank.amounts import hours_text
from bank.models import CreditNotice
from live.publishing import publish
from notices.giving import NewNotice, for_node
from notices.giving import give_notices as give_to_people
from notices.models import NoticeEvent
from notices.recipients import nearest_people_of
from tenants.models import Node
from tenants.roles import Permission

#: Days before the expiry at which a team gets a notice, the last one first.
NOTICE_DAYS = (1, 7, 30)
#: The most notices of one call. Others follow with the next call.
NOTICES_MAX = 500


@transaction.atomic
def give_notices(now: datetime) -> int:
    """Store the notices that are due by `now`, of all banks that are on; return how many.

    A lot gets each notice once. A lot that is seen late gets only the last notice that is due.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _DUE,
            {
                "now": now,
                "days": list(NOTICE_DAYS),
                "most": NOTICES_MAX,
                "horizon": now + timedelta(days=max(NOTICE_DAYS)),
            },
        )
        due = cursor.fetchall()
    teams = Node.objects.select_related("organization").in_bulk({row[1] for row in due})
    people = nearest_people_of(Permission.MANAGE_QUOTA, [team.path for team in teams.values()])
    given: set[UUID] = set()
    notices: list[NewNotice] = []
    for credit_pool_id, team_id, expires_at, amount, days, pool in due:
        CreditNotice.objects.create(
            credit_pool_id=credit_pool_id,
            team_id=team_id,
            expires_at=expires_at,
            days=days,
            amount=amount,
            given_at=now,
        )
        team = teams[team_id]
        given.add(team.organization_id)
        record_event(
            action="credits.expire_soon",
            subject_kind="credits",
            subject_id=team_id,
            now=now,
            organization_id=team.organization_id,
            node_path=team.path,
            detail={
                "pool": pool,
                "amount_ugpu_s": amount,
                "expires_at": expires_at.isoformat(),
                "days": days,
            },
        )
        notices += for_node(
            NewNotice(
                user_id=None,
                event=NoticeEvent.CREDITS_EXPIRING,
                key=f"credits:{credit_pool_id}:{team_id}:{expires_at.isoformat()}:{days}",
                subject_kind="team",
                subject_id=team_id,
                sentence=f"{hours_text(amount)} GPU-hours of credits of {team.display_path} in "
                f"pool {pool} expire within {days} {'day' if days == 1 else 'days'}.",
                link=f"/credits?team={team.display_path}&pool={pool}",
                at=now,
                deadline=expires_at,
                node_path=team.path,
            ),
            people[team.path],
        )
    give_to_people(notices)
    for organization_id in sorted(given):
        publish("quotas", organization_id=organization_id)
    return len(due)


#: The lots with the smallest number of days that covers their expiry, unless that notice or a
#: later one was given. Their pools are locked, so that two processes give no notice twice.
_DUE = """
SELECT l.credit_pool_id, l.team_id, l.expires_at, l.amount, d.days, p.name
FROM bank_creditlot l
JOIN bank_creditpool c ON c.id = l.credit_pool_id
JOIN bank_creditbank b ON b.organization_id = c.organization_id AND b.is_on
JOIN clusters_pool p ON p.id = c.pool_id
CROSS JOIN LATERAL (
    SELECT min(days) AS days FROM unnest(%(days)s::integer[]) AS days
    WHERE l.expires_at <= %(now)s + days * interval '1 day'
) AS d
WHERE l.expires_at > %(now)s AND l.expires_at <= %(horizon)s
    AND NOT EXISTS (
        SELECT FROM bank_creditnotice n
        WHERE n.credit_pool_id = l.credit_pool_id AND n.team_id = l.team_id
            AND n.expires_at = l.expires_at AND n.days <= d.days
    )
ORDER BY l.expires_at, l.id
LIMIT %(most)s
FOR NO KEY UPDATE OF c
"""
