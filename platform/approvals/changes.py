"""The change that a request asks for: its edits, its trial, and how an approval makes it.

An approval calls the functions that a person with the rights would call, as that person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.models import OF_QUOTAS, ChangeRequest, CounterOffer, RequestKind
from budgets.administration import change_budget
from budgets.models import Budget
from primitives.errors import Conflict, FieldError, InvalidRequest
from quotas.administration import QuotaEdit
from quotas.guarded_state import versions_of
from quotas.models import PlannedChange, PriorityClass, Quota
from quotas.planned_changes import (
    REVERT_AFTER_S_MAX,
    REVERT_AFTER_S_MIN,
    apply_planned,
    draft_change,
    family_below,
    try_edits,
)
from quotas.planned_reading import etag_of_planned
from quotas.policies import change_priority_class
from quotas.quota_store import REASON_LENGTH_MAX
from tenants.access import Actor
from tenants.granting import grant_role
from tenants.roles import Role

#: The most siblings that give GPUs for one request.
SOURCES_MAX = 50


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a change: how much, until when, and what siblings give, in milli-GPUs by id."""

    amount: int
    until: datetime | None
    sources: Mapping[UUID, int]


def terms_as_asked(request: ChangeRequest, sources: Mapping[UUID, int]) -> Terms:
    """Return the terms that the person asked for. The lender of a loan gives all of it."""
    amount = request.amount or 0
    if request.lender_id is not None:
        return Terms(amount, request.until, {request.lender_id: amount})
    return Terms(amount, request.until, sources)


def terms_of_offer(offer: CounterOffer) -> Terms:
    """Return the terms of a counter-offer."""
    sources = {UUID(each["node"]): int(each["amount_mgpu"]) for each in offer.sources}
    return Terms(offer.amount, offer.until, sources)


def state_tag(request: ChangeRequest) -> str:
    """Return an ETag of the request and of all rows on which its effect depends. One query."""
    digest = hashlib.sha256(f"{request.pk} {request.version}".encode())
    for pk, version in _rows(request):
        digest.update(f" {pk} {version}".encode())
    return f'"{digest.hexdigest()[:32]}"'


def _rows(request: ChangeRequest) -> list[tuple[UUID, int]]:
    """Return ids and versions of the quotas of the organization in the pool, or of the target.

    Of a write, these are all its quotas and rules.
    """
    if request.kind == RequestKind.WRITE:
        return versions_of(request.organization)
    rows: Any = Quota.objects.filter(
        node__organization=request.organization_id, pool=request.pool_id
    )
    if request.kind == RequestKind.BUDGET:
        rows = Budget.objects.filter(pk=_target_of(request))
    elif request.kind == RequestKind.CLASS_CAP:
        rows = PriorityClass.objects.filter(pk=_target_of(request))
    return list(rows.order_by("pk").values_list("pk", "version"))


def _target_of(request: ChangeRequest) -> UUID:
    assert request.target_id is not None
    return request.target_id


def base_of(request: ChangeRequest, terms: Terms) -> dict[str, int]:
    """Return the versions of the rows that the terms would change, by id."""
    changed = {request.target_id}
    if request.kind in OF_QUOTAS:
        nodes = {request.node_id, *terms.sources}
        quotas = Quota.objects.filter(node__in=nodes, pool=request.pool_id)
        changed = set(quotas.values_list("pk", flat=True))
    return {str(pk): version for pk, version in _rows(request) if pk in changed}


def lock_quotas_of(request: ChangeRequest) -> None:
    """Lock the quotas around the request until the end of the transaction."""
    if request.pool_id is not None:
        family_below(request.node.parent or request.node, request.pool_id, is_locked=True)


