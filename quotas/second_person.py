"""The rules of an organization about writes that need a second person, for its administrators."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from django.db import transaction

from audit.recording import record
from live.publishing import publish
from quotas.guarding import Write, guarded
from quotas.policies import set_given, visible_organization
from quotas.second_person_models import SecondPersonPolicy
from tenants.access import Actor, require
from tenants.models import Node
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


class SecondPersonEdit(TypedDict, total=False):
    """The rules to change; see `quotas.second_person_models.SecondPersonPolicy`."""

    stopped_jobs_min: int | None
    moved_mgpu_max: int | None
    guards_rules: bool
    allows_emergency: bool


def second_person_policy_of(organization: Node) -> SecondPersonPolicy:
    """Return the organization's rules, or none of them if nothing is stored."""
    rows = SecondPersonPolicy.objects.select_related("organization", "changed_by")
    found = rows.filter(organization=organization).first()
    return found or SecondPersonPolicy(organization=organization)


@transaction.atomic
def change_second_person_policy(
    organization_id: UUID,
    edit: SecondPersonEdit,
    *,
    actor: Actor,
    if_version: int,
    now: datetime,
) -> SecondPersonPolicy:
    """Change the rules in `edit`, based on the version that the actor has seen.

    While a rule is on, a change of the rules needs a second person itself. Raises NotFound,
    Forbidden without manage_quota on the organization, PreconditionFailed unless `if_version` is
    current, and SecondPersonNeeded.
    """
    organization = visible_organization(actor, organization_id)
    require(actor, Permission.MANAGE_QUOTA, organization)
    SecondPersonPolicy.objects.get_or_create(organization=organization)
    policy = SecondPersonPolicy.objects.select_for_update().get(organization=organization)
    refuse_stale(if_version, policy.version, body=None)
    arguments = {"organization": str(organization_id), "edit": dict(edit)}
    with guarded(organization, Write("second_person.change", arguments), actor=actor, now=now):
        given: Mapping[str, Any] = dict(edit)
        if set_given(policy, given):
            policy.version += 1
            policy.changed_by, policy.changed_at = actor.user, now
            policy.save()
            record(
                action="second_person_policy.changed",
                subject_kind="second_person_policy",
                subject_id=organization.pk,
                now=now,
                actor_id=actor.user.pk,
                actor=actor.user.login,
                organization_id=organization.pk,
                node_path=organization.path,
                detail=given,
                request_id=current_request_id(),
            )
            publish("quotas", organization_id=organization.pk)
    return policy
