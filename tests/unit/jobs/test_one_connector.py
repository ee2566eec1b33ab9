"""In each process one connector to each cluster at most: one may watch it, and do things there."""

from __future__ import annotations

import ast
import gc
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from builders.connector_builders import change_kind
from clusters.models import Cluster
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.informers.caches import Caches
from connectors.kubernetes.options.options import parse_options
from connectors.protocol import ClusterConnector
from connectors.registry import kind_named, kinds_where
from jobs.execution.sampling import SAMPLE_EVERY_S
from jobs.leadership import Leadership
from jobs.loops.cluster_agent import ClusterAgent
from jobs.reading import logs
from primitives.clock import SystemClock

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("jobs", "quotas", "billing", "tenants", "platform")
OPTIONS: dict[str, Any] = {"kubeconfig": "/k", "pools": {"h100": {}}}


class NoThread:
    """Runs when a test calls its target."""

    def __init__(
        self, *, target: Callable[..., None], args: tuple[Any, ...] = (), **_: Any
    ) -> None:
        self.target = partial(target, *args)

    def start(self) -> None:
        pass


def a_cluster(**values: Any) -> Cluster:
    told = {"pk": uuid4(), "name": "c", "kind": "kubernetes", "options": OPTIONS, "identity": {}}
    return cast(Cluster, SimpleNamespace(**told | values))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[ClusterConnector]]:
    """Every connector that the agent opens."""
    opened: list[weakref.ref[ClusterConnector]] = []

    def opener(cluster: Cluster) -> ClusterConnector:
        connector = KubernetesConnector(parse_options(cluster.options), str(cluster.pk))
        opened.append(weakref.ref(connector))
        return connector

    monkeypatch.setattr("jobs.loops.cluster_agent.connector_of", opener)
    monkeypatch.setattr("jobs.loops.cluster_agent.Thread", NoThread)
    return opened


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[Caches]:
    """The caches of every connector that has ended."""
    gc.collect()  # those that earlier tests left end now
    ended: list[Caches] = []
    monkeypatch.setattr(Caches, "stop", lambda self: ended.append(self))
    return ended


def an_agent() -> ClusterAgent:
    leadership = cast(Leadership, SimpleNamespace(fence=None, is_leading=True))
    return ClusterAgent(uuid4(), leadership, SystemClock())


def test_an_agent_looks_and_carries_out_with_one_connector(
    opened: list[weakref.ref[ClusterConnector]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: what is carried out had a connector of its own for each message."""
    reached: list[Callable[[Cluster], ClusterConnector]] = []

    def handlers(leadership: Any, clock: Any, connect: Any = None) -> dict[str, Any]:
        reached.append(connect)
        return {}

    monkeypatch.setattr("jobs.loops.cluster_agent.handlers", handlers)
    monkeypatch.setattr("jobs.loops.cluster_agent.deliver_due", lambda *args, **values: None)
    agent, cluster = an_agent(), a_cluster()
    looks = agent._connector(cluster)
    for shard in ("stop", "nodes"):
        agent._deliver(shard)
    assert [connect(cluster) is looks for connect in reached] == [True, True]
    assert len(opened) == 1


def test_ends_are_complete_while_nothing_is_reported_about_what_runs(
    opened: list[weakref.ref[ClusterConnector]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metrics-server may be down for days. Planted: no end was complete meanwhile."""
    cluster, completed = a_cluster(), []

    def sample(*args: Any, **values: Any) -> int:
        raise ClusterUnavailable("GET /apis/metrics.k8s.io/v1beta1/pods: service unavailable")

    agents = "jobs.loops.cluster_agent"
    found = SimpleNamespace(get=lambda pk: cluster)
    monkeypatch.setattr(f"{agents}.Cluster", SimpleNamespace(objects=found))
    monkeypatch.setattr(f"{agents}.sample_running", sample)
    agent = an_agent()
    monkeypatch.setattr(
        agent._final_figures, "complete", lambda of, *args, **values: completed.append(of)
    )
    assert agent._sample() == SAMPLE_EVERY_S
    assert completed == [cluster]


def test_other_options_open_another_and_end_the_one_before(
    opened: list[weakref.ref[ClusterConnector]], ended: list[Caches]
) -> None:
    """Mutant: the one before was kept beside it."""
    agent = an_agent()
    agent._connector(a_cluster())
    agent._connector(a_cluster(identity={"cluster": "u"}))
    assert [one() is None for one in opened] == [True, False]
    assert len(ended) == 1


def test_what_an_agent_watches_ends_with_it(
    opened: list[weakref.ref[ClusterConnector]], ended: list[Caches]
) -> None:
    """Mutant: whoever went on holding the agent went on watching, beside the next leader."""
    agent = an_agent()
    agent._connector(a_cluster())
    assert ended == []
    agent.end()
    for thread in agent._threads:
        assert opened[0]() is not None
        cast(NoThread, thread).target()
    assert opened[0]() is None
    assert len(ended) == 1


def test_whoever_reads_logs_or_checks_options_opens_no_connector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that no worker of the web ever watches a cluster.

    Mutants: a kind without a reader of logs; a check of options that opens a connector.
    """

    def never(*args: Any) -> Any:
        raise AssertionError("it was opened")

    change_kind(monkeypatch, "kubernetes", open=never)
    monkeypatch.setattr(logs, "connector_of", never)
    kind_named("kubernetes").check_options(OPTIONS)
    assert logs._reader_of(a_cluster()) is not None
    assert kinds_where(lambda kind: kind.open_logs) == ["kubernetes", "slurm"]


def _names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (one.name for one in node.names)


def test_nobody_else_opens_connectors() -> None:
    """Whoever is added here must not open a second one in a process that has one.

    Mutant: a view that asks its cluster itself.
    """
    openers = {"open_connector", "connector_of", "KubernetesConnector", "open_kubernetes"}
    found = {
        str(path.relative_to(ROOT)): names
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if (names := openers & {*_names(path)})
    }
    kinds = "platform/connectors/kubernetes/"
    assert found == {
        "jobs/loops/cluster_agent.py": {"connector_of"},
        "jobs/execution/dispatch.py": {"connector_of"},
        # Only for kinds without a reader of logs.
        "jobs/reading/logs.py": {"connector_of"},
        "jobs/execution/connecting.py": {"open_connector"},
        # A test of the connection, which it closes again.
        "platform/clusters/connection_check.py": {"open_connector"},
        f"{kinds}kind.py": {"open_kubernetes"},
        # They are given theirs.
        f"{kinds}accounts.py": {"KubernetesConnector"},
        f"{kinds}quotas/entitlements.py": {"KubernetesConnector"},
        f"{kinds}node_control/evicting.py": {"KubernetesConnector"},
        f"{kinds}metrics.py": {"KubernetesConnector"},
        f"{kinds}natives/natives.py": {"KubernetesConnector"},
        f"{kinds}node_control/node_control.py": {"KubernetesConnector"},
    }
