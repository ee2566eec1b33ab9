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

#: 13 slugs and their slashes.
PATH_LENGTH_MAX = 1000
LOGIN_LENGTH_MAX = 127


class EmailField(TextField):
    """An address for mail, or the empty string for none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            **{
                "max_length": 254,
                "allow_blank": True,
                "help_text": "Where password links are mailed to; empty: nowhere",
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
        source="display_path", help_text="Slugs from the organization: `ai-company/research/nlp`"
    )
    # In the stubs `parent` is the serializer around a field; here it is a field.
    parent = serializers.CharField(  # type: ignore[assignment]
        source="display_parent", allow_null=True, help_text="Path of the node above"
    )
    organization = serializers.CharField(source="organization_slug")
    depth = serializers.IntegerField(help_text="Levels below the organization, which has 0")
    archived_at = serializers.DateTimeField(
        allow_null=True, help_text="Nothing new starts there since; null: it is not archived"
    )


class NodeCreationSerializer(StrictSerializer):
    """A new department or team."""

    slug = TextField(
        max_length=SLUG_LENGTH_MAX,
        help_text=f"`{SLUG_PATTERN}`; it never changes",
    )
    name = TextField(max_length=NAME_LENGTH_MAX)
    # In the stubs `parent` is the serializer around a field; here it is a field.
    parent = TextField(  # type: ignore[assignment]
        max_length=PATH_LENGTH_MAX, help_text="Path of the node above"
    )


class RenamingSerializer(StrictSerializer):
    """A new name; the path stays."""

    name = TextField(max_length=NAME_LENGTH_MAX)


class UserSerializer(serializers.Serializer[Any]):
    """A person or service account."""

    id = serializers.UUIDField()
    login = serializers.CharField(help_text="`username@organization`; unique on the platform")
    username = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=UserKind.values)
    organization = serializers.CharField(
        source="organization.slug", allow_null=True, default=None, help_text="null: the platform's"
    )
    email = serializers.CharField(help_text="Where links are mailed to; empty: nowhere")
    is_active = serializers.BooleanField()
    must_change_password = serializers.BooleanField(
        help_text="Nothing but changing the password is possible after signing in"
    )
    created_at = serializers.DateTimeField()


class UserCreationSerializer(StrictSerializer):
    """A new person or service account, without any role."""

    organization = TextField(
        max_length=SLUG_LENGTH_MAX, allow_null=True, help_text="Its slug; null: the platform's"
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
        help_text="At least 12 characters; absent: no signing in by browser before a password link",
    )
    email = EmailField(required=False, default="")
    must_change_password = YesOrNoField(
        required=False, default=True, help_text="Whether `password` is for the first sign-in only"
    )


class UserChangeSerializer(StrictSerializer):
    """What may change of a user."""

    name = TextField(max_length=NAME_LENGTH_MAX, required=False)
    email = EmailField(required=False)
    is_active = YesOrNoField(
        required=False, help_text="false ends all sessions and revokes all tokens for good"
    )


class RoleGrantSerializer(serializers.Serializer[Any]):
    """A user's role on a node and everything below it."""

    id = serializers.UUIDField()
    user = serializers.CharField(source="user.login")
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    node = serializers.CharField(
        source="node.display_path", allow_null=True, default=None, help_text="null: the platform"
    )
    granted_by = serializers.CharField(
        source="granted_by.login", allow_null=True, default=None, help_text="null: at set-up"
    )
    created_at = serializers.DateTimeField()


class RoleGrantCreationSerializer(StrictSerializer):
    """A role to be granted."""

    user = TextField(max_length=LOGIN_LENGTH_MAX, help_text="Login")
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    node = TextField(
        max_length=PATH_LENGTH_MAX,
        allow_null=True,
        required=False,
        default=None,
        help_text="Path; null for platform_admin only",
    )


class AccessTokenSerializer(serializers.Serializer[Any]):
    """An access token, without its secret."""

    id = serializers.UUIDField()
    user = serializers.CharField(source="user.login", help_text="Login of its owner")
    made_by = serializers.CharField(
        source="made_by.login",
        allow_null=True,
        default=None,
        help_text="Login of who made it for a service account; null: its owner",
    )
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The first 12 characters, to recognise it by")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=[s.value for s in Scope]))
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="To the minute")
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewAccessTokenSerializer(AccessTokenSerializer):
    """A token just made: the only time that its secret is shown."""

    secret = serializers.CharField(
        allow_null=True,
        help_text="`tdg_` and 36 characters; null in the repeated answer to an Idempotency-Key, "
        "because secrets are not stored",
    )


