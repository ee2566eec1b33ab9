"""The preview of a planned change of quotas."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from approvals.api.serializers import SourceSerializer, terms_in
from approvals.changes import SOURCES_MAX, state_tag
from approvals.models import AMOUNT_MAX
from approvals.reading import request_by_id
from jobs.whatif.looking_ahead import HORIZON_S_DEFAULT, HORIZON_S_MAX, HORIZON_S_MIN
from jobs.whatif.quota_preview import (
    NAMED_MAX,
    preview_change,
    preview_request,
)
from primitives.clock import SystemClock
from quotas.api.serializers import QuotaValuesSerializer
from quotas.planned_reading import etag_of_planned, planned_by_id
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
    BoundedListField,
    StrictSerializer,
    UtcTimeField,
    WholeNumberField,
    answers,
    etag_header,
)

_ETAG = etag_header(
    "State of the change and its tree before the look-ahead; send it to apply the change", of=[200]
)


class QuotaPreviewRequestSerializer(StrictSerializer):
    """The horizon of a look-ahead, in seconds."""

    horizon_s = WholeNumberField(
        min_value=HORIZON_S_MIN,
        max_value=HORIZON_S_MAX,
        required=False,
        default=HORIZON_S_DEFAULT,
    )


class RequestPreviewSerializer(QuotaPreviewRequestSerializer):
    """The terms of a request to preview. Without an amount, the request as asked."""

    amount = WholeNumberField(
        min_value=1,
        max_value=AMOUNT_MAX,
        required=False,
        allow_null=True,
        help_text="How much more, in milli-GPU",
    )
    until = UtcTimeField(required=False, allow_null=True)
    sources = BoundedListField(child=SourceSerializer(), max_length=SOURCES_MAX, required=False)


class QuotaEffectSerializer(serializers.Serializer[Any]):
    """A quota that the change alters, directly or as a consequence."""

    quota = serializers.UUIDField()
    node = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    before = QuotaValuesSerializer()
    after = QuotaValuesSerializer()


class PoolEffectSerializer(serializers.Serializer[Any]):
    """A pool after the change."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    capacity_mgpu = serializers.IntegerField(
        help_text="Healthy devices now, on all enabled clusters"
    )
    guaranteed_mgpu = serializers.IntegerField(
        allow_null=True, help_text="Of all organizations; null unless you administer the platform"
    )
    is_overcommitted = serializers.BooleanField()


class JobStartEffectSerializer(serializers.Serializer[Any]):
    """A waiting job that starts at another time with the change."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField()
    user = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    mgpu = serializers.IntegerField()
    before = serializers.DateTimeField(
        allow_null=True, help_text="Start without the change; null: after `until`"
    )
    after = serializers.DateTimeField(
        allow_null=True, help_text="Start with the change; null: after `until`"
    )
    sooner_s = serializers.IntegerField(help_text="Seconds; negative: later")
    is_at_least = serializers.BooleanField(
        help_text="Whether the difference is a lower bound: one start is after `until`"
    )


class JobLossEffectSerializer(serializers.Serializer[Any]):
    """A running job that is preempted only with the change, or only without it."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField()
    user = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    mgpu = serializers.IntegerField()
    noticed_at = serializers.DateTimeField()
    at_risk_mgpu_s = serializers.IntegerField(
        help_text="GPU time from its last known checkpoint, or its start, to `noticed_at`"
    )
    beneficiary = serializers.UUIDField(
        allow_null=True, help_text="The job that gets the GPUs; null if you may not see it"
    )


