"""The tree of an organization, the people in it, what they may do, and their tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, RangeBoundary, RangeOperators
from django.core.management import CommandError
from django.db import models
from django.db.models import F, Func, Q
from django.utils.crypto import salted_hmac
from uuid_utils.compat import uuid7

from primitives.clock import SystemClock
from primitives.errors import PortalError
from tenants.roles import Role


class NodeKind(models.TextChoices):
    """What a node of the tree is. Teams are leaves: only they run jobs."""

    ORGANIZATION = "organization"
    DEPARTMENT = "department"
    TEAM = "team"


class Node(models.Model):
    """An organization, department or team.

    `path` is the slugs from the organization down, each followed by a slash
    ("ai-company/research/nlp/"), so a subtree is exactly a prefix. The database keeps
    path, organization and kind true to the parent (trigger `tree_node_keeps_its_place`), also where
    a node is moved.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=12, choices=NodeKind.choices)
    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="children")
    organization = models.ForeignKey("self", models.PROTECT, related_name="+")
    slug = models.CharField(max_length=63)
    name = models.CharField(max_length=200)
    path = models.TextField(unique=True, db_collation="C")
    created_at = models.DateTimeField()
    #: Since then nothing new starts below it; everything below an archived node is archived.
    archived_at = models.DateTimeField(null=True)
    #: Since when it lies where it lies; None: from the start.
    moved_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["organization", "department", "team"]),
                name="tree_node_kind_is_known",
            ),
            models.CheckConstraint(
                condition=Q(kind="organization", parent=None)
                | (~Q(kind="organization") & Q(parent__isnull=False)),
                name="tree_node_without_parent_is_an_organization",
            ),
            models.CheckConstraint(
                condition=Q(slug__regex=r"\A[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z"),
                name="tree_node_slug_is_plain",
            ),
            models.CheckConstraint(
                condition=~Q(kind="organization") | Q(organization=F("id")),
                name="tree_organization_is_its_own",
            ),
        ]
        indexes = [
            models.Index(fields=["organization", "kind"], name="tree_node_by_organization"),
            models.Index(
                fields=["archived_at"],
                condition=Q(archived_at__isnull=False),
                name="tree_node_archived",
            ),
            models.Index(
                fields=["moved_at"],
                condition=Q(moved_at__isnull=False),
                name="tree_node_moved",
            ),
        ]

    def __str__(self) -> str:
        return self.display_path

    @property
    def display_path(self) -> str:
        """The path as people write it: "ai-company/research/nlp"."""
        return self.path.rstrip("/")

    @property
    def display_parent(self) -> str | None:
        """The parent's path as people write it, None for an organization."""
        return self.display_path.rpartition("/")[0] or None

    @property
    def organization_slug(self) -> str:
        """Slug of the organization that the node belongs to."""
        return self.path.partition("/")[0]

    @property
    def depth(self) -> int:
        """Levels below the organization, which has 0."""
        return self.path.count("/") - 1


