"""Hints to open pages that something changed. Never data, never the record.

`publish` is part of the database transaction. So a hint is sent if and only if its change was
committed, and no request ever waits for Valkey. The relay takes the hints from PostgreSQL and finds
out who may see each job. It merges them to one per second, audience and topic, and hands them to
Channels. Open pages receive only the topic.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Literal
from uuid import UUID

from django.db import connection

from live.waking import channel_of

Topic = Literal["jobs", "quotas", "clusters", "reports", "notices", "requests"]
TOPICS: tuple[Topic, ...] = ("jobs", "quotas", "clusters", "reports", "notices", "requests")
#: Internal: the rights or sessions of a person changed. Pages never receive this topic.
RIGHTS = "rights"

CHANNEL = "tidegate_live"
IDS_MAX = 50
#: Ids of jobs in one notice. PostgreSQL limits a notice to 8,000 bytes.
JOBS_PER_NOTICE = 150
EVERYBODY = "everybody"
#: Platform administrators. They receive hints for every organization.
PLATFORM = "platform"
#: The beginning of the audience of one person.
PERSON = "person-"
#: All users who may see costs anywhere.
COSTS = "costs"


def publish(
    topic: Topic,
    *,
    ids: Iterable[object] = (),
    organization_id: UUID | None,
    wake: str | None = None,
    audience: str | None = None,
) -> None:
    """Send a hint at commit that rows of `topic` changed.

    Without an organization, the hint goes to `audience`, by default everybody. A hint about jobs
    always names them, so that only users who may see one of them receive it. Other hints name at
    most 50 ids, or none. With a role in `wake`, the same statement also wakes the leader of that
    role, as `live.waking.wake` does.
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


def publish_to_people(topic: Topic, user_ids: Iterable[UUID]) -> None:
    """Send a hint at commit to the open pages of these people, and to nobody else."""
    people = sorted(map(person, set(user_ids)))
    if people:
        _notify([{"topic": topic, "ids": [], "to": to} for to in people], None)


def publish_rights(*user_ids: UUID) -> None:
    """Make the open sockets of people check their sessions and rights again, at commit."""
    _notify([{"topic": RIGHTS, "ids": [], "to": person(each)} for each in user_ids], None)


def _notify(payloads: Sequence[dict[str, object]], wake: str | None) -> None:
    """Send all payloads, and the notice that wakes a role, in one statement."""
    notices = [(CHANNEL, json.dumps(payload)) for payload in payloads]
    if wake is not None:
        notices.append((channel_of(wake), ""))
    with connection.cursor() as cursor:
        cursor.execute(_NOTIFY, [[channel for channel, _ in notices], [t for _, t in notices]])


_NOTIFY = """
SELECT pg_notify(channel, payload)
FROM unnest(%s::text[], %s::text[]) AS notice (channel, payload)
"""


def person(user_id: UUID) -> str:
    """Return the audience of one person."""
    return f"{PERSON}{user_id}"


def readers_below(prefix: str) -> str:
    """Return the audience of users with a right that begins exactly at the path `prefix`.

    They may see the jobs at `prefix` and below.
    """
    return f"jobs-{hashlib.sha256(prefix.encode()).hexdigest()[:32]}"


def prefixes_of(path: str) -> list[str]:
    """Return the prefixes at which a right on `path` can begin.

    These are the platform's (""), the organization's, and so on down to `path`.
    """
    steps = path.split("/")[:-1]
    return ["", *("/".join(steps[:depth]) + "/" for depth in range(1, len(steps) + 1))]


def group_of(audience: str) -> str:
    """Return the Channels group of an audience: of an organization's id, or of one from above."""
    return f"changes.{audience}"
