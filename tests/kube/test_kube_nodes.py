"""Nodes of a real Kubernetes are cordoned and let in again, with the portal's own rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builders.connector_builders import eventually
from conformance.rigs import KubernetesRig
from connectors.errors import NodeRefused
from connectors.node_control import NodeControl
from connectors.protocol import NodeCapacity
from connectors.registry import NODE_CONTROLS

pytestmark = pytest.mark.kube


@pytest.fixture
def control(kubernetes_rig: KubernetesRig) -> Iterator[NodeControl]:
    opened = NODE_CONTROLS["kubernetes"](kubernetes_rig.connector)
    yield opened
    opened.resume(kubernetes_rig.last_node)


def node_of(rig: KubernetesRig, name: str) -> NodeCapacity:
    """What a whole inventory says of a node."""
    return next(node for node in rig.connector.inventory().nodes if node.name == name)


def test_a_node_is_drained_and_resumed(kubernetes_rig: KubernetesRig, control: NodeControl) -> None:
    """Why stands on the node while it is drained, and nothing of it afterwards."""
    rig, name = kubernetes_rig, kubernetes_rig.last_node
    before = node_of(rig, name)
    assert (before.is_schedulable, before.reason) == (True, "")
    for _ in range(2):
        control.drain(name, "new fans")
    eventually(lambda: not node_of(rig, name).is_schedulable)
    drained = node_of(rig, name)
    assert (drained.state, drained.reason) == ("Ready,SchedulingDisabled", "new fans")
    assert drained.capacity_mgpu == before.capacity_mgpu
    for _ in range(2):
        control.resume(name)
    eventually(lambda: node_of(rig, name).is_schedulable)
    assert node_of(rig, name) == before
    said = rig.admin.get(f"/api/v1/nodes/{name}")
    assert "tidegate.io/drained" not in said["metadata"].get("annotations", {})


def test_what_an_administrator_cordoned_is_let_in_too(
    kubernetes_rig: KubernetesRig, control: NodeControl
) -> None:
    rig, name = kubernetes_rig, kubernetes_rig.last_node
    rig.admin.merge_patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    eventually(lambda: node_of(rig, name).reason == "cordoned")
    control.resume(name)
    eventually(lambda: node_of(rig, name).is_schedulable)


@pytest.mark.parametrize(
    ("node", "reason", "why"),
    [
        ("no-such-node", "x", "the cluster has no node no-such-node"),
        ("../pods", "x", "'../pods' cannot be the name of a node"),
        ("n1", "two\nlines", "a reason is one line of at most 200 characters"),
    ],
)
def test_what_is_refused(control: NodeControl, node: str, reason: str, why: str) -> None:
    with pytest.raises(NodeRefused) as refused:
        control.drain(node, reason)
    assert str(refused.value) == why
