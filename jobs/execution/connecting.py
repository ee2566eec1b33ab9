"""Open the connector of a cluster."""

from __future__ import annotations

from clusters.models import Cluster
from clusters.trusted import check_trusted, operator_options
from connectors.errors import (
    ClusterUnavailable,
)
from connectors.protocol import ClusterConnector
from connectors.registry import open_connector


def connector_of(cluster: Cluster) -> ClusterConnector:
    """Return a connector to `cluster`; state lives on the cluster, so opening one is cheap.

    A cluster that never answered is prepared for its first use.

    Raises ClusterUnavailable when its kind or options cannot be used. Nothing is known of the
    cluster until they are corrected.
    """
    try:
        check_trusted(cluster.kind, cluster.options)
        options = {**cluster.options, **operator_options(cluster.kind)}
        connector = open_connector(cluster.kind, options, str(cluster.pk), cluster.identity)
    except KeyError as error:
        raise ClusterUnavailable(f"There is no connector of kind {cluster.kind!r}.") from error
    except ValueError as error:
        raise ClusterUnavailable(f"The options of {cluster.name} are wrong: {error}.") from error
    if cluster.seen_at is None:
        connector.prepare()
    return connector
