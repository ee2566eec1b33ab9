"""The identity provider of an organization and its group mappings, for administrators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from identity.api import serializers as shapes
from identity.mapping import map_group, mappings_of, unmap_group
from identity.models import IdentityProvider
from identity.protocol import callback_url
from identity.providers import (
    ProviderChange,
    check_provider,
    managed_organization,
    provider_of,
    set_provider,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from tenants.api.factor_serializers import SignInPolicyChangeSerializer, SignInPolicySerializer
from tenants.factor_policy import policy_of, set_factor_policy
from tenants.roles import Role
from tenants.signing_in import allows_passwords
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.preconditions import required_version, tagged
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    answers,
    etag_header,
    if_match_header,
    page_of,
)


class OrganizationIdentityProvider(APIView):
    """The identity provider of an organization."""

    @extend_schema(
        operation_id="get_identity_provider",
        summary="Get the identity provider of an organization",
        parameters=[etag_header("Send it back in If-Match to change the provider.", of=(200,))],
        responses=answers({200: shapes.IdentityProviderSerializer}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """Get the provider."""
        refuse_unknown_parameters(request, set())
        return _answer(request, provider_of(actor_from(request), organization_id))

    @extend_schema(
        operation_id="set_identity_provider",
        summary="Create or change the identity provider of an organization",
        description="A change needs If-Match. The first setting needs none. Passwords can be "
        "switched off once an administrator has signed in with the provider.",
        parameters=[
            OpenApiParameter(
                "If-Match",
                OpenApiTypes.STR,
                OpenApiParameter.HEADER,
                description="The ETag of the provider. Omit it for the first setting.",
            ),
            etag_header("Send it back in If-Match to change the provider.", of=(200,)),
        ],
        request=shapes.IdentityProviderChangeSerializer,
        responses=answers({200: shapes.IdentityProviderSerializer}, 403, 404, 409, 412, 428),
    )
    def put(self, request: Request, organization_id: UUID) -> Response:
        """Set the provider."""
        refuse_unknown_parameters(request, set())
        body = shapes.IdentityProviderChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        provider = set_provider(
            actor=actor_from(request),
            organization_id=organization_id,
            change=ProviderChange(**body.validated_data),
            version=required_version(request) if "If-Match" in request.headers else None,
            now=SystemClock().now(),
        )
        return _answer(request, provider)


class IdentityProviderTest(APIView):
    """A test of the provider's discovery document."""

    @extend_schema(
        operation_id="test_identity_provider",
        summary="Fetch the discovery document of the identity provider and check it",
        description="Changes nothing and signs nobody in.",
        request=None,
        responses=answers({200: shapes.IdentityProviderCheckSerializer}, 403, 404),
    )
    def post(self, request: Request, organization_id: UUID) -> Response:
        """Test the provider."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        found = check_provider(provider_of(actor_from(request), organization_id))
        return Response(shapes.IdentityProviderCheckSerializer(found).data)


class OrganizationSignInPolicy(APIView):
    """The second factor in the sign-in policy of an organization."""

    @extend_schema(
        operation_id="get_sign_in_policy",
        summary="Get whether an organization requires a second factor",
        parameters=[etag_header("Send it back in If-Match to change the policy.", of=(200,))],
        responses=answers({200: SignInPolicySerializer}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """Get the policy."""
        refuse_unknown_parameters(request, set())
        organization = managed_organization(actor_from(request), organization_id)
        return tagged(Response(SignInPolicySerializer(policy_of(organization)).data))

    @extend_schema(
        operation_id="set_sign_in_policy",
        summary="Require a second factor of people who sign in with a password",
        description="People without one can only add one from then on. Access tokens, service "
        "accounts and people who sign in with an identity provider are not affected.",
        parameters=[
            if_match_header("The ETag of the policy"),
            etag_header("Send it back in If-Match to change the policy.", of=(200,)),
        ],
        request=SignInPolicyChangeSerializer,
        responses=answers({200: SignInPolicySerializer}, 403, 404, 412, 428),
    )
    def put(self, request: Request, organization_id: UUID) -> Response:
        """Set the policy."""
        refuse_unknown_parameters(request, set())
        body = SignInPolicyChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_from(request)
        policy = set_factor_policy(
            actor=actor,
            organization=managed_organization(actor, organization_id),
            required=body.validated_data["requires_second_factor"],
            version=required_version(request),
            now=SystemClock().now(),
        )
        return tagged(Response(SignInPolicySerializer(policy).data))


class GroupMappingList(APIView):
    """The group mappings of an organization."""

    @extend_schema(
        operation_id="list_group_mappings",
        summary="List the groups that give roles, oldest first",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(shapes.GroupMappingSerializer)}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """List mappings, oldest first."""
        asked = PageParameters.read(request)
        page = page_by_id(asked, mappings_of(actor_from(request), organization_id))
        return Response(page_body(request, page, shapes.GroupMappingSerializer().to_representation))

    @extend_schema(
        operation_id="map_group",
        summary="Let a group of the identity provider give a role",
        description="Members of a group that SCIM pushes have the role at once. Of another group, "
        "people get it at their next sign-in, and lose it at the first sign-in without the group. "
        "The caller needs every right of the role on the node.",
        parameters=[IDEMPOTENCY_KEY],
        request=shapes.GroupMappingCreationSerializer,
        responses=answers({201: shapes.GroupMappingSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, organization_id: UUID) -> Response:
        """Map a group."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = shapes.GroupMappingCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)

        def act() -> tuple[int, dict[str, Any]]:
            mapping = map_group(
                actor=actor,
                organization_id=organization_id,
                group=body.validated_data["group"],
                role=Role(body.validated_data["role"]),
                node_path=body.validated_data["node"],
                now=now,
            )
            return 201, shapes.GroupMappingSerializer(mapping).data

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class GroupMappingDetail(APIView):
    """A group mapping."""

    @extend_schema(
        operation_id="unmap_group",
        summary="Remove a group mapping, and end the roles that it gave",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, mapping_id: UUID) -> Response:
        """Remove the mapping."""
        refuse_unknown_parameters(request, set())
        unmap_group(actor=actor_from(request), mapping_id=mapping_id, now=SystemClock().now())
        return Response(status=204)


def _answer(request: Request, provider: IdentityProvider) -> Response:
    body = shapes.IdentityProviderSerializer(
        {
            "organization": provider.organization,
            "name": provider.name,
            "issuer": provider.issuer,
            "client_id": provider.client_id,
            "scopes": provider.scopes,
            "groups_claim": provider.groups_claim,
            "creates_people": provider.creates_people,
            "links_by_email": provider.links_by_email,
            "is_enabled": provider.is_enabled,
            "is_listed": provider.is_listed,
            "allows_passwords": allows_passwords(provider.organization_id),
            "callback_url": callback_url(request._request, provider),
            "version": provider.version,
            "changed_at": provider.changed_at,
        }
    ).data
    return tagged(Response(body))
