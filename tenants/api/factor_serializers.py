"""Shapes of second factors and of the policy that requires them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from tenants.factor_codes import CODE_LENGTH_MAX
from tenants.sign_in_models import KEY_NAME_LENGTH_MAX
from webapi.serializers import StrictSerializer, TextField, YesOrNoField


class CodeSerializer(StrictSerializer):
    """A code of an authenticator app, or a recovery code where one is accepted."""

    code = TextField(max_length=CODE_LENGTH_MAX, write_only=True)


class ProofSerializer(StrictSerializer):
    """The proof that the caller is the person who signed in."""

    proof = TextField(
        max_length=1024,
        required=False,
        default="",
        write_only=True,
        help_text="The password, or the present code of the authenticator app",
    )


class AuthenticatorAppSerializer(serializers.Serializer[Any]):
    """An authenticator app, without its key."""

    id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="null: never used")


class SecurityKeySerializer(serializers.Serializer[Any]):
    """A security key or passkey."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="null: never used")


class KeyChallengeSerializer(serializers.Serializer[Any]):
    """A challenge for a security key."""

    options = serializers.DictField(
        help_text="For `parseCreationOptionsFromJSON` or `parseRequestOptionsFromJSON` (WebAuthn)"
    )


class KeyAnswerSerializer(StrictSerializer):
    """The answer of a security key."""

    credential = serializers.DictField(
        write_only=True, help_text="`toJSON()` of the browser's credential (WebAuthn)"
    )


class KeyConfirmationSerializer(KeyAnswerSerializer):
    """The answer of a new security key, and its name."""

    name = TextField(max_length=KEY_NAME_LENGTH_MAX, help_text="To tell several keys apart")


class SecondFactorsSerializer(serializers.Serializer[Any]):
    """The second factors of a person."""

    user = serializers.CharField(source="user.login", help_text="Login of the person")
    authenticator_app = AuthenticatorAppSerializer(source="app", allow_null=True)
    security_keys = SecurityKeySerializer(source="keys", many=True)
    recovery_codes_left = serializers.IntegerField(help_text="Recovery codes that were not used")
    can_enrol = serializers.BooleanField(help_text="Whether the person signs in with a password")
    is_required = serializers.BooleanField(help_text="Whether the organization requires a factor")


class NewKeySerializer(serializers.Serializer[Any]):
    """A key for an authenticator app. It is stored once a code confirms it."""

    key = serializers.CharField(help_text="The key as text (base32)")
    address = serializers.CharField(help_text="The key as an `otpauth://` address")
    picture = serializers.CharField(help_text="The address as a QR code: an SVG in a `data:` URL")


class RecoveryCodesSerializer(serializers.Serializer[Any]):
    """Recovery codes. They are shown this once."""

    recovery_codes = serializers.ListField(
        child=serializers.CharField(), help_text="Empty where the former codes still work"
    )


class FactorsResetSerializer(serializers.Serializer[Any]):
    """The outcome of a reset."""

    removed = serializers.IntegerField(help_text="Number of removed factors")


class SignInPolicySerializer(serializers.Serializer[Any]):
    """The second factor in the sign-in policy of an organization."""

    requires_second_factor = serializers.BooleanField()
    version = serializers.IntegerField(help_text="0: nobody has set the policy")


class SignInPolicyChangeSerializer(StrictSerializer):
    """The wanted sign-in policy."""

    requires_second_factor = YesOrNoField(
        help_text="Whether people who sign in with a password need a second factor"
    )
