"""Announces something on top of all pages: to everybody, or about a node or a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from audit.recording import record
from clusters.models import Cluster
from notices.announcement_models import TEXT_LENGTH_MAX, Announcement
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from tenants.access import Actor, require, require_platform_admin, under, visible_node
from tenants.names import clean_name
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale

#: The right to announce something of a node. Administrators of the platform announce the rest.
MANAGES = Permission.MANAGE_MEMBERS
#: The most announcements of a node, of a cluster, and to everybody.
OF_A_PLACE_MAX = 20


def visible_announcements(actor: Actor) -> QuerySet[Announcement]:
    """Return the announcements that the actor may read.

    People with a role at, above or below a node read its announcements. Everybody reads those of a
    cluster and of the whole portal.
    """
    rows = Announcement.objects.select_related("node", "cluster", "made_by")
    if not (actor.user.is_active and actor.permits(Permission.VIEW_TREE)):
        return rows.none()
    paths = [path for _, path in actor.grants]
    above = {
        "/".join(steps[:count]) + "/"
        for steps in (path.rstrip("/").split("/") for path in paths)
        for count in range(1, len(steps) + 1)
    }
    return rows.filter(Q(node=None) | under(paths, "node__path") | Q(node__path__in=above))


def current(rows: QuerySet[Announcement], now: datetime) -> QuerySet[Announcement]:
    """Return those of the announcements that are shown at `now`."""
    return rows.filter(Q(end=None) | Q(end__gt=now), start__lte=now)


@transaction.atomic
def announce(
    *,
    actor: Actor,
    node_path: str | None,
    cluster_name: str | None,
    level: str,
    text: str,
    start: datetime | None,
    end: datetime | None,
    now: datetime,
) -> Announcement:
    """Announce a text, from now on if there is no `start`.

    Raises NotFound, Forbidden, InvalidRequest for a node with a cluster or an end before the start,
    and Conflict where there are 20 already that have not ended.
    """
    place = _place(actor, node_path, cluster_name)
    start = start or now
    _refuse_odd(start, end)
    _refuse_too_many(place, now)
    found = Announcement.objects.create(
        **place,
        level=level,
        text=clean_name(text, field="text", length_max=TEXT_LENGTH_MAX),
        start=start,
        end=end,
        made_by=actor.user,
        made_at=now,
    )
    _record("announcement.created", found, actor, now, {"text": found.text})
    return found


@transaction.atomic
def change_announcement(
    announcement_id: UUID,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    if_version: int,
    now: datetime,
) -> Announcement:
    """Change level, text, start or end, on the version that the actor has seen.

    Raises NotFound, Forbidden, InvalidRequest and PreconditionFailed, and Conflict where one that
    has ended would be shown again, and there are 20 already.
    """
    found = _locked(announcement_id, actor)
    refuse_stale(if_version, found.version, body=None)
    had_ended = found.end is not None and found.end <= now
    for name in ("level", "start", "end"):
        if name in changes:
            setattr(found, name, changes[name])
    if "text" in changes:
        found.text = clean_name(changes["text"], field="text", length_max=TEXT_LENGTH_MAX)
    _refuse_odd(found.start, found.end)
    if had_ended and (found.end is None or found.end > now):
        _refuse_too_many({"node": found.node, "cluster": found.cluster}, now)
    found.version += 1
    found.save()
    _record("announcement.changed", found, actor, now, {key: str(changes[key]) for key in changes})
    return found


@transaction.atomic
def remove_announcement(announcement_id: UUID, *, actor: Actor, now: datetime) -> None:
    """Remove an announcement. Raises NotFound and Forbidden."""
    found = _locked(announcement_id, actor)
    _record("announcement.removed", found, actor, now, {"text": found.text})
    found.delete()


def may_change(actor: Actor, announcement: Announcement) -> bool:
    """Return whether the actor may change and remove the announcement."""
    if announcement.node is None:
        return actor.is_platform_admin and actor.permits(Permission.MANAGE_CLUSTERS)
    return actor.holds(MANAGES, announcement.node.path)


def _place(actor: Actor, node_path: str | None, cluster_name: str | None) -> dict[str, Any]:
    """Return the node and the cluster of a new announcement."""
    if node_path is not None and cluster_name is not None:
        raise InvalidRequest(
            "Announce something of a node or of a cluster, not of both.",
            errors=[FieldError("/cluster", "is given with a node")],
        )
    if node_path is not None:
        return {"node": visible_node(actor, node_path, MANAGES), "cluster": None}
    require_platform_admin(actor)
    if cluster_name is None:
        return {"node": None, "cluster": None}
    cluster = Cluster.objects.filter(name=cluster_name).first()
    if cluster is None:
        raise NotFound(f"There is no cluster {cluster_name!r}.", cluster=cluster_name)
    return {"node": None, "cluster": cluster}


def _refuse_too_many(place: Mapping[str, Any], now: datetime) -> None:
    ahead = Announcement.objects.filter(Q(end=None) | Q(end__gt=now), **place)
    if ahead.count() >= OF_A_PLACE_MAX:
        raise Conflict(f"There are {OF_A_PLACE_MAX} announcements already. Remove one first.")


def _refuse_odd(start: datetime, end: datetime | None) -> None:
    if end is not None and end <= start:
        raise InvalidRequest(
            "An announcement must end after it starts.",
            errors=[FieldError("/end", "is not after the start")],
        )


def _locked(announcement_id: UUID, actor: Actor) -> Announcement:
    """Return the announcement, locked. Raises NotFound and Forbidden."""
    if not visible_announcements(actor).filter(pk=announcement_id).exists():
        raise NotFound("There is no such announcement that you can see.")
    found = Announcement.objects.select_for_update(of=("self",)).select_related("node")
    announcement = found.get(pk=announcement_id)
    if announcement.node is None:
        require_platform_admin(actor)
    else:
        require(actor, MANAGES, announcement.node)
    return announcement


def _record(
    action: str, found: Announcement, actor: Actor, now: datetime, detail: Mapping[str, Any]
) -> None:
    record(
        action=action,
        subject_kind="announcement",
        subject_id=found.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=None if found.node is None else found.node.organization_id,
        node_path="" if found.node is None else found.node.path,
        detail=detail,
        request_id=current_request_id(),
    )
