"""The refusal of a cost cap that nothing can count (R-112)."""

from __future__ import annotations

from billing.models import RateCard
from jobs.submission.requests import JobRequest
from primitives.errors import FieldError, InvalidRequest
from tenants.models import Node


def check_cost_cap(request: JobRequest, team: Node) -> None:
    """Raise InvalidRequest for a cost cap in an organization without prices."""
    if request.cost_cap_nano is None:
        return
    if not RateCard.objects.filter(organization=team.organization_id).exists():
        detail = (
            f"{team.path.partition('/')[0]} has no rate card, so no cost can be counted. Leave the "
            "cost cap out."
        )
        raise InvalidRequest(detail, errors=[FieldError("/cost_cap_nano", detail)])
