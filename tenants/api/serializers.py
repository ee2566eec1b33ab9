"""Shapes of the tree, people, grants, tokens and audit events."""

from __future__ import annotations

from typing import Any

from django.core.validators import EmailValidator
from rest_framework import serializers

from tenants.models import NodeKind, UserKind
from tenants.names import NAME_LENGTH_MAX, SLUG_LENGTH_MAX, SLUG_PATTERN, USERNAME_PATTERN
from tenants.passwords import LINK_LENGTH_MAX
from tenants.roles import Permission, Role, Scope
from tenants.tokens import LIFETIME_DAYS_MAX, OVERLAP_S_MAX
from tenants.tokens import NAME_LENGTH_MAX as TOKEN_NAME_LENGTH_MAX
from webapi.serializers import (
    BoundedListField,
    StrictSerializer,
    TextField,
    WholeNumberField,
    YesOrNoField,
)

#: Fits 13 slugs and their slashes.
PATH_LENGTH_MAX = 1000
LOGIN_LENGTH_MAX = 127


class EmailField(TextField):
    """An email address, or an empty string."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            **{
                "max_length": 254,
                "allow_blank": True,
                "help_text": "Email address for password links; empty: no mail",
                **options,
            }
        )
        self.validators.append(EmailValidator("must be an address such as ana@example.org"))


class TreeNodeSerializer(serializers.Serializer[Any]):
    """An organization, department or team."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=NodeKind.values)
    slug = serializers.CharField(max_length=SLUG_LENGTH_MAX)
    name = serializers.CharField(max_length=NAME_LENGTH_MAX)
    path = serializers.CharField(
        source="display_path", help_text="Slugs from the organization down: `ai-company/research`"
    )
    # In the stubs, `parent` is the serializer around a field. Here it is a field.
    parent = serializers.CharField(  # type: ignore[assignment]
        source="display_parent", allow_null=True, help_text="Path of the parent node"
    )
    organization = serializers.CharField(source="organization_slug")
    depth = serializers.IntegerField(help_text="Level below the organization, which is level 0")
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="Since then, no new jobs start there; null: not archived"
    )


class NodeCreationSerializer(StrictSerializer):
    """A new department or team."""

    slug = TextField(
        max_length=SLUG_LENGTH_MAX,
        help_text=f"`{SLUG_PATTERN}`. It never changes",
    )
    name = TextField(max_length=NAME_LENGTH_MAX)
    # In the stubs, `parent` is the serializer around a field. Here it is a field.
    parent = TextField(  # type: ignore[assignment]
        max_length=PATH_LENGTH_MAX, help_text="Path of the parent node"
    )


class RenamingSerializer(StrictSerializer):
    """A new name. The path stays."""

    name = TextField(max_length=NAME_LENGTH_MAX)


class UserSerializer(serializers.Serializer[Any]):
    """A person or service account."""

    id = serializers.UUIDField()
    login = serializers.CharField(help_text="`username@organization`; unique on the platform")
    username = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=UserKind.values)
    organization = serializers.CharField(
        source="organization.slug",
        allow_null=True,
        default=None,
        help_text="null: a user of the platform",
    )
    email = serializers.CharField(help_text="Email address for password links; empty: no mail")
    is_active = serializers.BooleanField()
    must_change_password = serializers.BooleanField(
        help_text="After signing in, the user can only change the password"
    )
    created_at = serializers.DateTimeField()


class UserCreationSerializer(StrictSerializer):
    """A new person or service account, without any role."""

    organization = TextField(
        max_length=SLUG_LENGTH_MAX,
        allow_null=True,
        help_text="Slug of the organization; null: a user of the platform",
    )
    username = TextField(max_length=SLUG_LENGTH_MAX, help_text=f"`{USERNAME_PATTERN}`")
    name = TextField(max_length=NAME_LENGTH_MAX)
    kind = serializers.ChoiceField(choices=UserKind.values)
    password = TextField(
        max_length=1024,
        required=False,
        allow_null=True,
        default=None,
        write_only=True,
        help_text="At least 12 characters. Default: none; the user needs a password link first",
    )
    email = EmailField(required=False, default="")
    must_change_password = YesOrNoField(
        required=False, default=True, help_text="Whether the user must change `password` first"
    )


class UserChangeSerializer(StrictSerializer):
    """The changeable fields of a user."""

    name = TextField(max_length=NAME_LENGTH_MAX, required=False)
    email = EmailField(required=False)
    is_active = YesOrNoField(
        required=False, help_text="false ends all sessions and revokes all tokens for ever"
    )


class AccessTokenSerializer(serializers.Serializer[Any]):
    """An access token, without its secret."""

    id = serializers.UUIDField()
    user = serializers.CharField(source="user.login", help_text="Login of its owner")
    made_by = serializers.CharField(
        source="made_by.login",
        allow_null=True,
        default=None,
        help_text="Login of the user who created it for a service account; null: its owner",
    )
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The first 12 characters, to recognise the token")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=[s.value for s in Scope]))
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="Precise to the minute")
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewAccessTokenSerializer(AccessTokenSerializer):
    """A new token. Its secret is never shown again."""

    secret = serializers.CharField(
        allow_null=True,
        help_text="`tdg_` and 36 characters. null in the repeated answer to an Idempotency-Key, "
        "because secrets are not stored",
    )


class AccessTokenCreationSerializer(StrictSerializer):
    """A token to create."""

    name = TextField(max_length=TOKEN_NAME_LENGTH_MAX)
    scopes = BoundedListField(
        child=serializers.ChoiceField(choices=[s.value for s in Scope]),
        min_length=1,
        max_length=len(Scope),
    )
    expires_in_days = WholeNumberField(min_value=1, max_value=LIFETIME_DAYS_MAX)
    user = TextField(
        max_length=LOGIN_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Login of a service account that the caller manages. Default: the caller",
    )


