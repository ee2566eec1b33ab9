"""What a planned change of quotas would do."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.whatif.looking_ahead import HORIZON_S_DEFAULT, HORIZON_S_MAX, HORIZON_S_MIN
from jobs.whatif.quota_preview import (
    NAMED_MAX,
    preview_change,
)
from primitives.clock import SystemClock
from quotas.api.serializers import QuotaValuesSerializer
from quotas.planned_changes import etag_of_planned, planned_by_id
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
    StrictSerializer,
    WholeNumberField,
    answers,
    etag_header,
)

_ETAG = etag_header(
    "State of the change and its tree before it was looked ahead: apply with it", of=[200]
)


class QuotaPreviewRequestSerializer(StrictSerializer):
    """How far to look ahead."""

    horizon_s = WholeNumberField(
        min_value=HORIZON_S_MIN,
        max_value=HORIZON_S_MAX,
        required=False,
        default=HORIZON_S_DEFAULT,
    )


class QuotaEffectSerializer(serializers.Serializer[Any]):
    """A quota that would change, or follow."""

    quota = serializers.UUIDField()
    node = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    before = QuotaValuesSerializer()
    after = QuotaValuesSerializer()


class PoolEffectSerializer(serializers.Serializer[Any]):
    """A pool that the change touches, as it would be."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    capacity_mgpu = serializers.IntegerField(help_text="Healthy now, on all enabled clusters")
    guaranteed_mgpu = serializers.IntegerField(
        allow_null=True, help_text="To all organizations; null unless you administer the platform"
    )
    is_overcommitted = serializers.BooleanField()


class JobStartEffectSerializer(serializers.Serializer[Any]):
    """A waiting job that would start at another time."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField()
    user = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    mgpu = serializers.IntegerField()
    before = serializers.DateTimeField(
        allow_null=True, help_text="Start without the change; null: not before `until`"
    )
    after = serializers.DateTimeField(
        allow_null=True, help_text="Start with the change; null: not before `until`"
    )
    sooner_s = serializers.IntegerField(help_text="Negative: later")
    is_at_least = serializers.BooleanField(help_text="One of the starts is not before `until`")


class JobLossEffectSerializer(serializers.Serializer[Any]):
    """A running job that would be given notice in one of the two futures only."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField()
    user = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    mgpu = serializers.IntegerField()
    noticed_at = serializers.DateTimeField()
    at_risk_mgpu_s = serializers.IntegerField(
        help_text="Its work since its start or its last known checkpoint until then"
    )
    beneficiary = serializers.UUIDField(
        allow_null=True, help_text="For which job; null where you may not see it"
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
        allow_null=True, help_text="At the prices of now; null: no price, or not for you to see"
    )
    cost_after_nano = serializers.IntegerField(allow_null=True)
    jobs_sooner = serializers.IntegerField()
    jobs_later = serializers.IntegerField()
    jobs_reclaimed = serializers.IntegerField(help_text="Only with the change")
    at_risk_mgpu_s = serializers.IntegerField()
    jobs_spared = serializers.IntegerField(help_text="Reclaimed only without the change")


class QuotaPreviewSerializer(serializers.Serializer[Any]):
    """Two futures of this moment and how they differ. An estimate, not a promise: jobs end at
    their time limits, and nobody submits anything."""

    as_of = serializers.DateTimeField()
    until = serializers.DateTimeField(help_text="How far was looked ahead")
    asked_until = serializers.DateTimeField()
    is_cut = serializers.BooleanField(help_text="`until` is sooner, as the work became too much")
    precision_s = serializers.IntegerField(help_text="Of times close to `until`")
    assumed_ends = serializers.IntegerField(
        help_text="Jobs without a time limit: taken to run a day, or as long again as they have"
    )
    refusal = serializers.CharField(
        help_text="Why the change is refused as things stand; empty when it is not"
    )
    quotas = QuotaEffectSerializer(many=True)
    pools = PoolEffectSerializer(many=True)
    starts = JobStartEffectSerializer(
        many=True, help_text=f"Largest difference first, at most {NAMED_MAX} that you may see"
    )
    reclaimed = JobLossEffectSerializer(
        many=True, help_text=f"Only with the change; at most {NAMED_MAX} that you may see"
    )
    spared = JobLossEffectSerializer(
        many=True, help_text=f"Only without the change; at most {NAMED_MAX} that you may see"
    )
    teams = TeamEffectSerializer(many=True, help_text="Of the change's organization")
    currency = serializers.CharField(allow_null=True)


class QuotaChangePreview(APIView):
    """The preview of a planned change."""

    @extend_schema(
        operation_id="preview_quota_change",
        summary="What a planned change of quotas would do",
        description="The arbiter, played on from this moment without and with the change. Changes "
        "nothing. One preview at a time; 429 says when to come back.",
        request=QuotaPreviewRequestSerializer,
        parameters=[_ETAG],
        responses=answers({200: QuotaPreviewSerializer}, 403, 404, 409, 429),
    )
    def post(self, request: Request, planned_id: UUID) -> Response:
        """The difference of two futures."""
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
