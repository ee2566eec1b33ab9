"""Hints to open pages that something changed. Never data, never the record.

`publish` rides on the database transaction, so a hint is sent if and only if its change was
committed and no request ever waits for Valkey. The relay takes the hints from PostgreSQL,
merges them to one a second per organization and topic, and hands them to Channels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal
from uuid import UUID

from django.db import connection

from live.waking import channel_of

Topic = Literal["jobs", "quotas", "clusters", "reports"]

CHANNEL = "tidegate_live"
IDS_MAX = 50
EVERYBODY = "everybody"
#: Platform administrators: told of every organization's changes.
PLATFORM = "platform"


def publish(
    topic: Topic,
    *,
    ids: Iterable[object] = (),
    organization_id: UUID | None,
    wake: str | None = None,
) -> None:
    """Hint, at commit, that rows of `topic` changed; no organization means everybody.

    More than 50 ids are sent as none, which means "look again at all of them". With a role in
    `wake` the same statement wakes whoever leads in it, as `live.waking.wake` does.
    """
    named = set(ids)
    payload = {
        "topic": topic,
        "ids": sorted(map(str, named)) if len(named) <= IDS_MAX else [],
        "to": EVERYBODY if organization_id is None else str(organization_id),
    }
    payload_text = json.dumps(payload)
    with connection.cursor() as cursor:
        if wake is None:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload_text])
        else:
            cursor.execute(
                "SELECT pg_notify(%s, %s), pg_notify(%s, '')",
                [CHANNEL, payload_text, channel_of(wake)],
            )


def group_of(audience: str) -> str:
    """Channels group of an organization id, or of everybody."""
    return f"changes.{audience}"