class BrowserSessionSerializer(serializers.Serializer[Any]):
    """A browser session."""

    id = serializers.UUIDField()
    user = serializers.CharField(source="user.login", help_text="Login of its owner")
    device = serializers.CharField(help_text="Browser and system: `Firefox on Linux`")
    user_agent = serializers.CharField(help_text="The browser's own words")
    address = serializers.CharField(help_text="IP address of the last use; empty: not known")
    started_at = serializers.DateTimeField(help_text="When the person signed in")
    last_used_at = serializers.DateTimeField(help_text="Precise to the minute")
    expires_at = serializers.DateTimeField()
    is_current = serializers.BooleanField(help_text="Whether this request came with it")


class SessionsEndSerializer(StrictSerializer):
    """The owner of the sessions to end."""

    user = TextField(
        max_length=LOGIN_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Login of a user that the caller manages. Default: the caller",
    )


class EndedSessionsSerializer(serializers.Serializer[Any]):
    """The number of ended sessions."""

    ended = serializers.IntegerField()


class TokenRotationSerializer(StrictSerializer):
    """The remaining life of the old token."""

    overlap_s = WholeNumberField(
        min_value=0,
        max_value=OVERLAP_S_MAX,
        required=False,
        default=0,
        help_text="Seconds until the old token ends; 0: now",
    )


class PasswordChangeSerializer(StrictSerializer):
    """The caller's old and new password."""

    old_password = TextField(max_length=1024, write_only=True)
    new_password = TextField(max_length=1024, write_only=True, help_text="At least 12 characters")


class PasswordLinkSerializer(serializers.Serializer[Any]):
    """A link with which a person sets a password, once."""

    user = serializers.CharField(source="user.login")
    expires_at = serializers.DateTimeField()
    sent_to = serializers.CharField(
        allow_null=True, help_text="Address to which the link was mailed; null: not mailed"
    )
    link = serializers.CharField(
        allow_null=True,
        help_text="Path and fragment of the page, shown once. null if it was mailed, and in the "
        "repeated answer to an Idempotency-Key",
    )


class PasswordLinkUseSerializer(StrictSerializer):
    """The secret of a link, which is its fragment, and the new password."""

    secret = TextField(max_length=LINK_LENGTH_MAX, write_only=True)
    password = TextField(max_length=1024, write_only=True, help_text="At least 12 characters")


class LoginSerializer(serializers.Serializer[Any]):
    """The user whose password was set."""

    login = serializers.CharField()


class AuditSubjectSerializer(serializers.Serializer[Any]):
    """The object of an act."""

    kind = serializers.CharField(source="subject_kind")
    id = serializers.CharField(source="subject_id")


class AuditEventSerializer(serializers.Serializer[Any]):
    """An act, with its actor, subject and time."""

    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(help_text="Login, `system` or `anonymous`")
    action = serializers.CharField()
    subject = AuditSubjectSerializer(source="*")
    organization = serializers.SerializerMethodField(help_text="Slug; null: the platform itself")
    node = serializers.SerializerMethodField(help_text="Path of the node of the act")
    detail = serializers.DictField()
    request_id = serializers.CharField(help_text="Id of its request; empty without a request")

    def get_organization(self, event: Any) -> str | None:
        """Return the first step of the event's path."""
        return event.node_path.partition("/")[0] or None

    def get_node(self, event: Any) -> str | None:
        """Return the event's path without the last slash."""
        return event.node_path.rstrip("/") or None


class InstallationSerializer(serializers.Serializer[Any]):
    """Public information about the installation."""

    has_administrator = serializers.BooleanField(
        help_text="false: nobody can sign in yet; run `tidegate-admin create-admin` on the server"
    )


class SigningInSerializer(StrictSerializer):
    """Login and password."""

    login = TextField(max_length=LOGIN_LENGTH_MAX)
    password = TextField(max_length=1024, write_only=True)


class SessionOrganizationSerializer(serializers.Serializer[Any]):
    """The organization of the signed-in user."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()


class SessionUserSerializer(serializers.Serializer[Any]):
    """The signed-in user."""

    id = serializers.UUIDField()
    login = serializers.CharField()
    username = serializers.CharField()
    name = serializers.CharField()
    organization = SessionOrganizationSerializer(allow_null=True)
    kind = serializers.ChoiceField(choices=UserKind.values)
    must_change_password = serializers.BooleanField(
        help_text="All other requests are refused until POST /password"
    )
    must_add_second_factor = serializers.BooleanField(
        help_text="The organization requires one. All other requests are refused until it is added"
    )


class SessionGrantSerializer(serializers.Serializer[Any]):
    """A role of the signed-in user."""

    role = serializers.ChoiceField(choices=[role.value for role in Role])
    node_path = serializers.CharField(allow_null=True, help_text="null: the whole platform")


class SessionFeaturesSerializer(serializers.Serializer[Any]):
    """Properties of this server."""

    version = serializers.CharField()


class SessionSerializer(serializers.Serializer[Any]):
    """The signed-in user, with roles and permissions."""

    user = SessionUserSerializer()
    grants = SessionGrantSerializer(many=True)
    permissions = serializers.DictField(
        child=serializers.ListField(
            child=serializers.ChoiceField(choices=[p.value for p in Permission])
        ),
        help_text="Permissions by path of a grant's node. They hold for its whole subtree. An "
        "empty path is the platform",
    )
    csrf_token = serializers.CharField(help_text="For X-CSRFToken; empty for an access token")
    features = SessionFeaturesSerializer()
