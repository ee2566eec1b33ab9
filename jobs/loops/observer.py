"""The observer's loop: an agent for each relevant cluster, while this process leads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from threading import Event
from time import monotonic
from typing import NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from billing.reconciliations import DAYS_MAX
from clusters.models import Cluster
from connectors.registry import kinds_where
from jobs.execution.withdrawing import UNANSWERED_S, withdraw_unanswered
from jobs.leadership import RETRY_S, STEP_WITHIN_S, Leadership, lead
from jobs.loops.cluster_agent import ClusterAgent
from jobs.models import Attempt
from live.pulse import Pulse
from live.waking import Listener, dedicated_connection
from primitives.clock import Clock

#: Agents of earlier terms that may still wait for their clusters while the next term begins.
FORMER_MAX = 32
#: How long a process that ends waits for each of its agents.
ENDED_WITHIN_S = 30.0
CLUSTERS_AGAIN_S = 2.0
#: Rounds are CLUSTERS_AGAIN_S apart. A round that is so late shows that the process stood still.
STOOD_STILL_S = 5.0
#: So long after its last observation the accounting of an archived cluster is compared.
LAST_DAYS = timedelta(days=DAYS_MAX + 1)


def run_observer(stopping: Event, clock: Clock, pulse: Pulse | None = None) -> None:
    """Observe every relevant cluster, and carry out what is intended for it."""
    pulse = pulse or Pulse(None)

    # Agents that were ended and whose threads may still wait for their clusters.
    former: list[ClusterAgent] = []

    def act(leadership: Leadership) -> None:
        agents: dict[_Watched, ClusterAgent] = {}
        _join_oldest(former, stopping, pulse)
        silences = _Silences(leadership, clock)
        try:
            with dedicated_connection("tidegate-observer-listener") as own:
                listener = Listener(own, "observer")
                while leadership.is_leading and not stopping.is_set():
                    pulse.promise(CLUSTERS_AGAIN_S + STEP_WITHIN_S)
                    watched = _clusters_to_watch(clock.now())
                    for one, agent in list(agents.items()):
                        if one not in watched:
                            agent.end()
                        # Only then, so that a cluster never has two agents in one term.
                        if agent.is_gone:
                            del agents[one]
                    # A cluster that is observed again waits until its former agent is gone.
                    served = {one.cluster_id for one in agents}
                    for one in watched:
                        if one.cluster_id not in served:
                            agents[one] = ClusterAgent(
                                one.cluster_id, leadership, clock, looks=one.looks
                            )
                    # In this loop, because it calls no cluster. Threads of a hanging cluster wait.
                    silences.withdraw(
                        [one.cluster_id for one, agent in agents.items() if agent.has_compared]
                    )
                    leadership.note_work()
                    if listener.wait(CLUSTERS_AGAIN_S):
                        for agent in agents.values():
                            agent.wake()
        finally:
            # Without waiting for them: a call to a cluster may take until its time-out. Their later
            # writes are refused, because the term is over.
            for agent in agents.values():
                agent.end()
            former.extend(agents.values())

    try:
        lead("observer", stopping, act, pulse)
    finally:
        for agent in former:
            agent.join(ENDED_WITHIN_S)


def _join_oldest(former: list[ClusterAgent], stopping: Event, pulse: Pulse) -> None:
    """Wait until few enough agents of earlier terms are left."""
    while not stopping.is_set():
        pulse.promise(STEP_WITHIN_S)
        former[:] = [agent for agent in former if not agent.is_gone]
        if len(former) <= FORMER_MAX:
            return
        former[0].join(RETRY_S)


class _Watched(NamedTuple):
    """A cluster, and whether it is observed. If not, only its accounting is compared."""

    cluster_id: UUID
    looks: bool = True


def _clusters_to_watch(now: datetime) -> set[_Watched]:
    """Return the enabled clusters, and others on which attempts still run.

    An archived cluster stays for `LAST_DAYS`, so that its last days are compared with its
    accounting.
    """
    runs = Exists(Attempt.objects.filter(cluster=OuterRef("pk"), released_at=None))
    looked_at = Q(is_enabled=True) | runs
    accounting = kinds_where(lambda kind: kind.open_account)
    last_days = Q(archived_at__isnull=False, kind__in=accounting, seen_at__gte=now - LAST_DAYS)
    rows = (
        Cluster.objects.annotate(runs=runs)
        .filter(looked_at | last_days)
        .values_list("pk", "is_enabled", "runs")
    )
    return {_Watched(pk, is_enabled or runs) for pk, is_enabled, runs in rows}


class _Silences:
    """Withdraws starts from silent clusters, once this process has asked them for long enough.

    While the process itself stood still, it asked nothing, so that time does not count.
    """

    def __init__(
        self,
        leadership: Leadership,
        clock: Clock,
        monotonic_s: Callable[[], float] = monotonic,
    ) -> None:
        self._leadership = leadership
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._turned_s = self._asking_since_s = monotonic_s()

    def withdraw(self, clusters: Collection[UUID]) -> int:
        """Give up the starts that `clusters` left unanswered; return how many.

        See `withdraw_unanswered`.
        """
        now_s = self._monotonic_s()
        if now_s - self._turned_s > STOOD_STILL_S:
            self._asking_since_s = now_s
        self._turned_s = now_s
        if now_s - self._asking_since_s < UNANSWERED_S:
            return 0
        return withdraw_unanswered(clusters, leadership=self._leadership, now=self._clock.now())
