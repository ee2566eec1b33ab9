"""The memory of the arbiter's leader between cycles, so that a cycle reads only changes.

Triggers note each changed job (`Change`), with the transaction that changed it. Transactions commit
in any order, so the memory does not keep a last change that it has read. It reads all changes of
transactions that had not certainly ended at the last reading (PostgreSQL's `pg_snapshot_xmin`).
Reading a change twice does no harm, and none is missed. Small data, and data that changes with time
alone, is read whole each time and compared.

Nodes, and the tree with its quotas, classes and rules, are many and seldom change. Their changes
are noted too, as a change without a job. They are remembered until such a change.

The rows that a cycle writes are read at its end, when no start waits any more, and not at the
beginning of the next cycle.

From time to time everything is read whole and compared with the memory.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain

from django.conf import settings
from django.db import connection

from arbiter.api.snapshot import QueuedJob, RunningJob, Snapshot, Usage
from arbiter.cycle.result import Decided
from arbiter.cycle.scheduler import Core
from billing.fair_use import RecentUse
from clusters.queries import read_fleet
from jobs.arbitration.snapshots import (
    Surroundings,
    balances_around,
    one_instant,
    queued_jobs,
    read_surroundings,
    reading_of,
    running_attempts,
)
from quotas.queries import quota_snapshot

log = logging.getLogger(__name__)

#: With more changed jobs than this, reading all jobs costs less.
CHANGED_MAX = 20_000
#: The most changes deleted in one cycle.
FORGOTTEN_MAX = 50_000
_NAMED = 5
#: A member among the ids of changed jobs that means a change of nodes, tree, quotas, classes or
#: rules.
_AROUND = "around"


@dataclass(slots=True)
class _Known:
    """The whole state at one instant; transactions before `since` had ended then."""

    since: int
    at: datetime
    whole_at: datetime
    around: Surroundings
    queued: dict[str, QueuedJob]
    #: By job and attempt.
    running: dict[str, dict[str, RunningJob]]
    core: Core
    use: RecentUse
    #: See `Memory.touched`.
    touched: set[str] | None = None
    #: The number of readings so far.
    reading: int = 0

    def attempts(self) -> Iterator[RunningJob]:
        return chain.from_iterable(map(dict.values, self.running.values()))


class Remembered:
    """The last reading, in the form of `Reading`, until the next one.

    Its snapshot is built on first use, because no start waits for it.
    """

    def __init__(self, known: _Known) -> None:
        self._known = known
        self._number = known.reading
        self.policy = known.around.policy
        self.withheld = known.around.withheld
        self.stops = known.around.stops

    @cached_property
    def snapshot(self) -> Snapshot:
        """The snapshot that the arbiter was offered. Raises RuntimeError after a later reading."""
        known = self._unchanged()
        return reading_of(known.at, known.around, known.attempts(), known.queued.values()).snapshot

    @property
    def queued(self) -> Mapping[str, QueuedJob]:
        """The queued jobs of the snapshot by id. Raises RuntimeError as `snapshot`."""
        return self._unchanged().queued

    def _unchanged(self) -> _Known:
        if self._known.reading != self._number:
            raise RuntimeError("asked for what is remembered no more: more was read since")
        return self._known


class Memory:
    """The memory of one leader. After an error it is empty, and the next reading is complete."""

    def __init__(self) -> None:
        self._known: _Known | None = None

    def read(self, now: datetime) -> Remembered:
        """Return the state at this instant, as `read_queue` reads it."""
        known, self._known = self._known, None
        with one_instant():
            since = _unfinished_since()
            if known is None:
                use = RecentUse()
                known = _whole(since, now, read_surroundings(now, usage=use.read(now)), use)
            else:
                noted, before = _noted(known.since), known.around
                is_due = now - known.whole_at >= _compared_every()
                fleet, tree = before.fleet, before.tree
                if _AROUND in noted or is_due:
                    fleet, tree = read_fleet(fleet), quota_snapshot()
                usage = _used(known, noted, now, is_due=is_due)
                balances = before.balances if tree is before.tree else None
                around = read_surroundings(now, fleet, usage, tree, balances)
                changed = _changed(known, around, noted, now)
                if changed is None:
                    known = _whole(since, now, around, known.use)
                else:
                    if _AROUND not in noted:
                        _log_mismatch(around, before)
                    _bring_up_to_date(known, around, changed, now)
                    _touch(known, noted)
                    known.since, known.at = since, now
                    if is_due:
                        known = _compared(known, _whole(since, now, around, known.use))
        self._known = known
        return Remembered(known)

    def catch_up(self) -> None:
        """Read the changes of jobs since the last reading.

        After it the last decision cannot be explained any more. If other data changed too, the next
        reading takes all of it.
        """
        known, self._known = self._known, None
        if known is None:
            return
        with one_instant():
            since, noted = _unfinished_since(), _noted(known.since)
            if _AROUND not in noted and len(noted) <= CHANGED_MAX:
                # The next reading compares the other data with its earlier state.
                _update_jobs(known, noted)
                _touch(known, noted)
                known.use.read_again(noted)
                known.since = since
        self._known = known

    def touched(self) -> set[str] | None:
        """Return the jobs that changed in any reading since `forget_changes`, without running jobs.

        None means that any job may have changed. An explanation is removed only together with a
        noted change.
        """
        known = self._known
        if known is None or known.touched is None:
            return None
        return known.touched.difference(known.running)

    def decide(self, now: datetime) -> Decided:
        """Return the plan for the last reading, which must be as of `now`.

        The plan can be explained until the next reading or decision.
        """
        known, self._known = self._known, None
        if known is None or known.at != now:
            raise RuntimeError("decided on what was not read")
        decided = known.core.decide(int(now.timestamp()))
        self._known = known
        return decided

    def forget_changes(self) -> None:
        """Delete the changes that are certainly read, in the caller's transaction.

        It also deletes changes of another server's life (a restored dump), whose transaction ids
        are still to come here. It clears `touched` as well.
        """
        if self._known is None:
            return
        self._known.touched = set()
        with connection.cursor() as cursor:
            cursor.execute(_FORGET, {"since": self._known.since, "most": FORGOTTEN_MAX})


def _unfinished_since() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
        return int(cursor.fetchone()[0])


def _whole(since: int, now: datetime, around: Surroundings, use: RecentUse) -> _Known:
    queued = {job.id: job for job in queued_jobs(around)}
    running: dict[str, dict[str, RunningJob]] = {}
    for run in running_attempts():
        running.setdefault(run.job, {})[run.attempt] = run
    known = _Known(since, now, now, around, queued, running, Core(around.policy), use)
    reading = reading_of(now, around, known.attempts(), queued.values())
    known.core = Core.of(reading.snapshot, around.policy)
    return known


def _compared_every() -> timedelta:
    return timedelta(seconds=settings.CYCLES_COMPARED_EVERY_S)


def _noted(since: int) -> set[str]:
    """Return the changed jobs, and `_AROUND` if other data changed.

    The result is cut off if there are more than `CHANGED_MAX`.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NOTED, [since, CHANGED_MAX + 2])
        return {_AROUND if job is None else job for (job,) in cursor.fetchall()}


