"""Sign-in at an identity provider: its start, and the way back."""

from __future__ import annotations

import requests
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import View
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from identity.api import serializers as shapes
from identity.models import IdentityProvider
from identity.people import SignInRefused, read_claims, record_refusal, sign_in_person
from identity.protocol import authorization_url, proved_claims
from identity.sign_in_refusals import SignInRefusal, refusal_page
from primitives.clock import SystemClock
from primitives.errors import Conflict, NotFound, Unauthenticated
from tenants.access import actor_of
from tenants.api.authentication import actor_from, require_csrf_token
from tenants.session_store import SignInWay
from tenants.signing_in import begin_session, record_session
from tenants.throttling import Attempt, forgive_attempt, require_attempt
from webapi.paging import refuse_unknown_parameters
from webapi.parameters import Parameters, text
from webapi.serializers import answers

#: Providers that the sign-in page lists before an organization is named.
_LISTED_MAX = 20


class SignInOptionParameters(Parameters):
    """The organization that a stranger names."""

    organization: str | None = text("Slug of an organization. Default: those listed for everybody")


class SignInOptions(APIView):
    """The identity providers that the sign-in page offers."""

    permission_classes = [AllowAny]

    @extend_schema(
        operation_id="list_sign_in_options",
        summary="List the identity providers with which to sign in",
        description="An unknown organization, and one without a provider, give the same answer.",
        parameters=SignInOptionParameters.in_openapi(),
        responses=answers({200: shapes.SignInOptionsSerializer}),
        auth=[],
    )
    def get(self, request: Request) -> Response:
        """List the providers."""
        asked = SignInOptionParameters.read(request)
        rows = IdentityProvider.objects.select_related("organization").filter(is_enabled=True)
        if asked.organization is None:
            rows = rows.filter(is_listed=True)
        else:
            rows = rows.filter(organization__slug=asked.organization)
        providers = [
            {"organization": row.organization.slug, "name": row.name}
            for row in rows.order_by("name", "pk")[:_LISTED_MAX]
        ]
        return Response(shapes.SignInOptionsSerializer({"providers": providers}).data)


class ProviderSignIn(APIView):
    """The start of a sign-in at an identity provider."""

    permission_classes = [AllowAny]
    serves_before_password_change = True
    serves_before_enrolment = True

    @extend_schema(
        operation_id="sign_in_with_provider",
        summary="Begin to sign in with the identity provider of an organization",
        description="Needs the cookies of GET /session. The browser then opens the address.",
        request=shapes.ProviderSignInSerializer,
        responses=answers({200: shapes.AuthorizationSerializer}, 403, 404, 409),
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Return the address of the provider."""
        refuse_unknown_parameters(request, set())
        if request.auth is not None and actor_from(request).scopes is not None:
            raise Conflict("Send no access token when signing in.")
        require_csrf_token(request._request)
        body = shapes.ProviderSignInSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()
        require_attempt(
            _attempt(request._request), now=now, refusal="Too many sign-ins began here."
        )
        row = (
            IdentityProvider.objects.select_related("organization")
            .filter(organization__slug=body.validated_data["organization"], is_enabled=True)
            .first()
        )
        if row is None:
            raise NotFound(
                "No identity provider of this name can be used. Check the organization, or sign "
                "in with a password."
            )
        wanted = body.validated_data["next"]
        is_ours = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, None)
        try:
            url = authorization_url(request._request, row, next_path=wanted if is_ours else "/")
        except requests.RequestException as error:
            record_refusal(row, SignInRefusal.UNREACHABLE, why=str(error), now=now)
            raise Conflict(
                f"{row.name} does not answer, so that nobody can sign in with it now. Try again "
                "in a minute, or tell an administrator."
            ) from error
        return Response(shapes.AuthorizationSerializer({"authorization_url": url}).data)


class ProviderCallback(View):
    """The way back from the identity provider."""

    def get(self, request: HttpRequest, organization_slug: str) -> HttpResponse:
        """Sign the person in, or lead to the sign-in page with the reason."""
        now = SystemClock().now()
        row = (
            IdentityProvider.objects.select_related("organization")
            .filter(organization__slug=organization_slug, is_enabled=True)
            .first()
        )
        if row is None:
            return refusal_page(SignInRefusal.SWITCHED_OFF)
        proved = proved_claims(request, row)
        if isinstance(proved, HttpResponse):
            return proved
        claims, next_path = proved
        try:
            known = read_claims(claims, groups_claim=row.groups_claim)
            user = sign_in_person(row, known, now=now)
            begin_session(request, user, way=SignInWay.PROVIDER, now=now)
        except SignInRefused as refused:
            record_refusal(row, refused.code, why=f"subject {claims.get('sub')}", now=now)
            return refusal_page(refused.code)
        except (Conflict, Unauthenticated) as refused:
            record_refusal(row, SignInRefusal.DEACTIVATED, why=refused.detail, now=now)
            return refusal_page(SignInRefusal.DEACTIVATED)
        forgive_attempt(_attempt(request))
        record_session(actor=actor_of(user), action="signed_in", now=now)
        return HttpResponseRedirect(next_path)


def _attempt(request: HttpRequest) -> Attempt:
    return Attempt.at_provider(request.META.get("REMOTE_ADDR", ""))