class FormerPlace(models.Model):
    """Where a node lay over `[start, end)`, before it, or a node above it, was moved.

    No `start`: from the beginning. The database adds a row with each change of a path, and keeps
    it (trigger `tree_node_leaves_its_place`). A path stays its node's: no other one gets it, so
    that accounts, namespaces and bills of the past are never taken for another node's.
    """

    id = models.BigAutoField(primary_key=True)
    node = models.ForeignKey(Node, models.PROTECT, related_name="former_places")
    path = models.TextField(db_collation="C", db_index=True)
    start = models.DateTimeField(null=True)
    end = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(start=None) | Q(start__lt=F("end")), name="former_place_has_a_length"
            ),
            ExclusionConstraint(
                name="node_was_in_one_place_at_a_time",
                expressions=[
                    ("node", RangeOperators.EQUAL),
                    (
                        Func("start", "end", RangeBoundary(), function="TSTZRANGE"),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.path} until {self.end:%Y-%m-%dT%H:%M:%SZ}"


class UserKind(models.TextChoices):
    """A person signs in; a service only has tokens."""

    PERSON = "person"
    SERVICE = "service"


class UserManager(BaseUserManager["User"]):
    """Looks users up by login; they are created by `tenants.membership`."""

    def create_superuser(self, login: str, password: str) -> User:
        """Create a platform administrator, as `manage.py createsuperuser` asks for it.

        Raises CommandError with the sentence of a refusal.
        """
        # Here, because that module is built on this one.
        from tenants.administrators import create_administrator

        try:
            return create_administrator(
                username=login, name=login, password=password, now=SystemClock().now()
            )
        except PortalError as error:
            raise CommandError(error.detail) from error


class User(AbstractBaseUser):
    """A person or a service account of one organization, or of the platform (no organization).

    `login` is "username@organization" ("username" for the platform), so that one organization
    cannot find out the user names of another.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, null=True, related_name="users")
    username = models.CharField(max_length=63)
    login = models.CharField(max_length=127, unique=True)
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=7, choices=UserKind.choices, default=UserKind.PERSON.value)
    #: Where links are mailed to; empty: nowhere.
    email = models.EmailField(max_length=254, blank=True, default="")
    is_active = models.BooleanField(default=True)
    #: The password is one that somebody else chose: nothing but changing it is possible.
    must_change_password = models.BooleanField(default=False)
    #: Counted up to end every session of the user at once, for good.
    session_generation = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()

    USERNAME_FIELD = "login"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects: ClassVar[UserManager] = UserManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "username"], name="user_name_once_per_organization"
            ),
            models.CheckConstraint(
                condition=Q(username__regex=r"\A[a-z0-9]([a-z0-9._-]*[a-z0-9])?\Z"),
                name="user_name_is_plain",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["person", "service"]), name="user_kind_is_known"
            ),
        ]
        indexes = [
            # Asked by every cycle.
            models.Index(fields=["id"], name="user_deactivated", condition=Q(is_active=False)),
        ]

    def __str__(self) -> str:
        return self.login

    def _get_session_auth_hash(self, secret: str | bytes | None = None) -> str:
        # Django compares this with the session's on every request; its own has the password.
        return salted_hmac(
            "tenants.models.User.session",
            f"{self.session_generation}/{self.password}",
            secret=secret,
            algorithm="sha256",
        ).hexdigest()


class RoleGrant(models.Model):
    """`user` holds `role` on `node` and everything below it; no node means the whole platform."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="grants")
    role = models.CharField(max_length=24, choices=[(r.value, r.value) for r in Role])
    node = models.ForeignKey(Node, models.PROTECT, null=True, related_name="grants")
    granted_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "role", "node"],
                name="role_granted_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(role="platform_admin", node=None)
                | (~Q(role="platform_admin") & Q(node__isnull=False)),
                name="role_without_node_is_platform_admin",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} on {self.node or 'the platform'}"


class AccessToken(models.Model):
    """A personal access token: only the SHA-256 of the secret is kept.

    Its rights are its scopes cut with what its owner may do at that moment.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.BinaryField(max_length=32, unique=True)
    scopes = ArrayField(models.CharField(max_length=16))
    #: The token that made this one: revoking it revokes this one too.
    minted_by = models.ForeignKey("self", models.PROTECT, null=True, related_name="minted")
    #: Who made it for a service account; None: its owner.
    made_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")), name="token_expires_after_creation"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user}"


class PasswordLink(models.Model):
    """A link with which its holder sets a user's password, once, within an hour.

    Only the SHA-256 of its secret is kept. A user has at most one: a new one replaces it, and a
    change of the password removes it.
    """

    user = models.OneToOneField(
        User, models.PROTECT, primary_key=True, related_name="password_link"
    )
    digest = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at"))
                & Q(expires_at__lte=F("created_at") + timedelta(hours=1)),
                name="password_link_lives_an_hour",
            ),
        ]

    def __str__(self) -> str:
        return f"password link of {self.user}"


class SignInAttempts(models.Model):
    """How often signing in failed of late, by one of the counts of `tenants.throttling`.

    `key` is a SHA-256, because people type passwords into the wrong field. Rows are deleted
    when they are forgotten.
    """

    key = models.BinaryField(primary_key=True, max_length=32)
    attempts = models.PositiveIntegerField()
    #: Attempts that the present wait refused.
    refusals = models.PositiveIntegerField(default=0)
    last_attempt_at = models.DateTimeField()
    blocked_until = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["last_attempt_at"], name="sign_in_attempts_by_age")]

    def __str__(self) -> str:
        return f"{self.attempts} until {self.last_attempt_at}"
