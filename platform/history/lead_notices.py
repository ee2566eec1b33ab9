"""The notices that leads get each Monday: the figures of their node in the last week."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import CharField, Exists, OuterRef, QuerySet, Value
from django.db.models.functions import Cast, Concat

from bank.settling import zone_of
from history.week import WEEK, figures_of, link_of, monday_of, sentence_of, week_of
from notices.giving import NewNotice, for_node, give_notices
from notices.models import Notice, NoticeEvent
from primitives.errors import PortalError
from tenants.access import actor_of
from tenants.models import GRANT_IN_FORCE, Node, NodeKind, RoleGrant, UserKind
from tenants.roles import Role

#: The local hour of Monday at which the week is ready.
READY_HOUR = 8
#: The time after it in which a portal that was down makes up for it.
LATE_MAX = timedelta(days=2)
#: The most nodes of one call, and the time in which it begins further ones.
NODES_MAX = 200
RUN_TIME_MAX = timedelta(seconds=60)

log = logging.getLogger(__name__)

Clock = Callable[[], datetime]


def give_week_notices(clock: Clock) -> int:
    """Give the leads of each node its last week, once; return the number of nodes.

    Leads are team leads and administrators of departments. The week is ready on Monday at 08:00 of
    the organization's time zone. Further nodes follow with the next call.
    """
    began, count = clock(), 0
    for node, start in _due_nodes(began):
        if count == NODES_MAX or clock() > began + RUN_TIME_MAX:
            break
        try:
            _give(node, start, clock())
        except PortalError as refused:
            # Others still get theirs. A node that was moved meanwhile has no such week.
            log.warning("no figures of the week of %s: %s", node.display_path, refused.detail)
        else:
            count += 1
    return count


def ready_week(now: datetime, zone: ZoneInfo) -> date | None:
    """Return the Monday of the week that leads are told of at `now`; None out of this time."""
    monday = monday_of(now.astimezone(zone).date())
    ready = datetime.combine(monday, time(READY_HOUR), zone)
    return monday - WEEK if ready <= now < ready + LATE_MAX else None


def _due_nodes(now: datetime) -> Iterator[tuple[Node, date]]:
    """Yield the nodes with a lead who was not told yet, with the week."""
    for organization in Node.objects.filter(kind=NodeKind.ORGANIZATION, archived_at=None):
        start = ready_week(now, zone_of(organization.pk))
        if start is None:
            continue
        nodes = Node.objects.filter(organization=organization, archived_at=None)
        missing = _leads().filter(node=OuterRef("pk")).exclude(_has_notice(start))
        yield from ((node, start) for node in nodes.filter(Exists(missing)).order_by("path"))


def _has_notice(start: date) -> Exists:
    """Return whether the user of a grant has the notice of the grant's node."""
    before, after = _key_parts(start)
    key = Concat(Value(before), Cast(OuterRef("node_id"), CharField()), Value(after))
    return Exists(Notice.objects.filter(user=OuterRef("user_id"), key=key))


def _leads() -> QuerySet[RoleGrant]:
    return RoleGrant.objects.filter(
        GRANT_IN_FORCE,
        role__in=[Role.TEAM_LEAD, Role.DEPARTMENT_ADMIN],
        user__is_active=True,
        user__kind=UserKind.PERSON,
    )


@transaction.atomic
def _give(node: Node, start: date, now: datetime) -> None:
    """Give the notice of a node to all its leads, and to webhooks of the node."""
    grants = list(_leads().filter(node=node).select_related("user").order_by("user"))
    if not grants:
        return
    week = week_of(node.display_path, start=start, actor=actor_of(grants[0].user), now=now)
    notice = NewNotice(
        user_id=None,
        event=NoticeEvent.WEEK_SUMMARY,
        key=week_key(node.pk, start),
        subject_kind="node",
        subject_id=node.pk,
        sentence=sentence_of(week),
        link=link_of(week),
        at=now,
        node_path=node.path,
        figures=figures_of(week),
    )
    give_notices(for_node(notice, {grant.user_id for grant in grants}))


def week_key(node_id: UUID, start: date) -> str:
    """Return the key of the notice of a node's week."""
    before, after = _key_parts(start)
    return f"{before}{node_id}{after}"


def _key_parts(start: date) -> tuple[str, str]:
    """Return the parts of the key of a week's notices before and after the id of the node."""
    return "week:", f":{start}"
