"""What the observer of one cluster makes of one look at it, step by step and without threads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from builders.connector_builders import change_kind
from builders.loop_builders import Fenced, a_job
from builders.native_builders import T0, AControl, a_native
from builders.portal_builders import NOW, Company, a_cluster, a_company, a_pool, a_user
from clusters.models import Cluster, ClusterNode
from connectors.errors import ClusterUnavailable
from connectors.protocol import Inventory, Listing, NativeWorkload, NodeCapacity
from jobs.loops.cluster_agent import SILENCE_PAUSE_MAX_S, ClusterAgent
from jobs.models import Attempt, HeldSubmission, JobState, Reclaim
from quotas.models import ClusterUser

pytestmark = pytest.mark.django_db

FAULT = "The count of native jobs failed: the log of the observer says why."


@dataclass
class ACluster:
    """A connector with one answer for each second, and the clock that tells it."""

    now_s: int = 0
    natives: tuple[NativeWorkload, ...] = ()
    submits_held: bool = False
    uid: str = ""
    capacity: tuple[NodeCapacity, ...] = ()

    def inventory(self) -> Inventory:
        return Inventory(T0 + self.now_s, self.capacity, identity={"cluster": self.uid})

    def observe(self) -> Listing:
        return Listing(T0 + self.now_s, {}, natives=self.natives)

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.now_s)


@dataclass
class AFaultyControl(AControl):
    """Stumbles over every account as long as it is told to."""

    stumbles: bool = False

    def team_of(self, account: str) -> str | None:
        if self.stumbles:
            raise RuntimeError("stumbled")
        return super().team_of(account)


class NoThread:
    """Never runs."""

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        pass


@pytest.fixture
def company() -> Company:
    company = a_company()
    bob = a_user(company.organization, "bob")
    ClusterUser.objects.create(cluster=company.cluster, user=bob, name="tg-bob")
    return company


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> AFaultyControl:
    control = AFaultyControl()
    change_kind(monkeypatch, "local", control_natives=lambda _: control)
    return control


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ACluster:
    cluster = ACluster()
    monkeypatch.setattr("jobs.loops.cluster_agent.Thread", NoThread)
    monkeypatch.setattr("jobs.loops.cluster_agent.connector_of", lambda _: cluster)
    # The test's transaction is on it.
    monkeypatch.setattr("jobs.loops.cluster_agent.connection", SimpleNamespace(close=lambda: None))
    return cluster


def an_agent(company: Company, cluster: ACluster) -> ClusterAgent:
    return ClusterAgent(company.cluster.pk, Fenced("observer"), cluster)  # type: ignore[arg-type]


def look(agent: ClusterAgent, cluster: ACluster, at_s: int, *natives: NativeWorkload) -> None:
    cluster.now_s, cluster.natives = at_s, natives
    agent._look()


def test_a_cluster_that_was_added_twice_counts_once(
    cluster: ACluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: its GPUs were offered twice, and what ran beside the portal was charged twice."""
    change_kind(monkeypatch, "kubernetes", control_natives=None)
    pool = a_pool()
    first, second, third = (
        a_cluster(name, kind="kubernetes") for name in ("gpu-1", "kubernetes", "gpu-2")
    )
    cluster.capacity = (NodeCapacity("n1", pool.name, 8_000, True, "Ready"),)

    def look_at(found: Cluster, uid: str) -> Cluster:
        cluster.uid = uid
        agent: Any = ClusterAgent(found.pk, Fenced("observer"), cluster)  # type: ignore[arg-type]
        agent._look()
        found.refresh_from_db()
        return found

    # The later one was looked at first.
    assert look_at(second, "a").message == ""
    assert look_at(first, "a").message == ""
    assert look_at(third, "b").message == ""
    cluster.now_s = 1
    assert look_at(first, "a").failing_since is None
    assert look_at(third, "b").failing_since is None
    told = look_at(second, "a")
    assert (told.failing_since, told.message) == (
        NOW + timedelta(seconds=1),
        "What answers is the cluster that was added as gpu-1, and a cluster counts once: change "
        "the options of gpu-1 instead, and disable this one.",
    )
    fourth = look_at(a_cluster("again", kind="kubernetes", seen_at=None), "b")
    assert (fourth.seen_at, fourth.identity) == (None, {})
    assert not ClusterNode.objects.filter(cluster=fourth).exists()
    # What other kinds tell may be the same by chance.
    assert look_at(a_cluster("one"), "c").failing_since is None
    assert look_at(a_cluster("two"), "c").failing_since is None


@pytest.mark.parametrize("looks_before", [0, 1])
def test_what_ran_while_natives_could_not_be_counted_is_charged(
    company: Company, cluster: ACluster, control: AFaultyControl, looks_before: int
) -> None:
    """Planted and seen to die: the time of the last listing; that of the last inventory."""
    company.cluster.observed_at = NOW
    company.cluster.save(update_fields=["observed_at"])
    agent = an_agent(company, cluster)
    for at_s in range(1, 1 + looks_before):
        look(agent, cluster, at_s)
    ran = a_native(submitted_s=2, started_s=3, ended_s=5)
    control.stumbles = True
    for at_s in (6, 7):
        look(agent, cluster, at_s, ran)
        company.cluster.refresh_from_db()
        assert company.cluster.message == FAULT
    assert not Attempt.objects.exists()
    control.stumbles = False

    look(agent, cluster, 8, ran)

    attempt = Attempt.objects.get()
    assert (attempt.granted_at, attempt.released_at) == (
        NOW + timedelta(seconds=3),
        NOW + timedelta(seconds=5),
    )
    company.cluster.refresh_from_db()
    assert company.cluster.message == ""


