"""The quota tree and a cluster's own limits. For platform administrators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.queries import cluster_by_id
from connectors.entitlements import ChangeKind
from primitives.clock import SystemClock
from quotas.fleet import administrator
from quotas.models import AcceptedDifference, QuotaPush, QuotaPushKind, QuotaPushStatus
from quotas.pushes import (
    SUBJECTS_MAX,
    accepted_differences,
    push_by_id,
    request_push,
    shown_difference,
    withdraw_acceptance,
)
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    BoundedListField,
    StrictSerializer,
    TextField,
    answers,
    page_of,
)

_SUBJECT_LENGTH_MAX = 400


@extend_schema_field(OpenApiTypes.OBJECT)
class SettingsField(serializers.DictField):
    """Settings of an object on a cluster by name: numbers, texts, lists of texts, or null."""


class QuotaPushChangeSerializer(serializers.Serializer[Any]):
    """One difference: the present and the intended settings on the cluster."""

    kind = serializers.ChoiceField(
        choices=[kind.value for kind in ChangeKind],
        help_text="Reductions (lower, delete) come before increases",
    )
    subject = serializers.CharField(
        help_text="The object: `KIND NAME`, such as `account NAME` or `member USER of NAME` on "
        "Slurm and `cluster queue NAME (PATH)` on Kubernetes, with the path in the tree"
    )
    before = SettingsField(help_text="Present settings; null: no limit")
    after = SettingsField(help_text="Intended settings; null: no limit")
    note = serializers.CharField()
    result = serializers.CharField(
        help_text="planned, waits, done, accepted, not tried, or `refused: ` and the reason"
    )


class QuotaPushSummarySerializer(serializers.Serializer[Any]):
    """A request without its differences."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=QuotaPushKind.values)
    subjects = serializers.ListField(child=serializers.CharField())
    requested_by = serializers.CharField(
        source="requested_by.login",
        default=None,
        allow_null=True,
        help_text="null: the observer itself",
    )
    requested_at = serializers.DateTimeField()
    done_at = serializers.DateTimeField(allow_null=True)
    status = serializers.ChoiceField(choices=QuotaPushStatus.values)
    change_count = serializers.IntegerField(help_text="Number of all differences")
    error = serializers.CharField(help_text="Why it waits or failed")


class QuotaPushSerializer(QuotaPushSummarySerializer):
    """A request to compare a cluster's limits with the quota tree, and its result."""

    changes = QuotaPushChangeSerializer(many=True, help_text="The first 1,000, in their order")


class QuotaPushRequestSerializer(StrictSerializer):
    """A request about a cluster's limits.

    check and dry_run only compare. push sets the cluster's limits to the tree. accept keeps the
    present differences, or those of `subjects`.
    """

    kind = serializers.ChoiceField(choices=QuotaPushKind.values)
    subjects = BoundedListField(
        child=TextField(max_length=_SUBJECT_LENGTH_MAX),
        max_length=SUBJECTS_MAX,
        required=False,
        default=list,
    )


class AcceptedDifferenceSerializer(serializers.Serializer[Any]):
    """A difference that an administrator accepted.

    No push changes it, and no comparison shows it, until one of its sides changes.
    """

    id = serializers.IntegerField()
    subject = serializers.CharField(help_text="The object, as in a comparison")
    before = SettingsField(help_text="Settings on the cluster; null: no limit")
    after = SettingsField(help_text="Settings by the tree; null: no limit")
    accepted_by = serializers.CharField()
    accepted_at = serializers.DateTimeField()


class QuotaPushList(APIView):
    """The requests for one cluster."""

    @extend_schema(
        operation_id="list_quota_pushes",
        summary="List comparisons of a cluster's limits with the quotas",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(QuotaPushSummarySerializer)}, 403, 404),
    )
    def get(self, request: Request, cluster_id: UUID) -> Response:
        """List requests, newest first."""
        asked = PageParameters.read(request)
        administrator(actor_from(request))
        pushes = QuotaPush.objects.filter(cluster=cluster_by_id(cluster_id)).defer("changes")
        page = page_by_id(asked, pushes.select_related("requested_by"), newest_first=True)
        return Response(page_body(request, page, QuotaPushSummarySerializer().to_representation))

    @extend_schema(
        operation_id="request_quota_push",
        summary="Compare a cluster's limits with the quotas, or push or accept the differences",
        request=QuotaPushRequestSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: QuotaPushSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request, cluster_id: UUID) -> Response:
        """Create a request. It waits for its cluster, so poll it until it is done."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        by = administrator(actor)
        cluster = cluster_by_id(cluster_id)
        body = QuotaPushRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            push = request_push(
                cluster,
                QuotaPushKind(body.validated_data["kind"]),
                subjects=body.validated_data["subjects"],
                by=by,
                now=now,
            )
            return 201, QuotaPushSerializer(push_by_id(cluster, push.pk)).data

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class QuotaPushDetail(APIView):
    """One request."""

    @extend_schema(
        operation_id="get_quota_push",
        summary="Get a comparison of a cluster's limits with the quotas",
        responses=answers({200: QuotaPushSerializer}, 403, 404),
    )
    def get(self, request: Request, cluster_id: UUID, push_id: UUID) -> Response:
        """Get a request with its result."""
        refuse_unknown_parameters(request, set())
        administrator(actor_from(request))
        return Response(QuotaPushSerializer(push_by_id(cluster_by_id(cluster_id), push_id)).data)


class AcceptedDifferenceList(APIView):
    """The accepted differences of one cluster."""

    @extend_schema(
        operation_id="list_accepted_differences",
        summary="List accepted differences between a cluster and the quotas",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(AcceptedDifferenceSerializer)}, 403, 404),
    )
    def get(self, request: Request, cluster_id: UUID) -> Response:
        """List differences, newest first."""
        asked = PageParameters.read(request)
        administrator(actor_from(request))
        rows = accepted_differences(cluster_by_id(cluster_id))
        page = page_by_id(asked, rows, newest_first=True)

        def render(row: AcceptedDifference) -> dict[str, Any]:
            return AcceptedDifferenceSerializer(shown_difference(row)).data

        return Response(page_body(request, page, render))


class AcceptedDifferenceDetail(APIView):
    """One accepted difference."""

    @extend_schema(
        operation_id="withdraw_accepted_difference",
        summary="Withdraw the acceptance of a difference",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, cluster_id: UUID, difference_id: int) -> Response:
        """Withdraw an acceptance.

        The next comparison shows the difference, and the next push changes it.
        """
        refuse_unknown_parameters(request, set())
        by = administrator(actor_from(request))
        now = SystemClock().now()
        withdraw_acceptance(cluster_by_id(cluster_id), difference_id, by=by, now=now)
        return Response(status=204)
