"""The policies of the installation and of an organization, and changes of priority classes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from primitives.errors import PreconditionFailed
from quotas.api.serializers import (
    InstallationPolicySerializer,
    InstallationPolicyUpdateSerializer,
    PolicySerializer,
    PolicyUpdateSerializer,
    PriorityClassSerializer,
    PriorityClassUpdateSerializer,
)
from quotas.installation import change_installation_policy, installation_policy
from quotas.policies import (
    change_policy,
    change_priority_class,
    policy_of,
    visible_class,
    visible_organization,
)
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.preconditions import etag_of, required_version
from webapi.serializers import answers, etag_header, if_match_header

_IF_MATCH = if_match_header("The ETag that the change is based on")
_ETAG = etag_header("Version")


class InstallationPolicyDetail(APIView):
    """The policy of the installation."""

    @extend_schema(
        operation_id="get_installation_policy",
        summary="The policy of the installation",
        description="What holds for all organizations alike. Everybody may read it.",
        parameters=[_ETAG],
        responses=answers({200: InstallationPolicySerializer}),
    )
    def get(self, request: Request) -> Response:
        """The policy and its ETag."""
        refuse_unknown_parameters(request, set())
        return _answer(_installation())

    @extend_schema(
        operation_id="change_installation_policy",
        summary="Change the policy of the installation",
        description="Takes effect in the arbiter's next cycle.",
        request=InstallationPolicyUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: InstallationPolicySerializer}, 403, 412, 428),
    )
    def patch(self, request: Request) -> Response:
        """The changed policy and its new ETag. A 412 shows the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = InstallationPolicyUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        try:
            change_installation_policy(
                body.validated_data,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        except PreconditionFailed as stale:
            raise PreconditionFailed(stale.detail, current=_installation()) from stale
        return _answer(_installation())


class PolicyDetail(APIView):
    """The policy of one organization."""

    @extend_schema(
        operation_id="get_policy",
        summary="An organization's policy",
        parameters=[_ETAG],
        responses=answers({200: PolicySerializer}, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """The policy and its ETag."""
        refuse_unknown_parameters(request, set())
        return _answer(_policy(actor_from(request), organization_id))

    @extend_schema(
        operation_id="change_policy",
        summary="Change an organization's policy",
        description="Takes effect in the arbiter's next cycle.",
        request=PolicyUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: PolicySerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, organization_id: UUID) -> Response:
        """The changed policy and its new ETag. A 412 shows the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = PolicyUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        try:
            change_policy(
                organization_id,
                body.validated_data,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        except PreconditionFailed as stale:
            current = _policy(actor, organization_id)
            raise PreconditionFailed(stale.detail, current=current) from stale
        return _answer(_policy(actor, organization_id))


class PriorityClassDetail(APIView):
    """One priority class."""

    @extend_schema(
        operation_id="get_priority_class",
        summary="One priority class",
        parameters=[_ETAG],
        responses=answers({200: PriorityClassSerializer}, 404),
    )
    def get(self, request: Request, class_id: UUID) -> Response:
        """The class and its ETag."""
        refuse_unknown_parameters(request, set())
        return _answer(_class(actor_from(request), class_id))

    @extend_schema(
        operation_id="change_priority_class",
        summary="Change a priority class",
        description="Takes effect in the arbiter's next cycle.",
        request=PriorityClassUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: PriorityClassSerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, class_id: UUID) -> Response:
        """The changed class and its new ETag. A 412 shows the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = PriorityClassUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        try:
            change_priority_class(
                class_id,
                body.validated_data,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        except PreconditionFailed as stale:
            raise PreconditionFailed(stale.detail, current=_class(actor, class_id)) from stale
        return _answer(_class(actor, class_id))


def _installation() -> dict[str, Any]:
    return dict(InstallationPolicySerializer(installation_policy()).data)


def _policy(actor: Actor, organization_id: UUID) -> dict[str, Any]:
    return dict(PolicySerializer(policy_of(visible_organization(actor, organization_id))).data)


def _class(actor: Actor, class_id: UUID) -> dict[str, Any]:
    return dict(PriorityClassSerializer(visible_class(actor, class_id)).data)


def _answer(shown: dict[str, Any]) -> Response:
    return Response(shown, headers={"ETag": etag_of(shown["version"])})
