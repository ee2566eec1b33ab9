"""The rules of organizations about writes that need a second person."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from primitives.units import MGPU_MAX
from quotas.policies import visible_organization
from quotas.second_person import change_second_person_policy, second_person_policy_of
from quotas.second_person_models import STOPPED_JOBS_MAX
from tenants.access import Actor
from tenants.api.authentication import actor_from
from tenants.roles import Permission
from webapi.paging import refuse_unknown_parameters
from webapi.preconditions import etag_of, required_version, showing_current
from webapi.serializers import (
    StrictSerializer,
    UtcTimeField,
    WaitingWriteSerializer,
    WholeNumberField,
    YesOrNoField,
    answers,
    etag_header,
    if_match_header,
)

_JOBS_HELP = (
    "Running jobs that a write would stop, from which it needs a second person; null: never"
)
_MOVED_HELP = (
    "Milli-GPUs that a person may move alone within a day, above which a write needs a second "
    "person; null: any number"
)
_RULES_HELP = "Whether changes of the policy and of priority classes need a second person"
_EMERGENCY_HELP = "Whether a platform administrator may go on alone, with a reason"


class SecondPersonPolicySerializer(serializers.Serializer[Any]):
    """The writes of an organization that need a second person."""

    organization = serializers.CharField(help_text="Its slug")
    stopped_jobs_min = serializers.IntegerField(allow_null=True, help_text=_JOBS_HELP)
    moved_mgpu_max = serializers.IntegerField(allow_null=True, help_text=_MOVED_HELP)
    guards_rules = serializers.BooleanField(help_text=_RULES_HELP)
    allows_emergency = serializers.BooleanField(help_text=_EMERGENCY_HELP)
    changed_by = serializers.CharField(allow_null=True)
    changed_at = UtcTimeField(allow_null=True)
    version = serializers.IntegerField()
    can_edit = serializers.BooleanField(help_text="Whether you may change the rules")


class SecondPersonPolicyUpdateSerializer(StrictSerializer):
    """A change of the rules about a second person. Missing rules stay."""

    stopped_jobs_min = WholeNumberField(
        min_value=1,
        max_value=STOPPED_JOBS_MAX,
        required=False,
        allow_null=True,
        help_text=_JOBS_HELP,
    )
    moved_mgpu_max = WholeNumberField(
        min_value=0, max_value=MGPU_MAX, required=False, allow_null=True, help_text=_MOVED_HELP
    )
    guards_rules = YesOrNoField(required=False, help_text=_RULES_HELP)
    allows_emergency = YesOrNoField(required=False, help_text=_EMERGENCY_HELP)


class SecondPersonPolicyDetail(APIView):
    """The rules of one organization about writes that need a second person."""

    @extend_schema(
        operation_id="get_second_person_policy",
        summary="Get which writes of an organization need a second person",
        parameters=[etag_header("Version")],
        responses=answers({200: SecondPersonPolicySerializer}, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """Get the rules."""
        refuse_unknown_parameters(request, set())
        return _answer(actor_from(request), organization_id)

    @extend_schema(
        operation_id="change_second_person_policy",
        summary="Change which writes of an organization need a second person",
        description="For administrators of the organization. While a rule is on, its change needs "
        "a second person, too.",
        request=SecondPersonPolicyUpdateSerializer,
        parameters=[
            if_match_header("The ETag of the version on which the change is based"),
            etag_header("Version"),
        ],
        responses=answers(
            {200: SecondPersonPolicySerializer, 202: WaitingWriteSerializer}, 403, 404, 412, 428
        ),
    )
    def patch(self, request: Request, organization_id: UUID) -> Response:
        """Change the rules. A 412 has the `current` ones."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = SecondPersonPolicyUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with showing_current(lambda: _shown(actor, organization_id)):
            change_second_person_policy(
                organization_id,
                body.validated_data,
                actor=actor,
                if_version=required_version(request),
                now=SystemClock().now(),
            )
        return _answer(actor, organization_id)


def _shown(actor: Actor, organization_id: UUID) -> dict[str, Any]:
    organization = visible_organization(actor, organization_id)
    policy = second_person_policy_of(organization)
    names = ("stopped_jobs_min", "moved_mgpu_max", "guards_rules", "allows_emergency")
    return dict(
        SecondPersonPolicySerializer(
            {
                **{name: getattr(policy, name) for name in (*names, "changed_at", "version")},
                "organization": organization.slug,
                "changed_by": None if policy.changed_by is None else policy.changed_by.login,
                "can_edit": actor.holds(Permission.MANAGE_QUOTA, organization.path),
            }
        ).data
    )


def _answer(actor: Actor, organization_id: UUID) -> Response:
    shown = _shown(actor, organization_id)
    return Response(shown, headers={"ETag": etag_of(shown["version"])})
