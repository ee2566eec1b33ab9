"""The quarantine after a restore of the database.

Every user sees it; only platform administrators end it.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.execution.restoring import end_quarantine, silent_clusters
from outbox.quarantine import open_quarantine, sentence_of
from primitives.clock import SystemClock
from tenants.access import Actor, require_platform_admin
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers


class QuarantineSerializer(serializers.Serializer[Any]):
    """The state of the quarantine. Details are null unless you administer the platform."""

    is_quarantined = serializers.BooleanField()
    sentence = serializers.CharField(help_text="Empty if there is no quarantine")
    began_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField(allow_null=True)
    adopted = serializers.IntegerField(
        allow_null=True, help_text="Attempts that were found on clusters, but not in the database"
    )
    strangers = serializers.IntegerField(
        allow_null=True, help_text="Workloads of Tidegate on clusters that belong to no known job"
    )
    silent_clusters = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Clusters that have not answered yet. Ending the quarantine holds the jobs that "
        "may have run there",
    )


class QuarantineEndSerializer(serializers.Serializer[Any]):
    """The result of a quarantine that was ended."""

    adopted = serializers.IntegerField()
    strangers = serializers.IntegerField()
    held = serializers.IntegerField(
        help_text="Jobs put on hold, as they may have run on a cluster that did not answer"
    )


class Quarantine(APIView):
    """The present quarantine, if any."""

    @extend_schema(
        operation_id="get_quarantine",
        summary="Whether starts are frozen after a restore",
        responses=answers({200: QuarantineSerializer}),
    )
    def get(self, request: Request) -> Response:
        """Return the state of the quarantine."""
        refuse_unknown_parameters(request, set())
        return Response(_shown(actor_from(request)))

    @extend_schema(
        operation_id="end_quarantine",
        summary="End the quarantine",
        responses=answers({200: QuarantineEndSerializer}, 403, 409),
    )
    def delete(self, request: Request) -> Response:
        """End the quarantine. For platform administrators: see docs/operate/restore.md first."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        require_platform_admin(actor)
        ended = end_quarantine(
            actor_id=actor.user.pk, actor=actor.user.login, now=SystemClock().now()
        )
        return Response(QuarantineEndSerializer(ended).data)


def _shown(actor: Actor) -> dict[str, Any]:
    quarantine = open_quarantine()
    shown: dict[str, Any] = {
        "is_quarantined": quarantine is not None,
        "sentence": "",
        **dict.fromkeys(("began_at", "reason", "adopted", "strangers", "silent_clusters")),
    }
    if quarantine is not None:
        shown |= {"sentence": sentence_of(quarantine), "began_at": quarantine.began_at}
        if actor.is_platform_admin:
            counts = quarantine.answers.values()
            shown |= {
                "reason": quarantine.reason,
                "adopted": sum(count["adopted"] for count in counts),
                "strangers": sum(count["strangers"] for count in counts),
                "silent_clusters": silent_clusters(quarantine),
            }
    return dict(QuarantineSerializer(shown).data)
