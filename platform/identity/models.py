"""Identity providers of organizations, their people and groups, and the groups that give roles."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower
from uuid_utils.compat import uuid7

from tenants.models import Node, User
from tenants.roles import Role

#: Lengths that OpenID Connect and common providers keep to.
SUBJECT_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 200
ISSUER_LENGTH_MAX = 500


class IdentityProvider(models.Model):
    """An OpenID Connect provider with which the people of an organization sign in.

    `sealed_secret` is the encrypted client secret (`tenants.sealing`). Nobody can read it back.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.OneToOneField(Node, models.PROTECT, related_name="+")
    #: The name on the button of the sign-in page.
    name = models.CharField(max_length=60)
    issuer = models.CharField(max_length=ISSUER_LENGTH_MAX)
    client_id = models.CharField(max_length=255)
    sealed_secret = models.BinaryField()
    scopes = ArrayField(models.CharField(max_length=100))
    #: The claim with the names of the person's groups; empty: no group gives a role.
    groups_claim = models.CharField(max_length=100, blank=True)
    #: Create an account for a person without one, at the first sign-in.
    creates_people = models.BooleanField(default=False)
    #: Link the account with the same email address, at the first sign-in, if it is verified.
    links_by_email = models.BooleanField(default=False)
    is_enabled = models.BooleanField(default=True)
    #: The sign-in page shows the button before anybody names the organization.
    is_listed = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(issuer__startswith="https://") | Q(issuer__startswith="http://"),
                name="identity_issuer_is_a_web_address",
            ),
            models.CheckConstraint(
                condition=Q(scopes__contains=["openid"]), name="identity_scopes_have_openid"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.organization}"


