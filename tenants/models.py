"""The tree of an organization, its people, their roles and their tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, RangeBoundary, RangeOperators
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.base_session import AbstractBaseSession
from django.core.management import CommandError
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac
from uuid_utils.compat import uuid7

from primitives.clock import SystemClock
from primitives.errors import PortalError
from tenants.roles import Role
from tenants.sign_in_models import AuthenticatorApp as AuthenticatorApp
from tenants.sign_in_models import RecoveryCode as RecoveryCode
from tenants.sign_in_models import SecurityKey as SecurityKey
from tenants.sign_in_models import SignInPolicy as SignInPolicy


class NodeKind(models.TextChoices):
    """The kind of a node of the tree. Teams are leaves, and only teams run jobs."""

    ORGANIZATION = "organization"
    DEPARTMENT = "department"
    TEAM = "team"


class Node(models.Model):
    """An organization, department or team.

    `path` has the slugs from the organization down, each followed by a slash
    ("ai-company/research/nlp/"). So a subtree is exactly a prefix. The database keeps path,
    organization and kind consistent with the parent (trigger `tree_node_keeps_its_place`), also
    when a node is moved.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=12, choices=NodeKind.choices)
    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="children")
    organization = models.ForeignKey("self", models.PROTECT, related_name="+")
    slug = models.CharField(max_length=63)
    name = models.CharField(max_length=200)
    path = models.TextField(unique=True, db_collation="C")
    created_at = models.DateTimeField()
    #: Since then no new jobs start below it. All nodes below an archived node are archived.
    archived_at = models.DateTimeField(null=True)
    #: When it was moved to its present place; None: never moved.
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
        """Return the path without the last slash: "ai-company/research/nlp"."""
        return self.path.rstrip("/")

    @property
    def display_parent(self) -> str | None:
        """Return the parent's path without the last slash; None for an organization."""
        return self.display_path.rpartition("/")[0] or None

    @property
    def organization_slug(self) -> str:
        """Return the slug of the node's organization."""
        return self.path.partition("/")[0]

    @property
    def depth(self) -> int:
        """Return the level below the organization, which is level 0."""
        return self.path.count("/") - 1


class FormerPlace(models.Model):
    """The path of a node during `[start, end)`, before the node or one above it was moved.

    Without `start`, it is from the beginning. The database adds a row for each change of a path,
    and protects it (trigger `tree_node_leaves_its_place`). No other node ever gets such a path. So
    accounts, namespaces and bills of the past are never mistaken for another node's.
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


class FormerArchiving(models.Model):
    """A time `[start, end)` during which a node was archived, before it was restored.

    `Node.archived_at` has the present one. The database refuses a restore without its row, and
    protects the row (triggers `tree_node_keeps_its_archivings` and `former_archiving_is_kept`). So
    guarantees of the past never count time in which a team was archived.
    """

    id = models.BigAutoField(primary_key=True)
    node = models.ForeignKey(Node, models.PROTECT, related_name="former_archivings")
    start = models.DateTimeField()
    end = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(start__lte=F("end")), name="former_archiving_ends_after_its_start"
            ),
        ]

    def __str__(self) -> str:
        return f"archiving of {self.node_id} until {self.end:%Y-%m-%dT%H:%M:%SZ}"


class UserKind(models.TextChoices):
    """The kind of a user. A person signs in; a service only has tokens."""

    PERSON = "person"
    SERVICE = "service"


class UserManager(BaseUserManager["User"]):
    """Looks users up by login. `tenants.membership` creates them."""

    def create_superuser(self, login: str, password: str) -> User:
        """Create a platform administrator for `manage.py createsuperuser`.

        Raises CommandError with the sentence of the refusal.
        """
        # Imported here, because that module imports this one.
        from tenants.administrators import create_administrator

        try:
            return create_administrator(
                username=login, name=login, password=password, now=SystemClock().now()
            )
        except PortalError as error:
            raise CommandError(error.detail) from error


class User(AbstractBaseUser):
    """A person or a service account of one organization, or of the platform (no organization).

    `login` is "username@organization", or "username" for the platform. So one organization cannot
    find out the usernames of another.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, null=True, related_name="users")
    username = models.CharField(max_length=63)
    login = models.CharField(max_length=127, unique=True)
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=7, choices=UserKind.choices, default=UserKind.PERSON.value)
    #: Email address for password links; empty: no mail.
    email = models.EmailField(max_length=254, blank=True, default="")
    is_active = models.BooleanField(default=True)
    #: Another user chose the password, so the user must change it before anything else.
    must_change_password = models.BooleanField(default=False)
    #: Increased to end all sessions of the user at once, for ever.
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
            # Every cycle reads this.
            models.Index(fields=["id"], name="user_deactivated", condition=Q(is_active=False)),
        ]

    def __str__(self) -> str:
        return self.login

    def _get_session_auth_hash(self, secret: str | bytes | None = None) -> str:
        # Django compares this with the session's hash on every request. Django's own has the
        # password only.
        return salted_hmac(
            "tenants.models.User.session",
            f"{self.session_generation}/{self.password}",
            secret=secret,
            algorithm="sha256",
        ).hexdigest()


