"""The choice of an organization how its files of FOCUS name users."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from exports.api.policy_serializers import (
    ExportPolicySerializer,
    ExportPolicyUpdateSerializer,
    shown_policy,
)
from exports.policies import change_policy, visible_policy
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.preconditions import etag_of, required_version
from webapi.serializers import answers, etag_header, if_match_header

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")


class ExportPolicyDetail(APIView):
    """The export policy of an organization."""

    @extend_schema(
        operation_id="get_export_policy",
        summary="Get how new FOCUS files name users",
        parameters=[_ETAG],
        responses=answers({200: ExportPolicySerializer}, 404),
    )
    def get(self, request: Request, organization_id: UUID) -> Response:
        """Get the choice."""
        refuse_unknown_parameters(request, set())
        policy = visible_policy(actor_from(request), organization_id)
        return Response(shown_policy(policy), headers={"ETag": etag_of(policy.version)})

    @extend_schema(
        operation_id="change_export_policy",
        summary="Change how new FOCUS files name users",
        description="Files that were requested before keep their names. It needs the right "
        "manage_prices on the organization.",
        request=ExportPolicyUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: ExportPolicySerializer}, 403, 404, 412, 428),
    )
    def patch(self, request: Request, organization_id: UUID) -> Response:
        """Change the choice."""
        refuse_unknown_parameters(request, set())
        body = ExportPolicyUpdateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        policy = change_policy(
            organization_id,
            body.validated_data["users"],
            actor=actor_from(request),
            if_version=required_version(request),
            now=SystemClock().now(),
        )
        return Response(shown_policy(policy), headers={"ETag": etag_of(policy.version)})
