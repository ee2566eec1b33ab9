"""A node is drained over REST, by the observer, and the page says what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.connector_builders import change_kind
from builders.loop_builders import Fenced
from builders.portal_builders import (
    NOW,
    a_cluster,
    a_cluster_node,
    a_pool,
    a_user,
    an_actor,
    an_organization,
)
from clusters.models import Cluster, ClusterNode, NodeRequest, NodeRequestState
from clusters.node_requests import node_shard
from clusters.observation import record_inventory
from connectors.errors import ClusterUnavailable, NodeRefused, NotOffered
from connectors.protocol import Inventory, NodeCapacity
from connectors.registry import open_connector
from jobs.execution.dispatch import handlers
from outbox.delivery import deliver_due
from outbox.models import Message
from primitives.clock import SystemClock
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@dataclass
class AControl:
    """Remembers what it was asked, and answers with `refusal` where there is one."""

    refusal: Exception | None = None
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def drain(self, node: str, reason: str) -> None:
        self._answer("drain", node, reason)

    def resume(self, node: str) -> None:
        self._answer("resume", node)

    def _answer(self, *asked: str) -> None:
        self.asked.append(asked)
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> AControl:
    made = AControl()
    change_kind(monkeypatch, "slurm", control_nodes=lambda connector: made)
    return made


def a_node(**values: Any) -> ClusterNode:
    cluster = a_cluster("hpc", kind="slurm")
    is_schedulable = "archived_at" not in values
    node = a_cluster_node(cluster, a_pool(), "n1", is_schedulable=is_schedulable)
    for name, value in values.items():
        setattr(cluster, name, value)
    cluster.save()
    return node


def platform() -> Caller:
    return by_token(an_actor(None, Role.PLATFORM_ADMIN, "root").user)


def deliver(node: ClusterNode, *, after: timedelta = timedelta(0)) -> int:
    def clock() -> datetime:
        return SystemClock().now() + after

    leader: Any = Fenced("observer")
    return deliver_due(
        handlers(leader, clock, lambda cluster: None),  # type: ignore[arg-type, return-value]
        shard=node_shard(node.cluster_id),
        clock=clock,
        fence=leader.fence,
    )


def request_of(caller: Caller, node: ClusterNode) -> dict[str, Any] | None:
    answer = caller.get(f"nodes/{node.pk}")
    assert answer.status_code == 200
    found: dict[str, Any] | None = answer.json()["request"]
    return found


def test_a_drain_is_stored_then_carried_out_then_told(control: AControl) -> None:
    node, admin = a_node(), platform()
    answer = admin.post(f"nodes/{node.pk}/drain", {"reason": "new fans"})

    assert answer.status_code == 202
    asked = answer.json()["request"]
    assert (asked["action"], asked["reason"], asked["state"]) == ("drain", "new fans", "pending")
    assert asked["requested_by"] == AuditEvent.objects.get(action="cluster_node.drain").actor
    assert control.asked == []
    event = AuditEvent.objects.get(action="cluster_node.drain")
    assert event.detail == {"cluster": "hpc", "node": "n1", "reason": "new fans"}

    assert deliver(node) == 1
    assert control.asked == [("drain", "n1", "new fans")]
    done = request_of(admin, node)
    assert done is not None
    assert (done["state"], done["message"]) == ("done", "")
    assert done["answered_at"] is not None
    # Only the cluster says that it is drained.
    assert admin.get(f"nodes/{node.pk}").json()["is_schedulable"] is True

    admin.post(f"nodes/{node.pk}/resume", {})
    assert deliver(node) == 1
    assert control.asked[1:] == [("resume", "n1")]
    assert deliver(node) == 0


@pytest.mark.parametrize("refusal", [NodeRefused("not allowed"), NotOffered("not in v0.0.38")])
def test_a_refusal_is_stored_and_told_and_not_repeated(
    refusal: Exception, control: AControl
) -> None:
    node, admin = a_node(), platform()
    control.refusal = refusal
    admin.post(f"nodes/{node.pk}/drain", {"reason": "fans"})
    deliver(node)
    found = request_of(admin, node)
    assert found is not None
    assert (found["state"], found["message"]) == ("refused", str(refusal))
    assert deliver(node, after=timedelta(hours=1)) == 0


def test_silence_is_waited_out_for_a_quarter_of_an_hour(control: AControl) -> None:
    """Mutant: without the patience, a cluster drained what nobody wanted any more."""
    node, admin = a_node(), platform()
    control.refusal = ClusterUnavailable("away")
    admin.post(f"nodes/{node.pk}/drain", {"reason": "fans"})
    deliver(node)
    deliver(node, after=timedelta(minutes=14))
    assert len(control.asked) == 2
    waiting = request_of(admin, node)
    assert waiting is not None
    assert (waiting["state"], waiting["answered_at"]) == ("pending", None)
    control.refusal = None
    deliver(node, after=timedelta(minutes=16))
    found = request_of(admin, node)
    assert found is not None
    assert (found["state"], len(control.asked)) == ("given_up", 2)
    assert found["message"] == "hpc did not answer for 15 minutes; ask again."


def test_a_later_request_replaces_one_that_waits(control: AControl) -> None:
    """Mutant: a drain that was sent again undid the resume that came after it."""
    node, admin = a_node(), platform()
    control.refusal = ClusterUnavailable("away")
    admin.post(f"nodes/{node.pk}/drain", {"reason": "fans"})
    deliver(node)
    admin.post(f"nodes/{node.pk}/resume", {})
    control.refusal, control.asked = None, []
    deliver(node, after=timedelta(minutes=5))
    assert control.asked == [("resume", "n1")]
    assert dict(NodeRequest.objects.values_list("action", "state")) == {
        "drain": "replaced",
        "resume": "done",
    }
    assert not Message.objects.filter(done_at=None).exists()


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (
            {"api_version": "v0.0.38"},
            "This cluster's slurmrestd (v0.0.38) cannot change nodes; drain it with scontrol.",
        ),
        ({"kind": "other"}, "Nodes of clusters of kind other cannot be drained from here."),
        ({"is_enabled": False}, "hpc is disabled, so nothing is asked of it; enable it first."),
        ({"is_enabled": False, "archived_at": NOW}, "hpc is archived. Restore it instead."),
    ],
)
def test_what_cannot_be_done_is_said_at_once(cluster: dict[str, Any], words: str) -> None:
    node, admin = a_node(**{"api_version": "v0.0.40", **cluster}), platform()
    for answer in (
        admin.post(f"nodes/{node.pk}/drain", {"reason": "fans"}),
        admin.post(f"nodes/{node.pk}/resume", {}),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (409, words)
    assert (NodeRequest.objects.count(), Message.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    "body",
    [{}, {"reason": ""}, {"reason": " "}, {"reason": "a\nb"}, {"reason": "x" * 201}, {"why": "x"}],
    ids=lambda body: repr(body)[:30],
)
def test_a_drain_says_why_in_one_line(body: Any) -> None:
    node = a_node()
    assert platform().post(f"nodes/{node.pk}/drain", body).status_code == 400
    assert not NodeRequest.objects.exists()


def test_the_same_key_asks_once(control: AControl) -> None:
    node, admin = a_node(), platform()
    answers = [
        admin.post(f"nodes/{node.pk}/drain", {"reason": "fans"}, Idempotency_Key="k")
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json() == answers[1].json()
    assert NodeRequest.objects.count() == 1


def test_reasons_and_requests_are_told_to_who_manages_clusters_only(control: AControl) -> None:
    node, admin = a_node(), platform()
    ClusterNode.objects.update(
        reason="bob's job broke it", features=["nvlink"], domains={"rack": "r1"}
    )
    admin.post(f"nodes/{node.pk}/drain", {"reason": "fans"})
    other = by_token(a_user(an_organization()))
    for path in (f"nodes/{node.pk}", "nodes"):
        shown = other.get(path).json()
        shown = shown["items"][0] if "items" in shown else shown
        assert (shown["reason"], shown["request"]) == ("", None)
        assert (shown["features"], shown["domains"]) == (["nvlink"], {"rack": "r1"})
    assert admin.get(f"nodes/{node.pk}").json()["reason"] == "bob's job broke it"
    narrow = by_token(an_actor(None, Role.PLATFORM_ADMIN).user, ["read"])
    assert narrow.get(f"nodes/{node.pk}").json()["request"] is None
    for action in ("drain", "resume"):
        assert narrow.post(f"nodes/{node.pk}/{action}", {"reason": "x"}).status_code == 403
        assert other.post(f"nodes/{node.pk}/{action}", {"reason": "x"}).status_code == 403


def test_an_inventory_keeps_reasons_features_and_the_version() -> None:
    node = a_node(seen_at=None)

    def see(at_s: int, **values: Any) -> bool:
        listed = NodeCapacity("n1", "h100", 8_000, True, "idle", **values)
        seen = Inventory(int(NOW.timestamp()) + at_s, (listed,), api_version="v0.0.40")
        return record_inventory(node.cluster, seen, now=NOW + timedelta(seconds=at_s))

    assert see(0, reason="a\nb" + "c" * 400, features=("ib", "x" * 100))
    node.refresh_from_db()
    assert node.reason == "a b" + "c" * 297
    assert node.features == ["ib", "x" * 64]
    assert Cluster.objects.get().api_version == "v0.0.40"
    assert not see(1, reason="a\nb" + "c" * 400, features=("ib", "x" * 100))
    assert see(2, features=("ib",))
    assert see(3, reason="fans", features=("ib",))
    domains = {"block": "b1", "rack": "r\n" + "1" * 200, "nvlink": "", "row": "7"}
    assert see(4, reason="fans", features=("ib",), domains=domains)
    node.refresh_from_db()
    assert node.domains == {"block": "b1", "rack": "r " + "1" * 126}
    assert not see(5, reason="fans", features=("ib",), domains=domains)


def test_a_local_node_is_drained_for_real(tmp_path: Path) -> None:
    nodes = {"count": 2, "gpus": 8, "pool": "h100", "prefix": "n"}
    options = {"root": str(tmp_path), "use_real_gpus": False, "nodes": nodes}
    cluster = a_cluster("here")
    node, admin = a_cluster_node(cluster, a_pool(), "n002"), platform()
    connector = open_connector("local", options, str(cluster.pk))
    connector.prepare()
    admin.post(f"nodes/{node.pk}/drain", {"reason": "fans"})
    leader: Any = Fenced("observer")
    clock = SystemClock().now
    deliver_due(
        handlers(leader, clock, lambda cluster: connector),
        shard=node_shard(cluster.pk),
        clock=clock,
        fence=leader.fence,
    )
    record_inventory(cluster, connector.inventory(), now=clock())
    shown = admin.get(f"nodes/{node.pk}").json()
    assert (shown["is_schedulable"], shown["state"], shown["reason"]) == (False, "drained", "fans")


def test_the_database_keeps_one_waiting_request_a_node_and_one_answer() -> None:
    node = a_node()
    values = {
        "cluster": node.cluster,
        "node": "n1",
        "action": "drain",
        "requested_by": "root",
        "requested_at": NOW,
    }
    NodeRequest.objects.create(**values)
    for bad, name in (
        ({}, "node_waits_for_one_request"),
        ({"state": NodeRequestState.DONE}, "node_request_is_answered_once"),
        ({"answered_at": NOW, "node": "n2"}, "node_request_is_answered_once"),
    ):
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            NodeRequest.objects.create(**{**values, **bad})