class RoleGrant(models.Model):
    """Gives `user` a `role` on `node` and everything below it. No node means the whole platform.

    `group` is the group of the identity provider that gives the role; empty: a person granted it.
    Such grants come and go with the group, and stand beside the same role granted by hand.

    An expired grant gives nothing. Each read of rights filters by `GRANT_IN_FORCE`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="grants")
    role = models.CharField(max_length=24, choices=[(r.value, r.value) for r in Role])
    node = models.ForeignKey(Node, models.PROTECT, null=True, related_name="grants")
    granted_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    group = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField()
    #: From then on it gives nothing; None: it does not expire.
    expires_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(expires_at__gt=F("created_at")),
                name="role_expires_after_its_grant",
            ),
            models.UniqueConstraint(
                fields=["user", "role", "node", "group"],
                name="role_granted_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(role="platform_admin", node=None)
                | (~Q(role="platform_admin") & Q(node__isnull=False)),
                name="role_without_node_is_platform_admin",
            ),
            models.CheckConstraint(
                condition=~Q(role="platform_admin") | Q(group=""),
                name="role_of_a_group_is_no_platform_admin",
            ),
        ]
        indexes = [
            models.Index(
                fields=["expires_at"],
                condition=Q(expires_at__isnull=False),
                name="role_that_expires",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} on {self.node or 'the platform'}"


#: Grants that have not expired, by the clock of the database.
GRANT_IN_FORCE = Q(expires_at=None) | Q(expires_at__gt=Now())


class AccessToken(models.Model):
    """A personal access token. Only the SHA-256 of its secret is stored.

    It may do what its scopes allow and its owner may do at that moment.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.BinaryField(max_length=32, unique=True)
    scopes = ArrayField(models.CharField(max_length=16))
    #: The token with which this one was created. Revoking that one revokes this one too.
    minted_by = models.ForeignKey("self", models.PROTECT, null=True, related_name="minted")
    #: The user who created it for a service account; None: its owner.
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


class Session(AbstractBaseSession):
    """A browser session. The data of Django is in `session_data`, also that of nobody yet.

    `tenants.session_store` fills the columns from the data and from the request.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    session_key = models.CharField(max_length=40, unique=True)
    #: The signed-in person; None: nobody signed in.
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="sessions")
    started_at = models.DateTimeField(null=True)
    #: Precise to the minute, as `address`, from which that use came.
    last_used_at = models.DateTimeField(null=True)
    address = models.CharField(max_length=64, blank=True, default="")
    user_agent = models.CharField(max_length=300, blank=True, default="")

    class Meta(AbstractBaseSession.Meta):
        abstract = False
        constraints = [
            models.CheckConstraint(
                condition=Q(user=None)
                | Q(started_at__isnull=False, last_used_at__gte=F("started_at")),
                name="session_of_a_person_has_times",
            ),
        ]

    def __str__(self) -> str:
        return f"session of {self.user}"

    @classmethod
    def get_session_store_class(cls) -> type[SessionBase]:
        """Return the store that reads and writes these rows."""
        # Imported here, because that module imports this one.
        from tenants.session_store import SessionStore

        return SessionStore


class PasswordLink(models.Model):
    """A link with which its holder sets a user's password, once, within an hour.

    Only the SHA-256 of its secret is stored. A user has at most one link. A new one replaces it,
    and a change of the password removes it.
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


class Invitation(models.Model):
    """Asks a person without an account to join `node` with a role, by mail or by a handed-out link.

    Only the SHA-256 of the link's secret is stored. Accepting it creates the account `user`, with a
    password of the person's choice. An invitation is open until it is accepted or withdrawn; after
    `expires_at` its link does not work, until it is sent again.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.ForeignKey(Node, models.PROTECT, related_name="+")
    email = models.EmailField(max_length=254)
    username = models.CharField(max_length=63)
    name = models.CharField(max_length=200)
    role = models.CharField(max_length=24, choices=[(r.value, r.value) for r in Role])
    role_expires_at = models.DateTimeField(null=True)
    invited_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    digest = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)
    accepted_at = models.DateTimeField(null=True)
    #: A timer mails it from then on. An imported invitation is stored without a link that anybody
    #: knows.
    mail_due_at = models.DateTimeField(null=True)
    mail_tries = models.PositiveSmallIntegerField(default=0)
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")),
                name="invitation_expires_after_creation",
            ),
            models.CheckConstraint(
                condition=Q(accepted_at=None, user=None)
                | Q(accepted_at__isnull=False, user__isnull=False, withdrawn_at=None),
                name="invitation_accepted_has_a_user",
            ),
            models.UniqueConstraint(
                fields=["node", "email"],
                condition=Q(accepted_at__isnull=True, withdrawn_at__isnull=True),
                name="invitation_open_once_per_node",
            ),
        ]
        indexes = [
            models.Index(
                fields=["mail_due_at"],
                condition=Q(mail_due_at__isnull=False),
                name="invitation_to_be_mailed",
            ),
        ]

    def __str__(self) -> str:
        return f"invitation of {self.email}"


class SignInAttempts(models.Model):
    """Recent failures to sign in, for one of the counters of `tenants.throttling`.

    `key` is a SHA-256, because people type passwords into the wrong field. Expired rows are
    deleted.
    """

    key = models.BinaryField(primary_key=True, max_length=32)
    attempts = models.PositiveIntegerField()
    #: Number of attempts refused during the present wait.
    refusals = models.PositiveIntegerField(default=0)
    last_attempt_at = models.DateTimeField()
    blocked_until = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["last_attempt_at"], name="sign_in_attempts_by_age")]

    def __str__(self) -> str:
        return f"{self.attempts} until {self.last_attempt_at}"
