"""The policy of the installation: the rules for all organizations."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from django.db import transaction

from arbiter.api.policy import Policy
from audit.recording import record
from live.publishing import publish
from quotas.models import InstallationPolicy
from quotas.policies import set_given
from tenants.access import Actor, require_platform_admin
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale

_ONLY = 1


class InstallationEdit(TypedDict, total=False):
    """The settings to change; see `quotas.models.InstallationPolicy`."""

    grace_period_s_max: int
    starts_max: int
    reclaims_max: int
    claim_overdue_s: int
    credit_floor_s: int
    reservations_max: int
    reservation_horizon_s: int
    min_run_s: int
    preemptions_max: int
    costly_loss_s: int


def installation_policy() -> InstallationPolicy:
    """Return the policy of the installation, or the standard one if none is stored."""
    return InstallationPolicy.objects.filter(pk=_ONLY).first() or InstallationPolicy(pk=_ONLY)


def arbiter_policy() -> Policy:
    """Return the policy of the installation for the arbiter. One query.

    Settings of organizations are in their nodes and classes (`quotas.queries.quota_snapshot`).
    """
    row = installation_policy()
    return Policy(
        grace_period_s_default=row.grace_period_s_max,
        starts_max=row.starts_max,
        reclaims_max=row.reclaims_max,
        claim_overdue_s=row.claim_overdue_s,
        credit_floor_s=row.credit_floor_s,
        reservations_max=row.reservations_max,
        reservation_horizon_s=row.reservation_horizon_s,
        min_run_s=row.min_run_s,
        preemptions_max=row.preemptions_max,
        costly_loss_s=row.costly_loss_s,
    )


@transaction.atomic
def change_installation_policy(
    edit: InstallationEdit, *, actor: Actor, if_version: int, now: datetime
) -> InstallationPolicy:
    """Change the settings in `edit`, based on the version that the actor has seen.

    Raises Forbidden unless the actor is a platform administrator, and PreconditionFailed unless
    `if_version` is current.
    """
    require_platform_admin(actor)
    InstallationPolicy.objects.get_or_create(pk=_ONLY)
    policy = InstallationPolicy.objects.select_for_update().get(pk=_ONLY)
    refuse_stale(if_version, policy.version, body=None)
    if set_given(policy, dict(edit)):
        policy.version += 1
        policy.save()
        record(
            action="installation_policy.changed",
            subject_kind="installation_policy",
            subject_id=policy.pk,
            now=now,
            actor_id=actor.user.pk,
            actor=actor.user.login,
            detail=dict(edit),
            request_id=current_request_id(),
        )
        publish("quotas", organization_id=None, wake="arbiter")
    return policy
