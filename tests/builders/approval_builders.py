"""Requests for tests: for 4 more GPUs of nlp, unless changed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from approvals.asking import NewRequest, ask
from approvals.changes import state_tag
from approvals.deciding import approve
from approvals.models import ChangeRequest, RequestKind
from approvals.reading import request_by_id
from builders.portal_builders import NOW, Company
from tenants.access import Actor
from tenants.models import User


def a_request(company: Company, asked_by: User, **changes: Any) -> ChangeRequest:
    """A stored request for more guarantee of nlp, without notices."""
    return ChangeRequest.objects.create(
        **{
            "kind": "guarantee",
            "organization": company.organization,
            "node": company.nlp,
            "pool": company.pool,
            "amount": 4_000,
            "unit": "mgpu",
            "reason": "the review is on Friday",
            "asked_by": asked_by,
            "asked_at": NOW,
            "expires_at": NOW + timedelta(days=7),
            **changes,
        }
    )


def wanted(**changes: Any) -> NewRequest:
    """A request to ask: 4 more guaranteed GPUs of h100 for nlp."""
    values: dict[str, Any] = {
        "kind": RequestKind.GUARANTEE,
        "node": "ai-company/research/nlp",
        "pool": "h100",
        "amount": 4_000,
        "reason": "the review is on Friday",
        **changes,
    }
    return NewRequest(**values)


def asked(actor: Actor, **changes: Any) -> ChangeRequest:
    return ask(wanted(**changes), actor=actor, now=NOW)


def approved(
    request: ChangeRequest,
    actor: Actor,
    sources: dict[UUID, int] | None = None,
    *,
    now: datetime = NOW,
) -> ChangeRequest:
    """The request after its approval, based on its present state."""
    tag = state_tag(request_by_id(actor, request.pk))
    return approve(request.pk, sources or {}, note="", if_match=tag, actor=actor, now=now)
