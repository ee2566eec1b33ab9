"""Second factors over HTTP: the caller's own, and those of people whom the caller manages."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from tenants.api import factor_serializers as shapes
from tenants.api.authentication import actor_from
from tenants.second_factors import (
    Proof,
    begin_authenticator,
    begin_security_key,
    confirm_authenticator,
    confirm_security_key,
    factors_of,
    remove_factor,
    renew_recovery_codes,
    reset_factors,
)
from tenants.session_store import store_of
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.parameters import Parameters, text
from webapi.serializers import answers


class SecondFactorParameters(Parameters):
    """The owner of the factors; the caller by default."""

    user: str | None = text("Login of a user that the caller manages")


class SecondFactorsView(APIView):
    """The second factors of the caller or of a managed user."""

    serves_before_enrolment = True

    @extend_schema(
        operation_id="get_second_factors",
        summary="Get the second factors of a person",
        description="The caller's own, unless `user` is given.",
        parameters=SecondFactorParameters.in_openapi(),
        responses=answers({200: shapes.SecondFactorsSerializer}, 403, 404),
    )
    def get(self, request: Request) -> Response:
        """Return the factors."""
        asked = SecondFactorParameters.read(request)
        found = factors_of(actor_from(request), asked.user)
        return Response(shapes.SecondFactorsSerializer(found).data)


class AuthenticatorView(APIView):
    """A new authenticator app of the caller."""

    serves_before_enrolment = True

    @extend_schema(
        operation_id="begin_authenticator_app",
        summary="Get a new key for an authenticator app",
        description="Needs a browser session. More than 10 minutes after the sign-in, it also "
        "needs `proof`. A former new key is forgotten.",
        request=shapes.ProofSerializer,
        responses=answers({200: shapes.NewKeySerializer}, 403, 409),
    )
    def post(self, request: Request) -> Response:
        """Return the key."""
        refuse_unknown_parameters(request, set())
        made = begin_authenticator(
            actor=actor_from(request),
            session=store_of(request._request),
            proof=_proof(request),
            now=SystemClock().now(),
        )
        return _unstored(Response(shapes.NewKeySerializer(made).data))


class AuthenticatorConfirmation(APIView):
    """The confirmation of a new authenticator app."""

    serves_before_enrolment = True

    @extend_schema(
        operation_id="confirm_authenticator_app",
        summary="Add the authenticator app with the new key, by a code that it shows",
        description="All other sessions of the caller end with the first factor.",
        request=shapes.CodeSerializer,
        responses=answers({200: shapes.RecoveryCodesSerializer}, 403, 409),
    )
    def post(self, request: Request) -> Response:
        """Add the app, and return recovery codes with the first factor."""
        refuse_unknown_parameters(request, set())
        body = shapes.CodeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        codes = confirm_authenticator(
            actor=actor_from(request),
            session=store_of(request._request),
            code=body.validated_data["code"],
            now=SystemClock().now(),
        )
        return _codes(codes)


class SecurityKeyView(APIView):
    """A new security key of the caller."""

    serves_before_enrolment = True

    @extend_schema(
        operation_id="begin_security_key",
        summary="Get a challenge for a new security key",
        description="Needs a browser session. More than 10 minutes after the sign-in, it also "
        "needs `proof`.",
        request=shapes.ProofSerializer,
        responses=answers({200: shapes.KeyChallengeSerializer}, 403, 409),
    )
    def post(self, request: Request) -> Response:
        """Return the challenge."""
        refuse_unknown_parameters(request, set())
        options = begin_security_key(
            actor=actor_from(request),
            session=store_of(request._request),
            host=request.get_host(),
            proof=_proof(request),
            now=SystemClock().now(),
        )
        return Response(shapes.KeyChallengeSerializer({"options": options}).data)


class SecurityKeyConfirmation(APIView):
    """The confirmation of a new security key."""

    serves_before_enrolment = True

    @extend_schema(
        operation_id="confirm_security_key",
        summary="Add the security key that answered the challenge",
        description="All other sessions of the caller end with the first factor.",
        request=shapes.KeyConfirmationSerializer,
        responses=answers({200: shapes.RecoveryCodesSerializer}, 403, 409),
    )
    def post(self, request: Request) -> Response:
        """Add the key, and return recovery codes with the first factor."""
        refuse_unknown_parameters(request, set())
        body = shapes.KeyConfirmationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        codes = confirm_security_key(
            actor=actor_from(request),
            session=store_of(request._request),
            host=request.get_host(),
            name=body.validated_data["name"],
            credential=body.validated_data["credential"],
            now=SystemClock().now(),
        )
        return _codes(codes)


class RecoveryCodesView(APIView):
    """The recovery codes of the caller."""

    @extend_schema(
        operation_id="make_recovery_codes",
        summary="Replace your recovery codes; the former ones stop working",
        request=shapes.ProofSerializer,
        responses=answers({200: shapes.RecoveryCodesSerializer}, 403, 409),
    )
    def post(self, request: Request) -> Response:
        """Return new codes."""
        refuse_unknown_parameters(request, set())
        codes = renew_recovery_codes(
            actor=actor_from(request), proof=_proof(request), now=SystemClock().now()
        )
        return _codes(codes)


class SecondFactorRemoval(APIView):
    """The removal of a second factor of the caller."""

    @extend_schema(
        operation_id="remove_second_factor",
        summary="Remove a second factor; the last one takes the recovery codes with it",
        request=shapes.ProofSerializer,
        responses=answers({204: None}, 403, 404, 409),
    )
    def post(self, request: Request, factor_id: UUID) -> Response:
        """Remove the factor."""
        refuse_unknown_parameters(request, set())
        remove_factor(
            actor=actor_from(request),
            factor_id=factor_id,
            proof=_proof(request),
            now=SystemClock().now(),
        )
        return Response(status=204)


class SecondFactorsReset(APIView):
    """A reset of another person's second factors."""

    @extend_schema(
        operation_id="reset_second_factors",
        summary="Remove all second factors of a person, and end the person's sessions",
        request=None,
        responses=answers({200: shapes.FactorsResetSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, user_id: UUID) -> Response:
        """Reset the factors."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        removed = reset_factors(actor=actor_from(request), user_id=user_id, now=SystemClock().now())
        return Response(shapes.FactorsResetSerializer({"removed": removed}).data)


def _proof(request: Request) -> Proof:
    body = shapes.ProofSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    return Proof(
        text=body.validated_data["proof"],
        address=request.META.get("REMOTE_ADDR", ""),
        cookies=request.COOKIES,
    )


def _codes(codes: list[str]) -> Response:
    return _unstored(Response(shapes.RecoveryCodesSerializer({"recovery_codes": codes}).data))


def _unstored(response: Response) -> Response:
    response["Cache-Control"] = "no-store"
    return response