class AccessTokenCreationSerializer(StrictSerializer):
    """A token to be made."""

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
        help_text="Login of a service account that the caller manages; absent: one's own",
    )


class TokenRotationSerializer(StrictSerializer):
    """How long the old token goes on."""

    overlap_s = WholeNumberField(
        min_value=0,
        max_value=OVERLAP_S_MAX,
        required=False,
        default=0,
        help_text="Seconds until the old token ends; 0: at once",
    )


class PasswordChangeSerializer(StrictSerializer):
    """One's old and new password."""

    old_password = TextField(max_length=1024, write_only=True)
    new_password = TextField(max_length=1024, write_only=True, help_text="At least 12 characters")


class PasswordLinkSerializer(serializers.Serializer[Any]):
    """A link with which a person sets their password, once."""

    user = serializers.CharField(source="user.login")
    expires_at = serializers.DateTimeField()
    sent_to = serializers.CharField(
        allow_null=True, help_text="The address that the link was mailed to; null: not mailed"
    )
    link = serializers.CharField(
        allow_null=True,
        help_text="Path and fragment of the page, shown this once; null when it was mailed, and in "
        "the repeated answer to an Idempotency-Key",
    )


class PasswordLinkUseSerializer(StrictSerializer):
    """The secret of a link, which is its fragment, and the new password."""

    secret = TextField(max_length=LINK_LENGTH_MAX, write_only=True)
    password = TextField(max_length=1024, write_only=True, help_text="At least 12 characters")


class LoginSerializer(serializers.Serializer[Any]):
    """Who can sign in now."""

    login = serializers.CharField()


class AuditSubjectSerializer(serializers.Serializer[Any]):
    """What an act was done to."""

    kind = serializers.CharField(source="subject_kind")
    id = serializers.CharField(source="subject_id")


class AuditEventSerializer(serializers.Serializer[Any]):
    """One act: who did what to what, when."""

    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(help_text="Login, `system` or `anonymous`")
    action = serializers.CharField()
    subject = AuditSubjectSerializer(source="*")
    organization = serializers.SerializerMethodField(help_text="Slug; null: the platform's")
    node = serializers.SerializerMethodField(help_text="Path of the node it belongs to")
    detail = serializers.DictField()
    request_id = serializers.CharField(help_text="Empty when no request caused it")

    def get_organization(self, event: Any) -> str | None:
        """The first step of the event's path."""
        return event.node_path.partition("/")[0] or None

    def get_node(self, event: Any) -> str | None:
        """The event's path as people write it."""
        return event.node_path.rstrip("/") or None


class InstallationSerializer(serializers.Serializer[Any]):
    """What everybody may know of the installation."""

    has_administrator = serializers.BooleanField(
        help_text="false: nobody can sign in yet; run `tidegate-admin create-admin` on its machine"
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
        help_text="Every other request is refused before POST /password"
    )


class SessionGrantSerializer(serializers.Serializer[Any]):
    """One role of the signed-in user."""

    role = serializers.ChoiceField(choices=[role.value for role in Role])
    node_path = serializers.CharField(allow_null=True, help_text="null: the whole platform")


class SessionFeaturesSerializer(serializers.Serializer[Any]):
    """What this server is."""

    version = serializers.CharField()


class SessionSerializer(serializers.Serializer[Any]):
    """Who is signed in and what they may do where."""

    user = SessionUserSerializer()
    grants = SessionGrantSerializer(many=True)
    permissions = serializers.DictField(
        child=serializers.ListField(
            child=serializers.ChoiceField(choices=[p.value for p in Permission])
        ),
        help_text="Permissions by path of a grant's node, held on its whole subtree; an empty "
        "path is the platform",
    )
    csrf_token = serializers.CharField(help_text="For X-CSRFToken; empty with an access token")
    features = SessionFeaturesSerializer()
