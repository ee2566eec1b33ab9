"""Maintenance windows: made, changed and cancelled by administrators of the platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from arbiter.api.snapshot import Maintenance
from audit.recording import record
from clusters.models import Cluster, Pool
from clusters.queries import listed_nodes
from live.waking import wake
from maintenance.models import REASON_LENGTH_MAX, MaintenanceWindow, WindowState
from notices.announcement_models import AnnouncementLevel
from notices.announcements import announce, change_announcement, remove_announcement
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from tenants.access import Actor, require_platform_admin
from tenants.names import clean_name
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale

#: The most windows of a cluster that are planned or open.
OF_A_CLUSTER_MAX = 20
#: The most nodes whose names are in a banner.
_NAMED_MAX = 3
#: Returns the nodes of a cluster, or of a pool on it, in the order of the work that they have at a
#: time, the least first.
Quietest = Callable[[Cluster, Pool | None, datetime], Sequence[str]]
#: The longest window. A cluster that is away for longer is better disabled.
LENGTH_MAX = timedelta(days=31)


def visible_windows(actor: Actor) -> QuerySet[MaintenanceWindow]:
    """Return the windows that the actor may read: all, for people who may read the tree at all."""
    rows = MaintenanceWindow.objects.select_related("cluster", "pool", "made_by", "announcement")
    if not (actor.user.is_active and actor.permits(Permission.VIEW_TREE)):
        return rows.none()
    return rows


def in_force(rows: QuerySet[MaintenanceWindow], now: datetime) -> QuerySet[MaintenanceWindow]:
    """Return those of the windows that are planned or open at `now`."""
    return rows.filter(cancelled_at=None, end__gt=now)


def maintenance_ahead(now: datetime) -> tuple[Maintenance, ...]:
    """Return the windows that are planned or open as the arbiter takes them. One query."""
    rows = in_force(MaintenanceWindow.objects.all(), now).order_by("pk")
    return tuple(
        Maintenance(
            str(cluster),
            int(start.timestamp()),
            int(end.timestamp()),
            None if pool is None else str(pool),
            None if nodes is None else frozenset(nodes),
        )
        for cluster, pool, nodes, start, end in rows.values_list(
            "cluster_id", "pool_id", "nodes", "start", "end"
        )
    )


def window_by_id(actor: Actor, window_id: UUID) -> MaintenanceWindow:
    """Return a window that the actor may read. Raises NotFound."""
    found = visible_windows(actor).filter(pk=window_id).first()
    if found is None:
        raise NotFound("There is no such maintenance window.")
    return found


def may_change(actor: Actor) -> bool:
    """Return whether the actor may make, change and cancel windows."""
    return actor.is_platform_admin and actor.permits(Permission.MANAGE_CLUSTERS)


@transaction.atomic
def plan_window(
    *,
    actor: Actor,
    cluster_name: str,
    pool_name: str | None,
    nodes: Sequence[str] | int | None,
    quietest: Quietest,
    start: datetime | None,
    end: datetime,
    reason: str,
    now: datetime,
) -> MaintenanceWindow:
    """Plan a window, from now on if there is no `start`, and announce it on top of all pages.

    `nodes` are names of nodes of the cluster or pool, or the number of the `quietest` of them; None
    are all. Raises Forbidden, NotFound for an unknown cluster, pool or node, InvalidRequest for odd
    times and for more nodes than there are, and Conflict where there are 20 windows already.
    """
    require_platform_admin(actor)
    cluster = Cluster.objects.select_for_update().filter(name=cluster_name).first()
    if cluster is None:
        raise NotFound(f"There is no cluster {cluster_name!r}.", cluster=cluster_name)
    pool = None
    if pool_name is not None:
        pool = Pool.objects.filter(name=pool_name, nodes__cluster=cluster).first()
        if pool is None:
            raise NotFound(
                f"Cluster {cluster_name} has no nodes of pool {pool_name!r}.", pool=pool_name
            )
    start = now if start is None else start
    _refuse_odd(start, end, first=now)
    rows = MaintenanceWindow.objects.filter(cluster=cluster)
    if in_force(rows, now).count() >= OF_A_CLUSTER_MAX:
        raise Conflict(
            f"{cluster_name} has {OF_A_CLUSTER_MAX} maintenance windows ahead. Cancel one first."
        )
    found = MaintenanceWindow(
        cluster=cluster,
        pool=pool,
        nodes=None if nodes is None else _nodes_of(cluster, pool, nodes, quietest, start),
        start=start,
        end=end,
        reason=clean_name(reason, field="reason", length_max=REASON_LENGTH_MAX),
        made_by=actor.user,
        made_at=now,
    )
    found.announcement = announce(
        actor=actor,
        node_path=None,
        cluster_name=cluster_name,
        level=AnnouncementLevel.WARNING,
        text=_banner(found),
        start=None,
        end=end,
        now=now,
    )
    found.save()
    _record("maintenance.planned", found, actor, now)
    return found


@transaction.atomic
def change_window(
    window_id: UUID,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    if_version: int,
    now: datetime,
) -> MaintenanceWindow:
    """Change start, end or reason, and the announcement, on the version that the actor has seen.

    The start of an open window stays. Raises NotFound, Forbidden, InvalidRequest,
    PreconditionFailed, and Conflict for a window that is over.
    """
    found = _locked(window_id, actor, now)
    refuse_stale(if_version, found.version, body=None)
    is_open = found.state_at(now) is WindowState.OPEN
    start, end = changes.get("start", found.start), changes.get("end", found.end)
    if is_open and start != found.start:
        raise Conflict("The maintenance has begun, so its start cannot change. Change its end.")
    _refuse_odd(start, end, first=found.start if is_open else now)
    if end <= now:
        raise InvalidRequest(
            "The end must be in the future. Cancel the maintenance to end it now.",
            errors=[FieldError("/end", "is in the past")],
        )
    found.start, found.end = start, end
    if "reason" in changes:
        found.reason = clean_name(changes["reason"], field="reason", length_max=REASON_LENGTH_MAX)
    found.version += 1
    found.save()
    if found.announcement is not None:
        change_announcement(
            found.announcement.pk,
            {"text": _banner(found), "end": end},
            actor=actor,
            if_version=found.announcement.version,
            now=now,
        )
    _record("maintenance.changed", found, actor, now)
    return found


@transaction.atomic
def cancel_window(window_id: UUID, *, actor: Actor, now: datetime) -> MaintenanceWindow:
    """Cancel a planned window, or end an open one now, and remove its announcement.

    Raises NotFound, Forbidden, and Conflict for a window that is over.
    """
    found = _locked(window_id, actor, now)
    found.cancelled_at = now
    found.version += 1
    banner, found.announcement = found.announcement, None
    found.save()
    if banner is not None:
        remove_announcement(banner.pk, actor=actor, now=now)
    _record("maintenance.cancelled", found, actor, now)
    return found


def _nodes_of(
    cluster: Cluster,
    pool: Pool | None,
    wanted: Sequence[str] | int,
    quietest: Quietest,
    start: datetime,
) -> list[str]:
    """Return the names of the wanted nodes in order. Raises NotFound and InvalidRequest."""
    rows = listed_nodes().filter(cluster=cluster)
    if pool is not None:
        rows = rows.filter(pool=pool)
    there = "" if pool is None else f" of pool {pool.name}"
    if isinstance(wanted, int):
        count = rows.values("name").distinct().count()
        if wanted > count:
            raise InvalidRequest(
                f"{cluster.name} has {count} nodes{there}. Name fewer of them.",
                errors=[FieldError("/node_count", f"is more than {count}")],
            )
        return sorted(quietest(cluster, pool, start)[:wanted])
    names = sorted(set(wanted))
    known = set(rows.filter(name__in=names).values_list("name", flat=True))
    for name in names:
        if name not in known:
            raise NotFound(f"Cluster {cluster.name} has no node {name!r}{there}.", node=name)
    return names


def _locked(window_id: UUID, actor: Actor, now: datetime) -> MaintenanceWindow:
    """Return the window, locked. Raises NotFound, Forbidden, and Conflict if it is over."""
    window_by_id(actor, window_id)
    require_platform_admin(actor)
    rows = MaintenanceWindow.objects.select_for_update(of=("self",)).select_related(
        "cluster", "pool", "made_by", "announcement"
    )
    found = rows.get(pk=window_id)
    state = found.state_at(now)
    if state in (WindowState.ENDED, WindowState.CANCELLED):
        raise Conflict(f"This maintenance is {state}. Plan a new one.", state=state)
    return found


def _refuse_odd(start: datetime, end: datetime, *, first: datetime) -> None:
    """Raise InvalidRequest for times before `first`, out of order, or too far apart."""
    if start < first:
        raise InvalidRequest(
            "A maintenance cannot start in the past. Leave out the start to begin now.",
            errors=[FieldError("/start", "is in the past")],
        )
    if end <= start:
        raise InvalidRequest(
            "A maintenance must end after it starts.",
            errors=[FieldError("/end", "is not after the start")],
        )
    if end - start > LENGTH_MAX:
        raise InvalidRequest(
            f"A maintenance lasts at most {LENGTH_MAX.days} days. Disable the cluster instead.",
            errors=[FieldError("/end", f"is more than {LENGTH_MAX.days} days after the start")],
        )


def _banner(window: MaintenanceWindow) -> str:
    """Return the text of the announcement of a window."""
    what = "Maintenance" if window.pool is None else f"Maintenance of pool {window.pool.name}"
    if window.nodes is not None:
        named = ", ".join(window.nodes[:_NAMED_MAX])
        more = len(window.nodes) - _NAMED_MAX
        what = f"Maintenance of {named}" + (f" and {more} more nodes" if more > 0 else "")
    when = f"from {window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC"
    return f"{what} {when}. Jobs start only if they end before it. Reason: {window.reason}"


def _record(action: str, found: MaintenanceWindow, actor: Actor, now: datetime) -> None:
    """Write the audit event of a change, and wake the arbiter."""
    record(
        action=action,
        subject_kind="maintenance_window",
        subject_id=found.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=None,
        node_path="",
        detail={
            "cluster": found.cluster.name,
            "pool": None if found.pool is None else found.pool.name,
            "nodes": found.nodes,
            "start": found.start.isoformat(),
            "end": found.end.isoformat(),
            "reason": found.reason,
        },
        request_id=current_request_id(),
    )
    wake("arbiter")