def _used(
    known: _Known, noted: Collection[str], now: datetime, *, is_due: bool
) -> tuple[Usage, ...]:
    """Return the recent use of all users and teams.

    It reads only that of changed jobs, unless these are too many.
    """
    if len(noted) > CHANGED_MAX:
        return known.use.read(now)
    usage = known.use.read(now, [job for job in noted if job != _AROUND])
    if is_due:
        known.use = RecentUse()
        whole = known.use.read(now)
        if whole != usage:
            log.error("cycle: what was used lately was remembered wrongly")
            return whole
    return usage


def _changed(
    known: _Known, around: Surroundings, noted: Collection[str], now: datetime
) -> set[str] | None:
    """Return the jobs to read again; None if all jobs must be read."""
    before = known.around
    if (
        now < known.at
        or around.policy != before.policy
        or not around.usable.has_rules_of(before.usable)
    ):
        return None
    changed = {job for job in noted if job != _AROUND}
    changed |= {item.job for item in before.withheld} ^ {item.job for item in around.withheld}
    changed |= {
        job
        for job in before.avoided.keys() | around.avoided.keys()
        if before.avoided.get(job) != around.avoided.get(job)
    }
    return None if len(changed) > CHANGED_MAX else changed


def _log_mismatch(around: Surroundings, before: Surroundings) -> None:
    """Log an error for data that changed although no change was noted."""
    if around.fleet is not before.fleet:
        log.error("cycle: nodes were remembered wrongly")
    if around.tree != before.tree:
        log.error("cycle: the tree was remembered wrongly")


