"""Names of users on clusters with their own users. For platform administrators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.queries import cluster_by_id
from primitives.clock import SystemClock
from quotas.cluster_users import map_user, unmap_user
from quotas.fleet import administrator
from quotas.models import ClusterUser
from tenants.api.authentication import actor_from
from tenants.membership import visible_user
from webapi.paging import page_body, page_by_text, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.serializers import StrictSerializer, TextField, answers, page_of

_LOGIN_LENGTH_MAX = 127


class ClusterUserSerializer(serializers.Serializer[Any]):
    """The name of a user on a cluster."""

    id = serializers.UUIDField()
    user = serializers.CharField(source="user.login", help_text="`username@organization`")
    name = serializers.CharField(help_text="UNIX name on the cluster")


class ClusterUserMapSerializer(StrictSerializer):
    """A user and the name for it."""

    user = TextField(max_length=_LOGIN_LENGTH_MAX)
    name = TextField(max_length=32)


class ClusterUserList(APIView):
    """The users of one cluster."""

    @extend_schema(
        operation_id="list_cluster_users",
        summary="List the users of a cluster",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(ClusterUserSerializer)}, 403, 404),
    )
    def get(self, request: Request, cluster_id: UUID) -> Response:
        """List mappings, by name."""
        asked = PageParameters.read(request)
        administrator(actor_from(request))
        mapped = ClusterUser.objects.filter(cluster=cluster_by_id(cluster_id))
        page = page_by_text(asked, mapped.select_related("user"), "name")
        return Response(page_body(request, page, ClusterUserSerializer().to_representation))

    @extend_schema(
        operation_id="map_cluster_user",
        summary="Map a user to a name on a cluster",
        request=ClusterUserMapSerializer,
        responses=answers({200: ClusterUserSerializer}, 403, 404, 409),
    )
    def put(self, request: Request, cluster_id: UUID) -> Response:
        """Map a user. A user has one name on a cluster, which this replaces."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        by = administrator(actor)
        body = ClusterUserMapSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        mapped = map_user(
            cluster_by_id(cluster_id),
            visible_user(actor, body.validated_data["user"]),
            body.validated_data["name"],
            by=by,
            now=SystemClock().now(),
        )
        return Response(ClusterUserSerializer(mapped).data)


class ClusterUserDetail(APIView):
    """The mapping of one user."""

    @extend_schema(
        operation_id="unmap_cluster_user",
        summary="Delete the mapping of a user on a cluster",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, cluster_id: UUID, mapping_id: UUID) -> Response:
        """Delete a mapping. New jobs of the user start elsewhere, and running jobs continue."""
        refuse_unknown_parameters(request, set())
        by = administrator(actor_from(request))
        unmap_user(cluster_by_id(cluster_id), mapping_id, by=by, now=SystemClock().now())
        return Response(status=204)
