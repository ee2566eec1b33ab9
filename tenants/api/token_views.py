"""Access tokens over HTTP: the caller's own, and those of users that the caller manages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from primitives.errors import InvalidRequest
from tenants.api import serializers as shapes
from tenants.api.authentication import actor_from
from tenants.models import AccessToken
from tenants.roles import Scope
from tenants.tokens import (
    create_token,
    managed_tokens,
    own_tokens,
    revoke_token,
    rotate_token,
    tokens_below,
)
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, text
from webapi.serializers import IDEMPOTENCY_KEY, answers, page_of


class TokenParameters(PageParameters):
    """Whose tokens are listed; the caller's own without either."""

    user: str | None = text("Login of a user that the caller manages")
    organization: str | None = text("Slug of an organization whose members the caller manages")


class AccessTokenList(APIView):
    """Access tokens of the caller, of a managed user, or of an organization."""

    @extend_schema(
        operation_id="list_tokens",
        summary="Access tokens, newest first",
        description="The caller's own, unless `user` or `organization` is given.",
        parameters=TokenParameters.in_openapi(),
        responses=answers({200: page_of(shapes.AccessTokenSerializer)}, 403, 404),
    )
    def get(self, request: Request) -> Response:
        """List tokens, newest first."""
        asked, actor = TokenParameters.read(request), actor_from(request)
        if asked.user is not None and asked.organization is not None:
            raise InvalidRequest("Give either user or organization, not both.")
        if asked.organization is not None:
            tokens = tokens_below(actor, asked.organization)
        elif asked.user is not None and asked.user != actor.user.login:
            tokens = managed_tokens(actor, asked.user)
        else:
            tokens = own_tokens(actor)
        page = page_by_id(asked, tokens, newest_first=True)
        return Response(page_body(request, page, shapes.AccessTokenSerializer().to_representation))

    @extend_schema(
        operation_id="create_token",
        summary="Create an access token",
        description="The secret is in the first answer only. The token is the caller's own, or "
        "with `user` that of a service account that the caller manages.",
        parameters=[IDEMPOTENCY_KEY],
        request=shapes.AccessTokenCreationSerializer,
        responses=answers({201: shapes.NewAccessTokenSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Create a token."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = shapes.AccessTokenCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return _respond_with_secret(
            request,
            lambda now: create_token(
                actor=actor,
                name=body.validated_data["name"],
                scopes=[Scope(scope) for scope in body.validated_data["scopes"]],
                expires_in_days=body.validated_data["expires_in_days"],
                login=body.validated_data["user"],
                now=now,
            ),
        )


class AccessTokenRotation(APIView):
    """Replaces a token by a new one."""

    @extend_schema(
        operation_id="rotate_token",
        summary="Replace an access token by a new one with the same name and scopes",
        parameters=[IDEMPOTENCY_KEY],
        request=shapes.TokenRotationSerializer,
        responses=answers({201: shapes.NewAccessTokenSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, token_id: UUID) -> Response:
        """Replace a token."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = shapes.TokenRotationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        return _respond_with_secret(
            request,
            lambda now: rotate_token(
                actor=actor,
                token_id=token_id,
                overlap_s=body.validated_data["overlap_s"],
                now=now,
            ),
        )


class AccessTokenDetail(APIView):
    """One access token."""

    @extend_schema(
        operation_id="revoke_token",
        summary="Revoke an access token and all tokens created with it",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke a token."""
        refuse_unknown_parameters(request, set())
        revoke_token(actor=actor_from(request), token_id=token_id, now=SystemClock().now())
        return Response(status=204)


def _respond_with_secret(
    request: Request, make: Callable[[datetime], tuple[AccessToken, str]]
) -> Response:
    """Return the new token with its secret, which no stored answer to an Idempotency-Key has."""
    now = SystemClock().now()
    secrets: list[str] = []

    def act() -> tuple[int, dict[str, Any]]:
        token, secret = make(now)
        secrets.append(secret)
        return 201, {**shapes.AccessTokenSerializer(token).data, "secret": None}

    response = respond_once(request, principal_id=actor_from(request).user.pk, now=now, act=act)
    if secrets:
        response.data = {**response.data, "secret": secrets[0]}
    response["Cache-Control"] = "no-store"
    return response
