"""Requests for writes that need a second person: made from a refused write, and decided.

An approval repeats the write as the person who asked, with the state of that moment. Before, the
write is tried with the rights of the second person and rolled back. So nobody approves what they
could not write themselves, and a preview that became riskier is shown first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from approvals.changes import state_tag
from approvals.deciders import refuse_closed, require_decider
from approvals.happenings import note_act, note_asked, note_decided, note_emergency
from approvals.models import (
    OPEN,
    TEXT_LENGTH_MAX,
    TITLE_LENGTH_MAX,
    ChangeRequest,
    GuardedWrite,
    RequestKind,
    RequestStatus,
)
from approvals.operations import OPERATIONS
from approvals.reading import locked_request
from bulk.trials import rolled_back
from clusters.models import Pool
from primitives.errors import Conflict, Forbidden, InvalidRequest, PreconditionFailed
from primitives.units import gpus_text
from quotas.administration import named_refusals
from quotas.guarding import (
    Effects,
    SecondPersonNeeded,
    decided,
    measured,
    provide_requests,
)
from quotas.locks import lock_quotas
from quotas.second_person import second_person_policy_of
from tenants.access import PLATFORM, Actor, actor_of
from tenants.models import Node, User
from tenants.names import clean_name
from tenants.roles import Role

EXPIRES_AFTER = timedelta(days=7)
#: The most writes of one organization that wait for a second person, and of one person in it.
WAITING_MAX = 100
WAITING_OF_ONE_MAX = 20


@transaction.atomic
def ask_for_second_person(needed: SecondPersonNeeded, *, now: datetime) -> ChangeRequest:
    """Store the write as a request, and tell the nearest people who may decide it.

    The same write of the same person is one request while it is open. Raises Conflict where too
    many writes wait, and where the node was moved or deleted meanwhile.
    """
    actor, write = needed.actor, needed.write
    now = now.replace(microsecond=0)
    waiting = ChangeRequest.objects.filter(
        organization=needed.organization, kind=RequestKind.WRITE, status__in=OPEN
    )
    own = waiting.filter(asked_by=actor.user)
    same = own.filter(
        expires_at__gt=now,
        write__operation=write.operation,
        write__arguments=dict(write.arguments),
    )
    if (found := same.select_related("write").first()) is not None:
        return found
    if waiting.count() >= WAITING_MAX:
        raise Conflict(
            f"{WAITING_MAX} changes of {needed.organization} wait for a second person already. "
            "Decide some of them first."
        )
    if own.count() >= WAITING_OF_ONE_MAX:
        raise Conflict(
            f"{WAITING_OF_ONE_MAX} of your changes wait for a second person already. Withdraw some "
            "of them, or ask somebody to decide."
        )
    title = title_of_write(needed.effects)
    is_of_platform = needed.path == PLATFORM
    path = needed.organization.path if is_of_platform else needed.path
    node = Node.objects.filter(path=path).first()
    if node is None:
        raise Conflict("The node was moved or deleted meanwhile. Look at it, and try again.")
    request = ChangeRequest.objects.create(
        kind=RequestKind.WRITE,
        organization=needed.organization,
        node=node,
        role=Role.PLATFORM_ADMIN.value if is_of_platform else "",
        reason=(write.reason or title)[:TEXT_LENGTH_MAX],
        asked_by=actor.user,
        asked_at=now,
        expires_at=now + EXPIRES_AFTER,
    )
    request.write = GuardedWrite.objects.create(
        request=request,
        operation=write.operation,
        arguments=dict(write.arguments),
        title=title,
        effects=_stored(needed.effects),
        measured_at=now,
    )
    note_asked(request, actor=actor, now=now)
    return request


def _answer(needed: SecondPersonNeeded, now: datetime) -> dict[str, Any]:
    request = ask_for_second_person(needed, now=now)
    return {
        "request": str(request.pk),
        "url": f"/api/v1/requests/{request.pk}",
        "detail": f"{needed.why}, so it waits for a second person until "
        f"{request.expires_at:%Y-%m-%d %H:%M} UTC. Nothing has changed yet.",
        "expires_at": request.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def register() -> None:
    """Tell the guard where requests are stored."""
    provide_requests(_answer)


def title_of_write(effects: Effects) -> str:
    """Return a write in a few words, such as "nlp in h100: 60 to 20 and 2 more"."""
    parts: list[str] = []
    if effects.quotas:
        first = next((each for each in effects.quotas if each["after"]), effects.quotas[0])
        name = first["node"].rpartition("/")[2]
        amounts = " to ".join(
            "none" if values is None else gpus_text(values["guaranteed_mgpu"])
            for values in (first["before"], first["after"])
        )
        more = len(effects.quotas) - 1
        parts.append(
            f"{name} in {first['pool']}: {amounts}" + (f" and {more} more" if more else "")
        )
    parts += [f"{each['rule']} changed" for each in effects.rules]
    return "; ".join(parts)[:TITLE_LENGTH_MAX] or "A change without effect by now"


def _stored(effects: Effects) -> dict[str, Any]:
    return {**asdict(effects), "stopped_jobs": effects.stopped_jobs}


def approve_write(
    request_id: UUID, *, note: str, if_match: str, actor: Actor, now: datetime
) -> ChangeRequest:
    """Approve a write, and make it as the person who asked, with the present state.

    Repeating it changes nothing. Raises NotFound, Forbidden, Conflict for a closed request, what
    the write raises, and PreconditionFailed with a new preview where the state moved or the write
    became riskier.
    """
    with named_refusals(), transaction.atomic():
        request = locked_request(request_id, actor)
        require_decider(actor, request)
        if request.status == RequestStatus.APPROVED and request.decided_by_id == actor.user.pk:
            return request
        refuse_closed(request, now)
        refusal = _refusal(request, if_match, actor=actor, now=now)
        if not refusal:
            _make(request, now=now)
            _close(request, note, actor=actor, now=now)
            note_decided(request, actor=actor, now=now)
    if refusal:
        raise PreconditionFailed(refusal)
    return request


def override_second_person(
    request_id: UUID, *, reason: str, if_match: str, actor: Actor, now: datetime
) -> ChangeRequest:
    """Make the write of a platform administrator without a second person, and tell the others.

    Raises NotFound, Forbidden for others and where the organization does not allow it, and what
    `approve_write` raises.
    """
    reason = clean_name(reason, field="reason", length_max=TEXT_LENGTH_MAX)
    with named_refusals(), transaction.atomic():
        request = locked_request(request_id, actor)
        _require_emergency(actor, request)
        if request.status == RequestStatus.APPROVED and request.decided_by_id == actor.user.pk:
            return request
        refuse_closed(request, now)
        refusal = _refusal(request, if_match, actor=actor, now=now)
        if not refusal:
            _make(request, now=now)
            request.is_emergency = True
            _close(request, reason, actor=actor, now=now)
            note_emergency(request, actor=actor, now=now)
    if refusal:
        raise PreconditionFailed(refusal)
    return request


def may_override(actor: Actor, request: ChangeRequest) -> bool:
    """Return whether the actor may make this open write without a second person."""
    return (
        request.kind == RequestKind.WRITE
        and request.status in OPEN
        and request.asked_by_id == actor.user.pk
        and actor.is_platform_admin
        and second_person_policy_of(request.organization).allows_emergency
    )


def _refusal(request: ChangeRequest, if_match: str, *, actor: Actor, now: datetime) -> str:
    """Return why the write is not made yet, or "". Then its new preview is stored."""
    for pool in Pool.objects.order_by("pk").values_list("pk", flat=True):
        lock_quotas(request.organization, pool)
    is_stale = if_match != state_tag(request)
    present = _measured(request.write, actor, now)
    if not is_stale and not _is_riskier(present, request.write.effects):
        return ""
    write = request.write
    write.effects, write.title = _stored(present), title_of_write(present)
    write.measured_at = now
    write.save()
    request.version += 1
    request.save()
    note_act(request, "previewed", actor=actor, now=now)
    if is_stale:
        return (
            "The request, a quota or a rule has changed since you looked. The preview was made "
            "again: look at it, and send the new ETag."
        )
    return (
        "The change became riskier since you looked. The preview was made again: look at it, and "
        "send the new ETag."
    )


def _is_riskier(present: Effects, seen: Mapping[str, Any]) -> bool:
    return (
        present.stopped_jobs > seen["stopped_jobs"]
        or present.moved_mgpu > seen["moved_mgpu"]
        or not {each["rule"] for each in present.rules} <= {each["rule"] for each in seen["rules"]}
    )


def _measured(write: GuardedWrite, actor: Actor, now: datetime) -> Effects:
    """Return the present effects of a write by the actor. Nothing is written."""
    try:
        with rolled_back(), measured():
            OPERATIONS[write.operation](write.arguments, actor, now)
    except SecondPersonNeeded as needed:
        return needed.effects
    return Effects()


def _make(request: ChangeRequest, *, now: datetime) -> None:
    """Make the write with the present rights of the person who asked."""
    asker = User.objects.select_related("organization").get(pk=request.asked_by_id)
    with decided():
        OPERATIONS[request.write.operation](request.write.arguments, actor_of(asker), now)


def _require_emergency(actor: Actor, request: ChangeRequest) -> None:
    if request.kind != RequestKind.WRITE:
        raise InvalidRequest("Only a change that needs a second person can be overridden.")
    if request.asked_by_id != actor.user.pk or not actor.is_platform_admin:
        raise Forbidden(
            "Only a platform administrator who asked for this change may override that."
        )
    if not second_person_policy_of(request.organization).allows_emergency:
        raise Forbidden(
            f"{request.organization} does not allow emergencies, so another person decides."
        )


def _close(request: ChangeRequest, note: str, *, actor: Actor, now: datetime) -> None:
    request.status, request.note = RequestStatus.APPROVED, note.strip()
    request.decided_by, request.decided_at = actor.user, now
    request.version += 1
    request.save()