class ExternalIdentity(models.Model):
    """A person as an identity provider knows them: by issuer and subject, never by email."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    provider = models.ForeignKey(IdentityProvider, models.PROTECT, related_name="identities")
    issuer = models.CharField(max_length=ISSUER_LENGTH_MAX)
    subject = models.CharField(max_length=SUBJECT_LENGTH_MAX)
    user = models.ForeignKey(User, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    used_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "issuer", "subject"], name="identity_subject_is_one_person"
            ),
            models.UniqueConstraint(
                fields=["provider", "issuer", "user"], name="identity_person_has_one_subject"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} at {self.issuer}"


class GroupMapping(models.Model):
    """Gives a role on a node to the people of a group of the identity provider.

    Of a group that SCIM pushes, its members have the role at once. Of another group, people get it
    at their sign-in, and lose it at the first sign-in without the group.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    #: Exactly as the provider spells it.
    group = models.CharField(max_length=GROUP_LENGTH_MAX)
    role = models.CharField(max_length=24, choices=[(role.value, role.value) for role in Role])
    node = models.ForeignKey(Node, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "group", "role", "node"], name="identity_group_mapped_once"
            ),
            models.CheckConstraint(condition=~Q(group=""), name="identity_group_has_a_name"),
            models.CheckConstraint(
                condition=~Q(role="platform_admin"), name="identity_group_gives_no_platform_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.group} gives {self.role} on {self.node}"


class DeviceLogin(models.Model):
    """A login of a command without a browser that waits for a person's decision (RFC 8628).

    Only the SHA-256 of the device code is stored. The row is deleted with its last use.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    digest = models.BinaryField(max_length=32, unique=True)
    #: The code that the person enters, without its hyphen.
    user_code = models.CharField(max_length=8, unique=True)
    #: As the machine calls itself. Anybody can claim any name.
    host = models.CharField(max_length=80)
    #: The address from which the login was started.
    address = models.CharField(max_length=64)
    scopes = ArrayField(models.CharField(max_length=16))
    token_days = models.PositiveIntegerField()
    #: Seconds between two polls. It grows with each poll that comes too early.
    interval_s = models.PositiveIntegerField()
    polled_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    #: The person who decided; None: nobody has.
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    is_approved = models.BooleanField(default=False)
    #: The browser session that decided. An approval ends with it, so it is no foreign key.
    session_id = models.UUIDField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at"))
                & Q(expires_at__lte=F("created_at") + timedelta(minutes=10)),
                name="identity_device_login_lives_ten_minutes",
            ),
            models.CheckConstraint(
                condition=Q(user=None, decided_at=None, is_approved=False)
                | Q(user__isnull=False, decided_at__isnull=False),
                name="identity_device_login_decided_by_a_person",
            ),
        ]

    def __str__(self) -> str:
        return f"login on {self.host}"


class ExternalIdClaim(models.TextChoices):
    """The claim of a sign-in that is a person's `externalId` at SCIM. None can be chosen freely."""

    SUBJECT = "sub"
    #: Entra ID.
    OBJECT_ID = "oid"
    #: Okta with an authorization server of one's own.
    USER_ID = "uid"


class ScimSettings(models.Model):
    """The settings of SCIM for an organization. Its row is the lock of pushed people and groups."""

    organization = models.OneToOneField(Node, models.PROTECT, primary_key=True, related_name="+")
    external_id_claim = models.CharField(
        max_length=8, choices=ExternalIdClaim.choices, default=ExternalIdClaim.SUBJECT.value
    )
    #: A pushed person takes over the account with the same username.
    adopts_accounts = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(external_id_claim__in=ExternalIdClaim.values),
                name="identity_scim_claim_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"SCIM of {self.organization}"


class ScimToken(models.Model):
    """A token with which the identity provider of an organization pushes people and groups.

    Only the SHA-256 of its secret is stored. It works at `/scim/v2` and nowhere else.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    name = models.CharField(max_length=60)
    prefix = models.CharField(max_length=12)
    digest = models.BinaryField(max_length=32, unique=True)
    created_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    #: Precise to the minute.
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at"))
                & Q(expires_at__lte=F("created_at") + timedelta(days=366)),
                name="identity_scim_token_lives_a_year",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.organization}"


class ProvisionedPerson(models.Model):
    """A person whom SCIM pushed. The account stays when the identity provider deletes the person.

    `attributes` are those pushed attributes that are no columns, with the names of SCIM. The
    database keeps account and organization together (trigger
    `provisioned_person_is_of_its_organization`).
    """

    user = models.OneToOneField(User, models.PROTECT, primary_key=True, related_name="+")
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    user_name = models.CharField(max_length=200)
    external_id = models.CharField(max_length=SUBJECT_LENGTH_MAX, blank=True, default="")
    attributes = models.JSONField()
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    #: Whether SCIM deactivated the account itself. It reactivates no other one.
    is_deactivated_by_scim = models.BooleanField(default=False)
    #: When the identity provider deleted the person; None: it did not.
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "organization",
                Lower("user_name"),
                condition=Q(deleted_at=None),
                name="identity_user_name_is_one_person",
            ),
            models.UniqueConstraint(
                fields=["organization", "external_id"],
                condition=~Q(external_id=""),
                name="identity_external_id_is_one_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_name} of {self.organization}"


class ProvisionedGroup(models.Model):
    """A group that SCIM pushed. Its members have the roles that its mappings give."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    display_name = models.CharField(max_length=GROUP_LENGTH_MAX)
    external_id = models.CharField(max_length=SUBJECT_LENGTH_MAX, blank=True, default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "organization", Lower("display_name"), name="identity_display_name_is_one_group"
            ),
            models.UniqueConstraint(
                fields=["organization", "external_id"],
                condition=~Q(external_id=""),
                name="identity_external_id_is_one_group",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.display_name} of {self.organization}"


class GroupMembership(models.Model):
    """A pushed person in a pushed group.

    Both are of one organization (trigger `member_is_of_its_group`).
    """

    id = models.BigAutoField(primary_key=True)
    group = models.ForeignKey(ProvisionedGroup, models.PROTECT, related_name="memberships")
    person = models.ForeignKey(ProvisionedPerson, models.PROTECT, related_name="memberships")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["group", "person"], name="identity_member_once"),
        ]

    def __str__(self) -> str:
        return f"{self.person} in {self.group}"
