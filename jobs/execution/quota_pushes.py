"""Compare the quota tree with a cluster's limits, and push it on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from clusters.models import Cluster
from connectors.entitlements import Change, EntitlementControl
from connectors.errors import ClusterUnavailable, NotOffered, WorkloadRejected
from connectors.protocol import ClusterConnector
from connectors.registry import kind_named
from jobs.leadership import Leadership
from outbox.delivery import NotYet
from outbox.models import Message
from outbox.quarantine import is_quarantined
from quotas.entitlements import entitlements_on
from quotas.models import QuotaPush, QuotaPushKind, QuotaPushStatus
from quotas.pushes import PATIENCE, accept, forget_settled, save_outcome, shown, without_accepted

_PLANNED = "planned"
_WAITS = "waits"
_DONE = "done"
_ACCEPTED = "accepted"
_NOT_TRIED = "not tried"
#: The most subjects without a difference that are named.
_NAMED_MAX = 5


def push_quota(
    message: Message,
    leadership: Leadership,
    clock: Callable[[], datetime],
    connect: Callable[[Cluster], ClusterConnector],
) -> None:
    """Carry out the request that is the message's subject and store its result.

    Raises NotYet while the cluster does not answer or its nodes are unknown, and for a push in
    quarantine, at most for PATIENCE since the request. Completed changes stay in the result, and
    the rest is compared again. A request that is older than PATIENCE is not begun, because the
    portal itself may have been down.
    """
    push = QuotaPush.objects.select_related("cluster").filter(pk=message.subject).first()
    if push is None or push.status != QuotaPushStatus.WAITING:
        return
    done: list[dict[str, Any]] = [item for item in push.changes if item["result"] == _DONE]
    status, error = QuotaPushStatus.DONE, ""
    if clock() > push.requested_at + PATIENCE:
        with leadership.fence():
            save_outcome(push, QuotaPushStatus.FAILED, done, error=_too_late(push), now=clock())
        return
    try:
        if push.kind == QuotaPushKind.PUSH and is_quarantined():
            raise NotYet("Tidegate is in quarantine; no limit is changed.")
        opener = kind_named(push.cluster.kind).control_entitlements
        assert opener is not None, "refused when it was requested"
        control = opener(connect(push.cluster))
        every = control.changes(entitlements_on(push.cluster))
        changes = without_accepted(push.cluster, every)
        with leadership.fence():
            forget_settled(push.cluster, every)
        match push.kind:
            case QuotaPushKind.PUSH:
                error = _apply(control, changes, done, leadership)
                status = QuotaPushStatus.FAILED if error else status
                error = error or _what_waits(done)
            case QuotaPushKind.ACCEPT:
                changes = tuple(
                    item for item in changes if not push.subjects or item.subject in push.subjects
                )
                with leadership.fence():
                    accept(push, changes)
                done += [shown(item, _ACCEPTED) for item in changes]
                error = _what_is_no_difference(push, changes)
                status = status if changes or not error else QuotaPushStatus.FAILED
            case _:
                done += [shown(item, _WAITS if item.is_blocked else _PLANNED) for item in changes]
    except (ClusterUnavailable, NotYet) as silence:
        with leadership.fence():
            save_outcome(push, QuotaPushStatus.WAITING, done, error=str(silence), now=clock())
        raise NotYet(str(silence)) from silence
    except (WorkloadRejected, NotOffered) as refusal:
        status, error = QuotaPushStatus.FAILED, str(refusal)
    with leadership.fence():
        save_outcome(push, status, done, error=error, now=clock())


def _too_late(push: QuotaPush) -> str:
    """Return why the request is given up, with its last obstacle."""
    said = f" Last obstacle: {push.error}" if push.error else ""
    minutes = int(PATIENCE.total_seconds()) // 60
    return f"This could not be done within {minutes} minutes of the request; ask again.{said}"


def _what_waits(done: list[dict[str, Any]]) -> str:
    """Return that a part of the push is not possible now, or ""."""
    count = sum(item["result"] == _WAITS for item in done)
    if not count:
        return ""
    return f"{count} of {len(done)} differences could not be changed now; each says what it needs."


def _what_is_no_difference(push: QuotaPush, changes: Sequence[Change]) -> str:
    """Return which of the accepted subjects have no difference, or ""."""
    known = {change.subject for change in changes}
    unknown = [subject for subject in push.subjects if subject not in known]
    if not unknown:
        return ""
    named = ", ".join(f'"{subject[:200]}"' for subject in unknown[:_NAMED_MAX])
    more = f" and {len(unknown) - _NAMED_MAX} more" if len(unknown) > _NAMED_MAX else ""
    return f"There is no difference named {named}{more}; a comparison lists all differences."


def _apply(
    control: EntitlementControl,
    changes: tuple[Change, ...],
    done: list[dict[str, Any]],
    leadership: Leadership,
) -> str:
    """Make `changes`, append each result to `done`, and return why it ended early, or "".

    It ends at the first refusal, because later increases may depend on earlier reductions.
    """
    refusal = ""
    for change in changes:
        if refusal:
            done.append(shown(change, _NOT_TRIED))
        elif change.is_blocked:
            done.append(shown(change, _WAITS))
        else:
            # Only the current leader continues.
            with leadership.fence():
                pass
            try:
                control.apply(change)
            except (WorkloadRejected, NotOffered) as error:
                refusal = str(error)
                done.append(shown(change, f"refused: {refusal}"[:500]))
            else:
                done.append(shown(change, _DONE))
    return refusal
