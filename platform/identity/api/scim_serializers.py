"""Shapes of the settings of SCIM and of its tokens."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from identity.models import ExternalIdClaim
from identity.scim.tokens import NAME_LENGTH_MAX
from tenants.tokens import LIFETIME_DAYS_MAX
from webapi.serializers import (
    StrictSerializer,
    TextField,
    UtcTimeField,
    WholeNumberField,
    YesOrNoField,
)

_CLAIM_HELP = (
    "The claim of a sign-in that equals the person's externalId at SCIM: `sub`, `oid` of Entra ID, "
    "or `uid` of Okta with an authorization server of one's own"
)
_ADOPTS_HELP = (
    "A pushed person takes over the account with the same username, which SCIM did not create"
)


class ScimSerializer(serializers.Serializer[Any]):
    """SCIM of an organization."""

    base_url = serializers.CharField(help_text="The address to enter at the identity provider")
    external_id_claim = serializers.ChoiceField(
        choices=ExternalIdClaim.values, help_text=_CLAIM_HELP
    )
    adopts_accounts = serializers.BooleanField(help_text=_ADOPTS_HELP)
    last_contact_at = UtcTimeField(
        allow_null=True, help_text="Last request of the identity provider, precise to the minute"
    )
    active_people = WholeNumberField(help_text="Pushed people whose account is active")
    deactivated_people = WholeNumberField(help_text="Pushed people whose account is deactivated")
    groups = WholeNumberField(help_text="Pushed groups")
    version = WholeNumberField()


class ScimChangeSerializer(StrictSerializer):
    """The wanted settings of SCIM."""

    external_id_claim = serializers.ChoiceField(
        choices=ExternalIdClaim.values, help_text=_CLAIM_HELP
    )
    adopts_accounts = YesOrNoField(help_text=_ADOPTS_HELP)


class ScimTokenSerializer(serializers.Serializer[Any]):
    """A token for SCIM, without its secret."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The first 12 characters, to recognise the token")
    created_by = serializers.CharField(source="created_by.login")
    created_at = UtcTimeField()
    expires_at = UtcTimeField()
    last_used_at = UtcTimeField(allow_null=True, help_text="Precise to the minute")
    revoked_at = UtcTimeField(allow_null=True)


class NewScimTokenSerializer(ScimTokenSerializer):
    """A new token for SCIM. Its secret is never shown again."""

    secret = serializers.CharField(
        allow_null=True,
        help_text="`tds_` and 36 characters. null in the repeated answer to an Idempotency-Key, "
        "because secrets are not stored",
    )


class ScimTokenCreationSerializer(StrictSerializer):
    """A token for SCIM to create."""

    name = TextField(max_length=NAME_LENGTH_MAX, help_text="Such as the provider's name")
    expires_in_days = WholeNumberField(min_value=1, max_value=LIFETIME_DAYS_MAX)
