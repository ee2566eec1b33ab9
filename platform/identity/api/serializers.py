"""Shapes of identity providers, group mappings and sign-in options."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from identity.device_logins import HOST_LENGTH_MAX, TOKEN_DAYS_MAX
from identity.models import GROUP_LENGTH_MAX, ISSUER_LENGTH_MAX
from identity.providers import SCOPES_MAX
from tenants.api.serializers import PATH_LENGTH_MAX
from tenants.names import SLUG_LENGTH_MAX
from tenants.roles import Role, Scope
from webapi.serializers import (
    BoundedListField,
    StrictSerializer,
    TextField,
    UtcTimeField,
    WholeNumberField,
    YesOrNoField,
)

#: Roles that a group may give.
GROUP_ROLES = [
    role.value for role in Role if role not in {Role.PLATFORM_ADMIN, Role.SERVICE_ACCOUNT}
]
NEXT_LENGTH_MAX = 2_000


class IdentityProviderSerializer(serializers.Serializer[Any]):
    """The identity provider of an organization. Its client secret is never shown."""

    organization = serializers.CharField(source="organization.organization_slug")
    name = serializers.CharField(help_text="The name on the button of the sign-in page")
    issuer = serializers.CharField()
    client_id = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    groups_claim = serializers.CharField(help_text="The claim with groups; empty: none is read")
    creates_people = serializers.BooleanField()
    links_by_email = serializers.BooleanField()
    is_enabled = serializers.BooleanField()
    is_listed = serializers.BooleanField()
    allows_passwords = serializers.BooleanField()
    callback_url = serializers.CharField(help_text="The redirect URI to register with the provider")
    version = WholeNumberField()
    changed_at = UtcTimeField()


class IdentityProviderChangeSerializer(StrictSerializer):
    """The wanted state of the identity provider."""

    name = TextField(max_length=60, help_text="The name on the button of the sign-in page")
    issuer = TextField(
        max_length=ISSUER_LENGTH_MAX,
        help_text="Exactly as the provider has it, such as https://login.example.org/realms/main",
    )
    client_id = TextField(max_length=255)
    client_secret = TextField(
        max_length=1_000,
        required=False,
        allow_null=True,
        default=None,
        write_only=True,
        help_text="It is never shown again. Default: the stored one, unless the issuer is new",
    )
    scopes = BoundedListField(
        child=TextField(max_length=100),
        max_length=SCOPES_MAX,
        required=False,
        default=["openid", "profile", "email"],
    )
    groups_claim = TextField(
        max_length=100,
        required=False,
        allow_blank=True,
        default="",
        help_text="The claim with the names of a person's groups. Default: no groups are read",
    )
    creates_people = YesOrNoField(
        required=False,
        default=False,
        help_text="Create an account at the first sign-in of a person without one",
    )
    links_by_email = YesOrNoField(
        required=False,
        default=False,
        help_text="At the first sign-in, link the account with the same verified email address",
    )
    is_enabled = YesOrNoField(required=False, default=True)
    is_listed = YesOrNoField(
        required=False,
        default=False,
        help_text="Show the button to everybody. Default: only after the organization is named",
    )
    allows_passwords = YesOrNoField(
        required=False,
        default=True,
        help_text="Whether people of the organization may sign in with a password",
    )


class IdentityProviderCheckSerializer(serializers.Serializer[Any]):
    """The outcome of a test of the provider. No problem: it can be used."""

    problems = serializers.ListField(child=serializers.CharField())
    authorization_endpoint = serializers.CharField(allow_null=True)
    token_endpoint = serializers.CharField(allow_null=True)
    userinfo_endpoint = serializers.CharField(allow_null=True)


class GroupMappingSerializer(serializers.Serializer[Any]):
    """A group of the identity provider that gives a role on a node."""

    id = serializers.UUIDField()
    group = serializers.CharField()
    role = serializers.ChoiceField(choices=GROUP_ROLES)
    node = serializers.CharField(source="node.display_path")
    created_at = UtcTimeField()


class GroupMappingCreationSerializer(StrictSerializer):
    """A new mapping of a group."""

    group = TextField(max_length=GROUP_LENGTH_MAX, help_text="Exactly as the provider spells it")
    role = serializers.ChoiceField(choices=GROUP_ROLES)
    node = TextField(max_length=PATH_LENGTH_MAX, help_text="Path of a node of the organization")


class SignInProviderSerializer(serializers.Serializer[Any]):
    """An identity provider that the sign-in page offers."""

    organization = serializers.CharField()
    name = serializers.CharField()


class SignInOptionsSerializer(serializers.Serializer[Any]):
    """The identity providers with which a stranger may sign in."""

    providers = SignInProviderSerializer(many=True)


class ProviderSignInSerializer(StrictSerializer):
    """The start of a sign-in at an identity provider."""

    organization = TextField(max_length=SLUG_LENGTH_MAX, help_text="Slug of the organization")
    next = TextField(
        max_length=NEXT_LENGTH_MAX,
        required=False,
        default="/",
        help_text="Path of the page to show after it",
    )


class AuthorizationSerializer(serializers.Serializer[Any]):
    """The address of the provider to which the browser goes next."""

    authorization_url = serializers.CharField()


class DeviceLoginStartSerializer(StrictSerializer):
    """The machine that logs in, and the rights that it asks for."""

    host = TextField(max_length=HOST_LENGTH_MAX, help_text="The machine's own name")
    scopes = BoundedListField(
        child=serializers.ChoiceField(choices=[scope.value for scope in Scope]),
        min_length=1,
        max_length=len(Scope),
    )
    token_days = WholeNumberField(
        min_value=1, max_value=TOKEN_DAYS_MAX, help_text="Days until the token expires"
    )


class StartedDeviceLoginSerializer(serializers.Serializer[Any]):
    """A started device login, with the names of RFC 8628."""

    device_code = serializers.CharField(help_text="Secret of the machine, for its polls")
    user_code = serializers.CharField(help_text="Code for the person: `WDJB-MJHT`")
    verification_uri = serializers.CharField(help_text="The page on which the person enters it")
    verification_uri_complete = serializers.CharField(help_text="The page with the code in it")
    expires_in = serializers.IntegerField(help_text="Seconds until the login expires")
    interval = serializers.IntegerField(help_text="Seconds between two polls")


class DeviceLoginPollSerializer(StrictSerializer):
    """The machine's secret."""

    device_code = TextField(max_length=100)


class DeviceLoginSerializer(serializers.Serializer[Any]):
    """A device login, for the person who decides."""

    user_code = serializers.CharField()
    host = serializers.CharField(help_text="As the machine calls itself; it may not be true")
    address = serializers.CharField(help_text="IP address from which the login was started")
    is_own_address = serializers.BooleanField(help_text="Whether this request has that address")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=[s.value for s in Scope]))
    token_days = serializers.IntegerField(help_text="Days until the token expires")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(help_text="End of the login")
