"""Ways to sign in: the policies of organizations, and second factors beside passwords."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from uuid_utils.compat import uuid7

KEY_NAME_LENGTH_MAX = 60


class AuthenticatorApp(models.Model):
    """An app that shows a code every 30 s (TOTP, RFC 6238). A person has at most one.

    `sealed_key` is its encrypted key (`tenants.sealing`). `last_step` is the step of 30 s since
    1970 whose code was accepted last. The database lets it only grow (trigger
    `authenticator_code_is_used_once`), so that each code is accepted once.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="authenticator_app"
    )
    sealed_key = models.BinaryField()
    last_step = models.BigIntegerField()
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"authenticator app of {self.user}"


class SecurityKey(models.Model):
    """A security key or passkey that answers challenges (WebAuthn). A person may have several.

    `credential` has the public key. `sign_count` is the counter of the key's last answer; 0: the
    key does not count.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="security_keys")
    name = models.CharField(max_length=KEY_NAME_LENGTH_MAX)
    credential_id = models.BinaryField(max_length=1023, unique=True)
    credential = models.BinaryField()
    sign_count = models.BigIntegerField()
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"security key {self.name} of {self.user}"


class RecoveryCode(models.Model):
    """A code that replaces the second factor once. Its use deletes the row.

    Only its SHA-256 is stored.
    """

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="recovery_codes"
    )
    digest = models.BinaryField(max_length=32, unique=True)

    def __str__(self) -> str:
        return f"recovery code of {self.user}"


class SignInPolicy(models.Model):
    """The ways in which people of an organization may sign in. Without a row, passwords work.

    `requires_second_factor` is about people who sign in with a password.
    """

    organization = models.OneToOneField(
        "tenants.Node", models.PROTECT, primary_key=True, related_name="sign_in_policy"
    )
    allows_passwords = models.BooleanField(default=True)
    requires_second_factor = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"sign-in policy of {self.organization}"