def edits_of_request(request: ChangeRequest, terms: Terms) -> dict[UUID, QuotaEdit]:
    """Return the edits of quotas, from their present values.

    Raises InvalidRequest for sources that are no siblings or give too much, and Conflict where the
    change cannot be made.
    """
    assert request.pool is not None
    where = f"{request.node.display_path} in pool {request.pool.name}"
    rows = Quota.objects.select_related("node").filter(pool=request.pool_id)
    own = rows.filter(node=request.node_id).first()
    if own is None:
        raise Conflict(f"There is no quota of {where} yet. An administrator creates it first.")
    if request.kind == RequestKind.BORROW_LIMIT:
        _refuse_sources(terms)
        if own.borrow_limit_mgpu is None:
            raise Conflict(f"{where} has no borrow limit, so it may borrow all that is free.")
        return {own.pk: {"borrow_limit_mgpu": own.borrow_limit_mgpu + terms.amount}}
    siblings = rows.filter(node__parent=request.node.parent_id, node__in=terms.sources)
    found = {quota.node_id: quota for quota in siblings if quota.pk != own.pk}
    if request.node.parent_id is None or found.keys() != terms.sources.keys():
        _refuse_sources(terms)
    if any(mgpu < 1 for mgpu in terms.sources.values()) or (
        sum(terms.sources.values()) > terms.amount
    ):
        raise InvalidRequest(
            "The sources give at least 1 each, and together at most the amount.",
            errors=[FieldError("/sources", "give too little or too much")],
        )
    edits: dict[UUID, QuotaEdit] = {own.pk: {"guaranteed_mgpu": own.guaranteed_mgpu + terms.amount}}
    for node_id, quota in found.items():
        left_mgpu = quota.guaranteed_mgpu - terms.sources[node_id]
        if left_mgpu < 0:
            raise Conflict(
                f"{quota.node.slug} is guaranteed {request.pool.kind.text(quota.guaranteed_mgpu)}, "
                "and cannot give more. Choose other sources."
            )
        edits[quota.pk] = {"guaranteed_mgpu": left_mgpu}
    return edits


def _refuse_sources(terms: Terms) -> None:
    if terms.sources:
        raise InvalidRequest(
            "Only siblings of the node with a quota in the pool can give GPUs for more guarantee.",
            errors=[FieldError("/sources", "are no siblings with a quota")],
        )


def try_request(
    request: ChangeRequest, terms: Terms
) -> tuple[list[tuple[Quota, dict[str, Any]]], str]:
    """Return the changed quotas with their present settings, and the refusal or "".

    Nothing is written.
    """
    assert request.pool_id is not None
    edits = edits_of_request(request, terms)
    top = request.node.parent or request.node
    return try_edits(edits, [family_below(top, request.pool_id, is_locked=False)])


def made_at(request: ChangeRequest, now: datetime) -> datetime:
    """Return when the change is made if it is approved now: at its begin, or at once."""
    return now if request.begin is None else max(now, request.begin)


def reverted_after_s(terms: Terms, begin: datetime) -> int | None:
    """Return the seconds from `begin` until the change is reverted, or None.

    Raises Conflict for less than a minute or more than a year.
    """
    if terms.until is None:
        return None
    seconds = int((terms.until - begin).total_seconds())
    if not REVERT_AFTER_S_MIN <= seconds <= REVERT_AFTER_S_MAX:
        raise Conflict(
            "The change must last from a minute to a year. Choose a later or an earlier end."
        )
    return seconds


def make_change(
    request: ChangeRequest, terms: Terms, *, actor: Actor, now: datetime
) -> PlannedChange | None:
    """Make the change as `actor`, who needs the rights now. Must run in a transaction.

    Returns the planned change that was applied or scheduled, for changes of quotas. Raises what the
    functions behind it raise.
    """
    reason = f"Request of {request.asked_by.login}: {request.reason}"[:REASON_LENGTH_MAX]
    match RequestKind(request.kind):
        case RequestKind.ROLE:
            grant_role(
                actor=actor,
                login=request.asked_by.login,
                role=Role(request.role),
                node_path=request.node.display_path,
                now=now,
                expires_at=request.until,
            )
            return None
        case RequestKind.BUDGET:
            budget = Budget.objects.filter(pk=_target_of(request)).first()
            if budget is None:
                raise Conflict(f"The budget {request.target} was removed. Reject the request.")
            limit = budget.limit + terms.amount
            change_budget(
                budget.pk, {"limit": limit}, actor=actor, if_version=budget.version, now=now
            )
            return None
        case RequestKind.CLASS_CAP:
            found = PriorityClass.objects.get(pk=_target_of(request))
            if found.team_cap_mgpu is None:
                raise Conflict(f"The class {found.name} has no cap any more. Reject the request.")
            cap_mgpu = found.team_cap_mgpu + terms.amount
            change_priority_class(
                found.pk,
                {"team_cap_mgpu": cap_mgpu},
                actor=actor,
                if_version=found.version,
                now=now,
            )
            return None
        case _:
            begin = made_at(request, now)
            planned = draft_change(
                list(edits_of_request(request, terms).items()),
                reason=reason,
                apply_at=begin if begin > now else None,
                revert_after_s=reverted_after_s(terms, begin),
                actor=actor,
                now=now,
            )
            tag = etag_of_planned(planned)
            return apply_planned(planned.pk, if_match=tag, actor=actor, now=now)