class TeamEffectSerializer(serializers.Serializer[Any]):
    """A team in a pool, without (`before`) and with (`after`) the change."""

    team = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    use_now_mgpu = serializers.IntegerField()
    use_before_mgpu = serializers.IntegerField(help_text="At `until`")
    use_after_mgpu = serializers.IntegerField(help_text="At `until`")
    guaranteed_before_mgpu_s = serializers.IntegerField()
    guaranteed_after_mgpu_s = serializers.IntegerField()
    borrowed_before_mgpu_s = serializers.IntegerField()
    borrowed_after_mgpu_s = serializers.IntegerField()
    cost_before_nano = serializers.IntegerField(
        allow_null=True,
        help_text="Billed at today's prices, with the guarantee where a commitment bills it; null: "
        "no price, or you may not see it",
    )
    cost_after_nano = serializers.IntegerField(allow_null=True)
    jobs_sooner = serializers.IntegerField()
    jobs_later = serializers.IntegerField()
    jobs_reclaimed = serializers.IntegerField(help_text="Preempted only with the change")
    at_risk_mgpu_s = serializers.IntegerField()
    jobs_spared = serializers.IntegerField(help_text="Preempted only without the change")


class QuotaPreviewSerializer(serializers.Serializer[Any]):
    """The difference between the future with the change and the one without it.

    An estimate: it assumes that jobs end at their time limits and no new jobs are submitted.
    """

    as_of = serializers.DateTimeField()
    until = serializers.DateTimeField(help_text="End of the look-ahead")
    asked_until = serializers.DateTimeField()
    is_cut = serializers.BooleanField(
        help_text="Whether the look-ahead ended before `asked_until`, to limit the work"
    )
    precision_s = serializers.IntegerField(
        help_text="Precision of times close to `until`, in seconds"
    )
    assumed_ends = serializers.IntegerField(
        help_text="Jobs without a time limit: assumed to run a day, or as long again as so far"
    )
    refusal = serializers.CharField(
        help_text="Why the change would be refused now; empty if it would not"
    )
    quotas = QuotaEffectSerializer(many=True)
    pools = PoolEffectSerializer(many=True)
    starts = JobStartEffectSerializer(
        many=True, help_text=f"The {NAMED_MAX} largest differences of jobs that you may see"
    )
    reclaimed = JobLossEffectSerializer(
        many=True, help_text=f"Preempted only with the change; at most {NAMED_MAX} that you may see"
    )
    spared = JobLossEffectSerializer(
        many=True, help_text=f"Preempted only without it; at most {NAMED_MAX} that you may see"
    )
    teams = TeamEffectSerializer(many=True, help_text="Teams of the organization of the change")
    currency = serializers.CharField(allow_null=True)


class QuotaChangePreview(APIView):
    """The preview of a planned change."""

    @extend_schema(
        operation_id="preview_quota_change",
        summary="Preview a planned change of quotas",
        description="Simulates the arbiter from this moment on, without and with the change. "
        "Changes nothing. The server works on one preview at a time; 429 says when to try again.",
        request=QuotaPreviewRequestSerializer,
        parameters=[_ETAG],
        responses=answers({200: QuotaPreviewSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, planned_id: UUID) -> Response:
        """Return the difference between the two futures."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = QuotaPreviewRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        etag = etag_of_planned(planned_by_id(actor, planned_id))
        preview = preview_change(
            planned_id,
            horizon_s=body.validated_data["horizon_s"],
            actor=actor,
            now=SystemClock().now(),
        )
        return Response(QuotaPreviewSerializer(preview).data, headers={"ETag": etag})


class ChangeRequestPreview(APIView):
    """The preview of a request for a change of quotas."""

    @extend_schema(
        operation_id="preview_request",
        summary="Preview a request for a change of quotas, as asked or with other terms",
        description="As the preview of a planned change, for people who may decide the request. "
        "Changes nothing.",
        request=RequestPreviewSerializer,
        parameters=[
            etag_header("State of the request and its quotas; send it to approve", of=[200])
        ],
        responses=answers({200: QuotaPreviewSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Return the difference between the two futures."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        body = RequestPreviewSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        etag = state_tag(request_by_id(actor, request_id))
        preview = preview_request(
            request_id,
            None if given.get("amount") is None else terms_in(given, actor),
            horizon_s=given["horizon_s"],
            actor=actor,
            now=SystemClock().now(),
        )
        return Response(QuotaPreviewSerializer(preview).data, headers={"ETag": etag})
