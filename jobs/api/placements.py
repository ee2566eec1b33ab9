"""The placements of jobs on the nodes of a cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.queries import cluster_by_id
from jobs.api.serializers import SlotSerializer
from jobs.models import JobState
from jobs.reading.placements import placements
from tenants.api.authentication import actor_from
from webapi.paging import (
    Page,
    decode_cursor,
    encode_cursor,
    page_body,
    uuid_or_refuse,
)
from webapi.parameters import PageParameters
from webapi.serializers import answers, page_of


class PlacementSerializer(serializers.Serializer[Any]):
    """A job that holds GPUs of a cluster, with its nodes."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField(help_text="Path")
    user = serializers.CharField(help_text="Username")
    state = serializers.ChoiceField(choices=JobState.values)
    slots = SlotSerializer(many=True)


class ClusterPlacementList(APIView):
    """The jobs on the nodes of one cluster."""

    @extend_schema(
        operation_id="list_cluster_placements",
        summary="Jobs on the nodes of a cluster",
        description="Jobs that hold GPUs of the cluster now and that the caller may see, in the "
        "order of their grants.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(PlacementSerializer)}, 404),
    )
    def get(self, request: Request, cluster_id: UUID) -> Response:
        """Return a page of jobs with their nodes."""
        asked = PageParameters.read(request)
        limit, cursor = asked.limit, asked.cursor
        found = placements(
            actor_from(request),
            cluster_by_id(cluster_id),
            after=None
            if cursor is None
            else uuid_or_refuse(decode_cursor(cursor, parts=1)[0], "cursor"),
            limit=limit + 1,
        )
        shown = found[:limit]
        following = encode_cursor([str(shown[-1].attempt_id)]) if len(found) > limit else None
        return Response(
            page_body(
                request,
                Page(shown, following),
                lambda item: dict(PlacementSerializer(asdict(item)).data),
            )
        )
