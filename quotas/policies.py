"""An organization's rules of service: its policy and its priority classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import transaction

from audit.recording import record
from live.waking import wake
from primitives.errors import InvalidRequest
from primitives.units import PPM
from quotas.models import OrganizationPolicy, PriorityClass
from tenants.access import Actor, under, visible_node
from tenants.models import Node
from tenants.roles import Permission
from webapi.middleware import current_request_id


@dataclass(frozen=True, slots=True)
class ClassRules:
    """What a priority class means; see `quotas.models.PriorityClass`."""

    order: int
    preempts_within_team: bool = False
    grace_period_s: int = 300
    team_cap_mgpu: int | None = None
    price_multiplier_ppm: int = PPM
    description: str = ""


#: What an organization starts with; its administrators may add classes.
STANDARD_CLASSES: Mapping[str, ClassRules] = {
    "critical": ClassRules(1000, preempts_within_team=True, description="production inference"),
    "high": ClassRules(100, preempts_within_team=True, description="training deadlines"),
    "normal": ClassRules(10, description="research"),
    "low": ClassRules(1, grace_period_s=60, description="experimentation"),
}


def ensure_rules(organization: Node) -> None:
    """Give an organization that has none the standard policy and priority classes.

    Without a class no job could be submitted. What is there already stays as it is.
    """
    OrganizationPolicy.objects.get_or_create(organization=organization)
    if not PriorityClass.objects.filter(organization=organization).exists():
        PriorityClass.objects.bulk_create(
            [
                PriorityClass(organization=organization, name=name, **asdict(rules))
                for name, rules in STANDARD_CLASSES.items()
            ],
            ignore_conflicts=True,
        )


@transaction.atomic
def set_policy(
    organization_path: str,
    *,
    rank: Sequence[str],
    grace_period_s: int,
    fair_share_half_life_s: int,
    actor: Actor,
    now: datetime,
) -> OrganizationPolicy:
    """Set the organization's policy; `rank` lists paths of its nodes, first served first.

    Raises NotFound for a foreign organization, Forbidden without manage_quota on it, and
    InvalidRequest for a path in `rank` that is none of its nodes.
    """
    organization = visible_node(actor, organization_path, Permission.MANAGE_QUOTA)
    known = set(Node.objects.filter(under([organization.path], "path")).values_list("path"))
    for path in rank:
        if (f"{path}/",) not in known:
            raise InvalidRequest(f"rank names {path!r}, which is no node of {organization}.")
    policy, _ = OrganizationPolicy.objects.update_or_create(
        organization=organization,
        defaults={
            "rank": list(rank),
            "grace_period_s": grace_period_s,
            "fair_share_half_life_s": fair_share_half_life_s,
        },
    )
    _record(
        "policy.changed",
        organization,
        organization.pk,
        {
            "rank": policy.rank,
            "grace_period_s": grace_period_s,
            "fair_share_half_life_s": fair_share_half_life_s,
        },
        actor=actor,
        now=now,
    )
    return policy


@transaction.atomic
def set_priority_class(
    organization_path: str, name: str, rules: ClassRules, *, actor: Actor, now: datetime
) -> PriorityClass:
    """Give the organization's priority class `name` these rules; a new name is a new class.

    Raises NotFound for a foreign organization and Forbidden without manage_quota on it.
    """
    organization = visible_node(actor, organization_path, Permission.MANAGE_QUOTA)
    found, _ = PriorityClass.objects.update_or_create(
        organization=organization, name=name, defaults=asdict(rules)
    )
    _record(
        "priority_class.changed",
        organization,
        found.pk,
        {"name": name, **asdict(rules)},
        actor=actor,
        now=now,
    )
    return found


def _record(
    action: str,
    organization: Node,
    subject_id: object,
    detail: dict[str, object],
    *,
    actor: Actor,
    now: datetime,
) -> None:
    record(
        action=action,
        subject_kind=action.partition(".")[0],
        subject_id=subject_id,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=organization.pk,
        node_path=organization.path,
        detail=detail,
        request_id=current_request_id(),
    )
    wake("arbiter")
