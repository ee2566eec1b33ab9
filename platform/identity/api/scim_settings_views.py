"""SCIM of an organization and its tokens, for administrators."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from identity.api import scim_serializers as shapes
from identity.api.scim_protocol import scim_address
from identity.models import ExternalIdClaim, ScimToken
from identity.scim.settings import ScimStatus, scim_status, set_scim
from identity.scim.tokens import (
    end_scim_token,
    make_scim_token,
    replace_scim_token,
    scim_tokens_of,
)
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from tenants.api.serializers import TokenRotationSerializer
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.preconditions import required_version, tagged
from webapi.serializers import IDEMPOTENCY_KEY, answers, etag_header, if_match_header, page_of


class OrganizationScim(APIView):
    """SCIM of an organization."""

    @extend_schema(
        operation_id="get_scim",
        summary="Get the settings of SCIM, its last contact, and what it pushed",
        parameters=[etag_header("Send it back in If-Match to change the settings.", of=(200,))],
        responses=answers({200: shapes.ScimSerializer}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """Get them."""
        refuse_unknown_parameters(request, set())
        return _answer(request, scim_status(actor_from(request), organization_id))

    @extend_schema(
        operation_id="set_scim",
        summary="Change the settings of SCIM",
        parameters=[
            if_match_header("The ETag of the settings."),
            etag_header("Send it back in If-Match to change the settings.", of=(200,)),
        ],
        request=shapes.ScimChangeSerializer,
        responses=answers({200: shapes.ScimSerializer}, 403, 404, 412, 428),
    )
    def put(self, request: Request, organization_id: UUID) -> Response:
        """Change them."""
        refuse_unknown_parameters(request, set())
        body = shapes.ScimChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        status = set_scim(
            actor=actor_from(request),
            organization_id=organization_id,
            external_id_claim=ExternalIdClaim(body.validated_data["external_id_claim"]),
            adopts_accounts=body.validated_data["adopts_accounts"],
            version=required_version(request),
            now=SystemClock().now(),
        )
        return _answer(request, status)


class ScimTokenList(APIView):
    """The tokens for SCIM of an organization."""

    @extend_schema(
        operation_id="list_scim_tokens",
        summary="List the tokens for SCIM, newest first",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(shapes.ScimTokenSerializer)}, 403, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """List tokens, newest first."""
        asked = PageParameters.read(request)
        tokens = scim_tokens_of(actor_from(request), organization_id)
        page = page_by_id(asked, tokens, newest_first=True)
        return Response(page_body(request, page, shapes.ScimTokenSerializer().to_representation))

    @extend_schema(
        operation_id="make_scim_token",
        summary="Create a token for SCIM",
        description="The secret is in the first answer only. It works at /scim/v2 and nowhere "
        "else. The caller needs every right of an administrator of the organization.",
        parameters=[IDEMPOTENCY_KEY],
        request=shapes.ScimTokenCreationSerializer,
        responses=answers({201: shapes.NewScimTokenSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, organization_id: UUID) -> Response:
        """Create a token."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = shapes.ScimTokenCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return _respond_with_secret(
            request,
            lambda now: make_scim_token(
                actor=actor, organization_id=organization_id, **body.validated_data, now=now
            ),
        )


class ScimTokenReplacement(APIView):
    """Replaces a token for SCIM by a new one."""

    @extend_schema(
        operation_id="replace_scim_token",
        summary="Replace a token for SCIM by a new one with the same name and lifetime",
        parameters=[IDEMPOTENCY_KEY],
        request=TokenRotationSerializer,
        responses=answers({201: shapes.NewScimTokenSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, scim_token_id: UUID) -> Response:
        """Replace a token."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = TokenRotationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return _respond_with_secret(
            request,
            lambda now: replace_scim_token(
                actor=actor,
                token_id=scim_token_id,
                overlap_s=body.validated_data["overlap_s"],
                now=now,
            ),
        )


class ScimTokenDetail(APIView):
    """A token for SCIM."""

    @extend_schema(
        operation_id="end_scim_token",
        summary="End a token for SCIM at once",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, scim_token_id: UUID) -> Response:
        """End the token."""
        refuse_unknown_parameters(request, set())
        end_scim_token(actor=actor_from(request), token_id=scim_token_id, now=SystemClock().now())
        return Response(status=204)


def _respond_with_secret(
    request: Request, make: Callable[[datetime], tuple[ScimToken, str]]
) -> Response:
    """Return the new token with its secret, which no stored answer to an Idempotency-Key has."""
    now = SystemClock().now()
    secrets: list[str] = []

    def act() -> tuple[int, dict[str, Any]]:
        token, secret = make(now)
        secrets.append(secret)
        return 201, {**shapes.ScimTokenSerializer(token).data, "secret": None}

    response = respond_once(request, principal_id=actor_from(request).user.pk, now=now, act=act)
    if secrets:
        response.data = {**response.data, "secret": secrets[0]}
    response["Cache-Control"] = "no-store"
    return response


def _answer(request: Request, status: ScimStatus) -> Response:
    body = shapes.ScimSerializer(
        {
            "base_url": scim_address(request._request),
            "external_id_claim": status.external_id_claim,
            "adopts_accounts": status.adopts_accounts,
            "last_contact_at": status.last_contact_at,
            "active_people": status.active_people,
            "deactivated_people": status.deactivated_people,
            "groups": status.groups,
            "version": status.version,
        }
    ).data
    return tagged(Response(body))