def test_what_had_ended_before_the_last_count_is_not_charged(
    company: Company, cluster: ACluster, control: AFaultyControl
) -> None:
    """Planted and seen to die: the time of the count stays as at the first look."""
    agent = an_agent(company, cluster)
    for at_s in (1, 7):
        look(agent, cluster, at_s)
    look(agent, cluster, 8, a_native(submitted_s=2, started_s=3, ended_s=5))
    assert not Attempt.objects.exists()


# When it looks again


class ATellingCluster(ACluster):
    """One that hears of what happens on it."""

    def __init__(self) -> None:
        super().__init__()
        self.news = Event()


class Waits:
    """Stands for an event: notes how long it was waited for, and is never set."""

    def __init__(self, waited_s: list[float]) -> None:
        self._waited_s = waited_s

    def wait(self, timeout_s: float) -> bool:
        self._waited_s.append(timeout_s)
        return False

    def is_set(self) -> bool:
        return False

    def clear(self) -> None:
        """Nothing: it never was set."""


@pytest.mark.parametrize(
    ("looked_s", "first_s", "second_s"),
    [(0.0, 0.2, 0.8), (0.5, 0.5, 0.5), (3.0, 1.0, 0.0)],
)
def test_news_of_the_cluster_end_the_pause_but_not_all_of_it(
    company: Company, cluster: ACluster, looked_s: float, first_s: float, second_s: float
) -> None:
    """At most five looks a second, and never more than half of the time is spent looking."""
    agent = an_agent(company, cluster)
    telling = ATellingCluster()
    agent._opened = ((), telling)  # type: ignore[assignment]
    waited_s: list[float] = []
    agent.stopping = Waits(waited_s)  # type: ignore[assignment]
    telling.news.set()
    agent._pause(1.0, looked_s)
    assert waited_s == [first_s]
    assert not telling.news.is_set()
    told: list[float] = []
    telling.news.wait = told.append  # type: ignore[assignment, method-assign]
    agent._pause(1.0, looked_s)
    assert told == pytest.approx([second_s])


def test_a_cluster_that_tells_no_news_is_looked_at_by_the_clock(
    company: Company, cluster: ACluster
) -> None:
    agent = an_agent(company, cluster)
    agent._opened = ((), cluster)  # type: ignore[assignment]
    waited_s: list[float] = []
    agent.stopping = Waits(waited_s)  # type: ignore[assignment]
    agent._look_now = Waits(waited_s)  # type: ignore[assignment]
    agent._pause(1.0, 0.3)
    assert waited_s == pytest.approx([0.3, 0.7])


def test_a_started_job_that_its_cluster_holds_already_is_looked_at_once_at_once(
    company: Company, cluster: ACluster
) -> None:
    """Planted: the look hurried again and again as long as the release does not work out; one for
    every start, though what was just submitted has not settled."""
    ana = a_user(company.organization, "ana")
    agent = an_agent(company, cluster)
    cluster.submits_held = True
    agent._opened = ((), cluster)  # type: ignore[assignment]
    started = {"state": JobState.STARTING, "attempt_number": 1}
    just, before = (a_job(company.nlp, ana, company.pool, now=NOW, **started) for _ in range(2))
    values: dict[str, Any] = {
        "number": 1,
        "cluster": company.cluster,
        "slots": [{"node": "n", "mgpu": 1000}],
        "mgpu": 1000,
        "guaranteed_mgpu": 1000,
        "state": "starting",
        "epoch": 1,
        "granted_at": NOW,
        "native_id": "7",
    }
    Attempt.objects.create(job=just, **values)
    agent._hurry_releases()
    assert not agent._look_now.is_set()
    attempt = Attempt.objects.create(job=before, **values)
    claim = Reclaim.objects.create(
        job=before, cluster=company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    HeldSubmission.objects.create(id=attempt.id, job=before, number=1, reclaim=claim)
    agent._hurry_releases()
    assert agent._look_now.is_set()
    agent._look_now.clear()
    agent._hurry_releases()
    assert not agent._look_now.is_set()


def test_a_clock_that_is_set_has_nobody_knock_without_a_pause(
    company: Company, cluster: ACluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: how long it is silent told by the wall clock, so that one that was set back made
    the pause negative, and one that was set ahead made it the longest."""

    def away() -> Inventory:
        raise ClusterUnavailable("away")

    passed = SimpleNamespace(s=0.0)
    agent = ClusterAgent(company.cluster.pk, Fenced("observer"), cluster, lambda: passed.s)  # type: ignore[arg-type]
    monkeypatch.setattr(agent, "_chance", SimpleNamespace(uniform=lambda low, high: 1.0))
    answering = cluster.inventory
    monkeypatch.setattr(cluster, "inventory", away)
    pauses = []
    for cluster.now_s, passed.s in ((7_200, 50.0), (0, 54.0), (90_000, 58.0), (90_001, 500.0)):
        pauses.append(agent._look())
    assert pauses == [1, 2, 3, SILENCE_PAUSE_MAX_S]
    monkeypatch.setattr(cluster, "inventory", answering)
    agent._look()
    monkeypatch.setattr(cluster, "inventory", away)
    assert agent._look() == 1