def _touch(known: _Known, noted: Collection[str]) -> None:
    if known.touched is not None:
        known.touched.update(noted)


_NOTED = """
SELECT DISTINCT job_id::text FROM jobs_change WHERE transaction >= %s
ORDER BY 1 NULLS FIRST LIMIT %s
"""
_FORGET = """
DELETE FROM jobs_change WHERE id IN (
    SELECT id FROM jobs_change
    WHERE transaction < %(since)s
        OR (transaction >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint
            AND transaction <> pg_current_xact_id()::text::bigint)
    LIMIT %(most)s
)
"""


def _bring_up_to_date(
    known: _Known, around: Surroundings, changed: Collection[str], now: datetime
) -> None:
    core, before = known.core, known.around
    if _told_of_tree(around) != _told_of_tree(before):
        tree = around.tree
        quotas = around.stops.limit(tree.quotas)
        core.set_tree(tree.nodes, quotas, tree.priority_classes, around.pool_weights)
    devices = around.fleet.devices
    if (devices, around.clusters) != (before.fleet.devices, before.clusters):
        core.set_devices(devices, around.clusters)
    if around.maintenance != before.maintenance:
        core.set_maintenance(around.maintenance)
    core.set_usage(around.usage)
    _update_claims(known, around)
    # Keep the old object, which has already computed its answers.
    known.around = around._replace(usable=before.usable)
    _update_jobs(known, changed)
    core.set_balances(balances_around(around, known.attempts(), now))


def _told_of_tree(around: Surroundings) -> tuple[object, ...]:
    """Return what the arbiter was told of the tree, its quotas and its pools."""
    return around.tree, around.pool_weights, around.stops.unborrowing.keys()


def _update_jobs(known: _Known, changed: Collection[str]) -> None:
    known.reading += 1
    if changed:
        _update_queued(known, changed, queued_jobs(known.around, changed))
        _update_running(known, changed, running_attempts(changed))


def _update_claims(known: _Known, around: Surroundings) -> None:
    before = {claim.job: claim for claim in known.around.claims}
    after = {claim.job: claim for claim in around.claims}
    for job_id in before.keys() | after.keys():
        if before.get(job_id) != after.get(job_id):
            if job_id in before:
                known.core.unclaim(job_id)
            if job_id in after:
                known.core.claim(after[job_id])


def _update_queued(known: _Known, changed: Iterable[str], queued: Iterable[QueuedJob]) -> None:
    found = {job.id: job for job in queued}
    for job_id in changed:
        job = found.get(job_id)
        if job is None:
            if known.queued.pop(job_id, None) is not None:
                known.core.withdraw(job_id)
        elif known.queued.get(job_id) != job:
            known.queued[job_id] = job
            known.core.queue(job)


def _update_running(known: _Known, changed: Iterable[str], running: Iterable[RunningJob]) -> None:
    found: dict[str, dict[str, RunningJob]] = {}
    for run in running:
        found.setdefault(run.job, {})[run.attempt] = run
    for job_id in changed:
        before, after = known.running.get(job_id, {}), found.get(job_id, {})
        for attempt in before.keys() - after.keys():
            known.core.release(attempt)
        for attempt, run in after.items():
            if before.get(attempt) != run:
                known.core.hold(run)
        if after:
            known.running[job_id] = after
        else:
            known.running.pop(job_id, None)


def _compared(known: _Known, whole: _Known) -> _Known:
    """Return `known`, or `whole` if they differ, which is a bug."""
    jobs = {
        job
        for mine, theirs in ((known.queued, whole.queued), (known.running, whole.running))
        for job in mine.keys() | theirs.keys()
        if mine.get(job) != theirs.get(job)
    }
    if jobs:
        named = ", ".join(sorted(jobs)[:_NAMED])
        log.error("cycle: %d jobs were remembered wrongly, among them %s", len(jobs), named)
        return whole
    known.whole_at, known.touched = whole.whole_at, None
    return known
