"""New organizations over HTTP. The view is here because it also creates quotas and prices."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.new_organization import (
    DEFAULT_TEAM,
    FirstAdministrator,
    InvitedAdministrator,
    Made,
    NewOrganization,
    make_organization,
    preview_organization,
)
from primitives.clock import SystemClock
from primitives.units import MGPU_MAX
from quotas.policies import DEFAULT_TIME_ZONE
from tenants.api.authentication import actor_from
from tenants.api.invitation_views import (
    SentInvitationSerializer,
    delivered_invitation_body,
    invitation_body,
)
from tenants.api.password_views import delivered_link_body, password_link_body
from tenants.api.serializers import EmailField, PasswordLinkSerializer, TreeNodeSerializer
from tenants.api.views import OrganizationList, node_body
from tenants.names import (
    NAME_LENGTH_MAX,
    SLUG_LENGTH_MAX,
    SLUG_PATTERN,
    TIME_ZONE_HELP,
    TIME_ZONE_LENGTH_MAX,
    USERNAME_PATTERN,
)
from treefile.api.views import TreeFileSerializer, TreeImportPreviewSerializer, preview_body
from treefile.rows import Format
from webapi.idempotency import respond_once
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    StrictSerializer,
    TextField,
    WholeNumberField,
    answers,
)


class FirstAdministratorSerializer(StrictSerializer):
    """The first administrator of a new organization, who sets a password with a password link."""

    username = TextField(max_length=SLUG_LENGTH_MAX, help_text=f"`{USERNAME_PATTERN}`")
    name = TextField(max_length=NAME_LENGTH_MAX)
    email = EmailField(required=False, default="")


class InvitedAdministratorSerializer(StrictSerializer):
    """The first administrator of a new organization, who is invited by mail."""

    email = EmailField(allow_blank=False, help_text="The invitation is mailed to it")
    name = TextField(
        max_length=NAME_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Default: made from the address",
    )


class OrganizationCreationSerializer(StrictSerializer):
    """A new organization; only its name is required."""

    name = TextField(max_length=NAME_LENGTH_MAX)
    slug = TextField(
        max_length=SLUG_LENGTH_MAX,
        required=False,
        help_text=f"`{SLUG_PATTERN}`. It never changes. Default: made from the name",
    )
    first_administrator = FirstAdministratorSerializer(
        required=False, allow_null=True, default=None, help_text="Gets the role organization_admin"
    )
    invited_administrator = InvitedAdministratorSerializer(
        required=False,
        allow_null=True,
        default=None,
        help_text="Instead of first_administrator: is invited with the role organization_admin",
    )
    team = TextField(
        max_length=SLUG_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Slug of the first team, which gets all of the quota. Default: "
        f"`{DEFAULT_TEAM}` with an administrator or a pool and without a tree, else no team",
    )
    tree = TreeFileSerializer(
        required=False,
        allow_null=True,
        default=None,
        help_text="A tree file to import into it. Its paths begin with the slug",
    )
    pool = TextField(
        max_length=63,
        required=False,
        allow_null=True,
        default=None,
        help_text="Pool of the organization's first quota. Default: no quota",
    )
    guaranteed_mgpu = WholeNumberField(
        min_value=0,
        max_value=MGPU_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Guarantee in that pool, in milli-GPU; required with pool",
    )
    currency = TextField(
        max_length=3,
        required=False,
        allow_null=True,
        default=None,
        help_text="Currency of its rate card, ISO 4217, for example EUR. Default: no rate card",
    )
    time_zone = TextField(
        max_length=TIME_ZONE_LENGTH_MAX,
        required=False,
        default=DEFAULT_TIME_ZONE,
        help_text=TIME_ZONE_HELP,
    )


class NewOrganizationSerializer(TreeNodeSerializer):
    """An organization that was just created, with its parts."""

    team = serializers.CharField(allow_null=True, help_text="Path of the first team")
    first_administrator = serializers.CharField(allow_null=True, help_text="Login")
    password_link = PasswordLinkSerializer(allow_null=True, help_text="Of the first administrator")
    invitation = SentInvitationSerializer(
        allow_null=True, help_text="Of the first administrator, who was invited"
    )
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="Parts that it still lacks, in sentences"
    )


class OrganizationPreviewSerializer(serializers.Serializer[Any]):
    """An organization that would be created, with its parts."""

    path = serializers.CharField()
    team = serializers.CharField(allow_null=True, help_text="Path of the first team")
    tree = TreeImportPreviewSerializer(
        allow_null=True, help_text="Changes by the tree file, or its errors by line"
    )
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="Parts that it would still lack, in sentences"
    )


class Organizations(OrganizationList):
    """The list of organizations, to which platform admins add."""

    @extend_schema(
        operation_id="create_organization",
        summary="Create an organization that works at once (platform admins)",
        description="Creates the organization with the standard priority classes and all parts in "
        "the body, or nothing. With a first administrator, a pool and its GPUs, jobs can be "
        "submitted at once.",
        parameters=[IDEMPOTENCY_KEY],
        request=OrganizationCreationSerializer,
        responses=answers({201: NewOrganizationSerializer}, 403, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Create an organization."""
        refuse_unknown_parameters(request, set())
        actor, clock = actor_from(request), SystemClock()
        body = OrganizationCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = _wanted(body.validated_data)
        done: list[Made] = []

        def act() -> tuple[int, dict[str, Any]]:
            made = make_organization(wanted, actor=actor, clock=clock)
            done.append(made)
            return 201, _body_of(made)

        response = respond_once(request, principal_id=actor.user.pk, now=clock.now(), act=act)
        for made in done:
            if made.link is not None:
                response.data["password_link"] = delivered_link_body(*made.link)
            if made.invitation is not None:
                response.data["invitation"] = delivered_invitation_body(*made.invitation)
        response["Cache-Control"] = "no-store"
        return response


class OrganizationPreview(APIView):
    """A new organization before it is created."""

    @extend_schema(
        operation_id="preview_organization",
        summary="Preview a new organization with its tree file (platform admins)",
        description="Nothing is changed. Errors of the tree file are in the answer, by line.",
        request=OrganizationCreationSerializer,
        responses=answers({200: OrganizationPreviewSerializer}, 403, 409),
    )
    def post(self, request: Request) -> Response:
        """Preview an organization."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = OrganizationCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        found = preview_organization(_wanted(body.validated_data), actor=actor, clock=SystemClock())
        return Response(
            {
                "path": found.organization.display_path,
                "team": None if found.team is None else found.team.display_path,
                "tree": None
                if found.imported is None
                else preview_body(found.imported, is_applied=False),
                "missing": list(found.missing),
            }
        )


def _wanted(given: dict[str, Any]) -> NewOrganization:
    first, invited = given.pop("first_administrator"), given.pop("invited_administrator")
    tree = given.pop("tree") or {"text": None, "format": Format.CSV}
    return NewOrganization(
        **given,
        administrator=None if first is None else FirstAdministrator(**first),
        invited=None if invited is None else InvitedAdministrator(**invited),
        tree=tree["text"],
        form=Format(tree["format"]),
    )


def _body_of(made: Made) -> dict[str, Any]:
    """Return the answer's body. It lacks secrets of links, which no stored answer has."""
    return {
        **node_body(made.organization),
        "team": None if made.team is None else made.team.display_path,
        "first_administrator": None if made.administrator is None else made.administrator.login,
        "password_link": None if made.link is None else password_link_body(made.link[0]),
        "invitation": None if made.invitation is None else invitation_body(made.invitation[0]),
        "missing": list(made.missing),
    }
