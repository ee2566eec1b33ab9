"""Policies of the installation and of organizations, and priority classes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from quotas.api.serializers import (
    InstallationPolicySerializer,
    InstallationPolicyUpdateSerializer,
    PolicySerializer,
    PolicyUpdateSerializer,
    PriorityClassCreateSerializer,
    PriorityClassSerializer,
    PriorityClassUpdateSerializer,
)
from quotas.installation import change_installation_policy, installation_policy
from quotas.models import PriorityClass
from quotas.policies import (
    change_policy,
    change_priority_class,
    create_priority_class,
    policy_of,
    remove_priority_class,
    visible_class,
    visible_organization,
)
from tenants.access import Actor, visible, visible_node
from tenants.api.authentication import actor_from
from tenants.roles import Permission
from webapi.idempotency import respond_once
from webapi.paging import (
    page_body,
    page_by_id,
    refuse_unknown_parameters,
)
from webapi.parameters import PageParameters, text
from webapi.preconditions import etag_of, required_version, showing_current, tagged
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    WaitingWriteSerializer,
    answers,
    etag_header,
    if_match_header,
    page_of,
)

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class InstallationPolicyDetail(APIView):
    """The policy of the installation."""

    @extend_schema(
        operation_id="get_installation_policy",
        summary="Get the policy of the installation",
        description="Rules for all organizations. All users may read them.",
        parameters=[_ETAG],
        responses=answers({200: InstallationPolicySerializer}),
    )
    def get(self, request: Request) -> Response:
        """Get the policy."""
        refuse_unknown_parameters(request, set())
        return _answer(_installation())

    @extend_schema(
        operation_id="change_installation_policy",
        summary="Change the policy of the installation",
        description="Takes effect in the scheduler's next cycle.",
        request=InstallationPolicyUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: InstallationPolicySerializer}, 403, 412, 428),
    )
    def patch(self, request: Request) -> Response:
        """Change the policy. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = InstallationPolicyUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _installation()):
            change_installation_policy(
                body.validated_data,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return _answer(_installation())


class PolicyDetail(APIView):
    """The policy of one organization."""

    @extend_schema(
        operation_id="get_policy",
        summary="Get an organization's policy",
        parameters=[_ETAG],
        responses=answers({200: PolicySerializer}, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """Get the policy."""
        refuse_unknown_parameters(request, set())
        return _answer(_policy(actor_from(request), organization_id))

    @extend_schema(
        operation_id="change_policy",
        summary="Change an organization's policy",
        description="Takes effect in the scheduler's next cycle.",
        request=PolicyUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: PolicySerializer, 202: WaitingWriteSerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, organization_id: UUID) -> Response:
        """Change the policy. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = PolicyUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _policy(actor, organization_id)):
            change_policy(
                organization_id,
                body.validated_data,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return _answer(_policy(actor, organization_id))


class PriorityClassParameters(PageParameters):
    """The filter of the list of priority classes."""

    organization: str | None = text("Only this organization, by its slug")


class PriorityClassList(APIView):
    """The priority classes of the organizations that the caller may see."""

    @extend_schema(
        operation_id="list_priority_classes",
        summary="List priority classes",
        parameters=PriorityClassParameters.in_openapi(),
        responses=answers({200: page_of(PriorityClassSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """List priority classes."""
        asked = PriorityClassParameters.read(request)
        actor = actor_from(request)
        classes = visible(
            actor,
            PriorityClass.objects.select_related("organization"),
            Permission.VIEW_TREE,
            path_field="organization__path",
        )
        if asked.organization is not None:
            organization = visible_node(actor, asked.organization)
            classes = classes.filter(organization=organization)
        page = page_by_id(asked, classes)
        return Response(page_body(request, page, PriorityClassSerializer().to_representation))

    @extend_schema(
        operation_id="create_priority_class",
        summary="Add a priority class",
        description="Jobs can use it at once. For administrators of the organization.",
        request=PriorityClassCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, _ETAG],
        responses=answers(
            {201: PriorityClassSerializer, 202: WaitingWriteSerializer}, 403, 404, 409, 422
        ),
    )
    def post(self, request: Request) -> Response:
        """Add a priority class."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = PriorityClassCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            made = create_priority_class(
                body.validated_data["organization"],
                body.validated_data["name"],
                body.to_rules(),
                actor=actor,
                now=now,
            )
            return 201, _class(actor, made.pk)

        return tagged(respond_once(request, principal_id=actor.user.pk, now=now, act=act))


class PriorityClassDetail(APIView):
    """One priority class."""

    @extend_schema(
        operation_id="get_priority_class",
        summary="Get a priority class",
        parameters=[_ETAG],
        responses=answers({200: PriorityClassSerializer}, 404),
    )
    def get(self, request: Request, class_id: UUID) -> Response:
        """Get a priority class."""
        refuse_unknown_parameters(request, set())
        return _answer(_class(actor_from(request), class_id))

    @extend_schema(
        operation_id="change_priority_class",
        summary="Change a priority class",
        description="Takes effect in the scheduler's next cycle.",
        request=PriorityClassUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers(
            {200: PriorityClassSerializer, 202: WaitingWriteSerializer}, 403, 404, 412, 428
        ),
    )
    def patch(self, request: Request, class_id: UUID) -> Response:
        """Change a priority class. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = PriorityClassUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _class(actor, class_id)):
            change_priority_class(
                class_id,
                body.validated_data,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return _answer(_class(actor, class_id))

    @extend_schema(
        operation_id="remove_priority_class",
        summary="Remove a priority class that no job ever used",
        description="Retire a class that jobs use or used instead (409 says so).",
        parameters=[_IF_MATCH],
        responses=answers({204: None, 202: WaitingWriteSerializer}, 403, 404, 409, 412, 428),
    )
    def delete(self, request: Request, class_id: UUID) -> Response:
        """Remove a priority class. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        with showing_current(lambda: _class(actor, class_id)):
            remove_priority_class(
                class_id,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return Response(status=204)


def _installation() -> dict[str, Any]:
    return dict(InstallationPolicySerializer(installation_policy()).data)


def _policy(actor: Actor, organization_id: UUID) -> dict[str, Any]:
    return dict(PolicySerializer(policy_of(visible_organization(actor, organization_id))).data)


def _class(actor: Actor, class_id: UUID) -> dict[str, Any]:
    return dict(PriorityClassSerializer(visible_class(actor, class_id)).data)


def _answer(shown: dict[str, Any]) -> Response:
    return Response(shown, headers={"ETag": etag_of(shown["version"])})
