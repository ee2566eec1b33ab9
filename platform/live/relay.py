"""Takes committed hints from PostgreSQL and hands them to Channels, at most one per second each."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from threading import Event
from typing import Any

import psycopg
from channels.layers import get_channel_layer

from live.publishing import CHANNEL, COSTS, EVERYBODY, PERSON, PLATFORM, group_of
from live.waking import dedicated_connection

log = logging.getLogger(__name__)

PERIOD_S = 1.0
SEND_TIMEOUT_S = 2.0


#: Most ids of jobs per statement that looks up their readers, and most ids gathered.
JOBS_PER_STATEMENT = 1_000
JOBS_GATHERED_MAX = 5_000

#: Returns the audiences of the jobs with these ids, over the relay's own connection.
ReadersOfJobs = Callable[[psycopg.Connection, Sequence[str]], set[str]]


class Merger:
    """Gathers hints until they are taken: jobs by id, all others by (audience, topic)."""

    def __init__(self) -> None:
        self._hints: set[tuple[str, str]] = set()
        self._jobs: set[str] = set()

    def add(self, payload: str) -> None:
        """Add one notice."""
        hint = json.loads(payload)
        if hint["topic"] == "jobs":
            self._jobs |= set(hint["ids"])
        else:
            self._hints.add((hint["to"], hint["topic"]))

    @property
    def is_full(self) -> bool:
        """Return whether the gathered hints must be taken before more are added."""
        return len(self._jobs) >= JOBS_GATHERED_MAX

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is gathered."""
        return not self._hints and not self._jobs

    def take(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Return the gathered hints as (audience, topic) and the ids of jobs, and start anew."""
        taken = sorted(self._hints), sorted(self._jobs)
        self._hints, self._jobs = set(), set()
        return taken


class Relay:
    """Turns notices into the messages of each audience. Each audience has its own numbering."""

    def __init__(self, readers_of_jobs: ReadersOfJobs) -> None:
        self._readers_of_jobs = readers_of_jobs
        self._sequence: dict[str, int] = defaultdict(int)
        self.merger = Merger()

    def messages(self, own: psycopg.Connection) -> list[tuple[str, dict[str, Any]]]:
        """Take the gathered hints and return them as (audience, message)."""
        hints, jobs = self.merger.take()
        heard = set(_with_platform(hints))
        for first in range(0, len(jobs), JOBS_PER_STATEMENT):
            part = jobs[first : first + JOBS_PER_STATEMENT]
            heard |= {(audience, "jobs") for audience in self._readers_of_jobs(own, part)}
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        messages = []
        for audience, topic in sorted(heard):
            self._sequence[audience] += 1
            message = {
                "type": "change",
                "stream": audience,
                "seq": self._sequence[audience],
                "topic": topic,
                "at": at,
            }
            messages.append((audience, message))
        return messages


def run_relay(stopping: Event, readers_of_jobs: ReadersOfJobs) -> None:
    """Relay hints until `stopping` is set.

    The relay survives failures of PostgreSQL and Valkey. Hints are lost meanwhile, which is why
    pages also poll.
    """
    relay = Relay(readers_of_jobs)
    with asyncio.Runner() as runner:
        while not stopping.is_set():
            try:
                with dedicated_connection("tidegate-live-relay") as own:
                    own.execute(f"LISTEN {CHANNEL}")
                    _relay(own, runner, relay, stopping)
            except psycopg.OperationalError as error:
                log.warning("live relay waits for the database: %s", error)
                stopping.wait(2)


def _relay(own: psycopg.Connection, runner: asyncio.Runner, relay: Relay, stopping: Event) -> None:
    silent_until = 0.0
    while not stopping.is_set():
        # The first hint after a pause goes on at once. Those of the second after it are merged.
        if relay.merger.is_empty:
            _gather(own, relay.merger, stop_after=1)
        messages = relay.messages(own)
        if not messages:
            continue
        if time.monotonic() >= silent_until:
            try:
                runner.run(_send(messages))
            except Exception:
                # Any failure of the channel layer means the same: these hints are lost.
                log.warning("live relay cannot reach Valkey; it tries again in 5 s", exc_info=True)
                silent_until = time.monotonic() + 5
        _gather(own, relay.merger, stop_after=None)


def _gather(own: psycopg.Connection, merger: Merger, *, stop_after: int | None) -> None:
    """Add the notices of a period, up to a number of them."""
    for notice in own.notifies(timeout=PERIOD_S, stop_after=stop_after):
        merger.add(notice.payload)
        if merger.is_full:
            break


def _with_platform(hints: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the hints, and those of organizations a second time for platform administrators."""
    for audience, topic in hints:
        yield audience, topic
        if audience not in {EVERYBODY, COSTS} and not audience.startswith(PERSON):
            yield PLATFORM, topic


async def _send(messages: Sequence[tuple[str, dict[str, Any]]]) -> None:
    layer = get_channel_layer()
    assert layer is not None
    for audience, message in messages:
        await asyncio.wait_for(layer.group_send(group_of(audience), message), SEND_TIMEOUT_S)
