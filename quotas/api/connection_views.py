"""Checks of connections to clusters over HTTP. For platform administrators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.connection_check import check_cluster, check_new_cluster
from clusters.queries import cluster_by_id
from quotas.api.fleet_serializers import OPTIONS_HELP, KindField
from quotas.fleet import administrator
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import DEVICE_HELP, DEVICES, StrictSerializer, answers


class ConnectionCheckSerializer(StrictSerializer):
    """The options of a cluster that is not added yet."""

    kind = KindField()
    options = serializers.DictField(help_text=OPTIONS_HELP)


class ClusterConnectionCheckSerializer(StrictSerializer):
    """The options to check a cluster with."""

    options = serializers.DictField(
        required=False, allow_null=True, default=None, help_text="Default: those of the cluster"
    )


class OfferedPoolSerializer(serializers.Serializer[Any]):
    """The nodes that a cluster offers in one pool."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    nodes = serializers.IntegerField()
    nodes_healthy = serializers.IntegerField()
    capacity_mgpu = serializers.IntegerField()
    healthy_mgpu = serializers.IntegerField()


class ConnectionAnswerSerializer(serializers.Serializer[Any]):
    """The answer of a cluster to a check."""

    is_answered = serializers.BooleanField()
    message = serializers.CharField(
        help_text="Why it does not answer, or which nodes cannot be used; empty if all can"
    )
    api_version = serializers.CharField(help_text="Version of its API; empty if it has only one")
    pools = OfferedPoolSerializer(many=True, help_text="Pools that exist here, by name")


class ConnectionCheck(APIView):
    """The connection to a cluster that is not added yet."""

    @extend_schema(
        operation_id="check_new_connection",
        summary="Test the connection to a cluster before it is added",
        description="Asks the cluster for its nodes once. Nothing is stored, here or there.",
        request=ConnectionCheckSerializer,
        responses=answers({200: ConnectionAnswerSerializer}, 403),
    )
    def post(self, request: Request) -> Response:
        """Check options."""
        refuse_unknown_parameters(request, set())
        by = administrator(actor_from(request))
        body = ConnectionCheckSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        found = check_new_cluster(**body.validated_data, by=by)
        return Response(ConnectionAnswerSerializer(found).data)


class ClusterConnectionCheck(APIView):
    """The connection to a cluster."""

    @extend_schema(
        operation_id="check_connection",
        summary="Test the connection to a cluster",
        description="Asks the cluster for its nodes once, with other options where the body has "
        "some. Nothing is stored, here or there.",
        request=ClusterConnectionCheckSerializer,
        responses=answers({200: ConnectionAnswerSerializer}, 403, 404),
    )
    def post(self, request: Request, cluster_id: UUID) -> Response:
        """Check a cluster."""
        refuse_unknown_parameters(request, set())
        by = administrator(actor_from(request))
        body = ClusterConnectionCheckSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        found = check_cluster(cluster_by_id(cluster_id), body.validated_data["options"], by=by)
        return Response(ConnectionAnswerSerializer(found).data)
