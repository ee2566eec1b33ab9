"""SCIM of an organization as its administrators see it: settings, last contact and counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max, Q

from identity.models import (
    ExternalIdClaim,
    ProvisionedGroup,
    ProvisionedPerson,
    ScimSettings,
    ScimToken,
)
from identity.providers import managed_organization
from tenants.access import Actor
from tenants.audit_trail import record_act
from webapi.preconditions import refuse_stale


@dataclass(frozen=True, slots=True)
class ScimStatus:
    """The settings of SCIM, the last contact of the identity provider, and what it pushed."""

    external_id_claim: str
    adopts_accounts: bool
    version: int
    last_contact_at: datetime | None
    active_people: int
    deactivated_people: int
    groups: int


def scim_status(actor: Actor, organization_id: UUID) -> ScimStatus:
    """Return the state of SCIM of an organization. Raises NotFound and Forbidden."""
    organization = managed_organization(actor, organization_id)
    settings = ScimSettings.objects.filter(pk=organization.pk).first()
    people = ProvisionedPerson.objects.filter(organization=organization, deleted_at=None)
    counts = people.aggregate(
        active=Count("pk", filter=Q(user__is_active=True)),
        deactivated=Count("pk", filter=Q(user__is_active=False)),
    )
    tokens = ScimToken.objects.filter(organization=organization)
    return ScimStatus(
        external_id_claim=settings.external_id_claim if settings else ExternalIdClaim.SUBJECT,
        adopts_accounts=settings is not None and settings.adopts_accounts,
        version=settings.version if settings else 0,
        last_contact_at=tokens.aggregate(last=Max("last_used_at"))["last"],
        active_people=counts["active"],
        deactivated_people=counts["deactivated"],
        groups=ProvisionedGroup.objects.filter(organization=organization).count(),
    )


@transaction.atomic
def set_scim(
    *,
    actor: Actor,
    organization_id: UUID,
    external_id_claim: ExternalIdClaim,
    adopts_accounts: bool,
    version: int,
    now: datetime,
) -> ScimStatus:
    """Change the settings. `version` is the one that the change is based on; 0: none is stored.

    Raises NotFound, Forbidden, and PreconditionFailed for another version.
    """
    organization = managed_organization(actor, organization_id)
    ScimSettings.objects.get_or_create(
        organization=organization, defaults={"changed_at": now, "version": 0}
    )
    settings = ScimSettings.objects.select_for_update().get(pk=organization.pk)
    refuse_stale(version, settings.version, body=None)
    after = {"external_id_claim": external_id_claim.value, "adopts_accounts": adopts_accounts}
    before = {name: getattr(settings, name) for name in after}
    settings.external_id_claim = external_id_claim
    settings.adopts_accounts = adopts_accounts
    settings.version += 1
    settings.changed_at = now
    settings.save()
    record_act(
        actor=actor,
        action="scim_set",
        subject_kind="scim",
        subject_id=organization.pk,
        node=organization,
        now=now,
        detail={
            name: {"before": before[name], "after": value}
            for name, value in after.items()
            if before[name] != value
        },
    )
    return scim_status(actor, organization_id)
