"""Drains and resumes nodes of a Slurm cluster through its controller.

The service user must be a Slurm administrator for that: operators may not change nodes.
"""

from __future__ import annotations

from collections.abc import Callable

from connectors.errors import NodeRefused, NotOffered, WorkloadRejected
from connectors.protocol import ClusterConnector
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.controller import SlurmController
from connectors.slurm.dialects import DIALECTS


def control_nodes(connector: ClusterConnector) -> SlurmNodeControl:
    """Return the node control of the Slurm cluster of `connector`."""
    assert isinstance(connector, SlurmConnector)
    return SlurmNodeControl(connector.rest.controller)


def cannot_change_nodes(api_version: str) -> str:
    """Return why this API version cannot change nodes; "" when it can.

    An unknown version, including "", counts as able to: the cluster will tell.
    """
    dialect = DIALECTS.get(api_version)
    if dialect is None or dialect.changes_nodes:
        return ""
    return f"this cluster's slurmrestd ({api_version}) cannot change nodes; drain it with scontrol"


class SlurmNodeControl:
    """Implements `connectors.node_control.NodeControl`."""

    def __init__(self, controller: SlurmController) -> None:
        self._controller = controller

    def drain(self, node: str, reason: str) -> None:
        """See the protocol."""
        self._act(lambda: self._controller.set_node(node, drain=True, reason=reason))

    def resume(self, node: str) -> None:
        """See the protocol. Slurm ends DRAIN and DOWN; a node that does not answer stays down."""
        self._act(lambda: self._controller.set_node(node, drain=False, reason=""))

    def _act(self, change: Callable[[], None]) -> None:
        try:
            change()
        except NotOffered as error:
            version = self._controller.version
            raise NotOffered(cannot_change_nodes(version) or str(error)) from error
        except WorkloadRejected as error:
            raise NodeRefused(str(error)) from error
