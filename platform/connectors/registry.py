"""The kinds of cluster that Tidegate can talk to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connectors.local.connector import open_local
from connectors.protocol import ClusterConnector

OPENERS: Mapping[str, Callable[[Mapping[str, Any]], ClusterConnector]] = {"local": open_local}


def open_connector(kind: str, options: Mapping[str, Any]) -> ClusterConnector:
    """The connector of a cluster of `kind` with its stored `options`.

    Raises KeyError for a kind that is not registered.
    """
    return OPENERS[kind](options)
