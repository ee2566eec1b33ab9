"""Drain or resume a node at an administrator's request, and store the cluster's answer.

A drain with eviction is repeated until nothing is left on the node.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from clusters.models import Cluster, NodeAction, NodeRequest, NodeRequestState
from clusters.node_requests import EMPTIED_WITHIN, PATIENCE, answer_request, tell_waiting
from connectors.errors import ClusterUnavailable, NodeRefused, NotOffered
from connectors.node_control import LeftOnNode
from connectors.protocol import ClusterConnector
from connectors.registry import kind_named
from jobs.execution.evicting import native_ids, preempt_for_drain
from jobs.leadership import Leadership
from outbox.delivery import NotYet
from outbox.models import Message


def change_node(
    message: Message,
    leadership: Leadership,
    clock: Callable[[], datetime],
    connect: Callable[[Cluster], ClusterConnector],
) -> None:
    """Carry out the request in the message's subject, unless a later request replaced it.

    Raises NotYet while the cluster does not answer, at most for PATIENCE since the request. Also
    raises it while workloads are left on a node to be emptied, at most for EMPTIED_WITHIN.
    """
    request = NodeRequest.objects.select_related("cluster").get(pk=message.subject)
    if request.state != NodeRequestState.PENDING:
        return
    if given_up := _given_up(request, clock()):
        _answer(request, NodeRequestState.GIVEN_UP, given_up, leadership, clock)
        return
    state, text = NodeRequestState.DONE, ""
    try:
        connector = connect(request.cluster)
        opener = kind_named(request.cluster.kind).control_nodes
        assert opener is not None, "refused when it was requested"
        control = opener(connector)
        if request.action == NodeAction.DRAIN:
            control.drain(request.node, request.reason)
            if request.evict_grace_s is not None:
                _empty(request, request.evict_grace_s, connector, leadership, clock)
        else:
            control.resume(request.node)
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    except (NotOffered, NodeRefused) as error:
        state, text = NodeRequestState.REFUSED, str(error)
    _answer(request, state, text, leadership, clock)


def _given_up(request: NodeRequest, now: datetime) -> str:
    """Return why the request is given up, or "" while it is not."""
    # The request has a message as soon as the cluster has answered once.
    if not request.message and now > request.requested_at + PATIENCE:
        minutes = PATIENCE // timedelta(minutes=1)
        return f"{request.cluster.name} did not answer for {minutes} minutes; ask again."
    if request.message and now > request.requested_at + EMPTIED_WITHIN:
        hours = EMPTIED_WITHIN // timedelta(hours=1)
        return f"It is drained, and not empty after {hours} hours. {request.message}"
    return ""


def _empty(
    request: NodeRequest,
    grace_s: int,
    connector: ClusterConnector,
    leadership: Leadership,
    clock: Callable[[], datetime],
) -> None:
    """Stop the jobs on the drained node and evict the rest. Raises NotYet until nothing is left."""
    opener = kind_named(request.cluster.kind).control_eviction
    assert opener is not None, "refused when it was requested"
    left = opener(connector).evict(request.node, grace_s=grace_s, jobs=native_ids(request.cluster))
    now = clock()
    with leadership.fence():
        preempt_for_drain(request.cluster, request.node, left.jobs, now=now)
        if left.is_nothing:
            return
        sentence = _waits_for(left)
        tell_waiting(request, sentence)
    raise NotYet(sentence)


def _waits_for(left: LeftOnNode) -> str:
    parts = []
    if left.jobs:
        count = len(left.jobs)
        parts.append(f"{count} {'job that is' if count == 1 else 'jobs that are'} being stopped")
    if left.others:
        parts.append(f"{left.others} other {'workload' if left.others == 1 else 'workloads'}")
    still = f"Still there: {' and '.join(parts)}."
    return " ".join((still, *(f"Not evicted yet: {why}" for why in left.refusals)))


def _answer(
    request: NodeRequest,
    state: NodeRequestState,
    text: str,
    leadership: Leadership,
    clock: Callable[[], datetime],
) -> None:
    with leadership.fence():
        answer_request(request, state, message=text, now=clock())
