"""What the arbiter's leader remembers from one cycle to the next, so that a cycle reads only what
changed.

Triggers note every job of which something changed that the arbiter may know (`Change`), with the
transaction that changed it. Numbers given out at once may be committed in any order, so nothing is
remembered as "read up to": all changes are read of transactions that had not ended for certain at
the last reading (PostgreSQL's `pg_snapshot_xmin`). Reading one twice does no harm, and none is
missed. What is little, or changes with time alone, is read whole each time and compared.

The nodes, and the tree with its quotas, classes and rules, are many and seldom change, so that one
of them did is noted too (a change of no job), and what is remembered of them holds until then.

What a cycle itself has written is read at its end, when nobody who starts waits any more, and not
at the begin of the next one.

Now and then everything is read whole and compared with what is remembered.
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
    one_instant,
    queued_jobs,
    read_surroundings,
    reading_of,
    running_attempts,
)
from quotas.queries import quota_snapshot

log = logging.getLogger(__name__)

#: With more changed jobs than this, reading all of them costs less.
CHANGED_MAX = 20_000
#: Changes that are forgotten in one cycle at most.
FORGOTTEN_MAX = 50_000
_NAMED = 5
#: Stands among the ids of changed jobs where nodes, tree, quotas, classes or rules have changed.
_AROUND = "around"


@dataclass(slots=True)
class _Known:
    """All of one instant; transactions before `since` had ended then."""

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
    #: How often more was read into it.
    reading: int = 0

    def attempts(self) -> Iterator[RunningJob]:
        return chain.from_iterable(map(dict.values, self.running.values()))


class Remembered:
    """What was read last, as `Reading` has it, until more is read. Its snapshot is put together
    when somebody first asks for it, as nobody who is to start waits for that."""

    def __init__(self, known: _Known) -> None:
        self._known = known
        self._number = known.reading
        self.policy = known.around.policy
        self.withheld = known.around.withheld

    @cached_property
    def snapshot(self) -> Snapshot:
        """What the arbiter was offered. Raises RuntimeError when more was read since."""
        known = self._unchanged()
        return reading_of(known.at, known.around, known.attempts(), known.queued.values()).snapshot

    @property
    def queued(self) -> Mapping[str, QueuedJob]:
        """The queued jobs of the snapshot by their ids. Raises RuntimeError as `snapshot`."""
        return self._unchanged().queued

    def _unchanged(self) -> _Known:
        if self._known.reading != self._number:
            raise RuntimeError("asked for what is remembered no more: more was read since")
        return self._known


class Memory:
    """Of one leader. What fails is forgotten, and the next reading is a whole one."""

    def __init__(self) -> None:
        self._known: _Known | None = None

    def read(self, now: datetime) -> Remembered:
        """Everything as of this instant, as `read_queue` reads it."""
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
                around = read_surroundings(now, fleet, usage, tree)
                changed = _changed(known, around, noted, now)
                if changed is None:
                    known = _whole(since, now, around, known.use)
                else:
                    if _AROUND not in noted:
                        _tell_wrong(around, before)
                    _bring_up_to_date(known, around, changed)
                    _touch(known, noted)
                    known.since, known.at = since, now
                    if is_due:
                        known = _compared(known, _whole(since, now, around, known.use))
        self._known = known
        return Remembered(known)

    def catch_up(self) -> None:
        """Read what changed of jobs since the last reading; what was decided cannot be explained
        any more. Where more than that changed it is left to the next reading."""
        known, self._known = self._known, None
        if known is None:
            return
        with one_instant():
            since, noted = _unfinished_since(), _noted(known.since)
            if _AROUND not in noted and len(noted) <= CHANGED_MAX:
                # What else now holds of them the next reading compares with what did until now.
                _tell_jobs(known, noted)
                _touch(known, noted)
                known.use.read_again(noted)
                known.since = since
        self._known = known

    def touched(self) -> set[str] | None:
        """The jobs of which anything changed, by all readings since `forget_changes`, but for those
        that run; None where that may be any. An explanation is taken away only with a change that
        is noted."""
        known = self._known
        if known is None or known.touched is None:
            return None
        return known.touched.difference(known.running)

    def decide(self, now: datetime) -> Decided:
        """The plan for what was read last, which was as of `now`; explained until the next reading
        or decision."""
        known, self._known = self._known, None
        if known is None or known.at != now:
            raise RuntimeError("decided on what was not read")
        decided = known.core.decide(int(now.timestamp()))
        self._known = known
        return decided

    def forget_changes(self) -> None:
        """Delete the changes that are read for good, and those of another server's life, whose
        numbers are still to come (a restored dump); in the caller's transaction. Nobody asks again
        which jobs they were of."""
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
    """The jobs that are noted as changed, and `_AROUND` where more is; of too many not all."""
    with connection.cursor() as cursor:
        cursor.execute(_NOTED, [since, CHANGED_MAX + 2])
        return {_AROUND if job is None else job for (job,) in cursor.fetchall()}


def _used(
    known: _Known, noted: Collection[str], now: datetime, *, is_due: bool
) -> tuple[Usage, ...]:
    """What everybody used lately, where that is told of all jobs that changed."""
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
    """The jobs to be read again; None where all are to be."""
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


def _tell_wrong(around: Surroundings, before: Surroundings) -> None:
    """Nothing of it is noted as changed."""
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


def _bring_up_to_date(known: _Known, around: Surroundings, changed: Collection[str]) -> None:
    core, before = known.core, known.around
    if (around.tree, around.pool_weights) != (before.tree, before.pool_weights):
        tree = around.tree
        core.set_tree(tree.nodes, tree.quotas, tree.priority_classes, around.pool_weights)
    devices = around.fleet.devices
    if (devices, around.clusters) != (before.fleet.devices, before.clusters):
        core.set_devices(devices, around.clusters)
    core.set_usage(around.usage)
    _tell_claims(known, around)
    # What the rules say of a kind of job is known already.
    known.around = around._replace(usable=before.usable)
    _tell_jobs(known, changed)


def _tell_jobs(known: _Known, changed: Collection[str]) -> None:
    known.reading += 1
    if changed:
        _tell_queued(known, changed, queued_jobs(known.around, changed))
        _tell_running(known, changed, running_attempts(changed))


def _tell_claims(known: _Known, around: Surroundings) -> None:
    before = {claim.job: claim for claim in known.around.claims}
    after = {claim.job: claim for claim in around.claims}
    for job_id in before.keys() | after.keys():
        if before.get(job_id) != after.get(job_id):
            if job_id in before:
                known.core.unclaim(job_id)
            if job_id in after:
                known.core.claim(after[job_id])


def _tell_queued(known: _Known, changed: Iterable[str], queued: Iterable[QueuedJob]) -> None:
    found = {job.id: job for job in queued}
    for job_id in changed:
        job = found.get(job_id)
        if job is None:
            if known.queued.pop(job_id, None) is not None:
                known.core.withdraw(job_id)
        elif known.queued.get(job_id) != job:
            known.queued[job_id] = job
            known.core.queue(job)


def _tell_running(known: _Known, changed: Iterable[str], running: Iterable[RunningJob]) -> None:
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
    """`known`, or `whole` where they are not the same, which is a fault of ours."""
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
