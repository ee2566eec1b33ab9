"""Rights to adjust charges and to decide disputes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from audit.recording import record
from billing.models import RateCard
from live.publishing import COSTS, publish
from notices.second_person import Request, tell_deciders, tell_requester
from primitives.currencies import money_text
from primitives.errors import Conflict, Forbidden
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: Acts that begin a request, and acts that end it.
_ASKED = frozenset({"asked", "opened"})
_DECIDED = frozenset({"approved", "accepted", "rejected", "declined", "withdrawn", "expired"})


def may_decide(actor: Actor, organization: Node) -> bool:
    """Return whether the actor has finance rights on the organization."""
    return actor.holds(Permission.MANAGE_PRICES, organization.path)


def require_finance(actor: Actor, organization: Node) -> None:
    """Raise Forbidden without finance rights on the organization."""
    if not may_decide(actor, organization):
        raise Forbidden(
            f"Only finance and administrators of {organization.display_path} adjust charges.",
            permission=Permission.MANAGE_PRICES.value,
        )


def currency_of(organization: Node) -> str:
    """Return the organization's currency. Raises Conflict without a rate card."""
    card = RateCard.objects.filter(organization=organization).first()
    if card is None:
        raise Conflict(
            f"{organization.display_path} has no rate card, so no use has a cost. Add one first."
        )
    return card.currency


def note_act(
    action: str,
    subject: Any,
    detail: dict[str, Any],
    *,
    amount_nano: int,
    deadline: datetime | None,
    actor: Actor | None,
    now: datetime,
) -> None:
    """Record the audit event of a change of an adjustment or dispute, and tell whom it concerns.

    Finance is told of a new one that it must decide, until `deadline` if there is one. The person
    who asked is told of the decision.
    """
    kind, act = action.split(".")
    record(
        action=action,
        subject_kind=kind,
        subject_id=subject.pk,
        now=now,
        actor_id=None if actor is None else actor.user.pk,
        actor="system" if actor is None else actor.user.login,
        organization_id=subject.organization_id,
        node_path=subject.team.path,
        detail={"team": subject.team.display_path, "currency": subject.currency, **detail},
        request_id=current_request_id(),
    )
    publish("reports", organization_id=subject.organization_id, audience=COSTS)
    amount = money_text(amount_nano, subject.currency)
    request = Request(
        kind=kind,
        id=subject.pk,
        called=f"The {kind} about {amount} {subject.currency} of {subject.team.display_path}",
        link="/adjustments",
        asked_by_id=subject.asked_by_id,
        node_path=subject.team.path,
    )
    if act in _ASKED:
        path = subject.organization.path
        tell_deciders(request, Permission.MANAGE_PRICES, path, at=now, deadline=deadline)
    elif act in _DECIDED:
        by_id = None if actor is None else actor.user.pk
        tell_requester(request, act, subject.note, by_id=by_id, at=now)
