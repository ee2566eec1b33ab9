"""New organizations over HTTP. The view is here because it also creates quotas and prices."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.new_organization import (
    DEFAULT_TEAM,
    FirstAdministrator,
    Made,
    NewOrganization,
    make_organization,
)
from primitives.clock import SystemClock
from primitives.units import MGPU_MAX
from quotas.policies import DEFAULT_TIME_ZONE
from tenants.api.authentication import actor_from
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
    team = TextField(
        max_length=SLUG_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Slug of the first team, which gets all of the quota. Default: "
        f"`{DEFAULT_TEAM}` with an administrator or a pool, else no team",
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
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="Parts that it still lacks, in sentences"
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
        actor, now = actor_from(request), SystemClock().now()
        body = OrganizationCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = _wanted(body.validated_data)
        done: list[Made] = []

        def act() -> tuple[int, dict[str, Any]]:
            made = make_organization(wanted, actor=actor, now=now)
            done.append(made)
            return 201, _body_of(made)

        response = respond_once(request, principal_id=actor.user.pk, now=now, act=act)
        for made in done:
            if made.link is not None:
                response.data["password_link"] = delivered_link_body(*made.link)
        response["Cache-Control"] = "no-store"
        return response


def _wanted(given: dict[str, Any]) -> NewOrganization:
    first = given.pop("first_administrator")
    return NewOrganization(
        **given, administrator=None if first is None else FirstAdministrator(**first)
    )


def _body_of(made: Made) -> dict[str, Any]:
    """Return the answer's body. It lacks the secret of the link, which no stored answer has."""
    return {
        **node_body(made.organization),
        "team": None if made.team is None else made.team.display_path,
        "first_administrator": None if made.administrator is None else made.administrator.login,
        "password_link": None if made.link is None else password_link_body(made.link[0]),
        "missing": list(made.missing),
    }
