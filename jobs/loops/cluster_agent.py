"""The threads of the observer for one cluster: they observe, start, stop, set nodes and compare.

Every thread survives a loss of the database, of Valkey or of the cluster. It logs the loss once,
waits a little and tries again. Each cluster has its own threads, so that a cluster that hangs slows
no other.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    close_old_connections,
    connection,
)

from billing.reconciliations import account_shard, plan_days
from clusters.models import Cluster
from clusters.node_requests import node_shard
from clusters.observation import check_is_no_other, record_inventory, record_silence
from clusters.outside import OutsideUse, record_outside_use
from connectors.errors import ConnectorError
from connectors.protocol import ClusterConnector, Listing, Observation, ReportsNews
from connectors.registry import kind_named
from jobs.execution.connecting import connector_of
from jobs.execution.dispatch import handlers
from jobs.execution.held_submissions import due_for_release
from jobs.execution.observation import apply_listing
from jobs.execution.questions import Questions
from jobs.execution.restoring import ClusterMemory
from jobs.execution.sampling import SAMPLE_EVERY_S, FinalFigures, sample_running
from jobs.execution.settling import settle
from jobs.execution.strays import add_strays, find_strays
from jobs.execution.withdrawing import (
    StillHeld,
    withdraw_changed,
    withdraw_stuck,
    withdraw_unacknowledged,
)
from jobs.intentions import start_shard, stop_shard
from jobs.leadership import RETRY_S, Leadership, NotLeading
from jobs.natives.asking_natives import Memory
from jobs.natives.natives import apply_natives
from jobs.natives.waiting_natives import apply_waiting_natives
from outbox.delivery import deliver_due
from primitives.clock import Clock, from_epoch
from quotas.pushes import is_check_due, push_shard, request_check

log = logging.getLogger(__name__)
Result = TypeVar("Result")
#: Minimum pause in seconds between two observations of a cluster, however much happens there. The
#: pause is also at least as long as the observation took.
LOOK_AGAIN_S = 0.2
SILENCE_PAUSE_MAX_S = 15.0
#: Threads that start jobs on one cluster. A start is mostly waiting for answers.
STARTERS = 3
#: Messages that a thread claims together, so that one query serves them all.
CLAIMED_AT_ONCE = 8
#: Maximum number of complaints about nodes.
ODD_NODES_SHOWN = 3
PLAN_DAYS_EVERY_S = 60.0


def _recall(
    cluster: Cluster, since: int, listed: Collection[str]
) -> Mapping[str, tuple[Observation, ...]]:
    """Return what the cluster's accounting reports of workloads that ended since then."""
    opener = kind_named(cluster.kind).open_recaller
    return {} if opener is None else opener(cluster.options).ended_since(since, listed=listed)


