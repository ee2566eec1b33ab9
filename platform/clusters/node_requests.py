"""Requests to drain or resume a node: made here, carried out by the observer, then answered.

A request is an intention of its own for its cluster. The newest request for a node replaces one
that still waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from audit.recording import record
from clusters.models import Cluster, ClusterNode, NodeAction, NodeRequest, NodeRequestState
from clusters.registration import Administrator
from connectors.registry import kind_named
from live.publishing import publish
from live.waking import wake
from outbox.recording import Intention, intend
from primitives.errors import Conflict, FieldError, InvalidRequest
from webapi.middleware import current_request_id

#: The kind of message whose subject is a NodeRequest.
CHANGE_NODE = "change_node"
#: A request expires if the cluster is unreachable for longer.
PATIENCE = timedelta(minutes=15)
#: The time to empty a node. A disruption budget may keep a Pod for ever; then a person must act.
EMPTIED_WITHIN = timedelta(hours=2)
EVICT_GRACE_S_DEFAULT = 300
EVICT_GRACE_S_MAX = 3_600
REASON_LENGTH_MAX = 200
_MESSAGE_LENGTH_MAX = 2_000


def node_shard(cluster_id: UUID) -> str:
    """Return the shard for changes of a cluster's nodes, separate from thousands of starts."""
    return f"{cluster_id}/nodes"


@transaction.atomic
def request_node_change(
    node: ClusterNode,
    action: NodeAction,
    reason: str = "",
    *,
    evict_grace_s: int | None = None,
    by: Administrator,
    now: datetime,
) -> NodeRequest:
    """Ask the cluster of `node` to drain or resume it.

    A drain with `evict_grace_s` also stops the jobs on it, each after its own notice and grace. It
    evicts everything else, which gets at most so many seconds.

    Raises InvalidRequest for a drain without a reason, or with a reason of several lines. Raises
    Conflict where the cluster is known to refuse: its kind or API version cannot do it, or it is
    disabled or archived.
    """
    cluster = Cluster.objects.select_for_update().get(pk=node.cluster_id)
    if action == NodeAction.DRAIN:
        _check_reason(reason)
    kind = kind_named(cluster.kind)
    if refusal := kind.nodes_refusal(cluster.api_version):
        raise Conflict(f"{refusal[0].upper()}{refusal[1:]}.")
    if evict_grace_s is not None and (refusal := kind.eviction_refusal):
        raise Conflict(f"{refusal[0].upper()}{refusal[1:]}; drain it without evicting.")
    if cluster.archived_at is not None:
        raise Conflict(f"{cluster.name} is archived. Restore it instead.")
    if not cluster.is_enabled:
        raise Conflict(f"{cluster.name} is disabled, so nothing is asked of it; enable it first.")
    NodeRequest.objects.filter(
        cluster=cluster, node=node.name, state=NodeRequestState.PENDING
    ).update(state=NodeRequestState.REPLACED, answered_at=now)
    asked = NodeRequest.objects.create(
        cluster=cluster,
        node=node.name,
        action=action,
        reason=reason,
        evict_grace_s=evict_grace_s,
        requested_by=by.login,
        requested_at=now,
    )
    detail: dict[str, object] = {"cluster": cluster.name, "node": node.name, "reason": reason}
    if evict_grace_s is not None:
        detail["evict_grace_s"] = evict_grace_s
    intend([Intention(CHANGE_NODE, asked.pk, node_shard(cluster.pk))], now=now)
    record(
        action=f"cluster_node.{action}",
        subject_kind="cluster",
        subject_id=cluster.pk,
        now=now,
        actor_id=by.id,
        actor=by.login,
        detail=detail,
        request_id=current_request_id(),
    )
    publish("clusters", ids=[cluster.pk], organization_id=None)
    wake("observer")
    return asked


def answer_request(
    request: NodeRequest, state: NodeRequestState, *, message: str = "", now: datetime
) -> None:
    """Store the result of a request that still waits; a replaced request stays replaced.

    Must run in a transaction.
    """
    answered = NodeRequest.objects.filter(pk=request.pk, state=NodeRequestState.PENDING).update(
        state=state, answered_at=now, message=message[:_MESSAGE_LENGTH_MAX]
    )
    if answered:
        publish("clusters", ids=[request.cluster_id], organization_id=None)


def tell_waiting(request: NodeRequest, message: str) -> None:
    """Store what a waiting request waits for. Must run in a transaction."""
    told = message[:_MESSAGE_LENGTH_MAX]
    changed = (
        NodeRequest.objects.filter(pk=request.pk, state=NodeRequestState.PENDING)
        .exclude(message=told)
        .update(message=told)
    )
    if changed:
        publish("clusters", ids=[request.cluster_id], organization_id=None)


def latest_requests(nodes: Iterable[ClusterNode]) -> dict[tuple[UUID, str], NodeRequest]:
    """Return the last request for each of `nodes`, by cluster and name. One query."""
    wanted = {(node.cluster_id, node.name) for node in nodes}
    found = (
        NodeRequest.objects.filter(
            cluster__in={cluster for cluster, _ in wanted}, node__in={name for _, name in wanted}
        )
        .order_by("cluster_id", "node", "-requested_at", "-id")
        .distinct("cluster_id", "node")
    )
    return {(item.cluster_id, item.node): item for item in found}


def _check_reason(reason: str) -> None:
    if not reason.strip() or not reason.isprintable() or len(reason) > REASON_LENGTH_MAX:
        raise InvalidRequest(
            "Say why the node is drained, in one line of at most "
            f"{REASON_LENGTH_MAX} characters: whoever finds it drained will want to know.",
            errors=[FieldError("/reason", "must be one line that says why")],
        )
