"""Takes committed hints from PostgreSQL and hands them to Channels, at most one a second each."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from datetime import UTC, datetime
from threading import Event
from typing import Any

import psycopg
from channels.layers import get_channel_layer

from live.publishing import CHANNEL, EVERYBODY, IDS_MAX, PLATFORM, group_of
from live.waking import dedicated_connection

log = logging.getLogger(__name__)

PERIOD_S = 1.0
SEND_TIMEOUT_S = 2.0


class Merger:
    """Collects hints by (audience, topic) until they are taken."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], set[str] | None] = {}

    def add(self, payload: str) -> None:
        """Merge one notice; more than 50 ids in all mean "look at all of them"."""
        hint = json.loads(payload)
        key = (hint["to"], hint["topic"])
        known = self._ids.get(key, set())
        if known is None or not hint["ids"]:
            self._ids[key] = None
            return
        known |= set(hint["ids"])
        self._ids[key] = known if len(known) <= IDS_MAX else None

    def take(self) -> list[tuple[str, str, list[str]]]:
        """What was collected, as (audience, topic, ids), and start anew."""
        taken = [(to, topic, sorted(ids or ())) for (to, topic), ids in sorted(self._ids.items())]
        self._ids.clear()
        return taken


def run_relay(stopping: Event) -> None:
    """Relay until `stopping` is set. Survives PostgreSQL and Valkey going away: hints of that
    time are lost, which is why pages also look by themselves."""
    sequence: dict[str, int] = defaultdict(int)
    with asyncio.Runner() as runner:
        while not stopping.is_set():
            try:
                with dedicated_connection("tidegate-live-relay") as own:
                    own.execute(f"LISTEN {CHANNEL}")
                    _relay(own, runner, sequence, stopping)
            except psycopg.OperationalError as error:
                log.warning("live relay waits for the database: %s", error)
                stopping.wait(2)


def _relay(
    own: psycopg.Connection,
    runner: asyncio.Runner,
    sequence: dict[str, int],
    stopping: Event,
) -> None:
    merger = Merger()
    silent_until = 0.0
    while not stopping.is_set():
        for notice in own.notifies(timeout=PERIOD_S):
            merger.add(notice.payload)
        for audience, topic, ids in _with_platform(merger.take()):
            sequence[audience] += 1
            if time.monotonic() < silent_until:
                continue
            message = {
                "type": "change",
                "stream": audience,
                "seq": sequence[audience],
                "topic": topic,
                "ids": ids,
                "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            }
            try:
                runner.run(_send(group_of(audience), message))
            except Exception:
                # Any failure of the layer means the same: nobody hears this hint.
                log.warning("live relay cannot reach Valkey; it tries again in 5 s", exc_info=True)
                silent_until = time.monotonic() + 5


def _with_platform(
    hints: list[tuple[str, str, list[str]]],
) -> list[tuple[str, str, list[str]]]:
    """The hints, and those of organizations once more for platform administrators."""
    return [
        (to, topic, ids)
        for audience, topic, ids in hints
        for to in ((audience,) if audience == EVERYBODY else (audience, PLATFORM))
    ]


async def _send(group: str, message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    assert layer is not None
    await asyncio.wait_for(layer.group_send(group, message), SEND_TIMEOUT_S)
