"""Nodes of a local cluster are drained and resumed in a file at its root."""

from __future__ import annotations

from connectors.local.connector import LocalConnector
from connectors.protocol import ClusterConnector


def control_nodes(connector: ClusterConnector) -> LocalConnector:
    """The control of the nodes on the cluster of `connector`, which must be a local one."""
    assert isinstance(connector, LocalConnector)
    return connector
