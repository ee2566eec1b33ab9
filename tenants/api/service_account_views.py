"""Service accounts of a node over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from tenants.api.role_views import RoleGrantSerializer
from tenants.names import NAME_LENGTH_MAX, SLUG_LENGTH_MAX, USERNAME_PATTERN
from tenants.service_accounts import create_service_account
from webapi.idempotency import respond_once
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    StrictSerializer,
    TextField,
    UtcTimeField,
    answers,
)


class ServiceAccountCreationSerializer(StrictSerializer):
    """A new service account."""

    username = TextField(max_length=SLUG_LENGTH_MAX, help_text=f"`{USERNAME_PATTERN}`")
    name = TextField(
        max_length=NAME_LENGTH_MAX,
        required=False,
        allow_null=True,
        default=None,
        help_text="Default: the username",
    )
    role_expires_at = UtcTimeField(
        required=False,
        allow_null=True,
        default=None,
        help_text="End of its role. Default: it does not expire",
    )


class ServiceAccountList(APIView):
    """New service accounts of a node. The list of members has the present ones."""

    @extend_schema(
        operation_id="create_service_account",
        summary="Create a service account with the role service_account on a node",
        description="It needs manage_members on the node. The account works with access tokens "
        "only: create one with `user` in `POST /tokens`.",
        parameters=[IDEMPOTENCY_KEY],
        request=ServiceAccountCreationSerializer,
        responses=answers({201: RoleGrantSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, tree_node_id: UUID) -> Response:
        """Create a service account, and return its role."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = ServiceAccountCreationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data

        def act() -> tuple[int, dict[str, Any]]:
            grant = create_service_account(
                actor=actor,
                node_id=tree_node_id,
                username=given["username"],
                name=given["name"] or given["username"],
                expires_at=given["role_expires_at"],
                now=now,
            )
            return 201, RoleGrantSerializer(grant).data

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)