class ClusterAgent:
    """The threads for one cluster.

    One thread observes, and some start jobs. One thread each stops jobs, changes nodes, compares
    limits, samples metrics, and compares accounts. Without `looks` only the thread for accounts
    runs.
    """

    def __init__(
        self,
        cluster_id: UUID,
        leadership: Leadership,
        clock: Clock,
        monotonic_s: Callable[[], float] = monotonic,
        *,
        looks: bool = True,
    ) -> None:
        self.stopping = Event()
        self._news: dict[Callable[[UUID], str], Event] = {
            start_shard: Event(),
            stop_shard: Event(),
            node_shard: Event(),
            push_shard: Event(),
            account_shard: Event(),
        }
        self._cluster_id = cluster_id
        self._leadership = leadership
        self._clock = clock
        self._monotonic_s = monotonic_s
        # Its own generator: a draw from the module's would disturb tests that seed it.
        self._chance = random.Random()  # noqa: S311 - no secret
        self._listed_at: datetime | None = None
        self._counted_at: datetime | None = None
        self._planned_s: float | None = None
        self._silent_since_s: float | None = None
        self._memory = ClusterMemory()
        self._questions = Questions()
        self._final_figures = FinalFigures()
        self._still_held = StillHeld()
        self._look_now = Event()
        self._hurried: frozenset[UUID] = frozenset()
        self._native_memory = Memory()
        self._opening = Lock()
        self._opened: tuple[tuple[Any, ...], ClusterConnector] | None = None
        looking = [
            Thread(target=self._watch, daemon=True, name="observe"),
            *(
                Thread(target=self._serve, args=(start_shard,), daemon=True, name=f"start-{number}")
                for number in range(STARTERS)
            ),
            Thread(target=self._serve, args=(stop_shard,), daemon=True, name="stop"),
            Thread(target=self._serve, args=(node_shard,), daemon=True, name="nodes"),
            Thread(target=self._serve, args=(push_shard,), daemon=True, name="quota"),
            Thread(
                target=self._loop,
                args=(self._sample, self.stopping.wait),
                daemon=True,
                name="metrics",
            ),
        ]
        self._threads = [
            *(looking if looks else ()),
            Thread(target=self._serve, args=(account_shard,), daemon=True, name="account"),
        ]
        self._working = len(self._threads)
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Tell the threads to end.

        A call to the cluster that is under way may take until its time-out.
        """
        self.stopping.set()
        self.wake()
        self._news_there().set()

    @property
    def has_compared(self) -> bool:
        """Return whether the cluster was compared with the database in this term.

        After the comparison the cluster holds nothing that the database has forgotten.
        """
        return self._memory.is_compared

    @property
    def is_gone(self) -> bool:
        """Return whether no thread is left."""
        return not any(thread.is_alive() for thread in self._threads)

    def join(self, within_s: float) -> None:
        """Wait until no thread is left, at most `within_s` seconds."""
        deadline_s = monotonic() + within_s
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline_s - monotonic()))

    def wake(self) -> None:
        """Wake the threads, because there is something new to carry out."""
        for event in self._news.values():
            event.set()

    def _watch(self) -> None:
        looked_s = 0.0

        def look() -> float:
            nonlocal looked_s
            began_s = monotonic()
            try:
                return self._look()
            finally:
                looked_s = monotonic() - began_s

        self._loop(look, lambda pause_s: self._pause(pause_s, looked_s))

    def _pause(self, pause_s: float, looked_s: float) -> None:
        """Wait for news after an observation of `looked_s`, at most `pause_s` seconds."""
        news = self._news_there()
        rest_s = min(pause_s, max(LOOK_AGAIN_S, looked_s))
        if not self.stopping.wait(rest_s):
            # `end` sets it too.
            news.wait(pause_s - rest_s)
            news.clear()

    def _news_there(self) -> Event:
        """Return the event that ends a pause.

        It is the event of the connector, if its cluster sends events. Otherwise only a due release
        ends the pause.
        """
        connector = None if self._opened is None else self._opened[1]
        return connector.news if isinstance(connector, ReportsNews) else self._look_now

    def _serve(self, shard_of: Callable[[UUID], str]) -> None:
        news = self._news[shard_of]

        def pause(pause_s: float) -> None:
            news.wait(pause_s)
            news.clear()

        self._loop(lambda: self._deliver(shard_of(self._cluster_id)), pause)

    def _loop(self, step: Callable[[], float], pause: Callable[[float], object]) -> None:
        try:
            while not self.stopping.is_set() and self._leadership.is_leading:
                try:
                    pause_s = step()
                except NotLeading as error:
                    log.warning("%s", error)
                    return
                except (DatabaseError, InterfaceError) as error:
                    log.warning("observer waits for the database: %s", error)
                    close_old_connections()
                    pause_s = RETRY_S
                except Exception:
                    # One bad answer must not end the observation of all other jobs.
                    log.exception("observer of cluster %s stumbled", self._cluster_id)
                    pause_s = RETRY_S
                # Back to the pool, which has fewer connections than many clusters have threads.
                connection.close()
                pause(pause_s)
        finally:
            connection.close()
            with self._opening:
                self._working -= 1
                if not self._working:
                    # Its watch on the cluster ends with it. The next leader opens its own.
                    self._opened = None

    def _look(self) -> float:
        cluster = Cluster.objects.get(pk=self._cluster_id)
        # A cluster that hangs must not occupy a connection that other threads could use.
        connection.close()
        try:
            connector = self._connector(cluster)
            # At every look, so that nothing is started on a node that was just taken out.
            inventory = connector.inventory()
            check_is_no_other(cluster, inventory)
            # The connection of that check.
            connection.close()
            listing = connector.observe()
        except ConnectorError as error:
            now = self._clock.now()
            with self._leadership.fence():
                record_silence(cluster, str(error), now=now)
            if self._opened is not None and self._opened[1].submits_held:
                withdraw_unacknowledged(cluster, leadership=self._leadership, now=now)
            # Not by `failing_since`: a clock that is set back would cause calls all the time.
            if self._silent_since_s is None:
                self._silent_since_s = self._monotonic_s()
            failing_s = self._monotonic_s() - self._silent_since_s
            pause_s = min(1 + failing_s / 4, SILENCE_PAUSE_MAX_S)
            # Jitter, so that many portals do not call at once when a cluster comes back.
            return pause_s * self._chance.uniform(0.8, 1.2)
        self._silent_since_s = None
        now = self._clock.now()
        previous_at = self._listed_at or cluster.observed_at
        if self._counted_at is None:
            self._counted_at = previous_at
        problem = self._compare(cluster, listing, now)
        apply_listing(
            cluster,
            listing,
            connector=connector,
            previous_at=previous_at,
            leadership=self._leadership,
            now=now,
            counts_misses=problem is None,
            questions=self._questions,
        )
        if problem is not None:
            # The time of its last answer stays: accounting is asked from then on.
            with self._leadership.fence():
                record_silence(cluster, f"Nothing is started there yet: {problem}", now=now)
            return RETRY_S
        complaints: list[str] = []
        odd = list(inventory.complaints[:ODD_NODES_SHOWN])
        leadership = self._leadership

        def settle_held() -> None:
            # First, so that a changed workload is not released again.
            withdraw_changed(cluster, listing, leadership=leadership, now=now)
            settle(cluster, connector, listing, leadership=leadership, complain=complaints.append)
            withdraw_stuck(
                cluster, listing, leadership=leadership, now=now, still_held=self._still_held
            )

        def count_outside() -> OutsideUse | None:
            opener = kind_named(cluster.kind).control_natives
            if opener is None:
                return None
            control = opener(connector)
            found = find_strays(cluster, listing, leadership)
            apply = (
                apply_natives
                if control.starter is None
                else partial(
                    apply_waiting_natives, starter=control.starter, memory=self._native_memory
                )
            )
            use = apply(
                cluster,
                found.among_natives(listing),
                control=control,
                # Workloads that ended since the last count are still charged.
                previous_at=self._counted_at,
                leadership=leadership,
                now=now,
                questions=self._questions,
                complain=odd.append,
            )
            self._counted_at = from_epoch(listing.observed_at)
            return add_strays(use, found.strays, control=control, complain=odd.append)

        # A failure of one step must block neither the other nor the nodes.
        self._guarded("The release of held workloads", settle_held, odd)
        outside = self._guarded("The count of native jobs", count_outside, odd)
        self._listed_at = from_epoch(listing.observed_at)
        # In one transaction, so that GPUs held outside are never offered.
        with self._leadership.fence():
            record_inventory(cluster, inventory, now=now, complaints=(*odd, *complaints[:1]))
            if outside is not None:
                record_outside_use(cluster, outside)
        return float(settings.OBSERVATION_PERIOD_S)

    def _guarded(
        self, what: str, step: Callable[[], Result], complaints: list[str]
    ) -> Result | None:
        """Return the result of `step`; None if it fails.

        A failure is logged and added to `complaints`. Errors of the database and of the leadership
        are raised.
        """
        try:
            return step()
        except (NotLeading, DatabaseError, InterfaceError) as error:
            if not isinstance(error, (DataError, IntegrityError)):
                raise
            stumble: Exception = error
        except Exception as error:
            stumble = error
        log.error("%s on cluster %s", what, self._cluster_id, exc_info=stumble)
        complaints.append(f"{what} failed: the log of the observer says why.")
        return None

    def _compare(self, cluster: Cluster, listing: Listing, now: datetime) -> ConnectorError | None:
        """Compare the listing with the database, which a restore may have set back.

        Return the error if the comparison is not possible now.
        """
        had_waited = not self._memory.is_compared
        try:
            self._memory.compare(
                cluster,
                listing,
                ask=partial(_recall, cluster),
                leadership=self._leadership,
                now=now,
            )
        except ConnectorError as error:
            return error
        if had_waited:
            self.wake()
        return None

    def _connector(self, cluster: Cluster) -> ClusterConnector:
        """Return the connector, which stays the same until its options change.

        It remembers what has ended.
        """
        with self._opening:
            opened_as = (cluster.kind, cluster.options, cluster.identity)
            if self._opened is None or self._opened[0] != opened_as:
                self._opened = (opened_as, connector_of(cluster))
            return self._opened[1]

    def _sample(self) -> float:
        """Sample what runs, and complete what ended; return the seconds until the next round."""
        cluster = Cluster.objects.get(pk=self._cluster_id)
        opener = kind_named(cluster.kind).open_metrics
        if opener is not None:
            leadership, now = self._leadership, self._clock.now()
            try:
                reader = opener(self._connector(cluster))
                try:
                    sample_running(cluster, reader, leadership=leadership)
                finally:
                    # What ended is complete also while nothing is reported about what runs.
                    self._final_figures.complete(cluster, reader, leadership=leadership, now=now)
            except ConnectorError as error:
                log.warning("cluster %s reports no metrics now: %s", cluster.name, error)
        return float(SAMPLE_EVERY_S)

    def _deliver(self, shard: str) -> float:
        if shard == push_shard(self._cluster_id):
            self._request_due_check()
        if shard == account_shard(self._cluster_id):
            self._plan_due_days()
        if shard == start_shard(self._cluster_id) and not self._memory.is_compared:
            # First the comparison finds out whether it has run already.
            return float(settings.OBSERVATION_PERIOD_S)
        deliver_due(
            handlers(self._leadership, self._clock.now, self._connector),
            shard=shard,
            clock=self._clock.now,
            fence=self._leadership.fence,
            at_once=CLAIMED_AT_ONCE if shard == start_shard(self._cluster_id) else 1,
        )
        if shard == start_shard(self._cluster_id):
            self._hurry_releases()
        return float(settings.OBSERVATION_PERIOD_S)

    def _hurry_releases(self) -> None:
        """Observe the cluster now if a job that was submitted held awaits its release.

        The next listing releases such a job. Each job causes this once.
        """
        if self._opened is None or not self._opened[1].submits_held:
            return
        due = due_for_release(self._cluster_id)
        if due - self._hurried:
            self._news_there().set()
        self._hurried = due

    def _request_due_check(self) -> None:
        """Request a check of limits when due, to detect changes by hand."""
        now = self._clock.now()
        cluster = Cluster.objects.get(pk=self._cluster_id)
        if is_check_due(cluster, now=now):
            with self._leadership.fence():
                request_check(cluster, now=now)

    def _plan_due_days(self) -> None:
        """Plan the reconciliation of each day once the day is over."""
        now_s = self._monotonic_s()
        if self._planned_s is None or now_s - self._planned_s >= PLAN_DAYS_EVERY_S:
            with self._leadership.fence():
                plan_days(Cluster.objects.get(pk=self._cluster_id), now=self._clock.now())
            self._planned_s = now_s
