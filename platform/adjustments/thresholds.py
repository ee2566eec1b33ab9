"""The amount above which an organization's adjustments need a second person."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from adjustments.models import AdjustmentPolicy
from adjustments.rights import require_finance
from audit.recording import record
from quotas.policies import visible_organization
from tenants.access import Actor
from tenants.models import Node, User
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


def policy_of(organization: Node) -> AdjustmentPolicy:
    """Return the organization's policy, or the standard one if none is stored."""
    rows = AdjustmentPolicy.objects.select_related("organization", "changed_by")
    found = rows.filter(organization=organization).first()
    return found or AdjustmentPolicy(organization=organization)


def threshold_nano_for(user: User, policy: AdjustmentPolicy) -> int:
    """Return the threshold for a person's adjustments. The person's own raise does not count."""
    if policy.before_nano is not None and policy.changed_by_id == user.pk:
        return min(policy.threshold_nano, policy.before_nano)
    return policy.threshold_nano


def visible_policy(actor: Actor, organization_id: UUID) -> AdjustmentPolicy:
    """Return the policy of an organization that the actor sees. Raises NotFound."""
    return policy_of(visible_organization(actor, organization_id))


@transaction.atomic
def change_policy(
    organization_id: UUID, threshold_nano: int, *, actor: Actor, if_version: int, now: datetime
) -> AdjustmentPolicy:
    """Change the threshold, based on the version that the actor has seen.

    A raise counts for other persons only. Adjustments that wait still wait. Raises NotFound,
    Forbidden and PreconditionFailed.
    """
    organization = visible_organization(actor, organization_id)
    require_finance(actor, organization)
    AdjustmentPolicy.objects.get_or_create(organization=organization)
    policy = AdjustmentPolicy.objects.select_for_update().get(organization=organization)
    refuse_stale(if_version, policy.version, body=None)
    before = policy.threshold_nano
    if policy.changed_by_id != actor.user.pk:
        policy.before_nano = before
    policy.threshold_nano = threshold_nano
    policy.changed_by, policy.changed_at = actor.user, now
    policy.version += 1
    policy.save()
    record(
        action="adjustment_policy.changed",
        subject_kind="adjustment_policy",
        subject_id=organization.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=organization.pk,
        node_path=organization.path,
        detail={"before_nano": before, "threshold_nano": threshold_nano},
        request_id=current_request_id(),
    )
    return policy
