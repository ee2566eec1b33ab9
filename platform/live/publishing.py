"""Hints to open pages that something changed. Never data, never the record.

`publish` rides on the database transaction, so a hint is sent if and only if its change was
committed and no request ever waits for Valkey. The relay takes the hints from PostgreSQL, finds
out who may read each job, merges them to one a second per audience and topic, and hands them to
Channels. Open pages are told the topic alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Literal
from uuid import UUID

from django.db import connection

from live.waking import channel_of

Topic = Literal["jobs", "quotas", "clusters", "reports"]
TOPICS: tuple[Topic, ...] = ("jobs", "quotas", "clusters", "reports")
#: Not for pages: the rights or sessions of a person changed.
RIGHTS = "rights"

CHANNEL = "tidegate_live"
IDS_MAX = 50
#: Ids of jobs in one notice, of which PostgreSQL takes 8,000 bytes.
JOBS_PER_NOTICE = 150
EVERYBODY = "everybody"
#: Platform administrators: they hear the changes of every organization.
PLATFORM = "platform"
#: Everybody who may see costs anywhere.
COSTS = "costs"


def publish(
    topic: Topic,
    *,
    ids: Iterable[object] = (),
    organization_id: UUID | None,
    wake: str | None = None,
    audience: str | None = None,
) -> None:
    """Hint, at commit, that rows of `topic` changed; no organization means `audience`, everybody
    by default.

    Jobs are always named: only those who may see one of them hear of it. Of other rows more than
    50 ids are sent as none. With a role in `wake` the first statement wakes whoever leads in it,
    as `live.waking.wake` does.
    """
    named = sorted(map(str, set(ids)))
    to = (audience or EVERYBODY) if organization_id is None else str(organization_id)
    parts: list[Sequence[str]] = [named if len(named) <= IDS_MAX else []]
    if topic == "jobs":
        parts = [
            named[first : first + JOBS_PER_NOTICE]
            for first in range(0, len(named), JOBS_PER_NOTICE)
        ] or [[]]
    _notify([{"topic": topic, "ids": part, "to": to} for part in parts], wake)


def publish_rights(user_id: UUID) -> None:
    """Have the open sockets of a person look again, at commit, at what they may hear."""
    _notify([{"topic": RIGHTS, "ids": [], "to": person(user_id)}], None)


def _notify(payloads: Sequence[dict[str, object]], wake: str | None) -> None:
    """Send all payloads, and the notice that wakes, in one statement."""
    notices = [(CHANNEL, json.dumps(payload)) for payload in payloads]
    if wake is not None:
        notices.append((channel_of(wake), ""))
    calls = ", ".join(["pg_notify(%s, %s)"] * len(notices))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {calls}", [text for notice in notices for text in notice])


def person(user_id: UUID) -> str:
    """The audience of one person."""
    return f"person-{user_id}"


def readers_below(prefix: str) -> str:
    """The audience of everybody who may see the jobs at and below the path `prefix`, and whose
    right begins there."""
    return f"jobs-{hashlib.sha256(prefix.encode()).hexdigest()[:32]}"


def prefixes_of(path: str) -> list[str]:
    """The prefixes at which a right on `path` can begin: the platform's (""), the organization's
    and so on down to `path`."""
    steps = path.split("/")[:-1]
    return ["", *("/".join(steps[:depth]) + "/" for depth in range(1, len(steps) + 1))]


def group_of(audience: str) -> str:
    """Channels group of an audience: an organization's id, or one of those above."""
    return f"changes.{audience}"
