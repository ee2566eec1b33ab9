"""Representations of an organization's choice of names in files."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from exports.models import ExportPolicy, UserNaming
from webapi.serializers import StrictSerializer, UtcTimeField


class ExportPolicySerializer(serializers.Serializer[Any]):
    """The choice how new files of FOCUS name users."""

    organization = serializers.CharField(help_text="Slug of the organization")
    users = serializers.ChoiceField(choices=UserNaming.choices)
    changed_by = serializers.CharField(allow_null=True, help_text="Login of who changed it last")
    changed_at = UtcTimeField(allow_null=True)
    version = serializers.IntegerField()


class ExportPolicyUpdateSerializer(StrictSerializer):
    """A change of the choice."""

    users = serializers.ChoiceField(
        choices=UserNaming.choices,
        help_text="pseudonyms: a keyed hash, the same in all files. names: login names",
    )


def shown_policy(policy: ExportPolicy) -> dict[str, Any]:
    """Return the policy as the API shows it."""
    return dict(
        ExportPolicySerializer(
            {
                "organization": policy.organization.slug,
                "users": policy.users,
                "changed_by": None if policy.changed_by is None else policy.changed_by.login,
                "changed_at": policy.changed_at,
                "version": policy.version,
            }
        ).data
    )
