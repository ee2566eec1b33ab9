"""Ask a cluster to drain or resume a node, as an administrator wanted, and store what it said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from clusters.models import Cluster, NodeAction, NodeRequest, NodeRequestState
from clusters.node_requests import PATIENCE, answer_request
from connectors.errors import ClusterUnavailable, NodeRefused, NotOffered
from connectors.protocol import ClusterConnector
from connectors.registry import NODE_CONTROLS
from jobs.leadership import Leadership
from outbox.delivery import NotYet
from outbox.models import Message


def change_node(
    message: Message,
    leadership: Leadership,
    clock: Callable[[], datetime],
    connect: Callable[[Cluster], ClusterConnector],
) -> None:
    """Carry out the request that is the message's subject, unless a later one replaced it.

    Raises NotYet while the cluster does not answer, for PATIENCE since the request at most.
    """
    request = NodeRequest.objects.select_related("cluster").get(pk=message.subject)
    if request.state != NodeRequestState.PENDING:
        return
    if clock() > request.requested_at + PATIENCE:
        _answer(
            request,
            NodeRequestState.GIVEN_UP,
            f"{request.cluster.name} did not answer for {int(PATIENCE.total_seconds()) // 60} "
            "minutes; ask again.",
            leadership,
            clock,
        )
        return
    state, text = NodeRequestState.DONE, ""
    try:
        control = NODE_CONTROLS[request.cluster.kind](connect(request.cluster))
        if request.action == NodeAction.DRAIN:
            control.drain(request.node, request.reason)
        else:
            control.resume(request.node)
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    except (NotOffered, NodeRefused) as error:
        state, text = NodeRequestState.REFUSED, str(error)
    _answer(request, state, text, leadership, clock)


def _answer(
    request: NodeRequest,
    state: NodeRequestState,
    text: str,
    leadership: Leadership,
    clock: Callable[[], datetime],
) -> None:
    with leadership.fence():
        answer_request(request, state, message=text, now=clock())
