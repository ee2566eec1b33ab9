"""Checks the connection to a cluster: asks it for its nodes once, and stores nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uuid_utils.compat import uuid7

from clusters.models import Cluster, Pool
from clusters.observation import MESSAGE_LENGTH_MAX, check_is_no_other, plain, usable_nodes
from clusters.registration import Administrator, lasting_changes, refuse_bad_options
from clusters.trusted import operator_options
from connectors.errors import ConnectorError
from connectors.protocol import Inventory
from connectors.registry import kind_named, open_connector


@dataclass(frozen=True, slots=True)
class OfferedPool:
    """The nodes that a cluster offers in one pool, as it answers now."""

    pool: str
    device: str
    nodes: int
    nodes_healthy: int
    capacity_mgpu: int
    healthy_mgpu: int


@dataclass(frozen=True, slots=True)
class ConnectionAnswer:
    """The answer of a cluster to a check of the connection.

    `message` is why there is none, or which parts of the answer could not be used.
    """

    is_answered: bool
    message: str = ""
    api_version: str = ""
    pools: Sequence[OfferedPool] = ()


def check_new_cluster(
    kind: str, options: Mapping[str, Any], *, by: Administrator
) -> ConnectionAnswer:
    """Ask the cluster at `options` for its nodes, as if it were added.

    Raises InvalidRequest for an unknown kind or options that its connector refuses.
    """
    return _checked(Cluster(id=uuid7(), name="new", kind=kind, options=dict(options)))


def check_cluster(
    cluster: Cluster, options: Mapping[str, Any] | None, *, by: Administrator
) -> ConnectionAnswer:
    """Ask a known cluster for its nodes, with other `options` where given.

    Raises InvalidRequest for options that its connector refuses.
    """
    if options is not None:
        if lasting_changes(cluster, options):
            cluster.identity = {}
            cluster.seen_at = None
        cluster.options = dict(options)
    return _checked(cluster)


def _checked(cluster: Cluster) -> ConnectionAnswer:
    refuse_bad_options(cluster.kind, cluster.options)
    kind = kind_named(cluster.kind)
    options = {**cluster.options, **operator_options(cluster.kind)}
    try:
        connector = open_connector(cluster.kind, options, str(cluster.pk), cluster.identity)
        if kind.first_inventory is None or cluster.seen_at is not None:
            inventory = connector.inventory()
        else:
            inventory = kind.first_inventory(connector)
        check_is_no_other(cluster, inventory)
    except ConnectorError as error:
        return ConnectionAnswer(False, message=plain(str(error))[:MESSAGE_LENGTH_MAX])
    return _answer(inventory)


def _answer(inventory: Inventory) -> ConnectionAnswer:
    usable, left_out = usable_nodes(inventory.nodes)
    names = dict(Pool.objects.values_list("pk", "name"))
    pools = []
    for pool in sorted({pool for _, pool in usable}, key=names.__getitem__):
        nodes = [node for (_, of), node in usable.items() if of == pool]
        healthy = [node for node in nodes if node.is_schedulable]
        pools.append(
            OfferedPool(
                pool=names[pool],
                device=nodes[0].device.value,
                nodes=len(nodes),
                nodes_healthy=len(healthy),
                capacity_mgpu=sum(node.capacity_mgpu for node in nodes),
                healthy_mgpu=sum(node.capacity_mgpu for node in healthy),
            )
        )
    message = plain(" ".join((*left_out, *inventory.complaints)))[:MESSAGE_LENGTH_MAX]
    return ConnectionAnswer(True, message, inventory.api_version, tuple(pools))
