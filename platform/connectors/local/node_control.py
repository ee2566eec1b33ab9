"""Drains and resumes nodes of a local cluster in a file in its root."""

from __future__ import annotations

from connectors.local.connector import LocalConnector
from connectors.protocol import ClusterConnector


def control_nodes(connector: ClusterConnector) -> LocalConnector:
    """Return the node control of the local cluster of `connector`."""
    assert isinstance(connector, LocalConnector)
    return connector
