"""The protocol of SCIM around its views: token, limits, media type, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from pydantic import ValidationError
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from scim2_models import Error, SCIMException

from identity.models import ScimToken
from identity.scim.refusals import TAKEN
from identity.scim.tokens import scim_token_by_secret
from primitives.clock import SystemClock
from primitives.errors import Unauthenticated
from webapi.parsers import StrictJsonParser
from webapi.problems import render_problem
from webapi.renderers import FastJsonRenderer
from webapi.request_limits import RequestLimit
from webapi.row_access import limit_to

MEDIA_TYPE = "application/scim+json"
PATH = "/scim/v2"


def scim_address(request: HttpRequest) -> str:
    """Return the address of SCIM, which administrators enter at the identity provider."""
    return settings.PUBLIC_URL + PATH if settings.PUBLIC_URL else request.build_absolute_uri(PATH)


class ScimTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer tds_...`, and nothing else: no session, no access token."""

    def authenticate(self, request: Request) -> tuple[ScimToken, ScimToken] | None:
        """Return the token. Raises Unauthenticated if it is invalid."""
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = scim_token_by_secret(secret.strip(), now=SystemClock().now())
        limit_to([token.organization_id])
        return token, token

    def authenticate_header(self, request: Request) -> str:
        """Return the header that makes the status of an anonymous request 401 instead of 403."""
        return "Bearer"


class HasScimToken(BasePermission):
    """Allows requests with a live token for SCIM."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True. Raises Unauthenticated without a token."""
        if not isinstance(request.auth, ScimToken):
            raise Unauthenticated("Send a token for SCIM: Authorization: Bearer tds_...")
        return True


class ScimRequestLimit(RequestLimit):
    """Counts the requests of each token for SCIM."""

    def counted(self, request: Request) -> UUID | None:
        """Return the id of the token."""
        return request.auth.pk if isinstance(request.auth, ScimToken) else None


class ScimParser(StrictJsonParser):
    """Parses `application/scim+json` as strictly as other JSON."""

    media_type = MEDIA_TYPE


class ScimRenderer(FastJsonRenderer):
    """Renders `application/scim+json`."""

    media_type = MEDIA_TYPE


class ScimView(APIView):
    """A view of SCIM. It describes itself at `/Schemas`, so it is not in the OpenAPI document."""

    schema = None
    authentication_classes = [ScimTokenAuthentication]
    permission_classes = [HasScimToken]
    throttle_classes = [ScimRequestLimit]
    parser_classes = [ScimParser, StrictJsonParser]
    renderer_classes = [ScimRenderer, FastJsonRenderer]

    def get_exception_handler(self) -> Any:
        """Return the handler that answers in the form of SCIM."""
        return render_scim_error


def token_of(request: Request) -> ScimToken:
    """Return the token of the request."""
    assert isinstance(request.auth, ScimToken)
    return request.auth


def render_scim_error(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn an expected error into SCIM's form. The sentences are those of the rest of the API."""
    if isinstance(error, SCIMException):
        return _answer(error.to_error(), {})
    if isinstance(error, ValidationError):
        return _answer(Error.from_validation_errors(error)[0], {})
    rendered = render_problem(error, context)
    if rendered is None:
        return None
    body = rendered.data
    codes = {each["code"] for each in body.get("errors", [])}
    kind = "uniqueness" if TAKEN in codes else "invalidValue" if body["status"] == 400 else None
    headers = {
        name: value for name, value in rendered.headers.items() if name.lower() != "content-type"
    }
    return _answer(Error(status=body["status"], scim_type=kind, detail=body["detail"]), headers)


def _answer(error: Error, headers: Mapping[str, str]) -> Response:
    body = error.model_dump()
    body["detail"] = (error.detail or "")[:2_000]
    return Response(body, status=error.status, headers=dict(headers))
