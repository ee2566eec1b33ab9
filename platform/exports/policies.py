"""The choice of an organization how its new files of FOCUS name users."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from audit.recording import record
from exports.models import ExportPolicy
from live.publishing import publish
from primitives.errors import Forbidden
from quotas.policies import visible_organization
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


def policy_of(organization: Node) -> ExportPolicy:
    """Return the organization's policy, or the standard one if none is stored."""
    rows = ExportPolicy.objects.select_related("organization", "changed_by")
    found = rows.filter(organization=organization).first()
    return found or ExportPolicy(organization=organization)


def visible_policy(actor: Actor, organization_id: UUID) -> ExportPolicy:
    """Return the policy of an organization that the actor sees. Raises NotFound."""
    return policy_of(visible_organization(actor, organization_id))


@transaction.atomic
def change_policy(
    organization_id: UUID, users: str, *, actor: Actor, if_version: int, now: datetime
) -> ExportPolicy:
    """Change how new files name users, based on the version that the actor has seen.

    Requested files keep their names. Raises NotFound, Forbidden and PreconditionFailed.
    """
    organization = visible_organization(actor, organization_id)
    if not actor.holds(Permission.MANAGE_PRICES, organization.path):
        raise Forbidden(
            f"Only finance and administrators of {organization.display_path} choose the names of "
            "users in files.",
            permission=Permission.MANAGE_PRICES.value,
        )
    ExportPolicy.objects.get_or_create(organization=organization)
    policy = ExportPolicy.objects.select_for_update().get(organization=organization)
    refuse_stale(if_version, policy.version, body=None)
    before = policy.users
    policy.users = users
    policy.changed_by, policy.changed_at = actor.user, now
    policy.version += 1
    policy.save()
    record(
        action="export_policy.changed",
        subject_kind="export_policy",
        subject_id=organization.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=organization.pk,
        node_path=organization.path,
        detail={"before": before, "users": users},
        request_id=current_request_id(),
    )
    publish("reports", organization_id=organization.pk)
    return policy
